"""Values of every type go out and come back equal, in JSON and in Avro, however they are nested."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)

from magnetar.client.schema.schema import Schema
from magnetar.model.schema import SchemaType
from magnetar.spark.avro_type import make_definition, make_type
from magnetar.spark.offset import Place
from magnetar.spark.option import BadValue, Broker, InvalidOption
from magnetar.spark.plain_value import list_values
from magnetar.spark.record import read_rows, value_type
from magnetar.spark.sink_option import parse_sink
from magnetar.spark.slice import Slice
from magnetar.spark.value import RegisteredSchema, ValueReader, column_type

WHERE = {"serviceUrl": "pulsar://h:1", "adminUrl": "http://h:1"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
PIECE = Slice("persistent://a/b/c", 0, "persistent://a/b/c", Place(0, 0), Place(0, 1))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(-(2**62), 2**62)
DOUBLES = st.floats(allow_subnormal=True)
PLAIN: dict[DataType, st.SearchStrategy[Any]] = {
    BooleanType(): st.booleans(),
    ByteType(): st.integers(-128, 127),
    ShortType(): st.integers(-(2**15), 2**15 - 1),
    IntegerType(): st.integers(-(2**31), 2**31 - 1),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    FloatType(): st.floats(width=32),
    DoubleType(): DOUBLES,
    StringType(): st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    BinaryType(): st.binary(max_size=8),
    DateType(): st.integers(-(2**31), 2**31 - 1),
    TimestampType(): MOMENTS,
    TimestampNTZType(): MOMENTS,
    TimeType(6): st.integers(0, 86_400_000_000 - 1).map(lambda micros: micros * 1000),
    DecimalType(9, 2): st.decimals(-9999999, 9999999, places=2),
    DecimalType(38, 18): st.decimals(-(10**19), 10**19, places=18),
}
Kinds = st.SearchStrategy[DataType]
NAMES = st.sampled_from(["a", "b", "a_b", "key_1", "_x"])


def structs(inner: Kinds) -> Kinds:
    fields = st.lists(
        st.tuples(NAMES, inner), min_size=1, max_size=3, unique_by=lambda each: each[0]
    )
    return fields.map(lambda made: StructType([StructField(*each) for each in made]))


KINDS: Kinds = st.recursive(
    st.sampled_from(list(PLAIN)),
    lambda inner: st.one_of(
        inner.map(ArrayType),
        inner.map(lambda each: MapType(StringType(), each)),
        structs(inner),
    ),
    max_leaves=5,
)


def values(kind: DataType) -> st.SearchStrategy[Any]:
    match kind:
        case ArrayType():
            found: st.SearchStrategy[Any] = st.lists(values(kind.elementType), max_size=3)
        case MapType():
            keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
            found = st.dictionaries(keys, values(kind.valueType), max_size=3)
        case StructType():
            found = st.fixed_dictionaries(
                {each.name: values(each.dataType) for each in kind.fields}
            )
        case _:
            found = PLAIN[kind]
    return st.none() | found


@st.composite
def tables(draw: st.DrawFn) -> tuple[StructType, list[dict[str, Any]]]:
    schema = draw(structs(KINDS))
    assert isinstance(schema, StructType)
    row = st.fixed_dictionaries({each.name: values(each.dataType) for each in schema.fields})
    return schema, draw(st.lists(row, min_size=1, max_size=4))


def write(
    batch: pa.RecordBatch, schema: StructType, form: str
) -> tuple[RegisteredSchema, pa.Array]:
    options = parse_sink({**WHERE, "topic": "t", "valueFormat": form}, is_stream=False)
    definition = make_definition(value_type(schema))
    codec = Schema.json(definition) if form == "json" else Schema.avro(definition)
    rows = read_rows(batch, options, codec)
    return RegisteredSchema(SchemaType[form.upper()], definition), rows.column("value")


def read(schema: RegisteredSchema, data: pa.Array, bad: BadValue = BadValue.FAIL) -> pa.Array:
    reader = ValueReader(
        Broker(WHERE["serviceUrl"], WHERE["adminUrl"]), schema, column_type(schema), bad
    )
    count = len(data)
    columns = {
        "value": data,
        "schema_version": pa.nulls(count, pa.int64()),
        "ledger": pa.array(range(count)),
        "entry": pa.array(range(count)),
        "batch_index": pa.array(range(count)),
    }
    return reader.decode(pa.RecordBatch.from_pydict(columns), PIECE)


def equal(one: Any, other: Any) -> bool:
    """As Spark's own equality: a number that is not one equals itself."""
    match one, other:
        case float(), float():
            return one == other or (math.isnan(one) and math.isnan(other))
        case dict(), dict():
            return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(equal, one, other))
        case _:
            return bool(one == other)


def numbers(column: pa.Array) -> list[Any]:
    """Moments as numbers: Python's own types end with the year 9999."""
    return list_values(column, is_json=False)


@pytest.mark.parametrize("form", ["json", "avro"])
@given(tables())
def test_rows_come_back_equal(form: str, drawn: tuple[StructType, list[dict[str, Any]]]) -> None:
    schema, rows = drawn
    renamed = StructType([StructField("value", schema)])
    batch = pa.RecordBatch.from_pylist(
        [{"value": row} for row in rows], schema=to_arrow_schema(renamed, timezone="UTC")
    )
    registered, data = write(batch, renamed, form)
    assert column_type(registered) == schema
    back = read(registered, data)
    expected = batch.column("value")
    assert back.type == expected.type
    assert equal(numbers(back), numbers(expected))
    # Columns are read as a whole, and row by row once a value cannot be read.
    for more in ([None], [None, b""]):
        mixed = pa.concat_arrays([data, pa.array(more, data.type)])
        found = numbers(read(registered, mixed, BadValue.NULL))
        assert equal(found, [*numbers(expected), *[None] * len(more)])


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (CalendarIntervalType(), r"The column a\.b is interval, which no schema can carry"),
        (NullType(), r"The column a\.b is void"),
        (MapType(IntegerType(), StringType()), r"The keys of the map a\.b are int"),
        (ArrayType(NullType()), r"The column a\.b\[\] is void"),
        (StructType([]), r"The struct a\.b has no fields"),
        (
            StructType([StructField("no name", IntegerType())]),
            r"The column a\.b\.no name has a name",
        ),
    ],
)
def test_what_no_schema_can_carry_is_refused_with_its_path(kind: DataType, told: str) -> None:
    inner = StructType([StructField("b", kind)])
    with pytest.raises(InvalidOption, match=told):
        make_definition(StructType([StructField("a", inner)]))


def test_records_of_a_definition_have_names_of_their_own() -> None:
    leaf = StructType([StructField("x", IntegerType())])
    both = StructType(
        [StructField("a_b", leaf), StructField("a", StructType([StructField("b", leaf)]))]
    )
    schema = RegisteredSchema(SchemaType.AVRO, make_definition(both))
    assert column_type(schema) == both


@pytest.mark.parametrize(
    ("kind", "spelled", "expected"),
    [
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            1_500,
            EPOCH + timedelta(seconds=1.5),
        ),
        (MILLIS, 1.5, EPOCH + timedelta(seconds=1.5)),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            "1970-01-01T00:00:01.5Z",
            EPOCH + timedelta(seconds=1.5),
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            [2026, 3, 4, 5, 6],
            datetime(2026, 3, 4, 5, 6),
        ),
        ({"type": "int", "logicalType": "date"}, "2026-03-04", date(2026, 3, 4)),
        ({"type": "int", "logicalType": "date"}, [2026, 3, 4], date(2026, 3, 4)),
        ({"type": "int", "logicalType": "time-millis"}, 61_000, time(0, 1, 1)),
        ({"type": "int", "logicalType": "time-millis"}, "00:01:01", time(0, 1, 1)),
        ({"type": "long", "logicalType": "time-micros"}, [0, 1, 1], time(0, 1, 1)),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
            12345678901234567.125,
            Decimal("12345678901234567.125"),
        ),
        ("bytes", "AAH/", b"\x00\x01\xff"),
        ({"type": "string", "logicalType": "uuid"}, "a-b", "a-b"),
        ("double", "-Infinity", -math.inf),
    ],
)
def test_json_is_read_as_java_spells_it(kind: Any, spelled: Any, expected: Any) -> None:
    fields = [{"name": "x", "type": kind}]
    definition = json.dumps({"type": "record", "name": "R", "fields": fields})
    text = json.dumps({"x": spelled})
    if isinstance(expected, Decimal):
        text = '{"x": 12345678901234567.125}'  # a float has fewer digits
    found = read(RegisteredSchema(SchemaType.JSON, definition), pa.array([text.encode()]))
    assert found.to_pylist() == [{"x": expected}]


@pytest.mark.parametrize(
    ("kind", "spelled"),
    [
        ("bytes", "not base64!"),
        ("bytes", 5),
        ("double", "many"),
        (MILLIS, "yesterday"),
        (MILLIS, True),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, "1.25"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, "one"),
    ],
)
def test_json_that_does_not_fit_its_schema_is_a_bad_value(kind: Any, spelled: Any) -> None:
    fields = [{"name": "x", "type": kind}]
    schema = RegisteredSchema(
        SchemaType.JSON, json.dumps({"type": "record", "name": "R", "fields": fields})
    )
    data = pa.array([json.dumps({"x": spelled}).encode()])
    assert read(schema, data, BadValue.NULL).to_pylist() == [None]


def test_avro_identifiers_and_times_are_read() -> None:
    fields = [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "on", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    ]
    definition = json.dumps({"type": "record", "name": "R", "fields": fields})
    codec = Schema.avro(definition)
    data = codec.encode({"id": "0" * 36, "at": 61_000, "on": 1_500})
    found = read(RegisteredSchema(SchemaType.AVRO, definition), pa.array([data]))
    expected = {"id": "0" * 36, "at": time(0, 1, 1), "on": EPOCH + timedelta(seconds=1.5)}
    assert found.to_pylist() == [expected]


@pytest.mark.parametrize("form", ["json", "avro"])
def test_enums_are_read_as_text(form: str) -> None:
    kind = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
    fields = [{"name": "one", "type": kind}, {"name": "some", "type": ["null", "Colour"]}]
    definition = json.dumps({"type": "record", "name": "R", "fields": fields})
    codec = Schema.json(definition) if form == "json" else Schema.avro(definition)
    rows = [{"one": "BLUE", "some": None}, {"one": "RED", "some": "BLUE"}]
    schema = RegisteredSchema(SchemaType[form.upper()], definition)
    assert column_type(schema).simpleString() == "struct<one:string,some:string>"
    data = pa.array([codec.encode(row) for row in rows], pa.binary())
    assert read(schema, data).to_pylist() == rows


def test_a_named_type_may_be_used_twice() -> None:
    inner = {"type": "fixed", "name": "f", "size": 1}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": "f"}]
    assert make_type({"type": "record", "name": "R", "fields": fields}).simpleString() == (
        "struct<a:binary,b:binary>"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"\x02",  # the text is missing
        b"\x02\x08abc",  # it ends too early
        b"\x02\x05abc",  # it has fewer bytes than none
        b"\xff" * 11,  # a number without end
        b"\x02\x02\xff",  # not UTF-8
    ],
)
def test_avro_that_is_cut_or_broken_is_a_bad_value(data: bytes) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}]
    definition = json.dumps({"type": "record", "name": "r", "fields": fields})
    schema = RegisteredSchema(SchemaType.AVRO, definition)
    found = read(schema, pa.array([b"\x02\x02a", data], pa.binary()), BadValue.NULL)
    assert found.to_pylist() == [{"id": 1, "text": "a"}, None]
    good = read(schema, pa.array([b"x", b"\x02\x02a", b"\x01\x00"], pa.binary()).slice(1))
    assert good.to_pylist() == [{"id": 1, "text": "a"}, {"id": -1, "text": ""}]


@pytest.mark.parametrize("data", [b"", b" ", b'{"id": 1', b'{"id": 1}{"id": 2}', b"[1]", b"1"])
def test_json_that_is_not_one_object_is_a_bad_value(data: bytes) -> None:
    fields = [{"name": "id", "type": "long"}]
    definition = json.dumps({"type": "record", "name": "r", "fields": fields})
    schema = RegisteredSchema(SchemaType.JSON, definition)
    spread = b'{\n  "more": "\\u00fc",\n  "id": 7\n}'
    found = read(schema, pa.array([b'{"id": 1}', data, spread], pa.binary()), BadValue.NULL)
    assert found.to_pylist() == [{"id": 1}, None, {"id": 7}]
