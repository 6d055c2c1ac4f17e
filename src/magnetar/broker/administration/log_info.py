"""What the metadata store keeps of a topic's log, as JSON."""

from __future__ import annotations

from datetime import UTC, datetime

from magnetar.broker.administration.port import LogOwners
from magnetar.errors import TopicNotFound
from magnetar.metadata.store import Stat
from magnetar.model.answer.log import StoredCursor, StoredLog, StoredPosition
from magnetar.model.name import TopicName, decode_local
from magnetar.model.position import Position
from magnetar.model.stored_log import Offload
from magnetar.wire.storage import decode_cursor, decode_log


async def describe_log(owners: LogOwners, topic: TopicName) -> StoredLog:
    store, path = owners.store, await owners.tree.path_of(topic)
    record = await store.get(path) if topic.is_persistent else None
    if record is None:
        raise TopicNotFound(f"Topic {topic} not found")
    log = decode_log(record.value)
    described: StoredLog = {
        "version": record.stat.version,
        "creationDate": format_time(record.stat.created_ms),
        "modificationDate": format_time(record.stat.modified_ms),
        "ledgers": [
            {
                "ledgerId": ledger.ledger_id,
                "entries": ledger.entries,
                "size": ledger.size,
                "timestamp": ledger.created_ms,
                "isOffloaded": ledger.offload is not Offload.NONE,
            }
            for ledger in log.ledgers
        ],
    }
    if log.terminated is not None:
        described["terminatedPosition"] = _describe_position(log.terminated)
    if log.properties:
        described["properties"] = dict(log.properties)
    described["cursors"] = {
        decode_local(name): _describe_cursor(each.value, each.stat)
        async for name, each in store.scan_children(path)
    }
    return described


def _describe_cursor(value: bytes, stat: Stat) -> StoredCursor:
    cursor = decode_cursor(value)
    return {
        "version": stat.version,
        "creationDate": format_time(stat.created_ms),
        "modificationDate": format_time(stat.modified_ms),
        "cursorsLedgerId": cursor.ledger_id,
        "markDelete": _describe_position(cursor.mark_delete),
        "properties": dict(cursor.properties),
    }


def _describe_position(position: Position) -> StoredPosition:
    return {"ledgerId": position.ledger_id, "entryId": position.entry_id}


def format_time(time_ms: int) -> str:
    """As date and time; what no calendar holds stays a number."""
    try:
        moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(time_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"
