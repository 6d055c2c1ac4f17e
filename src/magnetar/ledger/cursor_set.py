"""The cursors of a log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from magnetar.errors import BrokerError, Conflict, SubscriptionNotFound
from magnetar.ledger.birth import parse_born, without_born, without_list
from magnetar.ledger.cache import CacheView
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.cursor_ledger import CursorHome, load_cursor
from magnetar.ledger.sequence import LedgerSequence
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.model.stored_log import CursorInfo

_TOGETHER: Final = 256


class CursorSet(Mapping[str, Cursor]):
    """By name. New entries are kept in memory from the first cursor to the last."""

    def __init__(self, home: CursorHome, sequence: LedgerSequence, cache: CacheView) -> None:
        self._home = home
        self._sequence = sequence
        self._cache = cache
        self._cursors: dict[str, Cursor] = {}
        self.find_needed: Callable[[], Position | None] = lambda: None
        """The first entry that is kept although every cursor may have passed it."""

    def __getitem__(self, name: str) -> Cursor:
        return self._cursors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._cursors)

    def __len__(self) -> int:
        return len(self._cursors)

    async def restore(self, *, is_new: bool) -> None:
        """Those with a record, and those that the log was born with."""
        found = {} if is_new else await self._home.records.load_cursors()
        for name in parse_born(self._home.record.properties):
            if name not in found:
                self._add(name, CursorInfo(-1, self._sequence.mark_before(EARLIEST)))
        records = list(found.items())
        for first in range(0, len(records), _TOGETHER):
            batch = records[first : first + _TOGETHER]
            states = await asyncio.gather(
                *(load_cursor(self._home, name, *stored) for name, stored in batch)
            )
            for (name, _), (state, version) in zip(batch, states, strict=True):
                self._add(name, state, version)

    async def write_born(self) -> None:
        """Give every cursor that the log was born with a record, and take the list away."""
        record = self._home.record
        born = parse_born(record.properties)
        if born:
            await asyncio.gather(*(self._cursors[name].store() for name in born))
            await record.change_properties(without_list)

    async def open(
        self,
        name: str,
        *,
        start: Position = LATEST,
        properties: Mapping[str, int] | None = None,
        cursor_properties: Mapping[str, str] | None = None,
    ) -> Cursor:
        """The durable cursor of this name, made with `start` as its first unread entry when there
        is none.
        """
        self._home.record.check_owned()
        cursor = self._cursors.get(name)
        if cursor is not None and not cursor.durable:
            raise Conflict(f"cursor {name} of {self._home.name} exists and is not durable")
        if cursor is None:
            info = CursorInfo(
                ledger_id=-1,
                mark_delete=self._sequence.mark_before(start),
                properties=properties or {},
                cursor_properties=cursor_properties or {},
            )
            cursor = self._add(name, info)  # before it is stored: it holds back trimming by now
        try:
            await cursor.store()
        except BrokerError:
            cursor.abandon()
            raise
        return cursor

    def open_transient(self, name: str, start: Position) -> Cursor:
        """A cursor in memory only, gone when it is closed; it holds back trimming meanwhile."""
        if name in self._cursors:
            raise Conflict(f"cursor {name} of {self._home.name} exists")
        info = CursorInfo(ledger_id=-1, mark_delete=self._sequence.mark_before(start))
        return self._add(name, info, durable=False)

    async def delete(self, name: str) -> None:
        cursor = self._cursors.get(name)
        if cursor is None:
            raise SubscriptionNotFound(f"no cursor {name} in {self._home.name}")
        if without_born(self._home.record.properties, name) is not None:
            await self._home.record.change_properties(lambda own: without_born(own, name) or own)
        await cursor.remove()

    async def delete_all(self) -> None:
        for cursor in tuple(self._cursors.values()):
            await cursor.remove()

    def passed(self) -> int:
        """Ordinal of the first entry that some cursor has not passed."""
        return min((each.passed for each in self._cursors.values()), default=self._sequence.end)

    def forget(self, ledger_ids: Collection[int]) -> None:
        """The log no longer has these ledgers."""
        for cursor in self._cursors.values():
            cursor.forget(ledger_ids)

    def _add(
        self, name: str, info: CursorInfo, version: int = -1, *, durable: bool = True
    ) -> Cursor:
        home = self._home if durable else None
        cursor = Cursor(
            name, self._sequence, info, on_gone=self._on_gone, home=home, version=version
        )
        self._cursors[name] = cursor
        self._cache.switch(True)
        return cursor

    def _on_gone(self, cursor: Cursor) -> None:
        if self._cursors.get(cursor.name) is cursor:
            del self._cursors[cursor.name]
            if not self._cursors:
                self._cache.switch(False)
