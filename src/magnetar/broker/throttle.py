"""Publish throttling: connections that publish faster than the rate allows are not read."""

from __future__ import annotations

from typing import Final

from magnetar.broker.limiter import RateLimiter
from magnetar.broker.producer import ProducerConnection
from magnetar.runtime.clock import Clock


class PublishThrottle:
    def __init__(self, clock: Clock, reason: str) -> None:
        self._clock = clock
        self._reason: Final = reason
        self.limiter: RateLimiter | None = None
        self.limited_times = 0
        """How often a connection was held."""

    def spend(self, connection: ProducerConnection, messages: int, size: int) -> None:
        """Stop reading from a producer's connection until the publish rate allows more."""
        if self.limiter is None:
            return
        now = self._clock.monotonic()
        self.limiter.spend(messages, size, now)
        if self.limiter.available(now) <= 0 and connection.pause(self._reason):
            self.limited_times += 1
            self._release_when_due(connection)

    def _release_when_due(self, connection: ProducerConnection) -> None:
        """More may have been published since the connection was held: look again each time."""
        limiter, now = self.limiter, self._clock.monotonic()
        if limiter is None or limiter.available(now) > 0 or connection.closed:
            connection.resume(self._reason)
        else:
            self._clock.call_later(limiter.wait_s(now), self._release_when_due, connection)

    def close(self) -> None:
        """The topic closes: connections are released when they are looked at next."""
        self.limiter = None
