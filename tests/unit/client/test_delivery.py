"""What an entry becomes; entries keep their order although some need something first."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.client.delivery import CorruptEntry, Delivery, EntryDecoder, Intake
from magnetar.client.message import Origin
from magnetar.client.message_id import MessageId
from magnetar.client.schema.book import Unprepared
from magnetar.runtime.task import TaskScope
from magnetar.wire.batch import encode_batch
from magnetar.wire.chunk import plan_chunks, stamp_chunk
from magnetar.wire.command import (
    CommandAck,
    CommandMessage,
    CompressionType,
    EncryptionKeys,
    KeyValue,
    MessageIdData,
    MessageMetadata,
    SingleMessageMetadata,
)
from magnetar.wire.compression import compress
from magnetar.wire.entry import encode_entry


def metadata_of(**fields: object) -> MessageMetadata:
    return MessageMetadata(producer_name="p", sequence_id=5, publish_time=9, **fields)  # type: ignore[arg-type]


def decode(
    entry: bytes,
    *,
    decoder: EntryDecoder | None = None,
    entry_id: int = 0,
    ack_set: list[int] | None = None,
    unwanted: tuple[int, ...] = (),
) -> Delivery:
    decoder = decoder or EntryDecoder(Origin("t"), message_bytes_max=10_000)
    command = CommandMessage(
        consumer_id=1,
        message_id=MessageIdData(ledgerId=1, entryId=entry_id),
        redelivery_count=2,
        ack_set=ack_set or [],
    )
    return decoder.decode(
        command, entry, now_ms=0, is_wanted=lambda id: id.batch_index not in unwanted
    )


def batch_entry(*payloads: bytes, compacted_out: int | None = None) -> bytes:
    singles = [
        (SingleMessageMetadata(partition_key=f"k{n}", compacted_out=n == compacted_out), payload)
        for n, payload in enumerate(payloads)
    ]
    return encode_entry(metadata_of(num_messages_in_batch=len(payloads)), encode_batch(singles))


def test_a_single_message_carries_all_it_was_sent_with() -> None:
    metadata = metadata_of(
        partition_key="aGk=",
        partition_key_b64_encoded=True,
        ordering_key=b"o",
        event_time=3,
        properties=[KeyValue(key="a", value="b")],
    )
    [message] = decode(encode_entry(metadata, b"x")).messages
    assert message.data == b"x"
    assert (message.key, message.key_bytes, message.ordering_key) == ("aGk=", b"hi", b"o")
    assert (message.publish_time_ms, message.event_time_ms) == (9, 3)
    assert message.properties == {"a": "b"}
    assert (message.redelivery_count, message.sequence_id) == (2, 5)


def test_a_tombstone_has_no_data() -> None:
    [message] = decode(encode_entry(metadata_of(null_value=True), b"")).messages
    assert message.data is None


def test_a_batch_is_split_and_keeps_its_keys() -> None:
    messages = decode(batch_entry(b"a", b"b")).messages
    assert [(message.data, message.key) for message in messages] == [(b"a", "k0"), (b"b", "k1")]
    assert messages[1].id == MessageId(1, 0, -1, 1) and messages[1].id.batch_size == 2
    assert [message.sequence_id for message in messages] == [5, 6]


def test_acknowledged_messages_of_a_batch_cost_nothing_and_hidden_ones_a_permit() -> None:
    entry = batch_entry(b"a", b"b", b"c", b"d", compacted_out=2)
    delivery = decode(entry, ack_set=[0b1110], unwanted=(1,))
    assert [message.data for message in delivery.messages] == [b"d"]
    assert delivery.unused_permits == 2


@pytest.mark.parametrize(
    "codec",
    [CompressionType.LZ4, CompressionType.ZLIB, CompressionType.ZSTD, CompressionType.SNAPPY],
)
def test_a_compressed_payload_is_unpacked(codec: CompressionType) -> None:
    data = b"abc" * 1000
    metadata = metadata_of(compression=codec, uncompressed_size=len(data))
    [message] = decode(encode_entry(metadata, compress(codec, data))).messages
    assert message.data == data


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (encode_entry(metadata_of(), b"x")[:-1] + b"y", CommandAck.ChecksumMismatch),
        (
            encode_entry(metadata_of(compression=CompressionType.ZSTD, uncompressed_size=3), b"no"),
            CommandAck.DecompressionError,
        ),
        (
            encode_entry(metadata_of(num_messages_in_batch=3), b"short"),
            CommandAck.BatchDeSerializeError,
        ),
        (b"", CommandAck.BatchDeSerializeError),
    ],
)
def test_an_entry_that_cannot_be_read_says_why(entry: bytes, fault: int) -> None:
    with pytest.raises(CorruptEntry) as caught:
        decode(entry)
    assert caught.value.validation_error == fault


def test_chunks_become_one_message_with_the_id_of_the_last() -> None:
    data = bytes(range(250))
    decoder = EntryDecoder(Origin("t"), message_bytes_max=10_000)
    deliveries = []
    for chunk in plan_chunks(len(data), chunk_bytes_max=100):
        stamped = stamp_chunk(metadata_of(), chunk, uuid="u", total_bytes=len(data))
        entry = encode_entry(stamped, data[chunk.start : chunk.end])
        deliveries.append(decode(entry, decoder=decoder, entry_id=chunk.index))
    assert [len(delivery.messages) for delivery in deliveries] == [0, 0, 1]
    assert [delivery.unused_permits for delivery in deliveries] == [1, 1, 0]
    [message] = deliveries[-1].messages
    assert message.data == data and message.id == MessageId(1, 2)
    assert [id.entry_id for id in deliveries[-1].chunk_ids] == [0, 1, 2]


def test_an_encrypted_entry_is_handed_out_as_it_is() -> None:
    metadata = metadata_of(
        encryption_keys=[EncryptionKeys(key="k", value=b"v")], num_messages_in_batch=7
    )
    [message] = decode(encode_entry(metadata, b"secret")).messages
    assert message.is_encrypted and message.data == b"secret"


def test_messages_of_an_even_batch_are_made_when_asked_for() -> None:
    singles = [
        (SingleMessageMetadata(partition_key=f"k{n}"), payload)
        for n, payload in enumerate((b"one", b"two", b"six"))
    ]
    entry = encode_entry(metadata_of(num_messages_in_batch=3), encode_batch(singles))
    command = CommandMessage(consumer_id=1, message_id=MessageIdData(ledgerId=1, entryId=4))
    decoder = EntryDecoder(Origin("t"), message_bytes_max=10_000)
    messages = decoder.decode(command, entry, now_ms=0).messages
    assert not isinstance(messages, list)
    assert [(each.data, each.key, each.id.batch_index) for each in messages] == [
        (b"one", "k0", 0),
        (b"two", "k1", 1),
        (b"six", "k2", 2),
    ]
    rest = messages[1:]
    assert len(rest) == 2
    assert rest[0].data == b"two"
    assert rest[-1].id == MessageId(1, 4, -1, 2, 3)
    assert rest[-1].key == messages[2].key == "k2"


def test_an_even_batch_with_a_lost_message_is_refused() -> None:
    payload = encode_batch([(SingleMessageMetadata(), b"abc"), (SingleMessageMetadata(), b"def")])
    entry = encode_entry(metadata_of(num_messages_in_batch=4), payload)
    command = CommandMessage(consumer_id=1, message_id=MessageIdData(ledgerId=1, entryId=4))
    with pytest.raises(CorruptEntry):
        EntryDecoder(Origin("t"), message_bytes_max=10_000).decode(command, entry, now_ms=0)


class Desk:
    """Accepts entries whose first byte it knows."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.accepted: list[bytes] = []
        self.asked: list[int] = []
        self.gate = asyncio.Event()

    def accept(self, command: CommandMessage, entry: bytes) -> None:
        if entry[0] not in self.known:
            raise Unprepared(lambda: self.learn(entry[0]))
        self.accepted.append(entry)

    async def learn(self, what: int) -> None:
        self.asked.append(what)
        await self.gate.wait()
        self.known.add(what)


def test_entries_behind_one_that_is_not_ready_wait_for_it() -> None:
    async def body() -> None:
        async with TaskScope("test") as scope:
            desk = Desk()
            desk.known.add(ord("b"))
            intake = Intake(scope, "t", desk.accept)
            entries = [b"b0", b"a1", b"b2", b"c3", b"a4"]
            for entry in entries:
                intake.put(CommandMessage(), entry)
            assert desk.accepted == [b"b0"]
            desk.gate.set()
            async with asyncio.timeout(10):
                while len(desk.accepted) < len(entries):
                    await asyncio.sleep(0)
            assert desk.accepted == entries and desk.asked == [ord("a"), ord("c")]
            intake.put(CommandMessage(), b"a5")
            assert desk.accepted[-1] == b"a5"

    asyncio.run(body())


def test_starting_over_drops_what_waits() -> None:
    async def body() -> None:
        async with TaskScope("test") as scope:
            desk = Desk()
            intake = Intake(scope, "t", desk.accept)
            intake.put(CommandMessage(), b"a1")
            await asyncio.sleep(0)
            assert [entry for _, entry in intake.clear()] == [b"a1"]
            intake.put(CommandMessage(), b"a2")
            desk.gate.set()
            async with asyncio.timeout(10):
                while not desk.accepted:
                    await asyncio.sleep(0)
            for _ in range(5):
                await asyncio.sleep(0)
            assert desk.accepted == [b"a2"]

    asyncio.run(body())
