"""Primitive values, pairs, protobuf messages, and reading without knowing."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct
from google.protobuf.type_pb2 import Enum as EnumMessage
from google.protobuf.type_pb2 import EnumValue, Field

from magnetar.client.error import SchemaError
from magnetar.client.schema import GenericRecord, KeyValue, Schema
from magnetar.model.schema import SchemaData, SchemaType
from magnetar.rules.schema import validate_schema
from tests.unit.client.schema.sample import Line

MOMENT = datetime(2024, 2, 29, 12, 30, 15, 123000, UTC)


@pytest.mark.parametrize(
    ("schema", "value", "data"),
    [
        (Schema.BYTES, b"\x00\xff", "00ff"),
        (Schema.STRING, "Zoë", "5a6fc3ab"),
        (Schema.BOOL, True, "01"),
        (Schema.INT8, -2, "fe"),
        (Schema.INT16, 258, "0102"),
        (Schema.INT32, -1, "ffffffff"),
        (Schema.INT64, 2**40, "0000010000000000"),
        (Schema.FLOAT32, 1.5, "3fc00000"),
        (Schema.FLOAT64, -0.25, "bfd0000000000000"),
        (Schema.TIMESTAMP, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "00000000000003e8"),
        (Schema.INSTANT, datetime(1970, 1, 1, 0, 0, 1, 5, UTC), "000000000000000100001388"),
        (Schema.LOCAL_DATE, date(1970, 1, 3), "0000000000000002"),
        (Schema.LOCAL_TIME, time(0, 0, 1), "000000003b9aca00"),
        (
            Schema.LOCAL_DATE_TIME,
            datetime(1970, 1, 2, 0, 0, 1),
            "0000000000000001000000003b9aca00",
        ),
    ],
    ids=lambda part: part if isinstance(part, str) else None,
)
def test_a_primitive_has_the_bytes_every_client_gives_it(
    schema: Schema[Any], value: Any, data: str
) -> None:
    assert schema.encode(value).hex() == data
    assert schema.decode(bytes.fromhex(data)) == value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (Schema.BYTES, "text"),
        (Schema.STRING, b"bytes"),
        (Schema.INT8, 128),
        (Schema.INT32, True),
        (Schema.INT64, 1.0),
        (Schema.TIMESTAMP, datetime(2024, 1, 1)),
        (Schema.LOCAL_DATE, MOMENT),
        (Schema.LOCAL_DATE_TIME, MOMENT),
    ],
)
def test_a_value_of_another_kind_is_refused(schema: Schema[Any], value: Any) -> None:
    with pytest.raises(SchemaError):
        schema.encode(value)


@pytest.mark.parametrize("schema", [Schema.INT64, Schema.BOOL, Schema.INSTANT])
def test_data_of_another_length_is_refused(schema: Schema[Any]) -> None:
    with pytest.raises(SchemaError, match="3 bytes are no"):
        schema.decode(b"abc")


def test_an_inline_pair_stands_in_the_payload() -> None:
    schema = Schema.key_value(Schema.STRING, Schema.INT16)
    data = schema.encode(KeyValue("k", 7))
    assert data.hex() == "000000016b000000020007"
    assert schema.encode_key(KeyValue("k", 7)) is None
    assert schema.decode(data) == KeyValue("k", 7)


def test_a_separated_pair_keeps_its_key_in_the_message_key() -> None:
    schema = Schema.key_value(Schema.STRING, Schema.INT16, "separated")
    pair = KeyValue("k", 7)
    assert (schema.encode_key(pair), schema.encode(pair)) == (b"k", b"\x00\x07")
    assert schema.decode(b"\x00\x07", key=b"k") == pair


def test_a_part_of_a_pair_may_be_missing() -> None:
    schema = Schema.key_value(Schema.STRING, Schema.STRING)
    pair: Any = KeyValue(None, "v")
    assert schema.decode(schema.encode(pair)) == pair


def test_the_schema_of_a_pair_tells_both_parts() -> None:
    schema = Schema.key_value(Schema.STRING, Schema.json(Line), "separated")
    validate_schema(schema.data)
    assert schema.data.properties["key.schema.type"] == "STRING"
    assert schema.data.properties["value.schema.type"] == "JSON"
    assert schema.data.properties["kv.encoding.type"] == "SEPARATED"


@pytest.mark.parametrize("data", ["", "000000", "00000005aa", "fffffffe", "000000016b"])
def test_bytes_that_are_no_pair_are_refused(data: str) -> None:
    with pytest.raises(SchemaError):
        Schema.key_value(Schema.STRING, Schema.STRING).decode(bytes.fromhex(data))


def test_an_unknown_encoding_of_pairs_is_refused() -> None:
    with pytest.raises(SchemaError, match="there are inline and separated"):
        Schema.key_value(Schema.STRING, Schema.STRING, "both")


@pytest.mark.parametrize("make", [Schema.protobuf, Schema.protobuf_native])
def test_a_protobuf_message_comes_back_and_its_definition_is_valid(make: Any) -> None:
    schema = make(Field)
    value = Field(number=7, name="n", packed=True)
    assert schema.decode(schema.encode(value)) == value
    validate_schema(schema.data)
    with pytest.raises(SchemaError, match="takes Field, not EnumValue"):
        schema.encode(EnumValue())
    with pytest.raises(SchemaError):
        schema.decode(b"\xff\xff")


def test_a_recursive_protobuf_message_has_a_definition() -> None:
    definition = json.loads(Schema.protobuf(Struct).data.definition)
    assert definition["name"] == "Struct"
    validate_schema(Schema.protobuf(Struct).data)


def test_what_is_no_protobuf_class_is_refused() -> None:
    with pytest.raises(SchemaError, match="protobuf compiler"):
        Schema.protobuf(int)  # type: ignore[type-var]


@pytest.mark.parametrize(
    "schema", [Schema.STRING, Schema.INT32, Schema.BOOL], ids=lambda schema: repr(schema)
)
def test_auto_reads_primitives(schema: Schema[Any]) -> None:
    value: Any = {"STRING": "x", "INT32": 7, "BOOLEAN": True}[schema.schema_type.name]
    assert Schema.auto().decode(schema.encode(value), writer=schema.data) == value


@pytest.mark.parametrize("make", [Schema.json, Schema.avro])
def test_auto_reads_records_as_mappings(make: Any) -> None:
    schema = make(Line)
    record = Schema.auto().decode(schema.encode(Line("tea", 2)), writer=schema.data)
    assert isinstance(record, GenericRecord)
    assert dict(record) == {"product": "tea", "count": 2}
    assert record.schema_type is schema.schema_type


def test_auto_reads_protobuf_without_its_class() -> None:
    schema = Schema.protobuf_native(EnumMessage)
    value = EnumMessage(name="E", enumvalue=[EnumValue(name="A", number=1)], edition="2023")
    record = Schema.auto().decode(schema.encode(value), writer=schema.data)
    assert (record["name"], record["edition"]) == ("E", "2023")
    assert record["enumvalue"][0]["number"] == 1


def test_auto_reads_pairs_of_any_kind() -> None:
    schema = Schema.key_value(Schema.STRING, Schema.avro(Line), "separated")
    data = schema.encode(KeyValue("k", Line("tea")))
    pair = Schema.auto().decode(data, key=b"k", writer=schema.data)
    assert pair.key == "k" and pair.value["product"] == "tea"


def test_auto_gives_bytes_where_there_is_no_schema_and_never_writes() -> None:
    assert Schema.auto().decode(b"x") == b"x"
    with pytest.raises(SchemaError, match="only reads"):
        Schema.auto().encode("x")
    with pytest.raises(SchemaError, match="does not say how"):
        Schema.auto().decode(b"x", writer=SchemaData(SchemaType.PROTOBUF, b"{}"))


def test_encoded_bytes_pass_only_if_the_named_schema_can_read_them() -> None:
    line = Schema.avro(Line)
    encoded = Schema.auto_produce(line)
    assert encoded.data == line.data  # what is registered
    data = line.encode(Line("tea", 2))
    assert encoded.encode(data) == data
    for wrong in (b"\xff", "text"):
        with pytest.raises(SchemaError):
            encoded.encode(wrong)  # type: ignore[arg-type]
    number = Schema.auto_produce(Schema.INT32)
    assert number.encode(bytes(4)) == bytes(4)
    with pytest.raises(SchemaError):
        number.encode(bytes(3))


def test_a_schema_of_single_values_is_found_by_its_type() -> None:
    assert Schema.of(SchemaType.INT32).decode(Schema.INT32.encode(7)) == 7
    with pytest.raises(SchemaError, match="Values of type AVRO need more than their type"):
        Schema.of(SchemaType.AVRO)
