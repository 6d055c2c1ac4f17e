"""Expiry: entries of a subscription that count as acknowledged since they are too old."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from magnetar.broker.entry import published_ms
from magnetar.errors import NotAllowed
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.log import Log
from magnetar.model.position import Position
from magnetar.runtime.clock import Clock
from magnetar.runtime.rate import Rate


class Expiry:
    def __init__(
        self,
        cursor: Cursor,
        log: Log,
        clock: Clock,
        acknowledge_through: Callable[[Position], Awaitable[int]],
    ) -> None:
        self._cursor = cursor
        self._log = log
        self._acknowledge_through = acknowledge_through
        self._clock = clock
        self.rate: Final = Rate(clock.monotonic())
        self.last_ms = 0

    async def expire(self, seconds: int) -> int:
        """Acknowledge what is older than `seconds`; return how many entries that was."""
        self.last_ms = self._clock.now_ms()
        limit_ms = self.last_ms - seconds * 1000
        cursor, sequence = self._cursor, self._log.sequence
        if not cursor.backlog:
            return 0
        young = await self._log.reader.find_first(lambda entry: published_ms(entry) > limit_ms)
        last_old = sequence.last_position if young is None else sequence.previous_position(young)
        if last_old <= cursor.mark_delete:
            return 0
        expired = await self._acknowledge_through(last_old)
        self.rate.add(expired, 0)
        return expired

    async def expire_to(self, position: Position, *, excluded: bool = False) -> None:
        target = self._log.sequence.previous_position(position) if excluded else position
        if target > self._log.sequence.last_position:
            raise NotAllowed(f"Invalid position {position}: it is past the end of the topic")
        self.last_ms = self._clock.now_ms()
        self.rate.add(await self._acknowledge_through(target), 0)
