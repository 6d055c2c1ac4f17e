"""The records of a topic's log and cursors in the metadata store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from magnetar.errors import RecordNotFound, TopicUnsupported
from magnetar.metadata.store import ANY_VERSION, MetadataStore
from magnetar.model.name import decode_local, encode_local
from magnetar.model.stored_log import CursorInfo, LogInfo
from magnetar.rules.foreign import find_foreign_cursor, find_foreign_log
from magnetar.runtime.configuration import Configuration
from magnetar.wire.storage import (
    PLAIN,
    Packing,
    decode_cursor,
    decode_cursor_entry,
    decode_log,
    encode_cursor,
    encode_cursor_entry,
    encode_log,
)


@dataclass(frozen=True, slots=True)
class RecordPacking:
    """How the records of logs and cursors are compressed."""

    log: Packing = PLAIN
    cursor: Packing = PLAIN


NOT_PACKED: Final = RecordPacking()


def plan_packing(config: Configuration) -> RecordPacking:
    return RecordPacking(
        Packing(
            config.managedLedgerInfoCompressionType,
            config.managedLedgerInfoCompressionThresholdInBytes,
        ),
        Packing(
            config.managedCursorInfoCompressionType,
            config.managedCursorInfoCompressionThresholdInBytes,
        ),
    )


class MetadataLogRecords:
    """The records of one topic; cursors stand below it, named after their subscription."""

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        packing: RecordPacking = NOT_PACKED,
        *,
        is_apache_readable: bool = False,
    ) -> None:
        """Where other kinds of brokers may have written, what only they serve is refused."""
        self._store = store
        self._path = path
        self._packing = packing
        self._is_apache_readable = is_apache_readable

    async def load(self) -> tuple[LogInfo, int] | None:
        record = await self._store.get(self._path)
        if record is None:
            return None
        info = decode_log(record.value)
        if self._is_apache_readable:
            self._refuse(find_foreign_log(info))
        return info, record.stat.version

    async def store(self, info: LogInfo, *, expect: int) -> int:
        value = encode_log(info, self._packing.log)
        return (await self._store.put(self._path, value, expect=expect)).version

    async def remove(self) -> None:
        await self._store.delete_recursive(self._path)

    async def load_cursors(self) -> Mapping[str, tuple[CursorInfo, int]]:
        found = {
            decode_local(name): (decode_cursor(record.value), record.stat.version)
            async for name, record in self._store.scan_children(self._path)
        }
        if self._is_apache_readable:
            for name, (info, _) in found.items():
                self._refuse(find_foreign_cursor(name, info))
        return found

    async def store_cursor(self, name: str, info: CursorInfo, *, expect: int) -> int:
        value = encode_cursor(info, self._packing.cursor)
        return (await self._store.put(self._cursor_path(name), value, expect=expect)).version

    async def remove_cursor(self, name: str) -> None:
        try:
            await self._store.delete(self._cursor_path(name), expect=ANY_VERSION)
        except RecordNotFound:
            pass

    def encode_cursor(self, info: CursorInfo) -> bytes:
        return encode_cursor_entry(info)

    def decode_cursor(self, data: bytes) -> CursorInfo:
        return decode_cursor_entry(data)

    def _refuse(self, reason: str | None) -> None:
        if reason is not None:
            raise TopicUnsupported(f"{self._path} is not served: {reason}")

    def _cursor_path(self, name: str) -> str:
        return f"{self._path}/{encode_local(name)}"
