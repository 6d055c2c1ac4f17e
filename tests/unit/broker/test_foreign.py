"""Topics of a cluster that Apache's brokers served before."""

from __future__ import annotations

import json
from urllib.parse import quote_plus

import pytest

from magnetar.broker.log_record import MetadataLogRecords
from magnetar.broker.transaction.participant import is_clear_to_apache
from magnetar.errors import (
    BucketsDiffer,
    RecordUnreadable,
    ServiceNotReady,
    TopicUnsupported,
)
from magnetar.model.log_path import log_path
from magnetar.model.name import NamespaceName, parse_topic
from magnetar.model.policy import Policies
from magnetar.model.position import Position, Term
from magnetar.model.stored_log import CursorInfo, LedgerPart, LogInfo, Offload
from magnetar.model.transaction import TransactionId
from magnetar.testing.memory_ledger import MemoryLedgerStore
from magnetar.wire.command import MessageMetadata
from magnetar.wire.entry import decode_entry, encode_entry
from magnetar.wire.pb import storage_pb2
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


async def write(place: Place, name: str, *entries: bytes) -> MetadataLogRecords:
    """A log as another kind of broker leaves it, in one ledger."""
    writer = await place.ledgers.create(term=Term(0), properties={})
    writer.append(entries, lambda error: None)
    sealed = await writer.seal()
    part = LedgerPart(writer.id, len(entries), sealed.length, 1)
    return await store(place, name, LogInfo((part,)))


def message(text: str, *, of: TransactionId | None = None, marker: int | None = None) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    if of is not None:
        metadata.txnid_most_bits, metadata.txnid_least_bits = of
    if marker is not None:
        metadata.marker_type = marker
    return encode_entry(metadata, text.encode())


def snapshot(topic: str) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    metadata.partition_key = topic
    return encode_entry(metadata, b"avro")


def coordinated(id_: TransactionId, status: str, started_ms: int = 0) -> bytes:
    kind = storage_pb2.TransactionMetadataEntry
    entry = kind(txnid_most_bits=id_.most, txnid_least_bits=id_.least)
    entry.metadata_op = kind.NEW if status == "OPEN" else kind.UPDATE
    entry.new_status = kind.TxnStatus.Value(status)
    entry.start_time, entry.timeout_ms = started_ms, 60_000
    return entry.SerializeToString()


def acked(operation: str, id_: TransactionId, *entries: tuple[int, int]) -> bytes:
    kind = storage_pb2.PendingAckMetadataEntry
    entry = kind(txnid_most_bits=id_.most, txnid_least_bits=id_.least)
    entry.pending_ack_op = kind.PendingAckOp.Value(operation)
    for ledger_id, entry_id in entries:
        entry.pending_ack_metadata.add(ledgerId=ledger_id, entryId=entry_id)
    return entry.SerializeToString()


COMMITTED, ABORTED, DECIDED, LEFT = (TransactionId(0, number) for number in range(4))
COMMIT, ABORT = 21, 22
BUFFER = "persistent://shop/eu/__transaction_buffer_snapshot"
COORDINATOR = "persistent://pulsar/system/__transaction_log_0"
MESSAGES = (
    message("plain"),
    message("committed", of=COMMITTED),
    message("aborted", of=ABORTED),
    message("decided", of=DECIDED),
    message("left", of=LEFT),
    message("", of=COMMITTED, marker=COMMIT),
    message("", of=ABORTED, marker=ABORT),
    message("last"),
)


async def read(place: Place, name: str) -> list[str]:
    """What a reader that begins at the first message gets."""
    topic = await place.topic(name)
    hidden = topic.buffer
    run = await topic.log.reader.read(Position(0, 0), 100, 1 << 20)
    assert run is not None
    found = [
        decode_entry(entry)[1].decode()
        for number, entry in enumerate(run.data, run.first)
        if not hidden.is_aborted(Position(run.ledger_id, number))
    ]
    return [text for text in found if text]


@pytest.mark.parametrize("form", ["{}", "multiple-3-{}"], ids=["one snapshot", "in segments"])
def test_a_regular_topic_is_served_without_what_apache_has_aborted(form: str) -> None:
    """Also after the next load, without another look at the log."""

    async def body(place: Place) -> None:
        buffer = BUFFER if form == "{}" else f"{BUFFER}_segments"
        await write(place, buffer, snapshot(form.format(TOPIC.full)))
        await write(
            place,
            COORDINATOR,
            coordinated(DECIDED, "OPEN"),
            coordinated(DECIDED, "COMMITTING"),
            coordinated(LEFT, "OPEN"),
        )
        await write(place, TOPIC.full, *MESSAGES)
        for _ in range(2):
            assert await read(place, TOPIC.full) == ["plain", "committed", "decided", "last"]
            await (await place.topic(TOPIC.full)).set_properties({"own": "1"})
            await place.service.catalog.unload_topic(TOPIC)
        records = MetadataLogRecords(place.service.store, log_path(TOPIC, 1))
        loaded = await records.load()
        assert loaded is not None and is_clear_to_apache(loaded[0])

    run(body, make_ledgers=shared)


def test_a_topic_without_transactions_is_served_beside_one_that_waits_for_an_open_one() -> None:
    async def body(place: Place) -> None:
        await write(place, BUFFER, snapshot(TOPIC.full))
        await write(place, COORDINATOR, coordinated(LEFT, "OPEN", place.clock.now_ms()))
        await write(place, TOPIC.full, *MESSAGES)
        other = "persistent://shop/eu/other"
        await write(place, other, *MESSAGES)
        assert len(await read(place, other)) == 6
        with pytest.raises(ServiceNotReady, match=r"until then transaction \(0,3\)"):
            await place.topic(TOPIC.full)
        place.clock.pass_s(61)
        assert await read(place, TOPIC.full) == ["plain", "committed", "last"]

    run(body, make_ledgers=shared)


def test_what_our_brokers_wrote_after_a_take_over_is_not_judged_by_markers() -> None:
    async def body(place: Place) -> None:
        await write(place, BUFFER, snapshot(TOPIC.full))
        await write(place, TOPIC.full, *MESSAGES)
        topic = await place.topic(TOPIC.full)
        ours = TransactionId(0, 9)
        await topic.log.append_entry(message("ours", of=ours))
        ledger = topic.log.sequence.last_position.ledger_id
        await place.service.catalog.unload_topic(TOPIC)
        again = await place.topic(TOPIC.full)
        assert not again.buffer.is_aborted(Position(ledger, 0))

    run(body, make_ledgers=shared)


def test_what_committed_transactions_of_apache_acknowledged_stays_so_and_is_applied_once() -> None:
    async def body(place: Place) -> None:
        records = await write(place, TOPIC.full, *MESSAGES)
        loaded = await records.load()
        assert loaded is not None
        ledger = loaded[0].ledgers[0].ledger_id
        await records.store_cursor("s/1", CursorInfo(-1, Position(ledger, -1)), expect=-1)
        log = await write(
            place,
            f"{TOPIC.full}-s%2F1__transaction_pending_ack",
            acked("ACK", COMMITTED, (ledger, 0)),
            acked("ACK", ABORTED, (ledger, 2)),
            acked("COMMIT", COMMITTED),
            acked("ABORT", ABORTED),
            acked("ACK", DECIDED, (ledger, 3)),
            acked("ACK", LEFT, (ledger, 4)),
        )
        await log.store_cursor("__pending_ack_state", CursorInfo(-1, Position(0, -1)), expect=-1)
        await write(place, COORDINATOR, coordinated(DECIDED, "COMMITTING"))
        cursor = (await place.topic(TOPIC.full)).subscriptions["s/1"].cursor
        acknowledged = [cursor.is_acknowledged(ledger, number) for number in range(5)]
        assert acknowledged == [True, False, False, True, False]
        await cursor.reset(Position(ledger, 0))
        await place.service.catalog.unload_topic(TOPIC)
        cursor = (await place.topic(TOPIC.full)).subscriptions["s/1"].cursor
        assert not cursor.is_acknowledged(ledger, 0)

    run(body, make_ledgers=shared)


def test_a_segment_is_served_without_what_apache_has_aborted() -> None:
    async def body(place: Place) -> None:
        segment = parse_topic("segment://shop/eu/flow/0000-ffff-0")
        records = await write(place, segment.full, *MESSAGES)
        loaded = await records.load()
        assert loaded is not None
        ledger = loaded[0].ledgers[0].ledger_id
        await records.store_cursor("s", CursorInfo(-1, Position(ledger, -1)), expect=-1)
        name = json.dumps(segment.full)
        found = {
            f"/txn/segment-state/aborted/{quote_plus(segment.full)}:0_1": "{}",
            f"/txn/segment-state/watermark/{quote_plus(segment.full)}": "{}",
            "/txn/op/0_2__seq_counter__": "\0",
            "/txn/op/0_2-1": f'{{"kind":"WRITE","segment":{name}}}',
            "/txn/op/0_3-1": f'{{"kind":"WRITE","segment":{name}}}',
            "/txn/op/0_2-2": f'{{"kind":"ACK","segment":{name},"subscription":"s","ledgerId":'
            f'{ledger},"entryId":0}}',
            "/txn/op/0_3-2": f'{{"kind":"ACK","segment":{name},"subscription":"s","ledgerId":'
            f'{ledger},"entryId":7}}',
            "/txn/id/0_2": '{"state":"COMMITTED"}',
            "/txn/id/0_3": '{"state":"OPEN","timeout":60.5,"createdAt":1600000000.25}',
        }
        for path, value in found.items():
            await place.service.store.put(path, value.encode(), expect=-1)
        assert await read(place, segment.full) == ["plain", "committed", "decided", "last"]
        cursor = (await place.topic(segment.full)).subscriptions["s"].cursor
        assert [cursor.is_acknowledged(ledger, number) for number in (0, 7)] == [True, False]
        assert not await place.service.store.exists("/txn/op/0_2-2")

    run(body, make_ledgers=shared)


def test_there_are_no_topic_buckets_where_ledgers_are_shared() -> None:
    async def body(place: Place) -> None:
        many = NamespaceName("shop", "many")
        await place.service.resources.namespaces.create(many, Policies(numberOfTopicBuckets=4))
        with pytest.raises(BucketsDiffer, match="Apache Pulsar knows no others"):
            await place.service.tree.path_of(parse_topic("persistent://shop/many/orders"))

    run(body, make_ledgers=shared)


def test_a_record_of_a_newer_version_is_refused_with_what_to_do_and_stays() -> None:
    async def body(place: Place) -> None:
        path, newer = log_path(TOPIC, 1), b"\x47\x79 packed in another way"
        await place.service.store.put(path, newer, expect=-1)
        with pytest.raises(RecordUnreadable, match="of a newer version, whose broker should serve"):
            await place.topic(TOPIC.full)
        kept = await place.service.store.get(path)
        assert kept is not None and kept.value == newer

    run(body, make_ledgers=shared)
