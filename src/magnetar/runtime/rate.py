"""Counters that know how fast they grow."""

from __future__ import annotations


class Rate:
    """Messages and bytes: totals for ever, and a rate over the time between the last two ticks.

    `add` is called once for a run, so it does no more than two additions. The owner of the rate
    calls `tick` at intervals; between ticks the rates stay what they were.
    """

    __slots__ = (
        "_ticked_at",
        "_ticked_bytes",
        "_ticked_count",
        "bytes",
        "bytes_per_s",
        "count",
        "count_per_s",
    )

    def __init__(self, now: float) -> None:
        """`now` and the times given to `tick` are seconds of one monotonic clock."""
        self.count = 0
        self.bytes = 0
        self.count_per_s = 0.0
        self.bytes_per_s = 0.0
        self._ticked_at = now
        self._ticked_count = 0
        self._ticked_bytes = 0

    def add(self, count: int, size: int) -> None:
        self.count += count
        self.bytes += size

    def tick(self, now: float) -> None:
        """Close the window that began at the last tick. A window without length changes nothing."""
        seconds = now - self._ticked_at
        if seconds <= 0:
            return
        self.count_per_s = (self.count - self._ticked_count) / seconds
        self.bytes_per_s = (self.bytes - self._ticked_bytes) / seconds
        self._ticked_at = now
        self._ticked_count = self.count
        self._ticked_bytes = self.bytes

    @property
    def average_size(self) -> float:
        """Bytes of one message in the last closed window; 0 when there was none."""
        return self.bytes_per_s / self.count_per_s if self.count_per_s else 0.0
