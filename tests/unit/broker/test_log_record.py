"""A topic's records at the places other tools know."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.broker.log_record import MetadataLogRecords
from magnetar.errors import VersionConflict
from magnetar.ledger.info import LogRecords
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.model.position import Position
from magnetar.model.stored_log import CursorInfo, LedgerPart, LogInfo
from magnetar.runtime.clock import SystemClock

PATH = "/managed-ledgers/public/default/persistent/orders+eu"


def test_a_log_is_created_changed_and_removed() -> None:
    async def body() -> None:
        store = MemoryStore(MemoryTree(SystemClock()))
        records: LogRecords = MetadataLogRecords(store, PATH)
        assert await records.load() is None
        version = await records.store(LogInfo(), expect=-1)
        assert await store.exists(PATH)
        with pytest.raises(VersionConflict):
            await records.store(LogInfo(), expect=-1)
        info = LogInfo(
            (LedgerPart(1, 10, 100, 5), LedgerPart(2, 0, 0, 0)), Position(1, 9), {"key": "value"}
        )
        version = await records.store(info, expect=version)
        assert await records.load() == (info, version)
        with pytest.raises(VersionConflict):
            await records.store(info, expect=version - 1)
        await records.store_cursor("sub", CursorInfo(-1, Position(1, -1)), expect=-1)
        await records.remove()
        assert await records.load() is None
        assert await records.load_cursors() == {}
        await records.remove()

    asyncio.run(body())


def test_cursors_are_stored_below_their_topic_by_subscription() -> None:
    async def body() -> None:
        store = MemoryStore(MemoryTree(SystemClock()))
        records: LogRecords = MetadataLogRecords(store, PATH)
        await records.store(LogInfo(), expect=-1)
        info = CursorInfo(
            7,
            Position(1, 3),
            ((Position(1, 5), Position(1, 6)),),
            {Position(1, 9): (-1, 5)},
            {"producer": 4},
            {"owner": "me"},
        )
        version = await records.store_cursor("a/b c", info, expect=-1)
        assert await store.children(PATH) == ("a%2Fb+c",)
        assert await records.load_cursors() == {"a/b c": (info, version)}
        with pytest.raises(VersionConflict):
            await records.store_cursor("a/b c", info, expect=version + 1)
        await records.remove_cursor("a/b c")
        await records.remove_cursor("a/b c")
        assert await records.load_cursors() == {}

    asyncio.run(body())


def test_the_entry_of_a_cursors_ledger_restores_its_state() -> None:
    records = MetadataLogRecords(MemoryStore(MemoryTree(SystemClock())), PATH)
    info = CursorInfo(
        7,
        Position(1, 3),
        ((Position(1, 5), Position(1, 6)),),
        {Position(1, 9): (-1, 5)},
        {"producer": 4},
        {"owner": "me"},
    )
    restored = records.decode_cursor(records.encode_cursor(info))
    assert restored == CursorInfo(
        -1, info.mark_delete, info.ranges, info.batches, info.properties, {}
    )
