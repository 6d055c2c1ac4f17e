"""What a client tells about itself while it runs: counted for Prometheus, or as the user likes.

Telemetry listens as interceptors do. A client without any has none of them, and pays nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Final, Protocol

from magnetar.client.interceptor import ConsumerInterceptor, ProducerInterceptor
from magnetar.client.message import Message
from magnetar.client.message_id import MessageId
from magnetar.client.outgoing import MessageOptions
from magnetar.runtime.metric import Counter, Histogram, MetricText, format_labels

SEND_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Telemetry(Protocol):
    """Give one to a client as `telemetry=`; it hears of everything the client sends and gets."""

    def watch_producer(self) -> ProducerInterceptor: ...

    def watch_consumer(self, subscription: str) -> ConsumerInterceptor: ...


def name_topic(topic: str) -> str:
    """The topic that a segment belongs to; applications know no segments."""
    if topic.startswith("segment://"):
        return "topic" + topic[len("segment") :].rpartition("/")[0]
    return topic


class PrometheusTelemetry:
    """Counts by topic and subscription; `render` gives the text that Prometheus reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._producers: dict[str, _Sent] = {}
        self._consumers: dict[tuple[str, str], _Received] = {}

    def watch_producer(self) -> ProducerInterceptor:
        return _SendCounter(self)

    def watch_consumer(self, subscription: str) -> ConsumerInterceptor:
        return _ReceiveCounter(self, subscription)

    def render(self) -> str:
        """Everything counted so far, from any thread."""
        text = MetricText()
        with self._lock:
            producers, consumers = list(self._producers.items()), list(self._consumers.items())
        for topic, sent in producers:
            labels = format_labels({"topic": topic})
            for counter in (sent.messages, sent.data, sent.failures):
                counter.write(text, labels)
            sent.seconds.write(text, {"topic": topic})
        for (topic, subscription), received in consumers:
            labels = format_labels({"topic": topic, "subscription": subscription})
            for counter in (received.messages, received.data, received.done, received.refused):
                counter.write(text, labels)
        return text.render()

    def find_sent(self, topic: str) -> _Sent:
        found = self._producers.get(topic)
        if found is None:
            with self._lock:
                found = self._producers.setdefault(topic, _Sent())
        return found

    def find_received(self, topic: str, subscription: str) -> _Received:
        key = (topic, subscription)
        found = self._consumers.get(key)
        if found is None:
            with self._lock:
                found = self._consumers.setdefault(key, _Received())
        return found


class _Sent:
    def __init__(self) -> None:
        self.messages = Counter("magnetar_client_sent_messages_total", "Messages stored")
        self.data = Counter("magnetar_client_sent_bytes_total", "Bytes of messages stored")
        self.failures = Counter("magnetar_client_send_failures_total", "Messages not stored")
        self.seconds = Histogram(
            "magnetar_client_send_seconds", "From a send to its receipt", SEND_SECONDS
        )


class _Received:
    def __init__(self) -> None:
        self.messages = Counter("magnetar_client_received_messages_total", "Messages that arrived")
        self.data = Counter("magnetar_client_received_bytes_total", "Bytes that arrived")
        self.done = Counter("magnetar_client_acknowledged_total", "Acknowledgements")
        self.refused = Counter("magnetar_client_refused_total", "Negative acknowledgements")


class _SendCounter(ProducerInterceptor):
    def __init__(self, telemetry: PrometheusTelemetry) -> None:
        self._telemetry = telemetry

    def before_send(
        self, topic: str, data: bytes | None, options: MessageOptions
    ) -> tuple[bytes | None, MessageOptions]:
        options["context"] = {**options.get("context", {}), self: (time.monotonic(), data)}
        return data, options

    def on_ended(
        self, topic: str, options: MessageOptions, id: Any, error: BaseException | None
    ) -> None:
        sent = self._telemetry.find_sent(topic)
        began, data = options.get("context", {}).get(self, (None, None))
        if error is not None:
            sent.failures.add()
            return
        sent.messages.add()
        sent.data.add(len(data or b""))
        if began is not None:
            sent.seconds.observe(time.monotonic() - began)


class _ReceiveCounter(ConsumerInterceptor):
    def __init__(self, telemetry: PrometheusTelemetry, subscription: str) -> None:
        self._telemetry = telemetry
        self._subscription = subscription

    def on_receive(self, message: Message[Any]) -> Message[Any]:
        received = self._find(message.topic)
        received.messages.add()
        received.data.add(message.size)
        return message

    def on_acknowledge(self, topic: str, ids: Sequence[MessageId], *, is_cumulative: bool) -> None:
        self._find(topic).done.add(len(ids))

    def on_negative_acknowledge(self, topic: str, id: MessageId) -> None:
        self._find(topic).refused.add()

    def _find(self, topic: str) -> _Received:
        return self._telemetry.find_received(name_topic(topic), self._subscription)
