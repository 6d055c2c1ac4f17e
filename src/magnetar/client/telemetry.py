"""What a client tells about itself while it runs: counted for Prometheus, traced and counted by
OpenTelemetry, or as the user likes.

Telemetry listens as interceptors do. A client without any has none of them, and pays nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Protocol

from magnetar.client.error import ConfigurationError
from magnetar.client.interceptor import ConsumerInterceptor, ProducerInterceptor, name_topic
from magnetar.client.message import Message
from magnetar.client.message_id import MessageId
from magnetar.client.outgoing import MessageOptions
from magnetar.runtime.clock import SYSTEM, Clock

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
    from prometheus_client import Metric

SEND_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# By attribute: the name of a counter and its meaning.
_SENT: Final = {
    "messages": ("magnetar_client_sent_messages", "Messages stored"),
    "data": ("magnetar_client_sent_bytes", "Bytes of messages stored"),
    "failures": ("magnetar_client_send_failures", "Messages not stored"),
}
_RECEIVED: Final = {
    "messages": ("magnetar_client_received_messages", "Messages that arrived"),
    "data": ("magnetar_client_received_bytes", "Bytes that arrived"),
    "done": ("magnetar_client_acknowledged", "Acknowledgements"),
    "refused": ("magnetar_client_refused", "Negative acknowledgements"),
}


class Telemetry(Protocol):
    """Give one to a client as `telemetry=`; it counts everything the client sends and gets."""

    def watch_producer(self) -> ProducerInterceptor: ...

    def watch_consumer(self, subscription: str) -> ConsumerInterceptor: ...


@dataclass(slots=True)
class _Sent:
    messages: int = 0
    data: int = 0
    failures: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(SEND_SECONDS) + 1))


@dataclass(slots=True)
class _Received:
    messages: int = 0
    data: int = 0
    done: int = 0
    refused: int = 0


class PrometheusTelemetry:
    """Counts by topic and subscription: a collector for any registry of `prometheus_client`.

    It comes with the extra `telemetry`.
    """

    def __init__(self) -> None:
        try:
            import prometheus_client.core
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"PrometheusTelemetry needs {error.name}, which is not installed;"
                " install it with: pip install 'magnetar[telemetry]'"
            ) from None
        self._library = prometheus_client
        self._sent: dict[tuple[str, ...], _Sent] = {}
        self._received: dict[tuple[str, ...], _Received] = {}

    def watch_producer(self) -> ProducerInterceptor:
        return _SendCounter(self._sent)

    def watch_consumer(self, subscription: str) -> ConsumerInterceptor:
        return _ReceiveCounter(self._received, subscription)

    def render(self) -> str:
        """Everything counted so far as the text that Prometheus reads, from any thread."""
        return self._library.generate_latest(self).decode()

    def collect(self) -> Iterator[Metric]:
        """Everything counted so far as a registry asks for it, from any thread."""
        sent, received = self._sent.copy(), self._received.copy()
        yield from self._collect_counters(_SENT, ("topic",), sent)
        seconds = self._library.core.HistogramMetricFamily(
            "magnetar_client_send_seconds", "Seconds from a send to its receipt", labels=("topic",)
        )
        bounds = (*map(str, SEND_SECONDS), "+Inf")
        for values, row in sent.items():
            counts = zip(bounds, accumulate(row.buckets), strict=True)
            seconds.add_metric(values, list(counts), row.seconds)
        yield seconds
        yield from self._collect_counters(_RECEIVED, ("topic", "subscription"), received)

    def _collect_counters(
        self,
        names: Mapping[str, tuple[str, str]],
        labels: Sequence[str],
        rows: Mapping[tuple[str, ...], _Sent | _Received],
    ) -> Iterator[Metric]:
        for attribute, (name, meaning) in names.items():
            family = self._library.core.CounterMetricFamily(name, meaning, labels=labels)
            for values, row in rows.items():
                family.add_metric(values, getattr(row, attribute))
            yield family


class _SendCounter(ProducerInterceptor):
    def __init__(self, rows: dict[tuple[str, ...], _Sent], clock: Clock = SYSTEM) -> None:
        self._rows = rows
        self._clock = clock

    def before_send(
        self, topic: str, data: bytes | None, options: MessageOptions
    ) -> tuple[bytes | None, MessageOptions]:
        options["context"] = {**options.get("context", {}), self: (self._clock.monotonic(), data)}
        return data, options

    def on_ended(
        self, topic: str, options: MessageOptions, id: Any, error: BaseException | None
    ) -> None:
        row = self._rows.get((topic,)) or self._rows.setdefault((topic,), _Sent())
        began, data = options.get("context", {}).get(self, (None, None))
        if error is not None:
            row.failures += 1
            return
        row.messages += 1
        row.data += len(data or b"")
        if began is not None:
            seconds = self._clock.monotonic() - began
            row.seconds += seconds
            row.buckets[bisect_left(SEND_SECONDS, seconds)] += 1


class _ReceiveCounter(ConsumerInterceptor):
    def __init__(self, rows: dict[tuple[str, ...], _Received], subscription: str) -> None:
        self._rows = rows
        self._subscription = subscription

    def on_receive(self, message: Message[Any]) -> Message[Any]:
        row = self._find(message.topic)
        row.messages += 1
        row.data += message.size
        return message

    def on_acknowledge(self, topic: str, ids: Sequence[MessageId], *, is_cumulative: bool) -> None:
        self._find(topic).done += len(ids)

    def on_negative_acknowledge(self, topic: str, id: MessageId) -> None:
        self._find(topic).refused += 1

    def _find(self, topic: str) -> _Received:
        key = (name_topic(topic), self._subscription)
        return self._rows.get(key) or self._rows.setdefault(key, _Received())


class OpenTelemetry:
    """A span from each send to its receipt, and one for each message that arrives, under it.

    Counts of both, and how long sends take, are metrics. Without providers the global ones are
    asked, which do nothing until an application sets them.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        try:
            from magnetar.client import span
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"OpenTelemetry needs {error.name}, which is not installed;"
                " install it with: pip install 'magnetar[telemetry]'"
            ) from None
        self._span = span
        self._tracer = span.get_tracer(tracer_provider)
        self._instruments = span.Instruments(meter_provider)

    def watch_producer(self) -> ProducerInterceptor:
        return self._span.SendSpan(self._tracer, self._instruments)

    def watch_consumer(self, subscription: str) -> ConsumerInterceptor:
        return self._span.ReceiveSpan(self._tracer, self._instruments, subscription)
