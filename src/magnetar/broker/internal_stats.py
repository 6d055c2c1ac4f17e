"""The inside of a topic as JSON, its ledgers and cursors, as Pulsar's tools read it."""

from __future__ import annotations

from collections.abc import Iterable

from magnetar.broker.nonpersistent import NonPersistentTopic
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.subscription import Subscription
from magnetar.broker.subscription_stats import format_instant
from magnetar.ledger.cursor import Cursor
from magnetar.model.answer.log import CursorStats, LedgerStats, LogStats
from magnetar.model.position import Position
from magnetar.rules.dispatch.shared import Shared


def persistent_internal_stats(topic: PersistentTopic) -> LogStats:
    log = topic.log
    ledgers = log.sequence.describe()
    current = ledgers[-1] if ledgers and not ledgers[-1].created_ms else None
    cursors = {name: _cursor_stats(topic, cursor) for name, cursor in log.cursors.items()}
    compacted = topic.compactor.compacted
    stats: LogStats = {
        "entriesAddedCounter": log.entries_added,
        "numberOfEntries": log.sequence.total_entries,
        "totalSize": log.sequence.total_bytes,
        "currentLedgerEntries": 0 if current is None else current.entries,
        "currentLedgerSize": 0 if current is None else current.size,
        "lastLedgerCreatedTimestamp": format_instant(log.ledger_created_ms),
        "waitingCursorsCount": sum(each["waitingReadOp"] for each in cursors.values()),
        "pendingAddEntriesCount": log.flights.runs,
        "lastConfirmedEntry": _format_position(log.sequence.last_position),
        "state": log.record.state.value,
        "ledgers": [_ledger(part.ledger_id, part.entries, part.size) for part in ledgers],
        "cursors": cursors,
        "schemaLedgers": [],
        "compactedLedger": (
            _ledger(-1, -1, -1)
            if compacted is None
            else _ledger(compacted.ledger_id, len(compacted.positions), compacted.size)
        ),
    }
    if log.record.properties:
        stats["properties"] = dict(log.record.properties)
    return stats


def transient_internal_stats(topic: NonPersistentTopic) -> LogStats:
    """Nothing is kept, so there is little to tell."""
    return {
        "entriesAddedCounter": topic.entries_added,
        "numberOfEntries": 0,
        "totalSize": 0,
        "currentLedgerEntries": 0,
        "currentLedgerSize": 0,
        "waitingCursorsCount": 0,
        "pendingAddEntriesCount": 0,
        "cursors": {
            name: {
                "waitingReadOp": False,
                "pendingReadOps": 0,
                "messagesConsumedCounter": 0,
                "cursorLedger": 0,
                "cursorLedgerLastEntry": 0,
                "active": False,
                "numberOfEntriesSinceFirstNotAckedMessage": 0,
                "totalNonContiguousDeletedMessagesRange": 0,
                "subscriptionHavePendingRead": False,
                "subscriptionHavePendingReplayRead": False,
            }
            for name in topic.subscriptions
        },
    }


def _ledger(ledger_id: int, entries: int, size: int) -> LedgerStats:
    return {
        "ledgerId": ledger_id,
        "entries": entries,
        "size": size,
        "offloaded": False,
        "underReplicated": False,
    }


def _cursor_stats(topic: PersistentTopic, cursor: Cursor) -> CursorStats:
    subscription = topic.subscriptions.get(cursor.name)
    is_active = subscription is not None and subscription.consumer_count > 0
    is_waiting = is_active and not topic.log.reader.is_readable(cursor.read_position)
    unacked = topic.log.sequence.entries_between(cursor.first_unacked(), cursor.read_position)
    return {
        "markDeletePosition": _format_position(cursor.mark_delete),
        "readPosition": _format_position(cursor.read_position),
        "waitingReadOp": is_waiting,
        "pendingReadOps": 0,
        "messagesConsumedCounter": topic.log.entries_added - cursor.backlog,
        "cursorLedger": cursor.ledger_id,
        "cursorLedgerLastEntry": cursor.ledger_last_entry,
        "individuallyDeletedMessages": _format_ranges(cursor.ranges),
        "lastLedgerSwitchTimestamp": format_instant(topic.created_ms),
        "state": "NoLedger" if cursor.durable and cursor.ledger_id < 0 else "Open",
        "active": is_active,
        "numberOfEntriesSinceFirstNotAckedMessage": unacked + 1,
        "totalNonContiguousDeletedMessagesRange": cursor.range_count,
        "subscriptionHavePendingRead": is_waiting,
        "subscriptionHavePendingReplayRead": _has_replay(subscription),
        "properties": dict(cursor.properties),
    }


def _has_replay(subscription: Subscription | None) -> bool:
    if subscription is None or subscription.dispatcher is None:
        return False
    machine = subscription.dispatcher.machine
    return isinstance(machine, Shared) and len(machine.replay) > 0


def _format_position(position: Position) -> str:
    return f"{position.ledger_id}:{position.entry_id}"


def _format_ranges(ranges: Iterable[tuple[Position, Position]]) -> str:
    """Acknowledged ranges, each open at its lower end."""
    acknowledged = (
        f"({first.ledger_id}:{first.entry_id - 1}..{_format_position(last)}]"
        for first, last in ranges
    )
    return f"[{','.join(acknowledged)}]"
