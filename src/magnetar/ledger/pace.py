"""How often cursors are written.

A cursor with news is written with the next commit of the ledger store, which others pay for, at
most every `interval_s / JOINS_PER_INTERVAL`. Where nothing is committed it waits for `interval_s`,
so that many acknowledgements share a commit of their own. Two caps bound the bytes written:

- a cursor whose state takes `size` bytes is written at most every `max(interval_s, size /
  CURSOR_BYTES_PER_S)` seconds: a cursor with ten million holes is written every seven seconds, one
  with none twenty times a second or more;
- all cursors that share a pace write at most `BYTES_PER_S` together, a write counting as `size +
  WRITE_OVERHEAD_BYTES`: each reserves the next free place in time. Ten thousand busy cursors are
  written every five seconds or so, not twenty times a second. A cursor whose place is further away
  than `interval_s` joins no commit.

A caller that waits for durability (`Cursor.flush`) is held by the cursor's own share only, never by
the queue of the others.
"""

from __future__ import annotations

from typing import Final

from magnetar.runtime.clock import Clock

CURSOR_BYTES_PER_S: Final = 512 * 1024
BYTES_PER_S: Final = 4 * 1024 * 1024
WRITE_OVERHEAD_BYTES: Final = 2048
JOINS_PER_INTERVAL: Final = 10


class CursorPace:
    def __init__(self, clock: Clock, *, interval_s: float = 0.05) -> None:
        self._clock = clock
        self._interval_s = interval_s
        self._free_at = 0.0

    def reserve(self, size: int) -> float:
        """Take the next place for a write of about `size` bytes; return how many seconds away it
        is.
        """
        now = self._clock.monotonic()
        start = max(self._free_at, now)
        self._free_at = start + (size + WRITE_OVERHEAD_BYTES) / BYTES_PER_S
        return max(self._interval_s, size / CURSOR_BYTES_PER_S, start - now)

    def may_join(self, place_s: float) -> bool:
        """Whether a cursor with this place may be written sooner, with a commit of others."""
        return place_s <= self._interval_s

    def join_wait_s(self, written_at: float) -> float:
        """How long a cursor last written at `written_at` lets commits of others pass."""
        wait_s = written_at + self._interval_s / JOINS_PER_INTERVAL - self._clock.monotonic()
        return max(0.0, wait_s)

    def wait_s(self, written_at: float, size: int) -> float:
        """How long a cursor of `size` bytes, last written at `written_at`, must wait when a caller
        asks.
        """
        return max(0.0, written_at + size / CURSOR_BYTES_PER_S - self._clock.monotonic())

    def now(self) -> float:
        return self._clock.monotonic()
