from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from magnetar.errors import InvalidSchema
from magnetar.model.schema import (
    CompatibilityStrategy,
    SchemaData,
    SchemaType,
    StoredSchema,
    encode_key_value,
)
from magnetar.rules.schema import (
    find_consumer_incompatibility,
    find_incompatibility,
    find_same,
    validate_schema,
)

S = CompatibilityStrategy
T = SchemaType


def avro(*fields: Any, kind: SchemaType = T.AVRO, name: str = "Order") -> SchemaData:
    definition = json.dumps({"type": "record", "name": name, "fields": list(fields)})
    return SchemaData(kind, definition.encode())


ONE = {"name": "one", "type": "string"}
TWO = {"name": "two", "type": "string"}
TWO_DEFAULTED = {"name": "two", "type": "string", "default": "x"}

V1 = avro(ONE)
ADDED_DEFAULT = avro(ONE, TWO_DEFAULTED)
ADDED = avro(ONE, TWO)


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        (V1, ADDED_DEFAULT, "BACKWARD FORWARD FULL"),
        (V1, ADDED, "FORWARD"),
        (ADDED, V1, "BACKWARD"),
        (ADDED_DEFAULT, V1, "BACKWARD FORWARD FULL"),
        (V1, avro({"name": "one", "type": ["null", "string"]}), "BACKWARD"),
        (V1, avro({"name": "one", "type": "int"}), ""),
        (V1, avro({"name": "uno", "type": "string", "aliases": ["one"]}), "BACKWARD"),
        (
            avro({"name": "n", "type": "int"}),
            avro({"name": "n", "type": "long"}),
            "BACKWARD",
        ),
    ],
)
@pytest.mark.parametrize("kind", [T.AVRO, T.JSON, T.PROTOBUF])
def test_a_strategy_asks_who_must_read_whom(
    kind: SchemaType, old: SchemaData, new: SchemaData, allowed: str
) -> None:
    old, new = SchemaData(kind, old.definition), SchemaData(kind, new.definition)
    for strategy in (S.BACKWARD, S.FORWARD, S.FULL):
        verdict = find_incompatibility([old], new, strategy)
        assert (verdict is None) is (strategy.value in allowed.split()), (strategy, verdict)
    assert find_incompatibility([old], new, S.ALWAYS_COMPATIBLE) is None
    assert find_incompatibility([old], new, S.ALWAYS_INCOMPATIBLE) is not None
    assert find_incompatibility([old], new, S.UNDEFINED) == find_incompatibility([old], new, S.FULL)


@pytest.mark.parametrize(
    ("strategy", "history", "new", "allowed"),
    [
        (S.BACKWARD, [V1, ADDED_DEFAULT], ADDED, True),
        (S.BACKWARD_TRANSITIVE, [V1, ADDED_DEFAULT], ADDED, False),
        (S.BACKWARD_TRANSITIVE, [ADDED_DEFAULT], ADDED, True),
        (S.FORWARD, [ADDED, ADDED_DEFAULT], V1, True),
        (S.FORWARD_TRANSITIVE, [ADDED, ADDED_DEFAULT], V1, False),
        (S.FORWARD_TRANSITIVE, [V1, ADDED_DEFAULT], ADDED, True),
        (S.FULL, [V1, ADDED_DEFAULT], ADDED, True),
        (S.FULL_TRANSITIVE, [V1, ADDED_DEFAULT], ADDED, False),
        (
            S.FULL_TRANSITIVE,
            [V1, ADDED_DEFAULT],
            avro(ONE, {**TWO_DEFAULTED, "name": "c"}),
            True,
        ),
    ],
)
def test_a_transitive_strategy_asks_every_version(
    strategy: CompatibilityStrategy, history: list[SchemaData], new: SchemaData, allowed: bool
) -> None:
    assert (find_incompatibility(history, new, strategy) is None) is allowed


def test_the_reason_names_strategy_direction_and_field() -> None:
    assert find_incompatibility([V1], ADDED, S.FULL) == (
        "FULL: the new schema cannot read the old one's messages:"
        " two: the field has no default and was not written"
    )
    assert find_incompatibility([ADDED], V1, S.FORWARD_TRANSITIVE) == (
        "FORWARD_TRANSITIVE: the old schema cannot read the new one's messages:"
        " two: the field has no default and was not written"
    )


@pytest.mark.parametrize("strategy", list(S))
def test_the_first_schema_and_the_same_again_are_always_welcome(
    strategy: CompatibilityStrategy,
) -> None:
    assert find_incompatibility([], V1, strategy) is None
    assert find_incompatibility([V1], V1, strategy) is None


@pytest.mark.parametrize("strategy", [s for s in S if s is not S.ALWAYS_COMPATIBLE])
def test_another_type_never_follows(strategy: CompatibilityStrategy) -> None:
    sentence = "the topic has a schema of type AVRO, not JSON"
    assert find_incompatibility([V1], SchemaData(T.JSON, V1.definition), strategy) == sentence
    assert (
        find_incompatibility([SchemaData(T.INT32)], SchemaData(T.INT64), strategy)
        == "the topic has a schema of type INT32, not INT64"
    )


def test_bytes_are_no_other_type_than_none() -> None:
    assert find_incompatibility([SchemaData(T.NONE)], SchemaData(T.BYTES), S.FULL) is None


@pytest.mark.parametrize(
    ("strategy", "new", "allowed"),
    [
        (S.BACKWARD, ADDED, False),
        (S.FORWARD, ADDED, False),
        (S.FORWARD, avro(), True),
        (S.FORWARD_TRANSITIVE, avro(), True),
        (S.FULL, avro(), True),
        (S.UNDEFINED, avro(), True),
        (S.FULL_TRANSITIVE, avro(), False),
        (S.BACKWARD_TRANSITIVE, avro(), True),
        (S.ALWAYS_COMPATIBLE, ADDED, True),
        (S.ALWAYS_INCOMPATIBLE, avro(), False),
        (S.ALWAYS_INCOMPATIBLE, V1, True),
    ],
)
def test_a_consumer_must_be_able_to_read(
    strategy: CompatibilityStrategy, new: SchemaData, allowed: bool
) -> None:
    assert (find_consumer_incompatibility([V1], new, strategy) is None) is allowed


# JSON in the form of before Avro's
OLD_FORM = SchemaData(T.JSON, b'{"type":"object","id":"urn:a","properties":{}}')
OLD_FORM_CHANGED = SchemaData(T.JSON, b'{"type":"object","id":"urn:a","properties":{"x":{}}}')
OLD_FORM_OTHER = SchemaData(T.JSON, b'{"type":"object","id":"urn:b"}')
AVRO_FORM = avro(ONE, kind=T.JSON)
NO_FORM = SchemaData(T.JSON, b"{")


@pytest.mark.parametrize(
    ("old", "new", "strict", "lenient"),
    [
        (AVRO_FORM, OLD_FORM, False, True),
        (OLD_FORM, AVRO_FORM, False, True),
        (OLD_FORM, OLD_FORM_CHANGED, False, True),
        (OLD_FORM, OLD_FORM_OTHER, False, False),
        (OLD_FORM, NO_FORM, False, False),
        (AVRO_FORM, NO_FORM, False, False),
        (NO_FORM, AVRO_FORM, False, True),
        (NO_FORM, OLD_FORM, False, True),
        (AVRO_FORM, avro(ONE, TWO, kind=T.JSON), False, False),
        (AVRO_FORM, avro(ONE, TWO_DEFAULTED, kind=T.JSON), True, True),
    ],
)
def test_json_in_the_old_form_passes_only_where_it_is_allowed(
    old: SchemaData, new: SchemaData, strict: bool, lenient: bool
) -> None:
    assert (find_incompatibility([old], new, S.FULL) is None) is strict
    assert (find_incompatibility([old], new, S.FULL, legacy_json=True) is None) is lenient


def test_json_in_the_old_form_is_valid_only_where_it_is_allowed() -> None:
    validate_schema(OLD_FORM, legacy_json=True)
    with pytest.raises(InvalidSchema):
        validate_schema(OLD_FORM)
    for definition in (b"{", b"5", b'{"type":"sphere"}'):
        with pytest.raises(InvalidSchema):
            validate_schema(SchemaData(T.JSON, definition), legacy_json=True)
    with pytest.raises(InvalidSchema):
        validate_schema(SchemaData(T.AVRO, OLD_FORM.definition), legacy_json=True)


# PROTOBUF_NATIVE
def native(
    message: str = "shop.Order",
    *,
    file: str = "order.proto",
    files: list[FileDescriptorProto] | None = None,
    field: str = "id",
) -> SchemaData:
    if files is None:
        order = FileDescriptorProto(name="order.proto", package="shop", dependency=["item.proto"])
        for name in ("Order", "Other"):
            root = order.message_type.add(name=name)
            root.field.add(name=field, number=1, type=3, label=1)
            root.field.add(name="item", number=2, type=11, label=1, type_name=".shop.Item")
            root.nested_type.add(name="Inner")
        files = [order, FileDescriptorProto(name="item.proto", package="shop")]
        files[1].message_type.add(name="Item")
    encoded = base64.b64encode(FileDescriptorSet(file=files).SerializeToString()).decode()
    definition = {
        "fileDescriptorSet": encoded,
        "rootMessageTypeName": message,
        "rootFileDescriptorName": file,
    }
    return SchemaData(T.PROTOBUF_NATIVE, json.dumps(definition).encode())


@pytest.mark.parametrize("strategy", [s for s in S if not s.value.startswith("ALWAYS")])
def test_a_native_protobuf_keeps_its_root_message(strategy: CompatibilityStrategy) -> None:
    assert find_incompatibility([native()], native(field="number"), strategy) is None
    reason = find_incompatibility([native()], native("shop.Other"), strategy)
    assert reason is not None
    assert reason.endswith(": the root message is shop.Order, not shop.Other")


@pytest.mark.parametrize("message", ["shop.Order", "shop.Order.Inner"])
def test_a_native_protobuf_whose_files_fit_together_is_valid(message: str) -> None:
    validate_schema(native(message))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (native("shop.Missing"), "order.proto has no message shop.Missing"),
        (native("shop.Item"), "shop.Item is not in order.proto"),
        (native(file="other.proto"), "other.proto is not among the files"),
        (
            native(files=[FileDescriptorProto(name="order.proto", dependency=["order.proto"])]),
            "order.proto imports itself",
        ),
        (
            native(files=[FileDescriptorProto(name="order.proto", dependency=["item.proto"])]),
            "item.proto is not among the files",
        ),
        (SchemaData(T.PROTOBUF_NATIVE, b"{}"), "not a definition of protobuf files"),
        (SchemaData(T.PROTOBUF_NATIVE, b"[]"), "not a definition of protobuf files"),
        (SchemaData(T.PROTOBUF_NATIVE, b"\xff"), "not a definition of protobuf files"),
        (
            SchemaData(
                T.PROTOBUF_NATIVE,
                b'{"fileDescriptorSet":"/w==","rootMessageTypeName":"a","rootFileDescriptorName":"b"}',
            ),
            "fileDescriptorSet cannot be decoded",
        ),
        (
            SchemaData(
                T.PROTOBUF_NATIVE,
                b'{"fileDescriptorSet":"","rootMessageTypeName":1,"rootFileDescriptorName":"b"}',
            ),
            "are not text",
        ),
    ],
)
def test_a_native_protobuf_that_does_not_fit_together_is_refused(
    schema: SchemaData, reason: str
) -> None:
    with pytest.raises(InvalidSchema) as refusal:
        validate_schema(schema)
    assert reason in refusal.value.sentence
    assert find_incompatibility([native()], schema, S.FULL) is not None


def test_a_native_protobuf_that_is_costly_to_build_is_refused() -> None:
    """Its parser, in C, takes time for every name as long as it is, and ranges squared."""
    package = FileDescriptorProto(name="order.proto", package="a." * 600 + "p")
    package.message_type.add(name="Order")
    nested = FileDescriptorProto(name="order.proto", package="shop")
    inner = nested.message_type.add(name="O" * 600)
    inner.nested_type.add(name="I" * 600)
    ranges = FileDescriptorProto(name="order.proto", package="shop")
    order = ranges.message_type.add(name="Order")
    for number in range(1_001):
        order.extension_range.add(start=2 * number + 1, end=2 * number + 2)
    for file, reason in (
        (package, "package is longer than 1024"),
        (nested, "message is longer than 1024"),
        (ranges, "over 1000 extension ranges"),
    ):
        with pytest.raises(InvalidSchema, match=reason):
            validate_schema(native(files=[file]))


def test_a_root_message_whose_name_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="are not text"):
        validate_schema(native("\ud800"))


def test_a_native_protobuf_whose_types_are_unknown_is_refused() -> None:
    broken = FileDescriptorProto(name="order.proto")
    broken.message_type.add(name="Order").field.add(
        name="f", number=1, type=11, label=1, type_name=".no.Where"
    )
    with pytest.raises(InvalidSchema, match=r"order\.proto does not fit"):
        validate_schema(native("Order", files=[broken]))


# KEY_VALUE
def pair(key: SchemaData, value: SchemaData, **more: str) -> SchemaData:
    properties = {"key.schema.type": key.type.name, "value.schema.type": value.type.name, **more}
    return SchemaData(T.KEY_VALUE, encode_key_value(key.definition, value.definition), properties)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (pair(SchemaData(T.STRING), V1), pair(SchemaData(T.STRING), ADDED_DEFAULT), None),
        (pair(V1, V1), pair(V1, ADDED), "value: FULL: "),
        (pair(V1, V1), pair(ADDED, V1), "key: FULL: "),
        (
            pair(SchemaData(T.STRING), V1),
            pair(SchemaData(T.INT32), ADDED_DEFAULT),
            "key: the topic has a schema of type STRING, not INT32",
        ),
        (pair(V1, V1), SchemaData(T.KEY_VALUE, b"\0"), "the definition of a KEY_VALUE"),
    ],
)
def test_a_key_value_schema_is_held_to_the_strategy_in_both_parts(
    old: SchemaData, new: SchemaData, reason: str | None
) -> None:
    found = find_incompatibility([old], new, S.FULL)
    if reason is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(reason)


# Validity
@pytest.mark.parametrize(
    "schema",
    [
        V1,
        avro(ONE, kind=T.JSON),
        avro(ONE, kind=T.PROTOBUF),
        SchemaData(T.AVRO, b'"string"'),
        SchemaData(T.JSON, b'["null","string"]'),
        SchemaData(T.STRING),
        SchemaData(T.STRING, b"null"),
        SchemaData(T.INT64),
        SchemaData(T.LOCAL_DATE_TIME),
        SchemaData(T.NONE, b"x"),
        SchemaData(T.BYTES, b"x"),
        SchemaData(T.EXTERNAL, b"x"),
        pair(SchemaData(T.STRING), V1),
        SchemaData(T.KEY_VALUE, encode_key_value(b"", b"")),
    ],
)
def test_a_definition_of_its_type_is_valid(schema: SchemaData) -> None:
    validate_schema(schema)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (SchemaData(T.AVRO, b""), "invalid AVRO definition: not JSON"),
        (SchemaData(T.AVRO, b'["null","string"]'), "invalid AVRO definition: the root is a union"),
        (SchemaData(T.JSON, b"{}"), "invalid JSON definition: a type has no name of a type"),
        (SchemaData(T.PROTOBUF, b'"x"'), "invalid PROTOBUF definition: x is not defined"),
        (SchemaData(T.STRING, b"x"), "STRING has no definition, but 1 bytes came"),
        (SchemaData(T.INT8, b"null"), "INT8 has no definition, but 4 bytes came"),
        (SchemaData(T.AUTO_CONSUME), "AUTO_CONSUME is a type of clients, not of topics"),
        (SchemaData(T.AUTO_PUBLISH), "AUTO_PUBLISH is a type of clients, not of topics"),
        (pair(SchemaData(T.STRING), SchemaData(T.AVRO, b"x")), "invalid AVRO definition: not JSON"),
        (SchemaData(T.KEY_VALUE), "the definition of a KEY_VALUE schema ends before its key"),
    ],
)
def test_a_definition_not_of_its_type_is_refused(schema: SchemaData, reason: str) -> None:
    with pytest.raises(InvalidSchema) as refusal:
        validate_schema(schema)
    assert refusal.value.sentence.startswith(reason)


# Sameness
def is_same_schema(one: SchemaData, other: SchemaData) -> bool:
    return find_same([StoredSchema(0, one)], other) is not None


def test_definitions_in_avros_form_are_the_same_when_they_mean_the_same() -> None:
    spaced = SchemaData(T.AVRO, json.dumps(json.loads(V1.definition), indent=2).encode())
    assert is_same_schema(V1, spaced)
    assert not is_same_schema(V1, SchemaData(T.JSON, V1.definition))
    assert not is_same_schema(V1, ADDED)
    assert not is_same_schema(OLD_FORM, OLD_FORM_CHANGED)
    assert is_same_schema(OLD_FORM, OLD_FORM)


def test_other_definitions_are_the_same_by_their_bytes_alone() -> None:
    assert is_same_schema(SchemaData(T.INT8), SchemaData(T.INT8, properties={"a": "b"}))
    assert not is_same_schema(SchemaData(T.EXTERNAL, b"{}"), SchemaData(T.EXTERNAL, b"{ }"))


def test_the_first_same_version_is_found() -> None:
    history = [StoredSchema(3, V1), StoredSchema(4, ADDED), StoredSchema(5, V1)]
    assert find_same(history, V1) == 3
    assert find_same(history, ADDED) == 4
    assert find_same(history, ADDED_DEFAULT) is None
