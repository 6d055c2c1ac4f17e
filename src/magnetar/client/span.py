"""The spans of OpenTelemetry, for interceptors; needs its API."""

from __future__ import annotations

from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.trace import Tracer, TracerProvider

from magnetar.client.interceptor import ConsumerInterceptor, ProducerInterceptor
from magnetar.client.message import Message
from magnetar.client.outgoing import MessageOptions
from magnetar.client.telemetry import name_topic

_SYSTEM = {"messaging.system": "pulsar"}


def get_tracer(provider: TracerProvider | None) -> Tracer:
    return trace.get_tracer("magnetar", tracer_provider=provider)


class SendSpan(ProducerInterceptor):
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def before_send(
        self, topic: str, data: bytes | None, options: MessageOptions
    ) -> tuple[bytes | None, MessageOptions]:
        attributes: dict[str, str | int] = {
            **_SYSTEM,
            "messaging.operation.name": "send",
            "messaging.destination.name": topic,
            "messaging.message.body.size": len(data or b""),
        }
        span = self._tracer.start_span(
            f"send {topic}", kind=trace.SpanKind.PRODUCER, attributes=attributes
        )
        properties = dict(options.get("properties") or {})
        propagate.inject(properties, trace.set_span_in_context(span))
        options["properties"] = properties
        options["context"] = {**options.get("context", {}), self: span}
        return data, options

    def on_ended(
        self, topic: str, options: MessageOptions, id: Any, error: BaseException | None
    ) -> None:
        span = options.get("context", {}).get(self)
        if span is None:
            return
        if error is None:
            span.set_attribute("messaging.message.id", str(id))
        else:
            span.record_exception(error)
            span.set_status(trace.StatusCode.ERROR, str(error))
        span.end()


class ReceiveSpan(ConsumerInterceptor):
    def __init__(self, tracer: Tracer, subscription: str) -> None:
        self._tracer = tracer
        self._subscription = subscription

    def on_receive(self, message: Message[Any]) -> Message[Any]:
        topic = name_topic(message.topic)
        attributes: dict[str, str | int] = {
            **_SYSTEM,
            "messaging.operation.name": "receive",
            "messaging.destination.name": topic,
            "messaging.destination.subscription.name": self._subscription,
            "messaging.message.id": str(message.id),
            "messaging.message.body.size": message.size,
        }
        sender = propagate.extract(dict(message.properties))
        with self._tracer.start_as_current_span(
            f"receive {topic}", sender, kind=trace.SpanKind.CONSUMER, attributes=attributes
        ):
            return message
