"""The spans and metrics of OpenTelemetry, for interceptors; needs its API.

The context of a send travels with the message, in the properties that W3C's trace context names, so
that other clients find it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry import metrics, propagate, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Tracer, TracerProvider

from magnetar.client.interceptor import ConsumerInterceptor, ProducerInterceptor, name_topic
from magnetar.client.message import Message
from magnetar.client.message_id import MessageId
from magnetar.client.outgoing import MessageOptions
from magnetar.runtime.clock import SYSTEM, Clock

_SYSTEM = {"messaging.system": "pulsar"}


def get_tracer(provider: TracerProvider | None) -> Tracer:
    return trace.get_tracer("magnetar", tracer_provider=provider)


class Instruments:
    """What is counted, by the names of OpenTelemetry's conventions where there are any."""

    def __init__(self, provider: MeterProvider | None) -> None:
        meter = metrics.get_meter("magnetar", meter_provider=provider)
        self.sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages stored, or not with an error"
        )
        self.seconds = meter.create_histogram(
            "messaging.client.operation.duration", "s", "From a send to its receipt"
        )
        self.consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages that arrived"
        )
        self.acknowledged = meter.create_counter(
            "magnetar.client.acknowledged", "{message}", "Acknowledgements"
        )
        self.refused = meter.create_counter(
            "magnetar.client.refused", "{message}", "Negative acknowledgements"
        )


class SendSpan(ProducerInterceptor):
    def __init__(self, tracer: Tracer, instruments: Instruments, clock: Clock = SYSTEM) -> None:
        self._tracer = tracer
        self._instruments = instruments
        self._clock = clock

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
        began = self._clock.monotonic()
        options["context"] = {**options.get("context", {}), self: (span, began)}
        return data, options

    def on_ended(
        self, topic: str, options: MessageOptions, id: Any, error: BaseException | None
    ) -> None:
        span, began = options.get("context", {}).get(self, (None, 0.0))
        if span is None:
            return
        labels = {
            **_SYSTEM,
            "messaging.operation.name": "send",
            "messaging.destination.name": topic,
        }
        if error is None:
            span.set_attribute("messaging.message.id", str(id))
            self._instruments.seconds.record(self._clock.monotonic() - began, labels)
        else:
            labels["error.type"] = type(error).__name__
            span.record_exception(error)
            span.set_status(trace.StatusCode.ERROR, str(error))
        span.end()
        self._instruments.sent.add(1, labels)


class ReceiveSpan(ConsumerInterceptor):
    def __init__(self, tracer: Tracer, instruments: Instruments, subscription: str) -> None:
        self._tracer = tracer
        self._instruments = instruments
        self._subscription = subscription

    def on_receive(self, message: Message[Any]) -> Message[Any]:
        topic = name_topic(message.topic)
        labels = self._label(topic, "receive")
        self._instruments.consumed.add(1, labels)
        attributes: dict[str, str | int] = {
            **labels,
            "messaging.message.id": str(message.id),
            "messaging.message.body.size": message.size,
        }
        sender = propagate.extract(dict(message.properties))
        with self._tracer.start_as_current_span(
            f"receive {topic}", sender, kind=trace.SpanKind.CONSUMER, attributes=attributes
        ):
            return message

    def on_acknowledge(self, topic: str, ids: Sequence[MessageId], *, is_cumulative: bool) -> None:
        self._instruments.acknowledged.add(len(ids), self._label(name_topic(topic), "ack"))

    def on_negative_acknowledge(self, topic: str, id: MessageId) -> None:
        self._instruments.refused.add(1, self._label(name_topic(topic), "nack"))

    def _label(self, topic: str, operation: str) -> dict[str, str]:
        return {
            **_SYSTEM,
            "messaging.operation.name": operation,
            "messaging.destination.name": topic,
            "messaging.destination.subscription.name": self._subscription,
        }
