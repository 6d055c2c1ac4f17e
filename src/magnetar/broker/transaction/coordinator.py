"""A coordinator at work: its state, its journal, its deadlines, and the outcomes on their way.

A decision is durable before any participant gets it, and is kept until all of them have made it
durable; a crash in between is resumed by the next owner of the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from magnetar.broker.transaction.deadline import DeadlineTimer
from magnetar.broker.transaction.journal import Journal
from magnetar.errors import (
    BrokerError,
    CoordinatorNotFound,
    InvalidTransactionStatus,
    TransactionEnded,
    fault_of,
)
from magnetar.model.answer.transaction import CoordinatorStats
from magnetar.model.limit import Limits
from magnetar.model.name import parse_stored_topic
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
from magnetar.rules.transaction.coordinator import CLIENT, LATENCIES_MS, CoordinatorState
from magnetar.runtime.backoff import Backoff
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

T = TypeVar("T")

_log = Logger(__name__)

_ANSWER_WITHIN_S: Final = 10.0
"""How long a client waits for participants; the outcome is decided by then."""
_LATER_S: Final = 0.1
"""How long a record that need not be durable waits for one that has to be."""
_JOIN_WITHIN_S: Final = 20.0
"""How long a topic may be without an owner until a transaction cannot join it; clients give up
later."""


class QuietParticipant(Protocol):
    """A topic that has nothing of a transaction on its way."""

    def end_quiet(self, id_: TransactionId, *, is_commit: bool) -> Awaitable[None] | None:
        """Readers see the outcome when this returns; what is returned is done when it is durable
        there.
        """


class Participants(Protocol):
    """The topics that take part in transactions, wherever they are served."""

    async def join(
        self,
        topic: str,
        id_: TransactionId,
        deadline_ms: int,
        subscriptions: Sequence[str] | None,
        owner: str,
    ) -> None:
        """A transaction is about to write to a topic, or to acknowledge on its subscriptions."""

    def find_quiet(self, topic: str, id_: TransactionId) -> QuietParticipant | None:
        """A topic that is served here and can be given the outcome without waiting."""

    async def end(
        self, topic: str, id_: TransactionId, *, is_commit: bool
    ) -> Awaitable[None] | None:
        """As `end_quiet`, wherever the topic is served."""


@dataclass(slots=True)
class Applied:
    """Outcomes of one kind that participants were given."""

    count: int = 0
    total_ns: int = 0
    """How long they took until their readers saw it."""
    failed: int = 0
    """Times that one could not be given it; it is tried again."""

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total_ns += round(seconds * 1e9)


class Counters:
    """What happened since the coordinator was loaded."""

    def __init__(self) -> None:
        self.created = 0
        self.committed = 0
        self.aborted = 0
        self.timed_out = 0
        self.commits: Final = Applied()
        self.aborts: Final = Applied()
        self.latencies: Final = [0] * (len(LATENCIES_MS) + 1)

    def applied(self, *, is_commit: bool) -> Applied:
        return self.commits if is_commit else self.aborts

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
        self._deadlines = DeadlineTimer(state, clock, self._abort_overdue)
        self._reserving: asyncio.Future[None] | None = None
        """Numbers that are reserved, and not durably yet."""
        self.endings: Final[dict[int, asyncio.Future[None]]] = {}
        """Outcomes that some participant does not have yet; done when clients can be answered:
        readers see it everywhere, or it takes long and nothing can change it any more.
        """
        self._later: list[CoordinatorRecord] = []
        """Applied, and not written yet."""
        self._is_later_due = False
        """Whether a timer is set to write those."""
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
                coordinator._deadlines.add(each)
            else:
                stored = asyncio.get_running_loop().create_future()
                stored.set_result(None)
                coordinator._deliver(each.id, stored)
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
        if len(records) > 1:
            self._reserving = self._write(*records)
        else:
            self._write_later(*records)
        self.counters.created += 1
        self._deadlines.add(self.state.find(id_))
        reserving = self._reserving
        if reserving is not None:
            await self._until_stored(asyncio.shield(reserving))
            if self._reserving is reserving:  # else more were reserved, and are not durable yet
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
        known = self.state.find(id_)
        by_topic: dict[str, list[str]] = {}
        for topic, subscription in subscriptions:
            by_topic.setdefault(topic, []).append(subscription)
        stored = None if record is None else self._write(record)
        joining = [self._join_one(each, known, None) for each in topics]
        joining += [self._join_one(topic, known, names) for topic, names in by_topic.items()]
        await _all(joining)
        if stored is not None:
            await self._until_stored(stored)

    async def _join_one(
        self, topic: str, transaction: Transaction, subscriptions: Sequence[str] | None
    ) -> None:
        """A topic may have no owner for a while; not every client would try again. The transaction
        may end meanwhile, and what joined after its outcome was there waits for another one.
        """
        id_ = transaction.id
        backoff = Backoff(0.05, 2.0, self._clock.chance)
        until = self._clock.monotonic() + _JOIN_WITHIN_S
        while True:
            try:
                await self._participants.join(
                    topic, id_, transaction.deadline_ms, subscriptions, transaction.owner
                )
                outcome = self.state.find_outcome(id_)
                if outcome is not None and not self.is_closed:
                    ending = self._end_surely(topic, id_, is_commit=outcome)
                    self._tasks.start(ending, name=f"end {id_}")
                return self.state.check_open(id_)
            except TransactionEnded:
                self.state.check_open(id_)
                raise
            except BrokerError as refusal:
                is_late = self._clock.monotonic() > until
                if is_late or self.is_closed or not fault_of(refusal).retry:
                    raise
                await self._clock.sleep(backoff.next_s())
                self.state.check_open(id_)

    async def end(self, id_: TransactionId, *, is_commit: bool, cause: str = CLIENT) -> None:
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
            duration_ms = decided.at_ms - self.state.find(id_).started_ms
            self.counters.count_ended(is_commit, duration_ms)
            self._deliver(id_, stored)
        answered = self.endings.get(id_.least)
        if answered is not None:
            await asyncio.shield(answered)

    async def find_outcome(self, id_: TransactionId, topic: str) -> bool | None:
        """What has become of a transaction that a topic has open; None: the topic gets its outcome
        from here.
        """
        self._check_open()
        # A former owner of the journal knows nothing of what came later, and cannot write.
        await self._until_stored(self._write(Reserved(self.state.reserved)))
        known = self.state.transactions.get(id_.least)
        spanned = () if known is None else map(parse_stored_topic, known.participants)
        if topic in (each.full for each in spanned):
            return None
        return bool(self.state.find_outcome(id_))

    def _write(self, *records: CoordinatorRecord) -> asyncio.Future[None]:
        """With what was left for later, in order."""
        for record in records:
            self.state.apply(record)
        later, self._later = self._later, []
        stored = self.journal.append(*later, *records)
        if self.journal.is_snapshot_due:
            self._tasks.start(self.journal.snapshot(self._describe), name="snapshot")
        return stored

    def _write_later(self, *records: CoordinatorRecord) -> None:
        """With the next one that has to be durable, or soon: a write of its own costs more than the
        record is worth.
        """
        for record in records:
            self.state.apply(record)
        self._later += records
        if not self._is_later_due:
            self._is_later_due = True
            self._clock.call_later(_LATER_S, self._write_left)

    def _write_left(self) -> None:
        self._is_later_due = False
        if self._later and self.journal.failure is None:
            self._write()

    def _describe(self) -> Iterator[CoordinatorRecord]:
        """Records that lead to the present state, those that were left for later included."""
        self._later = []
        return self.state.records()

    async def _until_stored(self, stored: Awaitable[None]) -> None:
        """Raise CoordinatorNotFound when the journal cannot be written: its next owner goes on."""
        try:
            await stored
        except BrokerError as failure:
            raise self._closed() from failure

    def _check_open(self) -> None:
        if self.is_closed:
            raise self._closed()

    def _closed(self) -> CoordinatorNotFound:
        return CoordinatorNotFound(f"Coordinator {self.state.number} is not served here any more")

    # ------------------------------------------------------------------ outcomes

    def _deliver(self, id_: TransactionId, stored: asyncio.Future[None]) -> None:
        answered = self.endings[id_.least] = asyncio.get_running_loop().create_future()
        self._tasks.start(self._deliver_outcome(id_, stored, answered), name=f"end {id_}")

    async def _deliver_outcome(
        self, id_: TransactionId, stored: asyncio.Future[None], answered: asyncio.Future[None]
    ) -> None:
        try:
            await self._until_stored(stored)
        except CoordinatorNotFound:
            return  # the next owner of the journal knows whether it was decided
        transaction = self.state.find(id_)
        is_commit, started_s = transaction.status.is_commit, self._clock.monotonic()
        applied = self.counters.applied(is_commit=is_commit)
        durable: dict[str, Awaitable[None] | None] = {}
        late: list[str] = []
        for topic in transaction.participants:
            quiet = self._participants.find_quiet(topic, id_)
            if quiet is None:
                late.append(topic)
            else:
                durable[topic] = quiet.end_quiet(id_, is_commit=is_commit)
                applied.add(self._clock.monotonic() - started_s)
        if late:
            timer = self._clock.call_later(_ANSWER_WITHIN_S, _resolve, answered)
            delivering = [self._deliver_to(each, id_, is_commit=is_commit) for each in late]
            ended = await _all(delivering)
            timer.cancel()
            durable.update(zip(late, ended, strict=True))
        _resolve(answered)
        for topic, waiting in durable.items():
            if waiting is not None and not await _succeeds(waiting):
                # It was closed before that was durable, and is loaded by the next try.
                await self._end_surely(topic, id_, is_commit=is_commit)
        # A crash that takes this lets the next owner deliver it again, which changes nothing.
        self._write_later(self.state.plan_finish(id_, now_ms=self._clock.now_ms()))
        self.endings.pop(id_.least, None)

    async def _end_surely(self, topic: str, id_: TransactionId, *, is_commit: bool) -> None:
        """Returns when the outcome is durable at a topic, however often that fails."""
        backoff = self._backoff()
        while True:  # what failed without a wait would fail for ever
            await self._clock.sleep(backoff.next_s())
            waiting = await self._deliver_to(topic, id_, is_commit=is_commit)
            if waiting is None or await _succeeds(waiting):
                return

    async def _deliver_to(
        self, topic: str, id_: TransactionId, *, is_commit: bool
    ) -> Awaitable[None] | None:
        backoff = self._backoff()
        applied = self.counters.applied(is_commit=is_commit)
        started_s = self._clock.monotonic()
        while True:
            try:
                durable = await self._participants.end(topic, id_, is_commit=is_commit)
                applied.add(self._clock.monotonic() - started_s)
                return durable
            except BrokerError as failure:
                applied.failed += 1
                _log.warning(
                    "participant not reached",
                    transaction=str(id_),
                    topic=topic,
                    reason=failure.sentence,
                )
                await self._clock.sleep(backoff.next_s())

    def _backoff(self) -> Backoff:
        return Backoff(0.05, 5.0, self._clock.chance)

    # ------------------------------------------------------------------ deadlines

    def _abort_overdue(self) -> None:
        if self.is_closed:
            return
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

    def stats(self) -> CoordinatorStats:
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
        for answered in self.endings.values():
            if not answered.done():
                answered.set_exception(self._closed())
                answered.exception()  # retrieved, though no caller may wait
        self._deadlines.stop()

    async def close(self) -> None:
        self.stop()
        await self._tasks.close()
        self._write_left()
        await self.journal.close()


async def _all(waiting: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """As `gather`; one alone needs no task of its own."""
    return [await waiting[0]] if len(waiting) == 1 else await asyncio.gather(*waiting)


def _resolve(answered: asyncio.Future[None]) -> None:
    if not answered.done():
        answered.set_result(None)


async def _succeeds(waiting: Awaitable[None]) -> bool:
    try:
        await waiting
    except BrokerError:
        return False
    return True
