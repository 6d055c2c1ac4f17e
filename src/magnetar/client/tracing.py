"""Spans and metrics of what is sent and received, by OpenTelemetry's API.

They come with an extra: `pip install 'magnetar[telemetry]'`.

The context of a send travels with the message, in the properties that W3C's trace context names, so
that other clients find it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.client.error import ConfigurationError
from magnetar.client.interceptor import ConsumerInterceptor, ProducerInterceptor

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


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
