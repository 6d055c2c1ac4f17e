"""Columns say what messages say: the two ways of decoding an entry agree on every entry."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.delivery import EntryDecoder
from magnetar.client.message import Message, Origin
from magnetar.client.outgoing import Outgoing
from magnetar.client.publication import ProducerSettings
from magnetar.client.send_encoder import SendEncoder
from magnetar.columns.column import ChunkUnbegun, ColumnDecoder, EntryUnreadable
from magnetar.model.position import Position
from magnetar.wire.command import CommandMessage, CompressionType, message_id
from magnetar.wire.frame import FrameDecoder

KEYS = st.one_of(st.none(), st.text(max_size=6), st.binary(max_size=6), st.just("k" * 200))
TEXT = st.text(max_size=5)
MESSAGES = st.tuples(
    st.one_of(st.none(), st.binary(max_size=300), st.just(b"v" * 100)),
    KEYS,
    st.dictionaries(TEXT, TEXT, max_size=2),
    st.one_of(st.none(), st.integers(1, 2**40)),
    st.one_of(st.none(), st.binary(min_size=1, max_size=4)),
)
PLAIN = st.tuples(st.just(b"v" * 40), st.just("key1"), st.just({}), st.none(), st.none())


def encode(
    batches: list[list[Any]],
    compression: CompressionType = CompressionType.NONE,
    first: int = 0,
    chunk_max: int | None = None,
) -> list[bytes]:
    settings = ProducerSettings(compression=compression, chunking=True, chunk_bytes_max=chunk_max)
    encoder = SendEncoder(1, "maker", settings, b"\0" * 7 + b"\3", 5 << 20)
    entries = []
    sequence = first
    for batch in batches:
        outgoing = []
        for data, key, properties, event, ordering in batch:
            options = {"properties": properties, "event_time_ms": event, "ordering_key": ordering}
            sent: Any = None  # nobody waits
            outgoing.append(Outgoing(data, sent, key, options, 0, sequence))  # type: ignore[arg-type]
            sequence += 1
        for send in encoder.encode(outgoing, now_ms=1_700_000_000_000):
            decoder = FrameDecoder(frame_bytes_max=10 << 20)
            decoder.feed(send.frame)
            frame = decoder.next_frame()
            assert frame is not None
            entries.append(frame.body)
    return entries


def rows_of_messages(entries: list[bytes]) -> list[tuple[Any, ...]]:
    decoder = EntryDecoder(Origin("t"), message_bytes_max=10 << 20)
    rows = []
    for number, entry in enumerate(entries):
        command = CommandMessage(consumer_id=1, message_id=message_id(Position(7, number)))
        delivery = decoder.decode(command, entry, now_ms=0, is_wanted=lambda _: True)
        rows += [row_of(message) for message in delivery.messages]
    return rows


def row_of(message: Message[Any]) -> tuple[Any, ...]:
    id = message.id
    return (
        message.key_bytes,
        message.data,
        list(message.properties.items()),
        (id.ledger_id, id.entry_id, id.batch_index),
        message.publish_time_ms,
        message.event_time_ms,
        message.sequence_id,
        message.producer_name,
        message.schema_version and int.from_bytes(message.schema_version, "big"),
    )


def rows_of_columns(entries: list[bytes]) -> list[tuple[Any, ...]]:
    decoder = ColumnDecoder()
    for number, entry in enumerate(entries):
        decoder.add(7, number, entry)
    return [
        (
            row["key"],
            row["value"],
            row["properties"],
            (row["ledger"], row["entry"], row["batch_index"]),
            int(row["publish_time"].timestamp() * 1000),
            row["event_time"] and round(row["event_time"].timestamp() * 1000),
            row["sequence_id"],
            row["producer"],
            row["schema_version"],
        )
        for row in decoder.take().to_pylist()
    ]


@given(
    st.lists(
        st.one_of(
            st.lists(MESSAGES, min_size=1, max_size=20),
            st.lists(PLAIN, min_size=8, max_size=30),
            st.tuples(st.lists(PLAIN, min_size=9, max_size=9), MESSAGES).map(
                lambda pair: [*pair[0], pair[1], *pair[0]]
            ),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(CompressionType.values()),
    st.sampled_from([0, 120, 16380, 2**33]),
)
def test_columns_and_messages_say_the_same(
    batches: list[list[Any]], compression: CompressionType, first: int
) -> None:
    entries = encode(batches, compression, first)
    assert rows_of_columns(entries) == rows_of_messages(entries)


def plain(count: int, size: int = 40) -> list[Any]:
    return [(bytes([number % 256]) * size, None, {}, None, None) for number in range(count)]


def test_a_message_in_chunks_is_one_row_where_its_last_chunk_stands() -> None:
    entries = encode([plain(1, 1000)], chunk_max=300)
    assert len(entries) == 4
    rows = rows_of_columns(entries)
    assert rows == rows_of_messages(entries) and rows[0][3] == (7, 3, -1)


def test_the_end_of_a_message_without_its_beginning_is_told() -> None:
    entries = encode([plain(1, 1000)], chunk_max=300)
    decoder = ColumnDecoder()
    decoder.add(7, 2, entries[2])
    with pytest.raises(ChunkUnbegun, match="7:3"):
        decoder.add(7, 3, entries[3])


def test_part_of_a_batch_keeps_its_indexes() -> None:
    (entry,) = encode([plain(20)])
    decoder = ColumnDecoder(("value", "batch_index", "sequence_id"))
    decoder.add(1, 0, entry, start=3, end=6)
    taken = decoder.take().to_pydict()
    assert taken["batch_index"] == taken["sequence_id"] == [3, 4, 5]
    assert [value[0] for value in taken["value"]] == [3, 4, 5]


@given(st.binary(max_size=400), st.integers(0, 399), st.booleans())
def test_damage_is_refused_or_harmless_and_never_half_taken(
    noise: bytes, place: int, is_checked: bool
) -> None:
    (entry,) = encode([plain(5)])
    damaged = (entry[:place] + noise + entry[place + len(noise) :])[: len(entry)]
    decoder = ColumnDecoder(checks=is_checked)
    try:
        decoder.add(1, 0, damaged)
    except EntryUnreadable:
        assert decoder.rows == 0 and decoder.take().num_rows == 0
    else:
        assert len(decoder.take()) <= 1_000_000
        assert not is_checked or damaged in (entry, entry[6:]) or damaged[:2] != entry[:2]


def test_an_unreadable_entry_can_stand_as_a_row_of_its_own() -> None:
    decoder = ColumnDecoder(("value", "ledger", "entry"))
    decoder.add_unreadable(3, 4)
    assert decoder.take().to_pylist() == [{"value": None, "ledger": 3, "entry": 4}]
