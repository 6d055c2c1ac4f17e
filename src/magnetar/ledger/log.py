"""The log: a sequence of ledgers that reads as one, with cursors in it (Pulsar's managed ledger).

One ledger at the end takes appends; the others are sealed. The open ledger is made when the first
run needs it, so an idle log has none. A log has one owner: every write of its record names the
version read, and a new owner fences the ledger that the former one left open. An owner that meets
another's version stops for good.

Runs wait in one queue of flights (`ledger.flight`). The last flight is open, and leaves with the
next commit of the ledger store. When a flight is refused, so is everything behind it that is not
durable: what is stored of a producer never has a hole that a resend would fill out of order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from itertools import takewhile
from typing import Final, Self

from magnetar.errors import (
    BrokerError,
    LedgerFenced,
)
from magnetar.ledger.belonging import LedgerUse, UseKind
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.cursor_set import CursorSet
from magnetar.ledger.disposal import Disposal
from magnetar.ledger.flight import Flight, FlightQueue, OpenLedger, PlainRun
from magnetar.ledger.info import LogPolicy, LogRecords, LogState
from magnetar.ledger.log_record import LogRecord
from magnetar.ledger.message_tally import TallyPace
from magnetar.ledger.opening import open_record
from magnetar.ledger.pace import CursorPace
from magnetar.ledger.reader import LogReader
from magnetar.ledger.retention import plan_trim
from magnetar.ledger.sequence import LedgerSequence, LogLedger
from magnetar.ledger.store import LedgerStore
from magnetar.model.position import LedgerId, Position, Term
from magnetar.model.stored_log import LedgerPart, Offload
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_logger = Logger(__name__)


class Log:
    def __init__(
        self,
        name: str,
        store: LedgerStore,
        records: LogRecords,
        policy: LogPolicy,
        *,
        clock: Clock,
        term: Term,
        count_messages: Callable[[bytes], int],
        cache: EntryCache,
        pace: CursorPace | None = None,
        tally_pace: TallyPace | None = None,
    ) -> None:
        """It is of use once it is open. Logs that share a `pace` write their cursors within one
        budget, and those that share a `tally_pace` count messages within one.
        """
        self.name: Final = name
        self.store: Final = store
        self.records: Final = records
        self.disposal: Final = Disposal(store, term, name)
        self.term: Final = term
        self.clock: Final = clock
        self.pace: Final = pace or CursorPace(clock)
        self.scope: Final = TaskScope(f"log {name}")
        self.policy = policy
        self.entries_added = 0
        """Entries that became durable since the log was opened."""
        self.ledger_created_ms = 0
        """When the last ledger was opened by this owner; 0 when none was."""
        self.ledger: OpenLedger | None = None
        """The one at the end, which takes flights."""
        self.appended: Final[list[Callable[[], None]]] = []
        """Called once for each batch of runs that became durable."""
        self.sequence: Final = LedgerSequence()
        self.record: Final = LogRecord(name, records, self.disposal, self.sequence)
        self.cache: Final = cache.view()
        self.reader: Final = LogReader(
            self.sequence,
            store,
            self.cache,
            self.scope,
            count_messages,
            tally_pace or TallyPace(clock),
        )
        self.cursors: Final = CursorSet(self, self.sequence, self.cache)
        self.flights: Final = FlightQueue(self, self.record, store, clock)
        self.record.fenced.append(self.flights.send)  # which refuses what waits
        self._loop = asyncio.get_running_loop()
        self._left: OpenLedger | None = None  # takes none any more and is to be sealed
        self._changing = False
        self._notifying = False

    async def open(self, *, birth: Collection[str] | None = None) -> Self:
        """Create the log when it is absent, fence what a former owner left open, restore the
        durable cursors.

        Opening writes the record, so that a former owner that is still alive meets a version it
        does not know. `birth` says that nothing of the log is there, and which cursors it is made
        with.
        """
        info, version, is_new = await open_record(
            self.name,
            self.store,
            self.records,
            self.disposal,
            clock=self.clock,
            term=self.term,
            birth=birth,
        )
        self.record.restore(info, version)
        await self.cursors.restore(is_new=is_new)
        if self.store.is_apache_readable:
            await self.cursors.write_born()
        await self.disposal.run()
        return self

    # Appending

    async def append_entry(self, entry: bytes) -> Position:
        """Append one message of the broker's own and wait until it is durable."""
        answer: asyncio.Future[Position] = self._loop.create_future()

        def on_answer(first: Position | None, error: BrokerError | None) -> None:
            if answer.done():
                return  # the caller was cancelled
            if first is not None:
                answer.set_result(first)
            else:
                assert error is not None
                answer.set_exception(error)

        self.flights.append(PlainRun([entry], [1], on_answer))
        return await answer

    # What the queue of flights asks for

    def on_durable(self, flight: Flight) -> None:
        self.entries_added += flight.count
        ledger_id, first, counts = flight.ledger.part.ledger_id, flight.first, flight.counts()
        self.reader.tally.append(ledger_id, first, counts)
        if self.cache.is_enabled:
            self.cache.append(ledger_id, first, flight.entries, counts, flight.size)
        self._notify_soon()

    def on_refused(self, flight: Flight, error: BrokerError) -> None:
        if self.ledger is flight.ledger:
            self._leave_ledger()
        if isinstance(error, LedgerFenced):
            self.record.fence()

    def leave_full(self) -> None:
        """When it was given much, and again when something is durable: by then it may be old
        enough.
        """
        if self.ledger is not None and self.ledger.is_full(self.policy, self.clock):
            self.change_ledger()

    def change_ledger(self) -> None:
        """Open a fresh ledger on the side; the one before takes nothing more."""
        self._leave_ledger()
        if not self._changing:
            self._changing = True
            self.scope.start(self._change(), "next ledger")

    def _notify_soon(self) -> None:
        if not self._notifying:
            self._notifying = True
            self._loop.call_soon(self._notify)

    def _notify(self) -> None:
        self._notifying = False
        self.leave_full()
        for listener in tuple(self.appended):
            listener()

    # Changing ledgers

    def _leave_ledger(self) -> None:
        if self.ledger is not None:
            self._left, self.ledger = self.ledger, None

    async def _change(self) -> None:
        try:
            async with self.record.changing:
                self.record.check_open()
                if self.ledger is None:
                    await self._open_ledger()
        except BrokerError as error:
            self.flights.refuse_waiting(error)
        finally:
            self._changing = False
        self.flights.send()
        await self.disposal.run()

    async def _open_ledger(self) -> None:
        """Seal the ledger left behind while a fresh one is made; the record notes both at once."""
        fresh = self.store.create(
            term=self.term,
            properties=LedgerUse(UseKind.LOG, self.name).format(),
            replication=self.policy.replication,
        )
        sealing, creating = await asyncio.gather(self._seal_left(), fresh, return_exceptions=True)
        if isinstance(creating, BaseException):
            raise creating
        if isinstance(sealing, BaseException):
            self.disposal.add(creating.id)
            raise sealing
        with self.record.versioned.naming(creating.id):
            await self.record.store(added=LedgerPart(creating.id, 0, 0, 0))
        self.ledger_created_ms = self.clock.now_ms()
        self.ledger = OpenLedger(creating, self.sequence.add(creating.id), self.ledger_created_ms)

    async def _seal_left(self) -> None:
        """Wait for what is under way in the ledger left behind; the store knows what is in it."""
        if self._left is None:
            return
        part = self._left.part
        try:
            sealed = await self._left.writer.seal()
        except LedgerFenced:
            self.record.fence()
            raise
        except BrokerError:
            sealed = await self.store.recover(LedgerId(part.ledger_id), term=self.term)
        if sealed.last + 1 < part.entries:
            _logger.error(
                "ledger lost entries", ledger=part.ledger_id, had=part.entries, last=sealed.last
            )
        part.entries, part.size = sealed.last + 1, sealed.length
        part.sealed_ms = self.clock.now_ms()
        self._left = None
        self.record.is_stale = True
        if part.entries:
            self._notify_soon()
        else:
            self.sequence.remove({part.ledger_id})
            self.record.versioned.release(part.ledger_id)

    async def _store_sealed(self) -> None:
        """Seal the ledger left behind, and write that down."""
        await self._seal_left()
        if self.record.is_stale:
            await self.record.store()

    async def roll(self) -> None:
        """Seal the open ledger if there is anything in it; the next run opens another."""
        async with self.record.changing:
            self.flights.send()
            if self.ledger is not None and self.ledger.entries_sent:
                self._leave_ledger()
            await self._store_sealed()
        await self.disposal.run()

    async def roll_if_due(self) -> None:
        full = self.ledger is not None and self.ledger.is_full(self.policy, self.clock)
        if full or (self._left is not None and not self._changing):
            await self.roll()

    async def trim(self) -> None:
        """Let go of ledgers that every cursor has passed and retention does not keep."""
        async with self.record.changing:
            self.record.check_owned()
            gone = self._choose_trimmed()
            if gone:
                await self.disposal.announce(gone)
                await self.record.store(removed=gone)
                self.sequence.remove(gone)
                for ledger_id in gone:
                    self.cache.drop_ledger(ledger_id)
                    self.disposal.add(ledger_id)
        self.cursors.forget(gone)
        await self.disposal.run()

    @property
    def is_trimmable(self) -> bool:
        """Whether `trim` would let go of a ledger now; cheap while the first one is open."""
        parts = self.sequence.parts
        return bool(parts) and parts[0].sealed_ms > 0 and bool(self._choose_trimmed())

    def _choose_trimmed(self) -> Collection[int]:
        parts, low = self.sequence.parts, self.cursors.passed()
        needed = self.cursors.find_needed()
        first_kept = None if needed is None else needed.ledger_id

        def is_passed(part: LogLedger) -> bool:
            return _may_go(part) and part.end <= low and part.ledger_id != first_kept

        passed = list(takewhile(is_passed, parts))
        if self.record.terminated is not None and len(passed) == len(parts):
            passed = passed[:-1]  # clients ask a terminated log for its last entry
        total_bytes = self.sequence.total_bytes
        count = plan_trim(passed, total_bytes, self.policy, now_ms=self.clock.now_ms())
        return [part.ledger_id for part in passed[:count]]

    async def terminate(self) -> Position:
        """Take no more entries, for ever; return the last one. Again is the same as once."""
        async with self.record.changing:
            if self.record.terminated is not None:
                return self.record.terminated
            self.record.check_open()
            self.flights.send()
            self.record.state = LogState.TERMINATED
            try:
                self._leave_ledger()
                await self._seal_left()
                last = self.sequence.last_position
                await self.record.store(terminated=last)
            except BrokerError:
                if self.record.state is LogState.TERMINATED:
                    self.record.state = LogState.OPEN
                raise
            self.record.terminated = last
        await self.disposal.run()
        return last

    async def close(self) -> None:
        """Refuse appends, wait for those under way, write every cursor to its record."""
        failure: BrokerError | None = None
        cursors = list(self.cursors.values())
        for close in [self._stop, *(cursor.close for cursor in cursors)]:
            try:
                await close()
            except BrokerError as error:
                failure = failure or error
        await self._release()
        if failure is not None:
            raise failure

    async def delete(self) -> None:
        """Remove the records of cursors and log, then the ledgers. After a failure it can be called
        again.
        """
        self._refuse_appends()
        await self.cursors.delete_all()
        async with self.record.changing:
            self._leave_ledger()
            try:
                await self._seal_left()
            except BrokerError as error:  # the disposal seals once more
                _logger.warning("deleting an unsealed ledger", reason=error.sentence)
            self.flights.send()
            ledgers = [part.ledger_id for part in self.sequence.parts]
            await self.disposal.announce(ledgers)
            await self.records.remove()
            self.record.versioned.dispose(*ledgers)
            self.sequence.remove(ledgers)
        await self._release()

    def _refuse_appends(self) -> None:
        """What waits goes to the open ledger, if there is one."""
        if self.record.state is LogState.OPEN and self.ledger is not None:
            self.flights.send()
        self.record.state = LogState.CLOSED

    async def _stop(self) -> None:
        """Refuse what comes, wait for what is under way, write what was sealed."""
        self._refuse_appends()
        async with self.record.changing:
            self._leave_ledger()
            try:
                if not self.record.is_taken_over:
                    await self._store_sealed()
            finally:
                self.flights.send()

    async def _release(self) -> None:
        await self.disposal.run()
        self.reader.close()
        await self.scope.close()
        self.cache.clear()


def _may_go(part: LogLedger) -> bool:
    """A ledger that still grows may not; nor one that was offloaded, for its copy in long-term
    storage would be left behind.
    """
    return part.sealed_ms > 0 and part.offload is Offload.NONE
