"""A topic's part in transactions: what they write to it, what they acknowledge on its
subscriptions, and a journal from which a load finds both again.

A transaction announces itself before it writes or acknowledges, so that everything else is
refused at once. When it has ended, in-memory state changes first: the coordinator keeps the
outcome until the journal of every participant has it too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from magnetar.broker.consumer import Consumer
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.producer import Producer
from magnetar.broker.subscription import Subscription
from magnetar.broker.transaction.acknowledgement import abort_acks, commit_acks, pend_acks
from magnetar.broker.transaction.adoption import Adopted, is_adopted
from magnetar.broker.transaction.journal import Journal, Journals
from magnetar.broker.transaction.outcome import WRITTEN_PROPERTY, AppliedOutcomes
from magnetar.broker.transaction.recovery import describe, find_lost, recover
from magnetar.errors import (
    BrokerError,
    NotAllowed,
    ProtocolViolation,
    SubscriptionNotFound,
    TopicFenced,
    TransactionEnded,
    TransactionNotFound,
    fault_of,
)
from magnetar.ledger.cursor import Cursor
from magnetar.model.log_path import participant_journal
from magnetar.model.position import Position
from magnetar.model.stored_log import LogInfo
from magnetar.model.transaction import Dropped, Ended, Hidden, Range, Record, TransactionId
from magnetar.rules.foreign import is_foreign
from magnetar.rules.transaction.buffer import CallerBytes
from magnetar.rules.transaction.pending_ack import PendingAcks
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.wire.command import CommandAck, CommandAckResponse, ServerError, make_command
from magnetar.wire.entry import stamp_transaction
from magnetar.wire.run import SendRun

_log = Logger(__name__)

_JOURNAL_PROPERTY: Final = "pulsar.transactions"
"""Of a topic's log: transactions have taken part here, so there is a journal."""
_NEEDED: Final = "1"
_RECORDS_AN_ENTRY: Final = 500
_AT_REST: Final = "0"
"""It leads to nothing: no transaction is open, and nothing that was aborted is left in the log."""
_ADOPTED_ONLY: Final = "2"
"""All that it leads to was aborted by Apache's brokers, which know that themselves."""


def needs_journal(properties: Mapping[str, str]) -> bool:
    """Whether a topic cannot be read rightly without its journal."""
    return properties.get(_JOURNAL_PROPERTY, _AT_REST) != _AT_REST


def is_clear_to_apache(info: LogInfo) -> bool:
    """Whether Apache's brokers, which do not know the journal, read a topic rightly."""
    written = int(info.properties.get(WRITTEN_PROPERTY, -1))
    state = info.properties.get(_JOURNAL_PROPERTY, _AT_REST)
    is_gone = all(part.ledger_id > written for part in info.ledgers)
    return is_gone and state in (_AT_REST, _ADOPTED_ONLY)


class _Tracked:
    """Answers messages of a transaction once the topic knows where they stand."""

    __slots__ = ("_id", "_participant", "_producer")

    def __init__(self, participant: Participant, id_: TransactionId, producer: Producer) -> None:
        self._participant = participant
        self._id = id_
        self._producer = producer

    def on_durable(self, run: SendRun, first: Position) -> None:
        self._participant.on_answered(self._id, first, len(run))
        self._producer.on_durable(run, first)

    def on_refused(self, run: SendRun, error: BrokerError) -> None:
        self._participant.on_answered(self._id, None, len(run))
        self._producer.on_refused(run, error)


class Participant:
    def __init__(
        self, topic: PersistentTopic, journals: Journals, caller_bytes: CallerBytes
    ) -> None:
        self._topic = topic
        self._journals = journals
        self._buffer = topic.buffer
        self._caller_bytes = caller_bytes
        self.journal: Journal | None = None
        self._opening: asyncio.Task[Journal] | None = None
        self._joining: dict[TransactionId, asyncio.Future[None]] = {}
        """May not write yet: their records are not durable."""
        self._ending: dict[TransactionId, asyncio.Future[None]] = {}
        """Take nothing more; done when what is on its way is stored."""
        self._outcomes = AppliedOutcomes(topic)
        self.loaded_ms: tuple[int, int] = (0, 0)
        """When the journal began to be read, and when it was."""

    @classmethod
    async def open(
        cls, topic: PersistentTopic, journals: Journals, caller_bytes: CallerBytes
    ) -> Participant:
        participant = cls(topic, journals, caller_bytes)
        if needs_journal(topic.log.record.properties):
            await participant._read_journal()
        return participant

    # ------------------------------------------------------------------ the journal

    async def _need_journal(self) -> Journal:
        """Made with the first transaction."""
        if self.journal is not None:
            return self.journal
        if self._opening is None or self._opening.done():  # done without a journal: it failed
            self._opening = self._topic.host.tasks.start(
                self._read_journal(), name="transaction journal"
            )
        return await asyncio.shield(self._opening)

    async def _read_journal(self) -> Journal:
        topic, clock = self._topic, self._topic.host.clock
        started_ms = clock.now_ms()
        name = participant_journal(topic.name)
        journal, records = await self._journals.open(name, topic.log.term)
        if topic.log.record.properties.get(_JOURNAL_PROPERTY) != _NEEDED:
            await self._note(_NEEDED)
        dropped = await recover(topic, records)
        if dropped:  # a crash came before that was written
            await journal.append(*dropped)
        self._caller_bytes.count_found(self._buffer.open.values())
        for subscription in topic.subscriptions.values():
            self.skip_aborted(subscription.cursor)
            if subscription.dispatcher is not None:
                subscription.dispatcher.refresh_source()
        # Memory may know more than is stored: the topic is loaded again.
        journal.failed.append(topic.log.record.fence)
        kept = topic.log.sequence
        kept.removed.append(lambda: self._buffer.forget(kept.by_id))
        self.journal = journal
        self.loaded_ms = (started_ms, clock.now_ms())
        return journal

    async def _note(self, state: str) -> None:
        record = self._topic.log.record
        await record.change_properties(lambda own: {**own, _JOURNAL_PROPERTY: state})

    async def adopt(self, found: Adopted) -> None:
        """Hide what Apache's brokers have aborted, from now on by the journal alone."""
        if found.hidden:
            journal = await self._need_journal()
            for record in found.hidden:
                self._buffer.hide(record)
            for start in range(0, len(found.hidden), _RECORDS_AN_ENTRY):
                await journal.append(*found.hidden[start : start + _RECORDS_AN_ENTRY])
            for subscription in self._topic.subscriptions.values():
                self.skip_aborted(subscription.cursor)
        await self._topic.log.record.change_properties(found.note)

    def _records(self) -> Iterator[Record]:
        """Records that lead to the present state."""
        yield from describe(self._topic)
        yield from self._outcomes.records()

    def _snapshot_if_due(self, journal: Journal) -> None:
        if journal.is_snapshot_due and not self._topic.closed:
            self._topic.host.tasks.start(journal.snapshot(self._records), name="snapshot")

    # ------------------------------------------------------------------ joining

    async def join_writes(self, id_: TransactionId, deadline_ms: int, owner: str) -> None:
        """A transaction is about to write here; it may once this returns."""
        journal = await self._need_journal()
        self._check_not_ended(id_)
        after = self._topic.log.sequence.last_position
        record = self._buffer.join(id_, after, deadline_ms, owner)
        if record is not None:
            self._joining[id_] = journal.append(record)
        if id_ in self._joining:  # nothing may be stored before it is known where it belongs
            await asyncio.shield(self._joining[id_])
            self._joining.pop(id_, None)

    async def join_acks(self, id_: TransactionId, name: str, deadline_ms: int) -> None:
        journal = await self._need_journal()
        self._check_not_ended(id_)
        subscription = self._topic.subscriptions.get(name)
        if subscription is None or subscription.closed:  # closed: it is being deleted
            raise SubscriptionNotFound(
                f"Subscription {name} not found for topic {self._topic.name}"
            )
        record = self._buffer.pending_on(name).join(id_, name, deadline_ms)
        if record is not None:
            await journal.append(record)

    def _check_not_ended(self, id_: TransactionId) -> None:
        if self._topic.closed:
            raise TopicFenced(f"Topic {self._topic.name} is closing")
        if id_ in self._buffer.ended or id_ in self._ending:
            raise TransactionEnded(f"Transaction {id_} has ended on {self._topic.name}")

    # ------------------------------------------------------------------ writing

    def prepare(self, run: SendRun) -> BrokerError | None:
        id_ = run.transaction
        assert id_ is not None, "it is asked of no other"
        if id_ in self._buffer.ended or id_ in self._ending:
            return TransactionEnded(f"Transaction {id_} has ended on {self._topic.name}")
        if id_ not in self._buffer.open or id_ in self._joining:
            return TransactionNotFound(
                f"Transaction {id_} is unknown, or did not announce {self._topic.name}"
            )
        try:
            run.entries = stamp_transaction(run.entries, id_)
        except ProtocolViolation as problem:
            return NotAllowed(f"A message of a transaction has {problem.sentence}")
        writes, limits = self._buffer.open[id_], self._topic.host.limits
        size = sum(map(len, run.entries))
        if writes.size + size > limits.transaction_bytes:
            return NotAllowed(
                f"Transaction {id_} would have {writes.size + size} bytes on {self._topic.name};"
                f" at most {limits.transaction_bytes} are allowed (maxTransactionBytesPerTopic)"
            )
        total = self._caller_bytes.of(writes.owner) + size
        if total > limits.transaction_bytes_per_caller:
            whose = f"of {writes.owner!r}" if writes.owner else "of callers without a role"
            return NotAllowed(
                f"Open transactions {whose} would have {total} bytes on this broker; at most"
                f" {limits.transaction_bytes_per_caller} are allowed (maxTransactionBytesPerCaller)"
            )
        return None

    def append(self, producer: Producer, run: SendRun) -> None:
        id_ = run.transaction
        assert id_ is not None, "no other is handed over"
        writes = self._buffer.open[id_]
        writes.in_flight += 1
        self._caller_bytes.count_in(writes, run.size)
        producer.append(run, self._topic.log)
        run.reply_to = _Tracked(self, id_, producer)

    def on_answered(self, id_: TransactionId, first: Position | None, count: int) -> None:
        """Entries are in the log, or, without a position, were refused."""
        writes = self._buffer.open[id_]
        if first is not None:
            self._buffer.on_stored(id_, first, count)
        else:
            self._buffer.on_refused(id_)
        writes.in_flight -= 1
        if not writes.in_flight and id_ in self._ending and not self._ending[id_].done():
            self._ending[id_].set_result(None)

    # ------------------------------------------------------------------ acknowledging

    def acknowledge(self, subscription: str, consumer: Consumer, ack: CommandAck) -> None:
        found = self._topic.subscriptions.get(subscription)
        stored: asyncio.Future[None] | None = None
        refusal: BrokerError | None = None
        try:
            if found is not None:
                stored = self._pend(found, consumer, ack)
        except BrokerError as conflict:
            refusal = conflict
        if not ack.HasField("request_id"):
            return
        response = CommandAckResponse(consumer_id=consumer.id, request_id=ack.request_id)
        if stored is None:
            _answer(consumer, response, refusal)
        else:
            stored.add_done_callback(lambda done: _answer(consumer, response, _failure_of(done)))

    def _pend(
        self, subscription: Subscription, consumer: Consumer, ack: CommandAck
    ) -> asyncio.Future[None] | None:
        id_ = TransactionId(ack.txnid_most_bits, ack.txnid_least_bits)
        if id_ in self._ending or self.journal is None:
            raise TransactionNotFound(f"Transaction {id_} has ended, or did not announce itself")
        record = pend_acks(self._topic, subscription, consumer, ack)
        if record is None:
            return None
        stored = self.journal.append(record)
        self._snapshot_if_due(self.journal)
        return stored

    # ------------------------------------------------------------------ ending

    @property
    def open_ids(self) -> dict[TransactionId, int]:
        """Transactions that have not ended here, with their deadlines."""
        found = {id_: writes.deadline_ms for id_, writes in self._buffer.open.items()}
        for pending in self._buffer.pending.values():
            for id_, held in pending.joined.items():
                found.setdefault(id_, held.deadline_ms)
        return found

    def is_quiet(self, id_: TransactionId) -> bool:
        """Whether a transaction can be ended without waiting."""
        is_kept = self.journal is not None and self.journal.failure is None
        return is_kept and self._buffer.is_quiet(id_)

    async def end(self, id_: TransactionId, *, is_commit: bool) -> Awaitable[None] | None:
        """As `end_quiet`; take nothing more, and wait first for what is on its way to the log."""
        await self._need_journal()
        if self._buffer.is_open(id_) and not self._buffer.is_quiet(id_):
            if id_ in self._ending:  # the coordinator asks again: the first one will deliver it
                raise TopicFenced(f"Transaction {id_} is being ended on {self._topic.name}")
            self._ending[id_] = asyncio.get_running_loop().create_future()
            try:
                writes = self._buffer.open[id_]
                if writes.in_flight:
                    await self._ending[id_]
                if writes.is_uncertain:
                    await find_lost(self._topic.log, self._buffer, id_)
            finally:
                del self._ending[id_]
        return self.end_quiet(id_, is_commit=is_commit)

    def end_quiet(self, id_: TransactionId, *, is_commit: bool) -> Awaitable[None] | None:
        """Apply the outcome; readers see it when this returns. What is returned is done when that
        is durable; None: it is. Raise TopicFenced where memory may know more than is stored.

        That a transaction is not open here is written down as well. A former owner of the topic
        does not know what has announced itself since, and cannot write; and what announces itself
        later is refused.
        """
        if self.journal is None or self.journal.failure is not None:
            raise TopicFenced(f"Topic {self._topic.name} is loaded again")
        if not self._buffer.is_open(id_):
            if id_ in self._outcomes or id_ in self._buffer.ended:
                return self._outcomes.find(id_)
            self._buffer.end(id_, is_commit=is_commit)
            return self._outcomes.add(id_, self.journal.append(Ended(id_, is_commit)))
        if id_ in self._buffer.open:
            self._caller_bytes.count_out((self._buffer.open[id_],))
        ranges = self._buffer.end(id_, is_commit=is_commit)
        self._topic.host.activity.of(self._topic.name.namespace).count += 1
        committed = self._buffer.pending_of(id_) if is_commit else ()
        moved = self._end_acks(id_, is_commit=is_commit)
        if ranges and not is_commit:
            for subscription in self._topic.subscriptions.values():
                _skip(subscription.cursor, ranges)
        for subscription in self._topic.subscriptions.values():
            if subscription.dispatcher is not None:
                subscription.dispatcher.wake()
            subscription.on_end_reached()
        records: list[Record] = [Ended(id_, is_commit)]
        if ranges and not is_commit:  # first: without it, readers would see what has ended
            records.insert(0, Hidden(id_, ranges))
        stored: asyncio.Future[None]
        seen = ranges if is_adopted(self._topic.log.record.properties) else ()
        if is_commit and (moved or seen):
            storing = self._outcomes.store_commit(self.journal, id_, moved, records, seen)
            stored = self._topic.host.tasks.start(storing, name="store commit")
        else:
            stored = self.journal.append(*records)
        self._snapshot_if_due(self.journal)
        if committed:
            clock = self._topic.host.clock
            stored.add_done_callback(partial(_count_durable, committed, clock, clock.monotonic()))
        return self._outcomes.add(id_, stored)

    def _end_acks(self, id_: TransactionId, *, is_commit: bool) -> list[Cursor]:
        """Return the cursors that have moved."""
        moved: list[Cursor] = []
        for name, pending in self._buffer.pending.items():
            if id_ not in pending.joined:
                continue
            records = tuple(pending.records_of(id_, name))
            held = pending.end(id_)
            pending.counts.add(is_commit)
            subscription = self._topic.subscriptions.get(name)
            if held is None or subscription is None:
                continue
            if is_commit:
                self._outcomes.add_acks(id_, records)
                commit_acks(self._topic, subscription, held)
                moved.append(subscription.cursor)
            else:
                abort_acks(self._topic, subscription, held)
        return moved

    async def drop_subscription(self, name: str) -> None:
        pending = self._buffer.pending.pop(name, None)
        if pending is not None and pending.joined:
            assert self.journal is not None, "they have joined"
            await self.journal.append(Dropped(name))

    def skip_aborted(self, cursor: Cursor) -> None:
        for ranges in self._buffer.aborted.values():
            _skip(cursor, ranges)

    # ------------------------------------------------------------------ the end

    async def close(self) -> None:
        self._caller_bytes.count_out(self._buffer.open.values())
        if self.journal is None:
            return
        state = _state_of_rest(list(self._records()))
        if self.journal.failure is None and self._outcomes.is_empty and state is not None:
            try:  # by the record's version: a broker that has lost the topic changes nothing
                await self._note(state)
            except BrokerError as failure:  # the next load reads the journal, that is all
                _log.info("journal not at rest", topic=self._topic.name.full, reason=failure)
        await self.journal.close()

    async def delete(self) -> None:
        if self.journal is None and _JOURNAL_PROPERTY in self._topic.log.record.properties:
            await self._read_journal()
        self._caller_bytes.count_out(self._buffer.open.values())
        if self.journal is not None:
            await self.journal.delete()


def _state_of_rest(left: Sequence[Record]) -> str | None:
    """What a topic's log is to say of a journal that leads to this; None: that it is needed."""
    if not all(isinstance(each, Hidden) and is_foreign(each.id) for each in left):
        return None
    return _ADOPTED_ONLY if left else _AT_REST


def _skip(cursor: Cursor, ranges: Sequence[Range]) -> None:
    for each in ranges:
        cursor.acknowledge_entries(each.ledger_id, list(range(each.first, each.last + 1)))


def _count_durable(
    committed: Sequence[PendingAcks], clock: Clock, started_s: float, stored: asyncio.Future[None]
) -> None:
    if _failure_of(stored) is None:
        for each in committed:
            each.counts.add_durable(clock.monotonic() - started_s)


def _failure_of(stored: asyncio.Future[None]) -> BrokerError | None:
    if stored.cancelled():
        return TopicFenced("the topic was closed")
    failure = stored.exception()
    assert failure is None or isinstance(failure, BrokerError), "a journal refuses by name"
    return failure


def _answer(consumer: Consumer, response: CommandAckResponse, refusal: BrokerError | None) -> None:
    if refusal is not None:
        response.error = ServerError.Name(fault_of(refusal).code)  # type: ignore[assignment]
        response.message = refusal.sentence
    consumer.connection.send_command(make_command(response))
