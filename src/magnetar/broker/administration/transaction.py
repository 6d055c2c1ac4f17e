"""Transactions as operators see them: coordinators, what they left on topics, their end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, NewType, TypeVar

from msgspec import Struct

from magnetar.broker.administration.port import CoordinatorOwners
from magnetar.broker.administration.registry import Document, carries_out, finds
from magnetar.broker.authorization import Authorization
from magnetar.broker.broker_call import OwnerPort
from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.resource import Resources
from magnetar.broker.scalable.segment import together
from magnetar.broker.subscription import Subscription
from magnetar.broker.subscription_stats import format_instant
from magnetar.broker.transaction.journal import Journal
from magnetar.broker.transaction.participant import Participant
from magnetar.broker.transaction.service import TransactionService
from magnetar.errors import (
    BrokerError,
    NotAcceptable,
    ServiceNotReady,
    SubscriptionNotFound,
    TopicNotFound,
    TransactionNotFound,
)
from magnetar.model.answer.transaction import (
    BufferLog,
    BufferStats,
    CoordinatorLog,
    CoordinatorOwner,
    CoordinatorStats,
    JournalLog,
    JournalStats,
    PendingAckLog,
    PendingAckStats,
    PendingAckSums,
    PositionState,
    TransactionAnswer,
    WrittenStats,
)
from magnetar.model.caller import Caller
from magnetar.model.log_path import coordinator_journal, participant_journal
from magnetar.model.name import TopicName, parse_stored_topic
from magnetar.model.permission import TENANT_ADMIN, Target
from magnetar.model.position import Position
from magnetar.model.transaction import ASSIGN_TOPIC, Status, Transaction, TransactionId
from magnetar.rules.system import SYSTEM_TENANT
from magnetar.rules.transaction.pending_ack import Held
from magnetar.runtime.log import Logger

_log = Logger(__name__)
_COORDINATORS_MAX: Final = 1024
"""A client connects to all of them, and each has a journal; the number never falls."""
_NO_MARKS: Final[dict[str, int]] = {}
"""No low-water mark reaches a topic here: it learns the outcome of each transaction."""

_SYSTEM: Final = Target(tenant=SYSTEM_TENANT)
"""Its administrators see the transactions of every role; so do super-users."""

R = TypeVar("R")

Spanned = NewType("Spanned", PersistentTopic)
"""A loaded topic that transactions may span."""


@finds(Spanned)
async def find_spanned(
    catalog: TopicCatalog, transactions: TransactionService, topic: TopicName
) -> Spanned:
    transactions.check_enabled()
    live = catalog.find(topic) or await catalog.load_topic(topic)
    if not isinstance(live, PersistentTopic) or not isinstance(live.transactions, Participant):
        raise TopicNotFound(f"No transaction can span {topic}")
    return Spanned(live)


def _participant_of(live: Spanned) -> Participant:
    assert isinstance(live.transactions, Participant), "it was found as such"
    return live.transactions


def _subscription_of(live: Spanned, name: str) -> Subscription:
    found = live.subscriptions.get(name)
    if found is None:
        raise SubscriptionNotFound(f"Subscription {name} not found for topic {live.name}")
    return found


class TopicAnswer(Struct, frozen=True):
    """What a transaction has left on a topic; nothing where that is not loaded."""

    written: WrittenStats = {}
    held: PendingAckStats = {}


class SpannedView:
    """A topic that transactions span, at its owner."""

    def __init__(self, catalog: TopicCatalog, topic: TopicName) -> None:
        self._catalog = catalog
        self._topic = topic

    async def left(self, id_: TransactionId, subscription: str | None = None) -> TopicAnswer:
        """On the topic itself, or on one of its subscriptions."""
        live = self._catalog.find(self._topic)
        if not isinstance(live, PersistentTopic):
            return TopicAnswer()
        if subscription is None:
            return TopicAnswer(written=_written(live, id_))
        pending = live.buffer.pending.get(subscription)
        held = None if pending is None else pending.joined.get(id_)
        return TopicAnswer() if held is None else TopicAnswer(held=_held(held))


def find_views(owners: CoordinatorOwners) -> OwnerPort[SpannedView]:
    return OwnerPort(owners.calls, SpannedView, partial(SpannedView, owners.catalog))


class CoordinatorView:
    """One coordinator as operators see it, at its owner."""

    def __init__(self, owners: CoordinatorOwners) -> None:
        self._owners = owners
        self._find = owners.transactions.coordinator

    async def stats(self, number: int) -> CoordinatorStats:
        return (await self._find(number)).stats()

    async def internal_stats(self, number: int, metadata: bool) -> CoordinatorLog:
        live = await self._find(number)
        name = coordinator_journal(number)
        return {"transactionLogStats": _journal_stats(name, live.journal, with_ledgers=metadata)}

    async def metadata(self, id_: TransactionId) -> TransactionAnswer:
        live = await self._find(id_.most)
        ended = live.state.ended.get(id_.least)
        if ended is None:
            return await _describe(live.state.find(id_), find_views(self._owners).at)
        status = Status.COMMITTED if ended.is_commit else Status.ABORTED
        found: TransactionAnswer = {
            "txnId": str(id_),
            "status": status.value,
            "endedAt": ended.at_ms,
        }
        if ended.cause:
            found["cause"] = ended.cause
        return found

    async def slow(self, number: int, timeout_ms: int) -> dict[str, TransactionAnswer]:
        """Transactions that began so long ago and have not ended everywhere, by their ids."""
        limit_ms = self._owners.clock.now_ms() - timeout_ms
        live = await self._find(number)
        slow = [each for each in live.state.transactions.values() if each.started_ms <= limit_ms]
        # There may be thousands, each on thousands of topics: other brokers are not asked.
        local = partial(SpannedView, self._owners.catalog)
        return {str(each.id): await _describe(each, local) for each in slow}

    async def abort(self, id_: TransactionId, role: str) -> None:
        live = await self._find(id_.most)
        await live.end(id_, is_commit=False, cause=f"aborted by {role}")
        _log.warning("transaction aborted by force", transaction=str(id_), role=role)


class CoordinatorViews:
    """Those of the cluster, each where it runs."""

    def __init__(self, owners: CoordinatorOwners) -> None:
        self._transactions = owners.transactions
        self._views: OwnerPort[CoordinatorView] = OwnerPort(
            owners.calls, CoordinatorView, lambda _: CoordinatorView(owners)
        )

    async def at(self, number: int) -> CoordinatorView:
        await self._transactions.check_exists(number)
        return self._views.at(ASSIGN_TOPIC.partition(number))

    async def ask(
        self, method: Callable[[CoordinatorView, int], Awaitable[R]], only: int | None
    ) -> dict[int, R]:
        """By number: of one coordinator, or of all."""
        self._transactions.check_enabled()
        numbers = range(await self._transactions.count()) if only is None else (only,)

        async def ask(number: int) -> R:
            return await method(await self.at(number), number)

        return dict(zip(numbers, await together(map(ask, numbers)), strict=True))


@finds(CoordinatorViews)
def find_coordinators(owners: CoordinatorOwners) -> CoordinatorViews:
    return CoordinatorViews(owners)


# CoordinatorViews
@carries_out("transactions.coordinators")
async def list_coordinators(transactions: TransactionService) -> Sequence[CoordinatorOwner]:
    transactions.check_enabled()
    found = await transactions.assignments()
    return [
        {"id": number, "brokerServiceUrl": owner.service_url}
        for number, owner in sorted(found.items())
    ]


@carries_out("transactions.coordinator_stats")
async def get_coordinator_stats(
    coordinators: CoordinatorViews,
    authorization: Authorization,
    coordinator_id: int | None,
    caller: Caller,
) -> Document:
    if coordinator_id is None:
        await authorization.check(caller, TENANT_ADMIN, _SYSTEM)
    found = await coordinators.ask(lambda each, number: each.stats(number), coordinator_id)
    if coordinator_id is not None:
        return found[coordinator_id]
    return {str(number): stats for number, stats in found.items()}


@carries_out("transactions.coordinator_internal_stats")
async def get_coordinator_internal_stats(
    coordinators: CoordinatorViews, coordinator: int, metadata: bool
) -> CoordinatorLog:
    return await (await coordinators.at(coordinator)).internal_stats(coordinator, metadata)


@carries_out("transactions.scale_coordinators")
async def scale_coordinators(
    resources: Resources, transactions: TransactionService, replicas: int
) -> None:
    transactions.check_enabled()
    count = await transactions.count()
    if replicas <= count:
        raise NotAcceptable(f"There are {count} coordinators, and their number can only grow")
    if replicas > _COORDINATORS_MAX:
        raise NotAcceptable(f"A cluster has at most {_COORDINATORS_MAX} coordinators")
    await resources.partitioned.update(
        ASSIGN_TOPIC, lambda known: type(known)(partitions=max(replicas, known.partitions))
    )


# Single transactions
@carries_out("transactions.metadata")
async def get_metadata(coordinators: CoordinatorViews, most: int, least: int) -> TransactionAnswer:
    return await (await coordinators.at(most)).metadata(TransactionId(most, least))


@carries_out("transactions.slow")
async def list_slow(
    coordinators: CoordinatorViews,
    authorization: Authorization,
    timeout_ms: int,
    coordinator_id: int | None,
    caller: Caller,
) -> Mapping[str, TransactionAnswer]:
    """Of one coordinator every caller sees its own ones, and those without an owner."""
    if coordinator_id is None:
        await authorization.check(caller, TENANT_ADMIN, _SYSTEM)
    sees_all = await authorization.may(caller, TENANT_ADMIN, _SYSTEM)
    found = await coordinators.ask(
        lambda each, number: each.slow(number, timeout_ms), coordinator_id
    )
    role = caller.original_role or caller.role
    return {
        id_: each
        for slow in found.values()
        for id_, each in slow.items()
        if sees_all or each["owner"] in (None, role)
    }


@carries_out("transactions.abort")
async def abort_transaction(
    coordinators: CoordinatorViews, most: int, least: int, caller: Caller
) -> None:
    role = caller.original_role or caller.role or "an operator"
    await (await coordinators.at(most)).abort(TransactionId(most, least), role)


async def _describe(
    transaction: Transaction, view_of: Callable[[TopicName], SpannedView]
) -> TransactionAnswer:
    async def ask(topic: str, subscription: str | None) -> TopicAnswer:
        try:
            return await view_of(parse_stored_topic(topic)).left(transaction.id, subscription)
        except BrokerError as failure:  # the rest is worth to be seen
            _log.info("topic not asked", topic=topic, reason=failure.sentence)
            return TopicAnswer()

    written = await together(ask(topic, None) for topic in transaction.topics)
    held = await together(ask(topic, name) for topic, name in transaction.subscriptions)
    produced = {
        topic: each.written for topic, each in zip(transaction.topics, written, strict=True)
    }
    acked: dict[str, dict[str, PendingAckStats]] = {}
    for (topic, name), each in zip(transaction.subscriptions, held, strict=True):
        acked.setdefault(topic, {})[name] = each.held
    found: TransactionAnswer = {
        "txnId": str(transaction.id),
        "status": transaction.status.value,
        "openTimestamp": transaction.started_ms,
        "timeoutAt": transaction.timeout_ms,
        "owner": transaction.owner or None,
        "producedPartitions": produced,
        "ackedPartitions": acked,
    }
    if transaction.cause:
        found |= {"cause": transaction.cause, "decidedAt": transaction.decided_ms}
    return found


def _written(live: PersistentTopic, id_: TransactionId) -> WrittenStats:
    writes = live.buffer.open.get(id_)
    if writes is not None and writes.ranges:
        first = writes.ranges[0]
        return {"startPosition": f"{first.ledger_id}:{first.first}", "aborted": False}
    return {"aborted": id_ in live.buffer.aborted}


def _held(held: Held) -> PendingAckStats:
    if held.cumulative is None:
        return {}
    entry = held.cumulative
    return {"cumulativeAckPosition": f"{entry.ledger_id}:{entry.entry_id}"}


# On topics
@carries_out("transactions.buffer_stats")
async def get_buffer_stats(live: Spanned, low_water_marks: bool) -> BufferStats:
    buffer, part, sequence = live.buffer, _participant_of(live), live.log.sequence
    pin = buffer.pin
    readable = sequence.last_position if pin is None else sequence.previous_position(pin)
    stats: BufferStats = {
        "state": "Ready" if buffer.is_used else "NoSnapshot",
        "maxReadPosition": str(readable),
        "lastSnapshotTimestamps": part.loaded_ms[1],
        "ongoingTxnSize": len(buffer.open),
        "recoverStartTime": part.loaded_ms[0],
        "recoverEndTime": part.loaded_ms[1],
        "totalAbortedTransactions": len(buffer.aborted),
        "snapshotType": "Single",
    }
    if low_water_marks:
        stats["lowWaterMarks"] = _NO_MARKS
    return stats


@carries_out("transactions.buffer_internal_stats")
async def get_buffer_internal_stats(live: Spanned, metadata: bool) -> BufferLog:
    name = participant_journal(live.name)
    journal = _journal_stats(name, _participant_of(live).journal, with_ledgers=metadata)
    return {"snapshotType": "Single", "singleSnapshotSystemTopicInternalStats": journal}


@carries_out("transactions.in_buffer_stats")
async def get_in_buffer_stats(live: Spanned, most: int, least: int) -> WrittenStats:
    id_ = TransactionId(most, least)
    if id_ not in live.buffer.open and id_ not in live.buffer.aborted:
        raise TransactionNotFound(f"Transaction {id_} has written nothing to {live.name}")
    return _written(live, id_)


# On subscriptions
@carries_out("transactions.pending_ack_stats")
async def get_pending_ack_stats(
    live: Spanned, subscription: str, low_water_marks: bool
) -> PendingAckSums:
    _subscription_of(live, subscription)
    pending, part = live.buffer.pending_on(subscription), _participant_of(live)
    stats: PendingAckSums = {
        "state": "Ready" if live.buffer.is_used else "None",
        "ongoingTxnSize": len(pending.joined),
        "recoverStartTime": part.loaded_ms[0],
        "recoverEndTime": part.loaded_ms[1],
    }
    if low_water_marks:
        stats["lowWaterMarks"] = _NO_MARKS
    return stats


@carries_out("transactions.pending_ack_internal_stats")
async def get_pending_ack_internal_stats(
    live: Spanned, subscription: str, metadata: bool
) -> PendingAckLog:
    _subscription_of(live, subscription)
    name, journal = participant_journal(live.name), _participant_of(live).journal
    if journal is None:
        raise ServiceNotReady(f"No transaction has acknowledged anything on {live.name} yet")
    return {"pendingAckLogStats": _journal_stats(name, journal, with_ledgers=metadata)}


@carries_out("transactions.in_pending_ack_stats")
async def get_in_pending_ack_stats(
    live: Spanned, subscription: str, most: int, least: int
) -> PendingAckStats:
    _subscription_of(live, subscription)
    held = live.buffer.pending_on(subscription).joined.get(TransactionId(most, least))
    if held is None:
        raise TransactionNotFound(
            f"Transaction ({most},{least}) acknowledges nothing on {subscription}"
        )
    return _held(held)


@carries_out("transactions.position_stats")
async def get_position_stats(
    live: Spanned, subscription: str, ledger_id: int, entry_id: int, batch_index: int | None
) -> PositionState:
    found, position = _subscription_of(live, subscription), Position(ledger_id, entry_id)
    if position > live.log.sequence.last_position:
        return {"state": "InvalidPosition"}
    if found.cursor.is_acknowledged(*position):
        return {"state": "MarkDelete"}
    bits = live.buffer.pending_on(subscription).withheld(position)
    is_held = bits == -1 if batch_index is None else bool(bits >> batch_index & 1)
    return {"state": "PendingAck" if is_held else "NotInPendingAck"}


def _journal_stats(name: str, journal: Journal | None, *, with_ledgers: bool) -> JournalStats:
    stats: JournalStats = {"managedLedgerName": name}
    if journal is None:
        return stats
    log = journal.log
    ledgers = log.sequence.describe()
    inner: JournalLog = {
        "entriesAddedCounter": log.entries_added,
        "numberOfEntries": log.sequence.total_entries,
        "totalSize": log.sequence.total_bytes,
        "lastLedgerCreatedTimestamp": format_instant(log.ledger_created_ms),
        "lastConfirmedEntry": str(log.sequence.last_position),
        "state": log.record.state.value,
    }
    if with_ledgers:
        inner["ledgers"] = [
            {"ledgerId": each.ledger_id, "entries": each.entries, "size": each.size}
            for each in ledgers
        ]
    stats["managedLedgerInternalStats"] = inner
    return stats
