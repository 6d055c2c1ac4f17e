"""What is left to do before brokers of Apache Pulsar serve a cluster after ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from magnetar.app.give_back import find_left
from magnetar.broker.log_record import MetadataLogRecords
from magnetar.ledger.birth import format_born
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.store import ABSENT
from magnetar.model.layout import Layout
from magnetar.model.log_path import log_path
from magnetar.model.name import encode_local, parse_topic
from magnetar.model.position import Position
from magnetar.model.scalable import (
    PruneIntent,
    ScalableTopicMetadata,
    SubscriptionKind,
    SubscriptionRecord,
    SubscriptionState,
)
from magnetar.model.stored_log import CursorInfo, LedgerPart, LogInfo
from magnetar.runtime.clock import SystemClock
from magnetar.wire.scalable import encode_subscription, encode_topic_record

ORDERS = parse_topic("persistent://acme/shop/orders")
SEGMENT = parse_topic("segment://acme/shop/flow/0000-ffff-0")


def inspect(prepare: Callable[[MemoryStore], Awaitable[None]]) -> tuple[list[str], MemoryStore]:
    async def body() -> tuple[list[str], MemoryStore]:
        store = MemoryStore(MemoryTree(SystemClock()))
        await prepare(store)
        return [sentence async for sentence in find_left(store)], store

    return asyncio.run(body())


async def put_topic(store: MemoryStore, record: ScalableTopicMetadata) -> None:
    await store.put("/topics/acme/shop/flow", encode_topic_record(record), expect=ABSENT)


def test_a_cluster_with_whole_records_is_given_back() -> None:
    async def prepare(store: MemoryStore) -> None:
        records = MetadataLogRecords(store, log_path(ORDERS, 1))
        await records.store(LogInfo((LedgerPart(7, 3, 30, 1),)), expect=ABSENT)
        await put_topic(store, ScalableTopicMetadata(Layout.initial(2, now_ms=1)))

    left, _ = inspect(prepare)
    assert left == []


def test_a_broker_that_runs_is_named() -> None:
    async def prepare(store: MemoryStore) -> None:
        await store.put("/loadbalance/brokers/a:8080", b"{}", expect=ABSENT, ephemeral=True)

    left, _ = inspect(prepare)
    assert len(left) == 1 and left[0].startswith("broker a:8080 is running")


def test_changes_that_were_begun_are_named() -> None:
    async def prepare(store: MemoryStore) -> None:
        layout = Layout.initial(2, now_ms=1)
        await put_topic(store, ScalableTopicMetadata(layout, intent=PruneIntent((), 1)))
        waiting = SubscriptionRecord(SubscriptionKind.QUEUE, SubscriptionState.CREATING)
        path = "/topics/acme/shop/flow/subscriptions/s"
        await store.put(path, encode_subscription(waiting), expect=ABSENT)
        await store.put("/magnetar/migrations/x", b"{}", expect=ABSENT)
        for name, state in (("open", "1"), ("ended", "0"), ("deleted", "")):
            topic = parse_topic(f"persistent://acme/shop/{name}")
            part = f"/magnetar/transaction/participant/{encode_local(topic.full)}"
            await store.put(part, b"", expect=ABSENT)
            if state:
                info = LogInfo(properties={"pulsar.transactions": state})
                await MetadataLogRecords(store, log_path(topic, 1)).store(info, expect=ABSENT)

    left, _ = inspect(prepare)
    starts = (
        "topic://acme/shop/flow has a prune that was begun",
        "subscription s of topic://acme/shop/flow is being made or removed",
        "/magnetar/migrations/x: a migration",
        "persistent://acme/shop/open has transactions of ours",
    )
    assert len(left) == len(starts)
    assert all(each.startswith(start) for each, start in zip(left, starts, strict=True))


def test_cursors_that_only_their_log_names_get_records() -> None:
    async def prepare(store: MemoryStore) -> None:
        for topic in (ORDERS, SEGMENT):
            records = MetadataLogRecords(store, log_path(topic, 1))
            info = LogInfo((LedgerPart(7, 3, 30, 1),), properties=format_born(["a/1", "b"]))
            await records.store(info, expect=ABSENT)
            await records.store_cursor("b", CursorInfo(-1, Position(7, 1)), expect=ABSENT)

    left, store = inspect(prepare)
    assert left == []

    async def look() -> None:
        for topic in (ORDERS, SEGMENT):
            records = MetadataLogRecords(store, log_path(topic, 1))
            found = {name: info for name, (info, _) in (await records.load_cursors()).items()}
            assert found == {
                "a/1": CursorInfo(-1, Position(7, -1)),
                "b": CursorInfo(-1, Position(7, 1)),
            }
            loaded = await records.load()
            assert loaded is not None and not loaded[0].properties

    asyncio.run(look())
