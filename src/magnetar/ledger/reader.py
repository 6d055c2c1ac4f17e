"""Reading a log: from memory where possible, else from the store and a little ahead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import Final

from magnetar.errors import BrokerError, LedgerCorrupt, LedgerNotFound, TopicFenced
from magnetar.ledger.cache import CacheView, cut_run
from magnetar.ledger.message_count import MessageCount
from magnetar.ledger.message_tally import MessageTally, TallyPace
from magnetar.ledger.run import EntryRun
from magnetar.ledger.sequence import LedgerSequence
from magnetar.ledger.store import LedgerStore
from magnetar.model.position import EntryId, LedgerId, Position
from magnetar.runtime.task import TaskScope

_AHEAD_ENTRIES: Final = 1000
_AHEAD_BYTES: Final = 4 * 1024 * 1024


class LogReader:
    def __init__(
        self,
        sequence: LedgerSequence,
        store: LedgerStore,
        cache: CacheView,
        scope: TaskScope,
        count_messages: Callable[[bytes], int],
        tally_pace: TallyPace,
    ) -> None:
        self._sequence = sequence
        self._store = store
        self._cache = cache
        self._scope = scope
        self._count_messages = count_messages
        self._loading: dict[Position, asyncio.Future[EntryRun]] = {}
        self._closed = False
        self.tally: Final = MessageTally(sequence, self, scope, tally_pace)

    @cached_property
    def message_count(self) -> MessageCount:
        """Made for queries that count messages; most logs have none."""
        return MessageCount(self._sequence, self)

    def close(self) -> None:
        """Start no more reads."""
        self._closed = True

    def is_readable(self, position: Position) -> bool:
        """Whether a durable entry at or after `position` exists."""
        return self._sequence.ceiling(position) is not None

    def read_cached(self, start: Position, entries_max: int, bytes_max: int) -> EntryRun | None:
        """Durable entries from `start` on if they are in memory; None: not in memory, or nothing
        there yet.
        """
        ledger_id, entry_id = start
        part = self._sequence.by_id.get(ledger_id)
        if part is None or not 0 <= entry_id < part.entries:
            first = self._sequence.ceiling(start)
            if first is None:
                return None
            ledger_id, entry_id = first
        return self._cache.get(ledger_id, entry_id, entries_max, bytes_max)

    async def read(self, start: Position, entries_max: int, bytes_max: int) -> EntryRun | None:
        """Durable entries of one ledger, from the first at or after `start`; None: nothing there
        yet.
        """
        while True:
            first = self._sequence.ceiling(start)
            if first is None:
                return None
            run = self._cache.get(first.ledger_id, first.entry_id, entries_max, bytes_max)
            if run is not None:
                return run
            try:
                run = await self._load_shared(first, entries_max, bytes_max)
            except LedgerNotFound:
                if first.ledger_id in self._sequence.by_id:
                    raise
                continue  # trimmed meanwhile: go on behind it
            data, counts = cut_run(
                run.data, run.counts, entries_max=entries_max, bytes_max=bytes_max
            )
            return EntryRun(run.ledger_id, run.first, data[:], counts[:])

    async def find_first(self, predicate: Callable[[bytes], bool]) -> Position | None:
        """The first entry for which `predicate` holds, if it holds for all entries after it too."""
        sequence = self._sequence
        low, high = sequence.end - sequence.total_entries, sequence.end
        end = high
        while low < high:
            middle = (low + high) // 2
            entry = await self._read_one(sequence.position_at(middle))
            if entry is not None and predicate(entry):
                high = middle
            else:
                low = middle + 1
        return None if low == end else sequence.position_at(low)

    async def _read_one(self, position: Position) -> bytes | None:
        """None when the entry was trimmed meanwhile."""
        run = self._cache.get(position.ledger_id, position.entry_id, 1, _AHEAD_BYTES)
        if run is not None:
            return run.data[0]
        try:
            found = await self._store.read(
                LedgerId(position.ledger_id),
                EntryId(position.entry_id),
                entries_max=1,
                bytes_max=_AHEAD_BYTES,
            )
        except LedgerNotFound:
            if position.ledger_id in self._sequence.by_id:
                raise
            return None
        if not found:
            raise _missing(position)
        return found[0]

    async def _load_shared(self, first: Position, entries_max: int, bytes_max: int) -> EntryRun:
        """Readers that ask for the same place at the same time share one read."""
        if self._closed:
            raise TopicFenced(f"the log was closed before {first} was read")
        loading = self._loading.get(first)
        if loading is None:
            loading = asyncio.get_running_loop().create_future()
            self._loading[first] = loading
            left = self._sequence.by_id[first.ledger_id].entries - first.entry_id
            self._scope.start(
                self._load(
                    first,
                    min(max(entries_max, _AHEAD_ENTRIES), left),
                    max(bytes_max, _AHEAD_BYTES),
                    loading,
                ),
                f"read at {first}",
            )
        return await asyncio.shield(loading)

    async def _load(
        self, first: Position, entries_max: int, bytes_max: int, answer: asyncio.Future[EntryRun]
    ) -> None:
        try:
            data = await self._store.read(
                LedgerId(first.ledger_id),
                EntryId(first.entry_id),
                entries_max=entries_max,
                bytes_max=bytes_max,
            )
            if not data:
                raise _missing(first)
            run = EntryRun(
                first.ledger_id, first.entry_id, data, [*map(self._count_messages, data)]
            )
            answer.set_result(run)
            if first.ledger_id in self._sequence.by_id:
                self._cache.keep(run)
        except BrokerError as error:
            answer.set_exception(error)
        finally:
            del self._loading[first]
            if not answer.done():
                answer.set_exception(TopicFenced(f"the read at {first} was given up"))
            answer.exception()  # retrieved, though every reader may have left


def _missing(position: Position) -> LedgerCorrupt:
    return LedgerCorrupt(f"entry {position} was acknowledged and is not in its ledger")
