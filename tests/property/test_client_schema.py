"""Laws of schemas: what was written is read, and rubbish is refused by name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.type_pb2 import Field
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.error import SchemaError
from magnetar.client.schema import KeyValue, Schema
from magnetar.model.schema import SchemaData


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Leaf:
    name: str
    weight: float


@dataclass(frozen=True)
class Everything:
    number: int
    text: str
    flag: bool
    data: bytes
    colour: Colour
    moment: datetime
    day: date
    id: UUID
    price: Decimal
    leaves: list[Leaf]
    counts: dict[str, int]
    note: str | None


REALS = st.floats(allow_nan=False, allow_infinity=False)
# JSON and Avro text is UTF-8: a lone surrogate is no text.
TEXT = st.text(st.characters(exclude_categories=("Cs",)))
VALUES = st.builds(
    Everything,
    number=st.integers(-(2**63), 2**63 - 1),
    text=TEXT,
    flag=st.booleans(),
    data=st.binary(),
    colour=st.sampled_from(Colour),
    moment=st.datetimes(timezones=st.just(UTC)),
    day=st.dates(),
    id=st.uuids(),
    price=st.decimals(allow_nan=False, allow_infinity=False),
    leaves=st.lists(st.builds(Leaf, name=TEXT, weight=REALS)),
    counts=st.dictionaries(TEXT, st.integers(-(2**63), 2**63 - 1)),
    note=st.none() | TEXT,
)
JSON, AVRO = Schema.json(Everything), Schema.avro(Everything)


@given(VALUES)
def test_a_record_comes_back_from_json(value: Everything) -> None:
    assert JSON.decode(JSON.encode(value)) == value


@given(VALUES)
def test_a_record_comes_back_from_avro(value: Everything) -> None:
    assert AVRO.decode(AVRO.encode(value)) == value


@given(st.none() | TEXT, st.none() | st.integers(-(2**31), 2**31 - 1))
def test_a_pair_comes_back(key: str | None, value: int | None) -> None:
    schema = Schema.key_value(Schema.STRING, Schema.INT32)
    pair: Any = KeyValue(key, value)
    assert schema.decode(schema.encode(pair)) == pair


SCHEMAS = [
    Schema.STRING,
    Schema.BOOL,
    Schema.INT8,
    Schema.INT64,
    Schema.FLOAT64,
    Schema.TIMESTAMP,
    Schema.INSTANT,
    Schema.LOCAL_DATE,
    Schema.LOCAL_TIME,
    Schema.LOCAL_DATE_TIME,
    JSON,
    AVRO,
    Schema.protobuf_native(Field),
    Schema.key_value(Schema.STRING, JSON),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.schema_type.name)
@given(data=st.binary(max_size=40) | st.binary(min_size=8, max_size=16))
def test_any_bytes_are_read_or_refused_by_name(schema: Schema[Any], data: bytes) -> None:
    for attempt in (
        lambda: schema.decode(data),
        lambda: Schema.auto().decode(data, writer=schema.data),
    ):
        try:
            attempt()
        except SchemaError:
            pass


@given(
    st.sampled_from([schema.schema_type for schema in SCHEMAS]),
    st.binary(max_size=30),
    st.binary(max_size=30),
)
def test_any_foreign_schema_is_understood_or_refused_by_name(
    kind: Any, definition: bytes, data: bytes
) -> None:
    writer = SchemaData(kind, definition)
    for schema in (Schema.auto(), AVRO, Schema.key_value(Schema.STRING, AVRO)):
        try:
            schema.decode(data, writer=writer)
        except SchemaError:
            pass
