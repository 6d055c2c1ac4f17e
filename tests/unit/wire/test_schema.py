from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import RecordUnreadable
from magnetar.model.position import Position
from magnetar.model.schema import SchemaData, SchemaType
from magnetar.wire.schema import (
    SchemaIndex,
    decode_locator,
    decode_schema,
    decode_stored,
    encode_locator,
    encode_schema,
    encode_stored,
)

POSITIONS = st.builds(Position, st.integers(0, 2**62), st.integers(0, 2**31))
INDEXES = st.builds(SchemaIndex, st.integers(0, 2**31), POSITIONS, st.binary(max_size=32))
STORED = st.builds(
    SchemaData,
    st.sampled_from([kind for kind in SchemaType if kind >= 0]),
    st.binary(),
    st.dictionaries(st.text(), st.text(), max_size=3),
    st.text(),
    st.integers(0, 2**62),
    st.booleans(),
)


@given(st.lists(INDEXES, min_size=1))
def test_a_locator_round_trips(index: list[SchemaIndex]) -> None:
    assert decode_locator(encode_locator(index)) == tuple(index)


@given(STORED, st.lists(INDEXES, max_size=3))
def test_a_stored_schema_round_trips(schema: SchemaData, index: list[SchemaIndex]) -> None:
    assert decode_stored(encode_stored("t/n/x", schema, index)) == schema


def test_bytes_are_stored_as_none() -> None:
    stored = decode_stored(encode_stored("t/n/x", SchemaData(SchemaType.BYTES), ()))
    assert stored.type is SchemaType.NONE


def test_a_locator_has_pulsars_bytes() -> None:
    index = SchemaIndex(0, Position(7, 0), b"h")
    assert encode_locator([index]).hex() == "0a0b08001204080710001a0168120b08001204080710001a0168"


@given(st.binary())
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    for decode in (decode_locator, decode_stored):
        with contextlib.suppress(RecordUnreadable):
            decode(data)


@pytest.mark.parametrize("data", [b"", b"\xff"])
def test_incomplete_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RecordUnreadable):
        decode_stored(data)
    with pytest.raises(RecordUnreadable):
        decode_locator(data)


@pytest.mark.parametrize(
    ("kind", "wire", "back"),
    [
        (SchemaType.AVRO, 4, SchemaType.AVRO),
        (SchemaType.PROTOBUF_NATIVE, 20, SchemaType.PROTOBUF_NATIVE),
        (SchemaType.AUTO_CONSUME, 21, SchemaType.AUTO_CONSUME),
        (SchemaType.EXTERNAL, 22, SchemaType.EXTERNAL),
        (SchemaType.BYTES, 0, SchemaType.NONE),
        (SchemaType.NONE, 0, SchemaType.NONE),
    ],
)
def test_types_have_their_own_numbers_on_the_wire(
    kind: SchemaType, wire: int, back: SchemaType
) -> None:
    message = encode_schema(SchemaData(kind, b"d", {"a": "b"}), "topic")
    assert int(message.type) == wire
    assert message.name == "topic"
    assert decode_schema(message, user="ann", now_ms=5) == SchemaData(
        back, b"d", {"a": "b"}, "ann", 5
    )
