"""Rows by columns become the same bytes, at the same places, as messages one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.client.layout import route_key
from magnetar.client.outgoing import Pack, format_key
from magnetar.columns.sheet import Sheet, encode_rows, make_sheet
from magnetar.model.layout import Layout
from magnetar.model.segment import SegmentId
from magnetar.rules.route import KeyHash, SegmentHash, bucket_hash, bucket_index
from magnetar.wire.batch import decode_batch, encode_batch
from magnetar.wire.command import KeyValue, SingleMessageMetadata

Row = tuple[bytes | None, bytes | None, int, list[tuple[str, str]]]

ROWS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=6) | st.text(max_size=200).map(str.encode),
        st.none() | st.binary(max_size=300),
        st.just(0) | st.integers(1, 1 << 50),
        st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=2),
    ),
    min_size=1,
    max_size=40,
)
FIRST = st.integers(0, 1 << 62)


def make(rows: list[Row], first: int, *, is_sorted: bool) -> tuple[Sheet, list[Row]]:
    sheet, order = make_sheet(
        pa.array([row[0] for row in rows], pa.binary()),
        pa.array([row[1] for row in rows], pa.binary()),
        first,
        events_ms=np.array([row[2] for row in rows]),
        properties=[row[3] for row in rows] if any(row[3] for row in rows) else None,
        sorts=np.ones(len(rows), np.bool_) if is_sorted else None,
    )
    return sheet, [rows[place] for place in order]


def spelled(key: bytes) -> str | bytes:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


def expect(row: Row, number: int) -> tuple[SingleMessageMetadata, bytes]:
    key, value, event_ms, properties = row
    metadata = SingleMessageMetadata(sequence_id=number)
    metadata.properties.extend(KeyValue(key=name, value=text) for name, text in properties)
    if key is not None:
        metadata.partition_key = format_key(spelled(key))
        if isinstance(spelled(key), bytes):
            metadata.partition_key_b64_encoded = True
    if event_ms:
        metadata.event_time = event_ms
    if value is None:
        metadata.null_value = True
    return metadata, value or b""


@given(ROWS, FIRST, st.booleans())
@settings(max_examples=60, deadline=None)
def test_rows_are_spelled_as_messages_are(rows: list[Row], first: int, is_sorted: bool) -> None:
    sheet, placed = make(rows, first, is_sorted=is_sorted)
    payload, edges = encode_rows(sheet)
    expected = [expect(row, first + place) for place, row in enumerate(placed)]
    assert bytes(payload[edges[0] : edges[-1]]) == encode_batch(expected)
    for place, (key, value, event_ms, properties) in enumerate(placed):
        data, options = sheet.message(place)
        assert data == value and options["sequence_id"] == first + place
        assert options["key"] == (None if key is None else spelled(key))
        assert options.get("event_time_ms", 0) == event_ms
        assert options.get("properties", {}) == dict(properties)


@given(ROWS, FIRST, st.integers(1, 6), st.sampled_from(SegmentHash), st.booleans())
@settings(max_examples=60, deadline=None)
def test_rows_go_where_messages_go(
    rows: list[Row], first: int, count: int, half: SegmentHash, is_regular: bool
) -> None:
    layout = Layout.initial(count, now_ms=0, bucket_budget=8)
    if is_regular:
        layout = Layout.synthetic([f"persistent://a/b/c{n}" for n in range(count)], now_ms=0)
    for hashing in KeyHash:
        sheet, placed = make(rows, first, is_sorted=False)
        texts = [
            str(first + place) if key is None else format_key(spelled(key))
            for place, (key, *_) in enumerate(placed)
        ]
        routed = [route_key(layout, text, half=half, legacy=hashing).id for text in texts]
        parts = sheet.part(layout, half=half, hashing=hashing)
        found = {
            int(number): segment.id for segment, part in parts for number in part.numbers.tolist()
        }
        assert found == {first + place: id for place, id in enumerate(routed)}
        ids = [segment.id for segment in layout.segments]
        for segment in layout.segments:
            last = first + len(rows) // 2
            stored = sheet.find_stored([(segment, last)], half=half, legacy=ids, hashing=hashing)
            assert stored.tolist() == [
                id == segment.id and first + place <= last for place, id in enumerate(routed)
            ]


@given(
    ROWS,
    FIRST,
    st.sampled_from([(), (32768,), (16384, 32768, 49152)]),
    st.integers(1, 10),
    st.integers(1, 400),
)
@settings(max_examples=100, deadline=None)
def test_entries_follow_each_other_and_none_is_of_two_buckets(
    rows: list[Row], first: int, splits: tuple[int, ...], messages_max: int, bytes_max: int
) -> None:
    sheet, placed = make(rows, first, is_sorted=True)
    buckets = [bucket_index(splits, bucket_hash(ordering_key=None, key=row[0])) for row in placed]
    assert buckets == sorted(buckets)
    expected = first
    for pack in sheet.pack(splits, messages_max=messages_max, bytes_max=bytes_max):
        if isinstance(pack, int):
            assert int(sheet.numbers[pack]) == expected
            expected += 1
            continue
        assert (pack.first, pack.last) == (expected, expected + pack.count - 1)
        assert pack.count <= messages_max and len(pack.payload) <= bytes_max
        decoded = decode_batch(pack.payload, pack.count)
        assert [each.metadata.sequence_id for each in decoded] == list(
            range(pack.first, pack.last + 1)
        )
        start = expected - first
        assert len(set(buckets[start : start + pack.count])) == 1
        check_hashes(pack, placed[start : start + pack.count], splits)
        expected = pack.last + 1
    assert expected == first + len(rows)


def check_hashes(pack: Pack, rows: list[Row], splits: tuple[int, ...]) -> None:
    hashes = [bucket_hash(ordering_key=None, key=row[0]) for row in rows]
    assert pack.hashes == ((min(hashes), max(hashes)) if splits else None)


def test_rows_of_a_key_and_rows_without_one_stay_in_their_order() -> None:
    keys = [None, "a", "b", None, "a", "c", "b", None]
    values = [str(place).encode() for place in range(len(keys))]
    sheet, order = make_sheet(
        pa.array(keys, pa.string()), pa.array(values), 5, sorts=np.ones(len(keys), np.bool_)
    )
    assert sheet.numbers.tolist() == list(range(5, 5 + len(keys)))
    for key in set(keys):
        places = [place for place in order.tolist() if keys[place] == key]
        assert places == sorted(places)
    assert [values[place] for place in order] == sheet.values.to_pylist()
    assert (
        SegmentId(0)
        == sheet.part(Layout.initial(1, now_ms=0), half=SegmentHash.LOW, hashing=KeyHash.MURMUR3)[
            0
        ][0].id
    )
