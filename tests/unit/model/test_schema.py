from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import InvalidSchema
from magnetar.model.schema import (
    SchemaData,
    SchemaType,
    decode_key_value,
    decode_version,
    encode_key_value,
    encode_version,
    format_key_value,
    parse_key_value,
    parse_schema_type,
)


@given(st.integers(0, 2**63 - 1))
def test_versions_round_trip_as_eight_bytes(version: int) -> None:
    assert len(encode_version(version)) == 8
    assert decode_version(encode_version(version) + b"old clients send more") == version


def test_no_version_is_no_bytes_and_cannot_be_read() -> None:
    assert encode_version(None) == b""
    assert encode_version(1) == b"\0\0\0\0\0\0\0\x01"
    with pytest.raises(InvalidSchema):
        decode_version(b"\0" * 7)


@given(st.binary(), st.binary())
def test_key_and_value_definitions_round_trip(key: bytes, value: bytes) -> None:
    schema = SchemaData(
        SchemaType.KEY_VALUE,
        encode_key_value(key, value),
        {"key.schema.type": "AVRO", "key.schema.properties": '{"a":"b"}'},
    )
    assert decode_key_value(schema) == (
        SchemaData(SchemaType.AVRO, key, {"a": "b"}),
        SchemaData(SchemaType.BYTES, value),
    )


@given(st.binary())
def test_any_definition_is_two_parts_or_refused(definition: bytes) -> None:
    try:
        parts = decode_key_value(SchemaData(SchemaType.KEY_VALUE, definition))
    except InvalidSchema:
        return
    assert sum(len(part.definition) for part in parts) <= len(definition) - 8


@pytest.mark.parametrize(
    "properties", [{"key.schema.type": "ROUND"}, {"key.schema.properties": "[]"}]
)
def test_parts_of_unknown_kind_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidSchema):
        decode_key_value(SchemaData(SchemaType.KEY_VALUE, encode_key_value(b"", b""), properties))


def test_the_text_of_a_key_value_definition_is_an_object_of_both() -> None:
    record = {"type": "record", "name": "A", "fields": []}
    packed = parse_key_value(json.dumps({"key": "", "value": record}))
    schema = SchemaData(
        SchemaType.KEY_VALUE,
        packed,
        {"key.schema.type": "STRING", "value.schema.type": "AVRO"},
    )
    key, value = decode_key_value(schema)
    assert key.definition == b""
    assert json.loads(value.definition) == record
    assert json.loads(format_key_value(schema)) == {"key": "", "value": record}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"key":""}'])
def test_other_texts_of_a_key_value_definition_are_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse_key_value(text)


def test_types_have_pulsars_names_and_numbers() -> None:
    assert int(parse_schema_type("KEY_VALUE")) == 15
    assert int(parse_schema_type("EXTERNAL")) == 21
    assert [kind.name for kind in SchemaType if not kind.is_stored] == [
        "NONE",
        "BYTES",
        "AUTO",
        "AUTO_CONSUME",
        "AUTO_PUBLISH",
    ]
    with pytest.raises(InvalidSchema, match="there is no schema type 'ROUND'"):
        parse_schema_type("ROUND")
