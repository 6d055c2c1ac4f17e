"""The records of a topic's log and cursors in the metadata store."""

from __future__ import annotations

from collections.abc import Mapping

from magnetar.errors import RecordNotFound
from magnetar.ledger.info import CursorInfo, LedgerPart, LogInfo
from magnetar.metadata.store import ANY_VERSION, MetadataStore
from magnetar.model.name import decode_local, encode_local
from magnetar.wire.storage import (
    StoredCursor,
    StoredLedger,
    StoredLog,
    decode_cursor,
    decode_cursor_entry,
    decode_log,
    encode_cursor,
    encode_cursor_entry,
    encode_log,
)


class MetadataLogRecords:
    """The records of one topic; cursors stand below it, named after their subscription."""

    def __init__(self, store: MetadataStore, path: str) -> None:
        self._store = store
        self._path = path

    async def load(self) -> tuple[LogInfo, int] | None:
        record = await self._store.get(self._path)
        if record is None:
            return None
        log = decode_log(record.value)
        parts = tuple(
            LedgerPart(ledger.ledger_id, ledger.entries, ledger.size, ledger.timestamp_ms)
            for ledger in log.ledgers
        )
        return LogInfo(parts, log.terminated, log.properties), record.stat.version

    async def store(self, info: LogInfo, *, expect: int) -> int:
        ledgers = tuple(
            StoredLedger(part.ledger_id, part.entries, part.size, part.created_ms)
            for part in info.ledgers
        )
        value = encode_log(StoredLog(ledgers, info.terminated, info.properties))
        return (await self._store.put(self._path, value, expect=expect)).version

    async def remove(self) -> None:
        await self._store.delete_recursive(self._path)

    async def load_cursors(self) -> Mapping[str, tuple[CursorInfo, int]]:
        return {
            decode_local(name): (_cursor_info(decode_cursor(record.value)), record.stat.version)
            async for name, record in self._store.scan_children(self._path)
        }

    async def store_cursor(self, name: str, info: CursorInfo, *, expect: int) -> int:
        value = encode_cursor(_stored_cursor(info))
        return (await self._store.put(self._cursor_path(name), value, expect=expect)).version

    async def remove_cursor(self, name: str) -> None:
        try:
            await self._store.delete(self._cursor_path(name), expect=ANY_VERSION)
        except RecordNotFound:
            pass

    def encode_cursor(self, info: CursorInfo) -> bytes:
        return encode_cursor_entry(_stored_cursor(info))

    def decode_cursor(self, data: bytes) -> CursorInfo:
        return _cursor_info(decode_cursor_entry(data))

    def _cursor_path(self, name: str) -> str:
        return f"{self._path}/{encode_local(name)}"


def _stored_cursor(info: CursorInfo) -> StoredCursor:
    return StoredCursor(
        info.ledger_id,
        info.mark_delete,
        info.ranges,
        info.batches,
        info.properties,
        info.cursor_properties,
    )


def _cursor_info(stored: StoredCursor) -> CursorInfo:
    return CursorInfo(
        stored.ledger_id,
        stored.mark_delete,
        stored.ranges,
        stored.batches,
        stored.properties,
        stored.cursor_properties,
    )
