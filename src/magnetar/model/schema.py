"""Schemas of topics: types, definitions, versions, and what new ones are held to."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Final

from msgspec import Struct

from magnetar.errors import InvalidSchema


class SchemaType(IntEnum):
    """Pulsar's numbers, and its names over REST; the negative ones are never stored."""

    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOLEAN = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20
    EXTERNAL = 21
    BYTES = -1
    AUTO = -2
    AUTO_CONSUME = -3
    AUTO_PUBLISH = -4

    @property
    def is_struct(self) -> bool:
        """Whether a definition says what a value looks like inside."""
        return self in _STRUCTS

    @property
    def is_stored(self) -> bool:
        """BYTES and the types of clients only mean that there is no schema to keep."""
        return self >= 0 and self is not SchemaType.NONE


_STRUCTS: Final = frozenset(
    {
        SchemaType.JSON,
        SchemaType.AVRO,
        SchemaType.PROTOBUF,
        SchemaType.PROTOBUF_NATIVE,
        SchemaType.KEY_VALUE,
    }
)


def parse_schema_type(text: str) -> SchemaType:
    try:
        return SchemaType[text]
    except KeyError:
        raise InvalidSchema(f"there is no schema type {text!r}") from None


class CompatibilityStrategy(StrEnum):
    UNDEFINED = "UNDEFINED"
    """Not set; the next level decides, and FULL when there is none."""
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    """The new schema reads what the old one wrote."""
    FORWARD = "FORWARD"
    """The old schema reads what the new one writes."""
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """Whether every version is checked rather than the latest."""
        return self.value.endswith("_TRANSITIVE")


@dataclass(frozen=True)
class SchemaData:
    """`definition` is JSON text for structs, packed parts for KEY_VALUE, empty for primitives."""

    type: SchemaType
    definition: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    timestamp_ms: int = 0
    deleted: bool = False

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the definition; with the type it tells two schemas apart."""
        return hashlib.sha256(self.definition).digest()

    def is_same(self, other: SchemaData) -> bool:
        """Same type and same bytes; properties do not count."""
        return self.stored_type is other.stored_type and self.definition == other.definition

    @property
    def stored_type(self) -> SchemaType:
        """The type once it was stored: BYTES becomes NONE."""
        return max(self.type, SchemaType.NONE)


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A schema under its version: a number from 0 that grows by one with every change."""

    version: int
    schema: SchemaData


_VERSION: Final = struct.Struct(">q")
NO_VERSION: Final = b""
"""What a client gets when there is no schema."""


def encode_version(version: int | None) -> bytes:
    return NO_VERSION if version is None else _VERSION.pack(version)


def decode_version(data: bytes) -> int:
    """Read the first eight bytes: old clients send longer ones."""
    if len(data) < _VERSION.size:
        raise InvalidSchema(f"a schema version has 8 bytes, not {len(data)}")
    version: int = _VERSION.unpack_from(data)[0]
    return version


_LENGTH: Final = struct.Struct(">i")


def encode_key_value(key: bytes, value: bytes) -> bytes:
    """Pack the definitions of both parts, each behind its length."""
    return b"".join((_LENGTH.pack(len(key)), key, _LENGTH.pack(len(value)), value))


def decode_key_value(schema: SchemaData) -> tuple[SchemaData, SchemaData]:
    """The schemas of key and value; a part of which nothing is said is BYTES."""
    parts = []
    at = 0
    for part in ("key", "value"):
        if at + _LENGTH.size > len(schema.definition):
            raise InvalidSchema(f"the definition of a KEY_VALUE schema ends before its {part}")
        length = max(0, _LENGTH.unpack_from(schema.definition, at)[0])
        at += _LENGTH.size
        if at + length > len(schema.definition):
            raise InvalidSchema(f"the definition of a KEY_VALUE schema ends inside its {part}")
        parts.append(_decode_part(schema, part, schema.definition[at : at + length]))
        at += length
    key, value = parts
    return key, value


def _decode_part(schema: SchemaData, part: str, definition: bytes) -> SchemaData:
    kind = parse_schema_type(schema.properties.get(f"{part}.schema.type", SchemaType.BYTES.name))
    text = schema.properties.get(f"{part}.schema.properties", "")
    try:
        properties = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        properties = None
    if not isinstance(properties, dict):
        raise InvalidSchema(f"{part}.schema.properties of a KEY_VALUE schema is not a JSON object")
    return SchemaData(kind, definition, {str(k): str(v) for k, v in properties.items()})


def parse_key_value(text: str) -> bytes:
    """Pack a definition that REST writes as `{"key": …, "value": …}`; "" stands for a primitive."""
    try:
        parts = json.loads(text)
        return encode_key_value(*(_encode_part(parts[name]) for name in ("key", "value")))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidSchema("a KEY_VALUE definition is a JSON object with key and value") from None


def _encode_part(part: object) -> bytes:
    return b"" if part == "" else json.dumps(part, separators=(",", ":")).encode()


def format_key_value(schema: SchemaData) -> str:
    """The text that `parse_key_value` reads."""
    parts: dict[str, object] = {}
    for name, part in zip(("key", "value"), decode_key_value(schema), strict=True):
        try:
            parts[name] = json.loads(part.definition) if part.type.is_struct else ""
        except (ValueError, RecursionError):
            raise InvalidSchema(f"the definition of the {name} is not JSON") from None
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)


class SchemaPayload(Struct, frozen=True, kw_only=True):
    """A schema as REST writes it: the definition as text."""

    type: str
    schema: str = ""
    properties: dict[str, str] | None = None

    def read(self, now_ms: int) -> SchemaData:
        kind = parse_schema_type(self.type)
        if not kind.is_stored and kind is not SchemaType.NONE:
            raise InvalidSchema(f"a schema of type {self.type} cannot be stored")
        definition = self.schema.encode()
        if kind is SchemaType.KEY_VALUE:
            definition = parse_key_value(self.schema)
        return SchemaData(kind, definition, self.properties or {}, timestamp_ms=now_ms)
