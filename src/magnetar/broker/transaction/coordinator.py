"""A coordinator at work: its state, its journal, its deadlines, and the outcomes on their way.

A decision is durable before any participant gets it, and is kept until all of them have made it
durable; a crash in between is resumed by the next owner of the journal.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, Protocol

from magnetar.broker.transaction.journal import Journal
from magnetar.errors import BrokerError, CoordinatorNotFound, InvalidTransactionStatus
from magnetar.model.limit import Limits
from magnetar.model.transaction import (
    Begun,
    CoordinatorRecord,
    Decided,
    Finished,
    Joined,
    Record,
    Reserved,
    Status,
    Transaction,
    TransactionId,
)
from magnetar.rules.transaction.coordinator import LATENCIES_MS, CoordinatorState
from magnetar.runtime.backoff import Backoff
from magnetar.runtime.clock import Clock, Timer
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_log = Logger(__name__)

_ANSWER_WITHIN_S: Final = 10.0
"""How long a client waits for participants; the outcome is decided by then."""


class Participants(Protocol):
    """The topics that take part in transactions, wherever they are served."""

    async def join(
        self, topic: str, id_: TransactionId, deadline_ms: int, subscriptions: Sequence[str] | None
    ) -> None:
        """A transaction is about to write to a topic, or to acknowledge on its subscriptions."""

    async def end(
        self, topic: str, id_: TransactionId, *, is_commit: bool
    ) -> Awaitable[None] | None:
        """Readers see the outcome when this returns; what is returned is done when it is durable
        there.
        """


class Counters:
    """What happened since the coordinator was loaded."""

    def __init__(self) -> None:
        self.created = 0
        self.committed = 0
        self.aborted = 0
        self.timed_out = 0
        self.latencies: Final = [0] * (len(LATENCIES_MS) + 1)

    def count_ended(self, is_commit: bool, duration_ms: int) -> None:
        self.committed += is_commit
        self.aborted += not is_commit
        at = sum(limit < duration_ms for limit in LATENCIES_MS)
        self.latencies[at] += 1


class LiveCoordinator:
    def __init__(
        self,
        state: CoordinatorState,
        journal: Journal,
        participants: Participants,
        *,
        clock: Clock,
        config: Configuration,
        limits: Limits,
        loaded_ms: tuple[int, int],
    ) -> None:
        self.state: Final = state
        self.journal: Final = journal
        self.counters: Final = Counters()
        self.loaded_ms: Final = loaded_ms
        """When its journal began to be read, and when it was."""
        self._participants = participants
        self._clock = clock
        self._config = config
        self._limits = limits
        self._tasks = TaskScope(f"coordinator {state.number}")
        self._deadlines: list[tuple[int, int]] = []
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._reserving: asyncio.Future[None] | None = None
        """Numbers that are reserved, and not durably yet."""
        self._applied: dict[int, asyncio.Future[None]] = {}
        """Outcomes on their way; done when readers see them everywhere."""
        self.is_closed = False

    @classmethod
    def resume(
        cls,
        number: int,
        journal: Journal,
        records: Sequence[Record],
        participants: Participants,
        *,
        clock: Clock,
        config: Configuration,
        limits: Limits,
        started_ms: int,
    ) -> LiveCoordinator:
        """Go on from what is stored: outcomes that were decided, and deadlines."""
        state = CoordinatorState(number)
        for record in records:
            if isinstance(record, Reserved | Begun | Joined | Decided | Finished):
                state.apply(record)
        state.skip_reserved()
        coordinator = cls(
            state,
            journal,
            participants,
            clock=clock,
            config=config,
            limits=limits,
            loaded_ms=(started_ms, clock.now_ms()),
        )
        journal.failed.append(coordinator.stop)
        for each in state.transactions.values():
            if each.status is Status.OPEN:
                coordinator._watch(each)
            else:
                coordinator._tell(each)
        return coordinator

    # ------------------------------------------------------------------ steps

    async def begin(self, owner: str, timeout_ms: int) -> TransactionId:
        """Numbers are reserved ahead, so that none is given out twice. The rest need not be durable
        yet: a transaction that a crash takes before it is stored has nothing so far.
        """
        self._check_open()
        now_ms = self._clock.now_ms()
        id_, records = self.state.plan_begin(
            owner,
            timeout_ms,
            now_ms=now_ms,
            open_max=self._config.maxActiveTransactionsPerCoordinator,
            open_per_owner_max=self._limits.transactions_per_caller,
        )
        stored = self._write(*records)
        if len(records) > 1:
            self._reserving = stored
        self.counters.created += 1
        self._watch(self.state.find(id_))
        if self._reserving is not None:
            await asyncio.shield(self._reserving)
            self._reserving = None
        return id_

    async def join(
        self,
        id_: TransactionId,
        topics: Sequence[str],
        subscriptions: Sequence[tuple[str, str]],
    ) -> None:
        self._check_open()
        record = self.state.plan_join(
            id_,
            topics,
            subscriptions,
            participants_max=self._limits.transaction_participants,
        )
        deadline_ms = self.state.find(id_).deadline_ms
        by_topic: dict[str, list[str]] = {}
        for topic, subscription in subscriptions:
            by_topic.setdefault(topic, []).append(subscription)
        joining = [self._participants.join(each, id_, deadline_ms, None) for each in topics]
        joining += [
            self._participants.join(topic, id_, deadline_ms, names)
            for topic, names in by_topic.items()
        ]
        if record is not None:
            joining.append(_await(self._write(record)))
        await asyncio.gather(*joining)

    async def end(self, id_: TransactionId, *, is_commit: bool, cause: str = "client") -> None:
        """Returns when readers see the outcome, or at least when nothing can change it any more."""
        self._check_open()
        try:
            decided = self.state.plan_end(
                id_, is_commit=is_commit, now_ms=self._clock.now_ms(), cause=cause
            )
        except InvalidTransactionStatus:
            self._abort_overdue()
            raise
        if decided is not None:
            stored = self._write(decided)
            applied = self._applied[id_.least] = asyncio.get_running_loop().create_future()
            await stored
            transaction = self.state.find(id_)
            duration_ms = decided.at_ms - transaction.started_ms
            self.counters.count_ended(is_commit, duration_ms)
            self._tell(transaction, applied)
        waiting = self._applied.get(id_.least)
        if waiting is None:
            return
        try:
            async with self._clock.timeout(_ANSWER_WITHIN_S):
                await asyncio.shield(waiting)
        except TimeoutError:
            pass  # a participant cannot be reached; it gets the outcome when it can

    def _write(self, *records: CoordinatorRecord) -> asyncio.Future[None]:
        for record in records:
            self.state.apply(record)
        stored = self.journal.append(*records)
        if self.journal.is_snapshot_due:
            self._tasks.start(self.journal.snapshot(self.state.records), name="snapshot")
        return stored

    def _check_open(self) -> None:
        if self.is_closed:
            raise CoordinatorNotFound(
                f"Coordinator {self.state.number} is not served here any more"
            )

    # ------------------------------------------------------------------ outcomes

    def _tell(self, transaction: Transaction, applied: asyncio.Future[None] | None = None) -> None:
        if applied is None:
            applied = asyncio.get_running_loop().create_future()
            self._applied[transaction.id.least] = applied
        if not self._tasks.is_closed:
            self._tasks.start(self._tell_all(transaction, applied), name=f"end {transaction.id}")

    async def _tell_all(self, transaction: Transaction, applied: asyncio.Future[None]) -> None:
        told = [self._tell_one(each, transaction) for each in transaction.participants]
        durable = await asyncio.gather(*told)
        if not applied.done():
            applied.set_result(None)
        again = [
            topic
            for topic, waiting in zip(transaction.participants, durable, strict=True)
            if waiting is not None and not await _succeeds(waiting)
        ]
        for topic in again:  # it was closed before that was durable, and is loaded by the next try
            waiting = await self._tell_one(topic, transaction)
            while waiting is not None and not await _succeeds(waiting):
                waiting = await self._tell_one(topic, transaction)
        self._write(self.state.plan_finish(transaction.id, now_ms=self._clock.now_ms()))
        self._applied.pop(transaction.id.least, None)

    async def _tell_one(self, topic: str, transaction: Transaction) -> Awaitable[None] | None:
        backoff = Backoff(0.05, 5.0, self._clock.chance)
        while True:
            try:
                return await self._participants.end(
                    topic, transaction.id, is_commit=transaction.status.is_commit
                )
            except BrokerError as failure:
                _log.warning(
                    "participant not reached",
                    transaction=str(transaction.id),
                    topic=topic,
                    reason=failure.sentence,
                )
                await self._clock.sleep(backoff.next_s())

    # ------------------------------------------------------------------ deadlines

    def _watch(self, transaction: Transaction) -> None:
        heapq.heappush(self._deadlines, (transaction.deadline_ms, transaction.id.least))
        if self._timer is None or transaction.deadline_ms < self._timer_at_ms:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        transactions = self.state.transactions
        while self._deadlines:
            deadline_ms, least = self._deadlines[0]
            known = transactions.get(least)
            if known is not None and known.status is Status.OPEN:
                wait_s = max(0.0, (deadline_ms - self._clock.now_ms()) / 1000)
                self._timer = self._clock.call_later(wait_s, self._on_timer)
                self._timer_at_ms = deadline_ms
                return
            heapq.heappop(self._deadlines)

    def _on_timer(self) -> None:
        self._timer = None
        if not self.is_closed:
            self._abort_overdue()
            self._set_timer()

    def _abort_overdue(self) -> None:
        for id_ in self.state.overdue(self._clock.now_ms()):
            self._tasks.start(self._abort(id_), name=f"time out {id_}")

    async def _abort(self, id_: TransactionId) -> None:
        try:
            if self.state.find(id_).status is Status.OPEN:
                self.counters.timed_out += 1
                await self.end(id_, is_commit=False, cause="time-out")
        except BrokerError as refusal:  # ended in the last moment, or the next owner aborts it
            _log.info("not timed out", transaction=str(id_), reason=refusal.sentence)

    # ------------------------------------------------------------------ asking

    def stats(self) -> Mapping[str, object]:
        started_ms, ended_ms = self.loaded_ms
        return {
            "state": "Ready",
            "leastSigBits": self.state.next_least - 1,
            "lowWaterMark": max(0, self.state.low_water_mark),
            "ongoingTxnSize": len(self.state.transactions),
            "recoverStartTime": started_ms,
            "recoverEndTime": ended_ms,
        }

    # ------------------------------------------------------------------ the end

    def stop(self) -> None:
        """Serve nothing more: another owner has the journal, or it cannot be written."""
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        self.stop()
        await self._tasks.close()
        for waiting in self._applied.values():
            if not waiting.done():
                waiting.cancel()
        await self.journal.close()


async def _await(stored: asyncio.Future[None]) -> None:
    await stored


async def _succeeds(waiting: Awaitable[None]) -> bool:
    try:
        await waiting
    except BrokerError:
        return False
    return True
