"""How often a consumer may attach to a topic."""

from __future__ import annotations

from typing import Final

from magnetar.broker.limiter import RateLimiter
from magnetar.errors import NotAllowed
from magnetar.model.policy import RateLimit

_REMEMBERED_MAX: Final = 10_000


class Admission:
    """Counts each consumer by itself: by its host, its name and its number there."""

    def __init__(self) -> None:
        self._rate: RateLimit | None = None
        self._limiters: dict[tuple[str, str, int], RateLimiter] = {}

    def check(self, rate: RateLimit | None, consumer: tuple[str, str, int], *, now: float) -> None:
        """Raise when the consumer attached too often of late; another rate begins anew."""
        if rate != self._rate:
            self._rate = rate
            self._limiters.clear()
        if rate is None:
            return
        limiter = self._limiters.pop(consumer, None)
        if limiter is None:
            limiter = RateLimiter(rate.messages, rate.bytes, rate.period_s, now)
        self._limiters[consumer] = limiter
        if len(self._limiters) > _REMEMBERED_MAX:  # the one that has been away for longest
            del self._limiters[next(iter(self._limiters))]
        if limiter.available(now) < 1:
            raise NotAllowed("Subscribe limited by subscribe rate limit per consumer.")
        limiter.spend(1, 0, now)
