"""The managed ledger: a chain of ledgers that reads as one log, with cursors in it.

One ledger at the end takes appends; the others are sealed. The open ledger is made when the first
run needs it, so an idle chain has none. A chain has one owner: every write of its record names the
version read, and whoever opens a chain fences the ledger a former owner left open. An owner that
meets another's version stops for good.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import takewhile

from magnetar.errors import BrokerError, Conflict, SubscriptionNotFound
from magnetar.ledger.birth import parse_born, without_born
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.cursor_log import CursorHome
from magnetar.ledger.disposal import Disposal
from magnetar.ledger.info import (
    ChainInfo,
    ChainPolicy,
    ChainRecords,
    ChainState,
    CursorInfo,
    LedgerPart,
)
from magnetar.ledger.opening import open_record, restore_cursors
from magnetar.ledger.pace import CursorPace
from magnetar.ledger.reader import ChainReader
from magnetar.ledger.retention import plan_trim
from magnetar.ledger.run import EntryRun
from magnetar.ledger.sequence import LedgerSequence
from magnetar.ledger.store import LedgerStore
from magnetar.ledger.tail import Appended
from magnetar.ledger.writer import ChainWriter
from magnetar.model.position import LATEST, Position, Term
from magnetar.runtime.clock import Clock
from magnetar.runtime.task import TaskScope

__all__ = [
    "Appended",
    "Chain",
    "ChainInfo",
    "ChainPolicy",
    "ChainRecords",
    "Cursor",
    "CursorInfo",
    "EntryCache",
    "EntryRun",
    "LedgerPart",
]


class Chain:
    def __init__(
        self,
        home: CursorHome,
        info: ChainInfo,
        version: int,
        policy: ChainPolicy,
        clock: Clock,
        cache: EntryCache,
        count_messages: Callable[[bytes], int],
    ) -> None:
        self.name = home.chain
        self.term = home.term
        self.cursors: dict[str, Cursor] = {}
        self._home = home
        self._clock = clock
        self._sequence = LedgerSequence(info.ledgers)
        self._cache = cache.view()
        self._writer = ChainWriter(
            home, info, version, self._sequence, self._cache, policy=policy, clock=clock
        )
        self.append = self._writer.append
        """Queue a run; `done` hears, in order of the appends, where it stands once it is durable,
        or why not.

        Never blocks. Entry i of the run stands i after the first, in the same ledger. `size` is
        the sum of the entries' lengths, negative when the caller does not know it.
        """
        self.extend = self._writer.extend
        """Add entries to the run appended last, given by its list of `known` ones, while it waits;
        its `done` speaks for them too, and the caller adds them to the lists that it appended.
        """
        self._reader = ChainReader(
            self._sequence, home.store, self._cache, home.scope, count_messages
        )

    @classmethod
    async def open(
        cls,
        name: str,
        store: LedgerStore,
        records: ChainRecords,
        policy: ChainPolicy,
        *,
        clock: Clock,
        term: Term,
        count_messages: Callable[[bytes], int],
        cache: EntryCache,
        pace: CursorPace | None = None,
        claim: bool = True,
        birth: Collection[str] | None = None,
    ) -> Chain:
        """Create the chain when it is absent, fence what a former owner left open, restore the
        durable cursors.

        Chains that share a `pace` write their cursors within one budget. Opening writes the record,
        so that a former owner that is still alive meets a version it does not know; `claim=False`
        saves that write where two owners cannot be, as in a data directory locked by this process.
        `birth` says that nothing of the chain is there, and which cursors it is made with.
        """
        disposal = Disposal(store, term, name)
        info, version, is_new = await open_record(
            name, store, records, disposal, clock=clock, term=term, claim=claim, birth=birth
        )
        home = CursorHome(
            chain=name,
            store=store,
            disposal=disposal,
            records=records,
            term=term,
            scope=TaskScope(f"chain {name}"),
            clock=clock,
            pace=pace or CursorPace(clock),
            policy=lambda: chain.policy,
            confirm=lambda: chain._writer.confirm(),
        )
        chain = cls(home, info, version, policy, clock, cache, count_messages)
        for cursor in await restore_cursors(
            home, chain._sequence, chain._on_cursor_gone, parse_born(info.properties), is_new=is_new
        ):
            chain.cursors[cursor.name] = cursor
        chain.caching = bool(chain.cursors)
        await disposal.run()
        return chain

    # Writing

    async def roll(self) -> None:
        """Seal the open ledger if there is anything in it; the next run opens another."""
        await self._writer.roll()

    async def roll_if_due(self) -> None:
        await self._writer.roll_if_due()

    async def terminate(self) -> Position:
        """Take no more entries, for ever; return the last one. Again is the same as once."""
        return await self._writer.terminate()

    async def trim(self) -> None:
        """Let go of ledgers that every cursor has passed and retention does not keep."""
        gone = await self._writer.remove_ledgers(self._choose_trimmed)
        for cursor in self.cursors.values():
            cursor.forget(gone)
        await self._home.disposal.run()

    @property
    def is_trimmable(self) -> bool:
        """Whether `trim` would let go of a ledger now; cheap while the first one is open."""
        parts = self._sequence.parts
        return bool(parts) and parts[0].sealed_ms > 0 and bool(self._choose_trimmed())

    def _choose_trimmed(self) -> Collection[int]:
        parts = self._sequence.parts
        low = min((cursor.passed for cursor in self.cursors.values()), default=self._sequence.end)
        passed = list(takewhile(lambda part: part.sealed_ms and part.end <= low, parts))
        if self.terminated is not None and len(passed) == len(parts):
            passed = passed[:-1]  # clients ask a terminated chain for its last entry
        count = plan_trim(passed, self.total_bytes, self.policy, now_ms=self._clock.now_ms())
        return [part.ledger_id for part in passed[:count]]

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        await self._writer.set_properties(properties)

    async def close(self) -> None:
        """Refuse appends, wait for those under way, write every cursor to its record."""
        failure: BrokerError | None = None
        for close in [self._writer.close, *(cursor.close for cursor in self.cursors.values())]:
            try:
                await close()
            except BrokerError as error:
                failure = failure or error
        await self._home.disposal.run()
        self._reader.close()
        await self._home.scope.close()
        self._cache.clear()
        if failure is not None:
            raise failure

    async def delete(self) -> None:
        """Remove the records of cursors and chain, then the ledgers. After a failure it can be
        called again.
        """
        self._writer.refuse()
        for cursor in tuple(self.cursors.values()):
            await cursor.remove()
        await self._writer.delete()
        await self._home.disposal.run()
        self._reader.close()
        await self._home.scope.close()
        self._cache.clear()

    # Reading

    def read_cached(self, start: Position, entries_max: int, bytes_max: int) -> EntryRun | None:
        """Durable entries from `start` on if they are in memory; None: not in memory, or nothing
        there yet.
        """
        return self._reader.read_cached(start, entries_max, bytes_max)

    async def read(self, start: Position, entries_max: int, bytes_max: int) -> EntryRun | None:
        """Durable entries of one ledger, from the first at or after `start`; None: nothing there
        yet.
        """
        return await self._reader.read(start, entries_max, bytes_max)

    async def find_first(self, predicate: Callable[[bytes], bool]) -> Position | None:
        """The first entry for which `predicate` holds, if it holds for all entries after it too."""
        return await self._reader.find_first(predicate)

    def is_readable(self, position: Position) -> bool:
        """Whether a durable entry at or after `position` exists."""
        return self._sequence.ceiling(position) is not None

    def has_entry(self, position: Position) -> bool:
        """Whether exactly this entry exists and is durable."""
        return self._sequence.ceiling(position) == position

    # Positions

    @property
    def last_position(self) -> Position:
        """The last durable entry, or the place before the first."""
        return self._sequence.last_position

    @property
    def first_position(self) -> Position:
        """The first entry that exists, or where it will stand."""
        return self._sequence.first_position

    def next_position(self, position: Position) -> Position:
        """The next entry after `position`; behind the last one: where the next would stand."""
        return self._sequence.next_position(position)

    def previous_position(self, position: Position) -> Position:
        """The last entry before `position`, or the place before the first."""
        return self._sequence.previous_position(position)

    def position_after(self, position: Position, entries: int) -> Position:
        """Where a reader at `position` stands after this many entries, at most at the end."""
        return self._sequence.position_at(self._sequence.ordinal(position) + entries)

    def entries_between(self, first: Position, end: Position) -> int:
        """The number of entries from `first` on and before `end`."""
        return max(0, self._sequence.ordinal(end) - self._sequence.ordinal(first))

    def bytes_between(self, first: Position, end: Position) -> int:
        """The size of the entries from `first` on and before `end`, taking those of one ledger for
        equally large.
        """
        return self._sequence.size_between(first, end)

    # Cursors

    async def open_cursor(
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
        self._writer.check_owned()
        cursor = self.cursors.get(name)
        if cursor is not None and not cursor.durable:
            raise Conflict(f"cursor {name} of {self.name} exists and is not durable")
        if cursor is None:
            info = CursorInfo(
                ledger_id=-1,
                mark_delete=self._sequence.mark_before(start),
                properties=properties or {},
                cursor_properties=cursor_properties or {},
            )
            cursor = Cursor(
                name, self._sequence, info, on_gone=self._on_cursor_gone, home=self._home
            )
            self._add_cursor(cursor)  # before it is stored: it holds back trimming from here on
        try:
            await cursor.store()
        except BrokerError:
            self._on_cursor_gone(cursor)
            raise
        return cursor

    def transient_cursor(self, name: str, start: Position) -> Cursor:
        """A cursor in memory only, gone when it is closed; it holds back trimming meanwhile."""
        if name in self.cursors:
            raise Conflict(f"cursor {name} of {self.name} exists")
        info = CursorInfo(ledger_id=-1, mark_delete=self._sequence.mark_before(start))
        cursor = Cursor(name, self._sequence, info, on_gone=self._on_cursor_gone)
        self._add_cursor(cursor)
        return cursor

    async def delete_cursor(self, name: str) -> None:
        cursor = self.cursors.get(name)
        if cursor is None:
            raise SubscriptionNotFound(f"no cursor {name} in {self.name}")
        properties = without_born(self.properties, name)
        if properties is not None:
            await self.set_properties(properties)
        await cursor.remove()

    def _add_cursor(self, cursor: Cursor) -> None:
        self.cursors[cursor.name] = cursor
        self.caching = True

    def _on_cursor_gone(self, cursor: Cursor) -> None:
        if self.cursors.get(cursor.name) is cursor:
            del self.cursors[cursor.name]
            if not self.cursors:
                self.caching = False

    # State

    @property
    def policy(self) -> ChainPolicy:
        return self._writer.policy

    @policy.setter
    def policy(self, policy: ChainPolicy) -> None:
        self._writer.policy = policy

    @property
    def caching(self) -> bool:
        """Whether new entries are kept in memory; on from the first cursor to the last."""
        return self._cache.is_enabled

    @caching.setter
    def caching(self, caching: bool) -> None:
        self._cache.switch(caching)

    @property
    def appended(self) -> list[Callable[[], None]]:
        """Called once for each batch of runs that became durable."""
        return self._writer.appended

    @property
    def fenced(self) -> list[Callable[[], None]]:
        """Called when another owner took the chain over."""
        return self._writer.fenced

    @property
    def properties(self) -> Mapping[str, str]:
        return self._writer.properties

    @property
    def terminated(self) -> Position | None:
        return self._writer.terminated

    @property
    def state(self) -> str:
        return self._writer.state.value

    @property
    def is_open(self) -> bool:
        """Whether it takes appends."""
        return self._writer.state is ChainState.OPEN

    @property
    def ledgers(self) -> tuple[LedgerPart, ...]:
        """Every ledger, the open one with what is durable so far."""
        return tuple(part.describe() for part in self._sequence.parts)

    @property
    def total_entries(self) -> int:
        return self._sequence.total_entries

    @property
    def total_bytes(self) -> int:
        return sum(part.size for part in self._sequence.parts)

    @property
    def entries_added(self) -> int:
        """Entries that became durable since the chain was opened."""
        return self._writer.entries_added

    @property
    def pending_appends(self) -> int:
        """Runs handed in and not answered."""
        return self._writer.pending

    @property
    def ledger_created_ms(self) -> int:
        """When the last ledger was opened by this owner; 0 when none was."""
        return self._writer.ledger_created_ms
