"""Transactions as operators see them: coordinators, what they left on topics, their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NewType

from magnetar.broker.administration.registry import Document, carries_out, finds
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.service import Service
from magnetar.broker.subscription import Subscription
from magnetar.broker.subscription_stats import format_instant
from magnetar.broker.transaction.coordinator import LiveCoordinator
from magnetar.broker.transaction.journal import Journal
from magnetar.broker.transaction.participant import Participant
from magnetar.errors import (
    CoordinatorNotFound,
    NotAcceptable,
    ServiceNotReady,
    SubscriptionNotFound,
    TopicNotFound,
    TransactionNotFound,
)
from magnetar.model.caller import Caller
from magnetar.model.log_path import coordinator_journal, participant_journal
from magnetar.model.name import TopicName, parse_stored_topic
from magnetar.model.position import Position
from magnetar.model.transaction import ASSIGN_TOPIC, Status, Transaction, TransactionId
from magnetar.rules.transaction.pending_ack import Held
from magnetar.runtime.log import Logger

_log = Logger(__name__)

Spanned = NewType("Spanned", PersistentTopic)
"""A loaded topic that transactions may span."""


@finds(Spanned)
async def find_spanned(service: Service, topic: TopicName) -> Spanned:
    service.transactions.check_enabled()
    live = service.catalog.find(topic) or await service.catalog.load_topic(topic)
    if not isinstance(live, PersistentTopic) or not isinstance(live.transactions, Participant):
        raise TopicNotFound(f"No transaction can span {topic}")
    return Spanned(live)


def _part_of(live: Spanned) -> Participant:
    assert isinstance(live.transactions, Participant), "it was found as such"
    return live.transactions


def _subscription_of(live: Spanned, name: str) -> Subscription:
    found = live.subscriptions.get(name)
    if found is None:
        raise SubscriptionNotFound(f"Subscription {name} not found for topic {live.name}")
    return found


async def _coordinator(service: Service, number: int) -> LiveCoordinator:
    try:
        return await service.transactions.coordinator(number)
    except ServiceNotReady as elsewhere:
        raise CoordinatorNotFound(elsewhere.sentence) from None


# Coordinators
@carries_out("transactions.coordinators")
async def list_coordinators(service: Service) -> list[Mapping[str, Any]]:
    service.transactions.check_enabled()
    found = await service.transactions.assignments()
    return [
        {"id": number, "brokerServiceUrl": owner.service_url}
        for number, owner in sorted(found.items())
    ]


@carries_out("transactions.coordinator_stats")
async def get_coordinator_stats(service: Service, coordinator_id: int | None) -> Document:
    service.transactions.check_enabled()
    if coordinator_id is not None:
        return (await _coordinator(service, coordinator_id)).stats()
    owners = await service.transactions.assignments()
    mine = [number for number, owner in sorted(owners.items()) if owner.is_self]
    return {str(number): (await _coordinator(service, number)).stats() for number in mine}


@carries_out("transactions.coordinator_internal_stats")
async def get_coordinator_internal_stats(
    service: Service, coordinator: int, metadata: bool
) -> Document:
    live = await _coordinator(service, coordinator)
    name = coordinator_journal(coordinator)
    return {"transactionLogStats": _journal_stats(name, live.journal, with_ledgers=metadata)}


@carries_out("transactions.scale_coordinators")
async def scale_coordinators(service: Service, replicas: int) -> None:
    service.transactions.check_enabled()
    count = await service.transactions.count()
    if replicas <= count:
        raise NotAcceptable(f"There are {count} coordinators, and their number can only grow")
    await service.resources.partitioned.update(
        ASSIGN_TOPIC, lambda known: type(known)(partitions=max(replicas, known.partitions))
    )


# Single transactions
@carries_out("transactions.metadata")
async def get_metadata(service: Service, most: int, least: int) -> Document:
    id_ = TransactionId(most, least)
    live = await _coordinator(service, most)
    ended = live.state.ended.get(least)
    if ended is not None:
        status = Status.COMMITTED if ended.is_commit else Status.ABORTED
        return {"txnId": str(id_), "status": status.value, "endedAt": ended.at_ms}
    return _describe(service, live.state.find(id_))


@carries_out("transactions.slow")
async def list_slow(
    service: Service, timeout_ms: int, coordinator_id: int | None
) -> dict[str, Mapping[str, Any]]:
    service.transactions.check_enabled()
    if coordinator_id is not None:
        coordinators = [await _coordinator(service, coordinator_id)]
    else:
        coordinators = list(service.transactions.coordinators.values())
    limit_ms = service.clock.now_ms() - timeout_ms
    return {
        str(each.id): _describe(service, each)
        for live in coordinators
        for each in live.state.transactions.values()
        if each.status is Status.OPEN and each.started_ms <= limit_ms
    }


@carries_out("transactions.abort")
async def abort_transaction(service: Service, most: int, least: int, caller: Caller) -> None:
    id_ = TransactionId(most, least)
    live = await _coordinator(service, most)
    role = caller.original_role or caller.role or "an operator"
    await live.end(id_, is_commit=False, cause=f"aborted by {role}")
    _log.warning("transaction aborted by force", transaction=str(id_), role=role)


def _describe(service: Service, transaction: Transaction) -> Mapping[str, Any]:
    produced: dict[str, Mapping[str, Any]] = {}
    for topic in transaction.topics:
        live = service.catalog.find(parse_stored_topic(topic))
        produced[topic] = {}
        if isinstance(live, PersistentTopic):
            produced[topic] = _written(live, transaction.id)
    acked: dict[str, dict[str, Mapping[str, Any]]] = {}
    for topic, name in transaction.subscriptions:
        live = service.catalog.find(parse_stored_topic(topic))
        held = None
        if isinstance(live, PersistentTopic) and name in live.buffer.pending:
            held = live.buffer.pending[name].joined.get(transaction.id)
        acked.setdefault(topic, {})[name] = {} if held is None else _held(held)
    found = {
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


def _written(live: PersistentTopic, id_: TransactionId) -> Mapping[str, Any]:
    writes = live.buffer.open.get(id_)
    if writes is not None and writes.ranges:
        first = writes.ranges[0]
        return {"startPosition": f"{first.ledger_id}:{first.first}", "aborted": False}
    return {"aborted": id_ in live.buffer.aborted}


def _held(held: Held) -> Mapping[str, Any]:
    if held.cumulative is None:
        return {}
    entry = held.cumulative
    return {"cumulativeAckPosition": f"{entry.ledger_id}:{entry.entry_id}"}


# On topics
@carries_out("transactions.buffer_stats")
async def get_buffer_stats(live: Spanned, low_water_marks: bool, segment_stats: bool) -> Document:
    buffer, part, sequence = live.buffer, _part_of(live), live.log.sequence
    pin = buffer.pin
    readable = sequence.last_position if pin is None else sequence.previous_position(pin)
    stats: dict[str, Any] = {
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
        stats["lowWaterMarks"] = {}
    return stats


@carries_out("transactions.buffer_internal_stats")
async def get_buffer_internal_stats(live: Spanned, metadata: bool) -> Document:
    name = participant_journal(live.name)
    journal = _journal_stats(name, _part_of(live).journal, with_ledgers=metadata)
    return {"snapshotType": "Single", "singleSnapshotSystemTopicInternalStats": journal}


@carries_out("transactions.in_buffer_stats")
async def get_in_buffer_stats(live: Spanned, most: int, least: int) -> Document:
    id_ = TransactionId(most, least)
    if id_ not in live.buffer.open and id_ not in live.buffer.aborted:
        raise TransactionNotFound(f"Transaction {id_} has written nothing to {live.name}")
    return _written(live, id_)


# On subscriptions
@carries_out("transactions.pending_ack_stats")
async def get_pending_ack_stats(
    live: Spanned, subscription: str, low_water_marks: bool
) -> Document:
    _subscription_of(live, subscription)
    pending, part = live.buffer.pending_on(subscription), _part_of(live)
    stats: dict[str, Any] = {
        "state": "Ready" if live.buffer.is_used else "None",
        "ongoingTxnSize": len(pending.joined),
        "recoverStartTime": part.loaded_ms[0],
        "recoverEndTime": part.loaded_ms[1],
    }
    if low_water_marks:
        stats["lowWaterMarks"] = {}
    return stats


@carries_out("transactions.pending_ack_internal_stats")
async def get_pending_ack_internal_stats(
    live: Spanned, subscription: str, metadata: bool
) -> Document:
    _subscription_of(live, subscription)
    name, journal = participant_journal(live.name), _part_of(live).journal
    if journal is None:
        raise ServiceNotReady(f"No transaction has acknowledged anything on {live.name} yet")
    return {"pendingAckLogStats": _journal_stats(name, journal, with_ledgers=metadata)}


@carries_out("transactions.in_pending_ack_stats")
async def get_in_pending_ack_stats(
    live: Spanned, subscription: str, most: int, least: int
) -> Document:
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
) -> Document:
    found, position = _subscription_of(live, subscription), Position(ledger_id, entry_id)
    if position > live.log.sequence.last_position:
        return {"state": "InvalidPosition"}
    if found.cursor.is_acknowledged(*position):
        return {"state": "MarkDelete"}
    bits = live.buffer.pending_on(subscription).withheld(position)
    is_held = bits == -1 if batch_index is None else bool(bits >> batch_index & 1)
    return {"state": "PendingAck" if is_held else "NotInPendingAck"}


def _journal_stats(name: str, journal: Journal | None, *, with_ledgers: bool) -> Document:
    stats: dict[str, Any] = {"managedLedgerName": name}
    if journal is None:
        return stats
    log = journal.log
    ledgers = log.sequence.describe()
    inner: dict[str, Any] = {
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
    return stats | {"managedLedgerInternalStats": inner}
