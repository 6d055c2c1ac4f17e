"""The writing side of a chain: runs go in at the end, ledgers are opened, sealed and listed in the
record.

When a run is refused, so is every run behind it that is not durable: what is stored of a producer
never has a hole that a resend would fill out of order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from magnetar.errors import (
    BrokerError,
    LedgerFenced,
    LedgerSealed,
    StoreUnavailable,
    TopicFenced,
    TopicTerminated,
    VersionConflict,
)
from magnetar.ledger.cache import CacheView
from magnetar.ledger.cursor_log import CursorHome
from magnetar.ledger.info import ChainInfo, ChainPolicy, ChainState, LedgerPart
from magnetar.ledger.sequence import LedgerSequence
from magnetar.ledger.store import LedgerWriter
from magnetar.ledger.tail import Appended, PendingRun, Tail
from magnetar.ledger.versioned import VersionedRecord
from magnetar.model.position import LedgerId, Position
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Log

_log = Log(__name__)


class ChainWriter:
    def __init__(
        self,
        home: CursorHome,
        info: ChainInfo,
        version: int,
        sequence: LedgerSequence,
        cache: CacheView,
        *,
        policy: ChainPolicy,
        clock: Clock,
    ) -> None:
        self.policy = policy
        self.properties: Mapping[str, str] = dict(info.properties)
        self.terminated = info.terminated
        self.state = ChainState.OPEN if info.terminated is None else ChainState.TERMINATED
        self.appended: list[Callable[[], None]] = []
        self.fenced: list[Callable[[], None]] = []
        self.entries_added = 0
        self.ledger_created_ms = 0
        self._home = home
        self._sequence = sequence
        self._cache = cache
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._record = VersionedRecord(home.records.load, self._store_record, version)
        self._stale = False  # the record does not know yet what was sealed
        self._held: list[int] = []  # ledgers to delete once another record was written
        self._structure = asyncio.Lock()  # held while the list of ledgers changes
        self._tail: Tail | None = None  # takes runs
        self._left: Tail | None = None  # takes none any more and is to be sealed
        self._queue: deque[PendingRun] = deque()  # runs waiting for a ledger
        self._pending: deque[PendingRun] = deque()  # runs not answered, in order
        self._changing = False
        self._notifying = False
        self._taken_over = False

    # Appending

    def append(
        self, entries: Sequence[bytes], counts: Sequence[int], done: Appended, size: int = -1
    ) -> None:
        run = PendingRun(entries, counts, done, size)
        self._pending.append(run)
        if self._tail is not None and self.state is ChainState.OPEN:
            self._hand_over(self._tail, run)
        elif self.state is ChainState.OPEN:
            self._queue.append(run)
            self._start_change()
        else:
            run.refuse(self._refusal())
            self._loop.call_soon(self._answer)

    def extend(self, known: Sequence[bytes], entries: Sequence[bytes], size: int) -> bool:
        if self._tail is None or self.state is not ChainState.OPEN:
            return False
        return self._tail.extend(known, entries, size)

    @property
    def pending(self) -> int:
        """Runs handed in and not answered."""
        return len(self._pending)

    def _hand_over(self, tail: Tail, run: PendingRun) -> None:
        try:
            tail.append(run)
        except LedgerSealed:
            self._leave_tail()
            self._queue.append(run)
            self._start_change()
            return
        if tail.entries_sent >= self.policy.entries_max or tail.bytes_sent >= self.policy.bytes_max:
            self._leave_full()

    def _leave_full(self) -> None:
        """When it is large, and again when something is durable: by then it may be old enough."""
        if self._tail is not None and self._tail.is_full(self.policy, self._clock):
            self._leave_tail()
            self._start_change()

    def _on_durable(self, run: PendingRun, first: Position) -> None:
        self.entries_added += len(run.entries)
        if self._cache.is_enabled:
            self._cache.append(first.ledger_id, first.entry_id, run.entries, run.counts, run.size)
        self._notify_soon()
        self._answer()

    def _on_refused(self, tail: Tail, error: BrokerError) -> None:
        if self._tail is tail:
            self._leave_tail()
        self._refuse_queue(error)
        if isinstance(error, LedgerFenced):
            self._fence()
        self._answer()

    def _refuse_queue(self, error: BrokerError) -> None:
        for run in self._queue:
            run.refuse(error)
        self._queue.clear()

    def _answer(self) -> None:
        pending = self._pending
        while pending and pending[0].settled:
            run = pending.popleft()
            run.done(run.first if run.error is None else None, run.error)

    def _notify_soon(self) -> None:
        if not self._notifying:
            self._notifying = True
            self._loop.call_soon(self._notify)

    def _notify(self) -> None:
        self._notifying = False
        self._leave_full()
        for listener in tuple(self.appended):
            listener()

    # Changing ledgers

    def _leave_tail(self) -> None:
        if self._tail is not None:
            self._left, self._tail = self._tail, None

    def _start_change(self) -> None:
        if not self._changing:
            self._changing = True
            self._home.scope.start(self._change(), "next ledger")

    async def _change(self) -> None:
        try:
            async with self._structure:
                self._check(ChainState.OPEN)
                if self._tail is None:
                    await self._open_tail()
        except BrokerError as error:
            self._refuse_queue(error)
            self._answer()
        finally:
            self._changing = False
        self._drain()
        await self._home.disposal.run()

    def _drain(self) -> None:
        """Hand over what waited, in order; what does not fit stays in front of what came since."""
        waiting, self._queue = self._queue, deque()
        while waiting and self._tail is not None:
            self._hand_over(self._tail, waiting.popleft())
        if waiting:
            self._queue.extend(waiting)
            self._start_change()

    async def _open_tail(self) -> None:
        """Seal the ledger left behind while a fresh one is made; the record notes both at once."""
        sealing, creating = await asyncio.gather(
            self._seal_left(), self._create_ledger(), return_exceptions=True
        )
        if isinstance(creating, BaseException):
            raise creating
        if isinstance(sealing, BaseException):
            self._home.disposal.add(creating.id)
            raise sealing
        try:
            await self._store_info(added=LedgerPart(creating.id, 0, 0, 0))
        except StoreUnavailable:
            self._held.append(creating.id)  # the record may name it
            raise
        except BrokerError:
            self._home.disposal.add(creating.id)
            raise
        self.ledger_created_ms = self._clock.now_ms()
        self._tail = Tail(
            creating,
            self._sequence.add(creating.id),
            created_ms=self.ledger_created_ms,
            on_durable=self._on_durable,
            on_refused=self._on_refused,
        )

    async def _create_ledger(self) -> LedgerWriter:
        return await self._home.store.create(
            term=self._home.term, properties={"chain": self._home.chain}
        )

    async def _seal_left(self) -> None:
        """Wait for what is under way in the ledger left behind; the store knows what is in it."""
        if self._left is None:
            return
        part = self._left.part
        try:
            sealed = await self._left.writer.seal()
        except LedgerFenced:
            self._fence()
            raise
        except BrokerError:
            sealed = await self._home.store.recover(LedgerId(part.ledger_id), term=self._home.term)
        if sealed.last + 1 < part.entries:
            _log.error(
                "ledger lost entries", ledger=part.ledger_id, had=part.entries, last=sealed.last
            )
        part.entries, part.size = sealed.last + 1, sealed.length
        part.sealed_ms = self._clock.now_ms()
        self._left = None
        self._stale = True
        if part.entries:
            self._notify_soon()
        else:
            self._sequence.remove({part.ledger_id})
            self._held.append(part.ledger_id)

    async def roll(self) -> None:
        async with self._structure:
            if self._tail is not None and self._tail.entries_sent:
                self._leave_tail()
            await self._settle()
        await self._home.disposal.run()

    async def roll_if_due(self) -> None:
        full = self._tail is not None and self._tail.is_full(self.policy, self._clock)
        if full or (self._left is not None and not self._changing):
            await self.roll()

    async def terminate(self) -> Position:
        async with self._structure:
            if self.terminated is not None:
                return self.terminated
            self._check(ChainState.OPEN)
            self.state = ChainState.TERMINATED
            try:
                self._leave_tail()
                await self._seal_left()
                last = self._sequence.last_position
                await self._store_info(terminated=last)
            except BrokerError:
                if self.state is ChainState.TERMINATED:
                    self.state = ChainState.OPEN
                raise
            self.terminated = last
        await self._home.disposal.run()
        return last

    async def remove_ledgers(self, choose: Callable[[], Collection[int]]) -> Collection[int]:
        """Take the ledgers that `choose` names off the record, then off memory; return them."""
        async with self._structure:
            self.check_owned()
            gone = choose()
            if gone:
                await self._home.disposal.announce(gone)
                await self._store_info(removed=gone)
                self._sequence.remove(gone)
                for ledger_id in gone:
                    self._cache.drop_ledger(ledger_id)
                    self._home.disposal.add(ledger_id)
            return gone

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        async with self._structure:
            self.check_owned()
            await self._store_info(properties=properties)
            self.properties = dict(properties)

    async def confirm(self) -> None:
        """Write the record as it is: that succeeds for one owner only. Raise TopicFenced for the
        others.
        """
        async with self._structure:
            if self._taken_over:
                raise TopicFenced(f"{self._home.chain} has another owner")
            await self._store_info()

    def refuse(self) -> None:
        """Take no more runs."""
        self.state = ChainState.CLOSED

    async def close(self) -> None:
        """Refuse what comes, wait for what is under way, write what was sealed."""
        self.refuse()
        async with self._structure:
            self._leave_tail()
            try:
                if not self._taken_over:
                    await self._settle()
            finally:
                self._refuse_queue(self._refusal())
                self._answer()

    async def delete(self) -> None:
        """Remove the record; every ledger goes to the disposal."""
        self.refuse()
        async with self._structure:
            self._leave_tail()
            try:
                await self._seal_left()
            except BrokerError as error:  # the disposal seals once more
                _log.warning("deleting an unsealed ledger", reason=error.sentence)
            self._refuse_queue(self._refusal())
            self._answer()
            ledgers = [part.ledger_id for part in self._sequence.parts]
            await self._home.disposal.announce(ledgers)
            await self._home.records.remove()
            for ledger_id in (*ledgers, *self._held):
                self._home.disposal.add(ledger_id)
            self._held.clear()
            self._sequence.remove(ledgers)

    async def _settle(self) -> None:
        await self._seal_left()
        if self._stale:
            await self._store_info()

    async def _store_info(
        self,
        *,
        added: LedgerPart | None = None,
        removed: Collection[int] = (),
        terminated: Position | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Write the record as memory has it, with these changes. Raise TopicFenced when it has
        another owner.
        """
        ledgers = [
            part.describe() if part.sealed_ms else LedgerPart(part.ledger_id, 0, 0, 0)
            for part in self._sequence.parts
            if part.ledger_id not in removed
        ]
        info = ChainInfo(
            ledgers=(*ledgers, added) if added is not None else tuple(ledgers),
            terminated=self.terminated if terminated is None else terminated,
            properties=dict(self.properties if properties is None else properties),
        )
        try:
            await self._record.store(info)
        except VersionConflict as conflict:
            self._fence()
            raise TopicFenced(f"{self._home.chain} has another owner") from conflict
        self._stale = False
        for ledger_id in self._held:
            self._home.disposal.add(ledger_id)
        self._held.clear()

    async def _store_record(self, info: ChainInfo, expect: int) -> int:
        return await self._home.records.store(info, expect=expect)

    def _fence(self) -> None:
        self._taken_over = True
        if self.state in (ChainState.FENCED, ChainState.CLOSED):
            return
        _log.warning("chain taken over", chain=self._home.chain)
        self.state = ChainState.FENCED
        self._refuse_queue(self._refusal())
        self._loop.call_soon(self._answer)
        for listener in tuple(self.fenced):
            self._loop.call_soon(listener)

    def _refusal(self) -> BrokerError:
        if self.state is ChainState.TERMINATED:
            return TopicTerminated(f"{self._home.chain} was terminated")
        return TopicFenced(f"{self._home.chain} is {self.state.value.lower()}")

    def check_owned(self) -> None:
        """Raise TopicFenced when the chain was closed or taken over."""
        self._check(ChainState.OPEN, ChainState.TERMINATED)

    def _check(self, *allowed: ChainState) -> None:
        if self.state not in allowed:
            raise self._refusal()
