"""Topics of a cluster that Apache's brokers served before."""

from __future__ import annotations

import pytest

from magnetar.broker.log_record import MetadataLogRecords
from magnetar.errors import BucketsDiffer, TopicUnsupported
from magnetar.ledger.backends.memory import MemoryLedgerStore
from magnetar.model.log_path import log_path
from magnetar.model.name import NamespaceName, parse_topic
from magnetar.model.policy import Policies
from magnetar.model.position import Position, Term
from magnetar.model.stored_log import CursorInfo, LedgerPart, LogInfo, Offload
from tests.unit.broker.broker_place import Place, run

TOPIC = parse_topic("persistent://shop/eu/orders")


def shared() -> MemoryLedgerStore:
    ledgers = MemoryLedgerStore()
    ledgers.is_shared = True
    return ledgers


async def store(place: Place, name: str, info: LogInfo) -> MetadataLogRecords:
    records = MetadataLogRecords(place.service.store, log_path(parse_topic(name), 1))
    await records.store(info, expect=-1)
    return records


async def refused(place: Place) -> str:
    with pytest.raises(TopicUnsupported) as refusal:
        await place.topic(TOPIC.full)
    return refusal.value.sentence


def test_a_topic_whose_entries_are_elsewhere_is_refused_by_name() -> None:
    async def body(place: Place) -> None:
        moved = LogInfo((LedgerPart(7, 3, 30, 1, Offload.MOVED, b"\x2a\x04\x18\x01\x20\x01"),))
        await store(place, TOPIC.full, moved)
        assert "orders is not served: ledger 7 was offloaded" in await refused(place)

    run(body, make_ledgers=shared)


def test_a_topic_with_a_cursor_of_a_replicator_is_refused_and_stays_as_it_was() -> None:
    async def body(place: Place) -> None:
        records = await store(place, TOPIC.full, LogInfo())
        cursor = CursorInfo(-1, Position(1, -1))
        await records.store_cursor("pulsar.repl.east", cursor, expect=-1)
        assert "orders is not served: it is replicated to east" in await refused(place)
        assert await records.load_cursors() == {"pulsar.repl.east": (cursor, 0)}

    run(body, make_ledgers=shared)


@pytest.mark.parametrize("is_used", [False, True])
def test_topics_are_refused_where_transactions_were_used(is_used: bool) -> None:
    async def body(place: Place) -> None:
        writer = await place.ledgers.create(term=Term(0), properties={})
        if is_used:
            writer.append([b"snapshot"], lambda error: None)
        await writer.seal()
        buffer = "persistent://shop/eu/__transaction_buffer_snapshot"
        await store(place, buffer, LogInfo((LedgerPart(writer.id, 0, 0, 0),)))
        await store(place, TOPIC.full, LogInfo())
        if is_used:
            assert f"transactions in {buffer}" in await refused(place)
        else:
            await place.topic(TOPIC.full)

    run(body, make_ledgers=shared)


def test_a_topic_with_acknowledgements_in_transactions_is_refused() -> None:
    async def body(place: Place) -> None:
        await store(place, TOPIC.full, LogInfo())
        await store(place, f"{TOPIC.full}-s__transaction_pending_ack", LogInfo())
        assert "orders-s__transaction_pending_ack" in await refused(place)

    run(body, make_ledgers=shared)


def test_segments_are_refused_where_transactions_were_used() -> None:
    async def body(place: Place) -> None:
        segment = parse_topic("segment://shop/eu/flow/0000-ffff-0")
        await store(place, segment.full, LogInfo())
        await place.service.store.put("/txn/segment-state/watermark/x", b"{}", expect=-1)
        with pytest.raises(TopicUnsupported, match="watermark names transactions"):
            await place.topic(segment.full)

    run(body, make_ledgers=shared)


def test_there_are_no_topic_buckets_where_ledgers_are_shared() -> None:
    async def body(place: Place) -> None:
        many = NamespaceName("shop", "many")
        await place.service.resources.namespaces.create(many, Policies(numberOfTopicBuckets=4))
        with pytest.raises(BucketsDiffer, match="Apache Pulsar knows no others"):
            await place.service.tree.path_of(parse_topic("persistent://shop/many/orders"))

    run(body, make_ledgers=shared)
