"""A token bucket for messages and bytes."""

from __future__ import annotations

from magnetar.model.policy import RateLimit

_NO_LIMIT = 1 << 60


class RateLimiter:
    """At most so many messages and bytes a period; what is overdrawn is paid back before more goes
    out.
    """

    __slots__ = ("_bytes", "_bytes_left", "_count", "_count_left", "_filled_at", "_period_s")

    def __init__(self, count: float, size: float, period_s: float, now: float) -> None:
        """A limit that is not positive does not bound."""
        self._count = count if count > 0 else _NO_LIMIT
        self._bytes = size if size > 0 else _NO_LIMIT
        self._period_s = period_s
        self._count_left = float(self._count)
        self._bytes_left = float(self._bytes)
        self._filled_at = now

    def _fill(self, now: float) -> None:
        share = (now - self._filled_at) / self._period_s
        if share <= 0:
            return
        self._count_left = min(self._count, self._count_left + share * self._count)
        self._bytes_left = min(self._bytes, self._bytes_left + share * self._bytes)
        self._filled_at = now

    def available(self, now: float) -> int:
        """How many messages may go now; 0 when the bytes are used up."""
        self._fill(now)
        if self._bytes_left <= 0:
            return 0
        return max(0, int(self._count_left))

    def spend(self, count: int, size: int, now: float) -> None:
        self._fill(now)
        self._count_left -= count
        self._bytes_left -= size

    def wait_s(self, now: float) -> float:
        """Seconds until at least one message may go."""
        self._fill(now)
        missing_count = max(0.0, 1 - self._count_left) / self._count
        missing_bytes = max(0.0, 1 - self._bytes_left) / self._bytes
        return max(missing_count, missing_bytes, 0.001) * self._period_s


def make_limiter(rate: RateLimit | None, *, now: float) -> RateLimiter | None:
    return None if rate is None else RateLimiter(rate.messages, rate.bytes, rate.period_s, now)
