"""Schemas of pairs: both in the payload, or the key apart as the message's key."""

from __future__ import annotations

import json
import struct
from enum import StrEnum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from magnetar.client.error import SchemaError
from magnetar.client.schema.codec import Codec, refuse_value
from magnetar.errors import InvalidSchema
from magnetar.model.schema import SchemaData, SchemaType, decode_key_value, encode_key_value

K = TypeVar("K")
V = TypeVar("V")

_LENGTH: Final = struct.Struct(">i")
_ABSENT: Final = -1


class KeyValue(NamedTuple, Generic[K, V]):
    key: K
    value: V


class KeyValueEncoding(StrEnum):
    INLINE = "inline"
    """Both are in the payload."""
    SEPARATED = "separated"
    """The key of the pair is the key of the message: it routes and compacts."""


class KeyValueCodec(Codec[KeyValue[K, V]]):
    def __init__(self, key: Codec[K], value: Codec[V], encoding: KeyValueEncoding) -> None:
        super().__init__(
            _describe(key.data, value.data, encoding),
            needs_writer=key.needs_writer or value.needs_writer,
        )
        self._key = key
        self._value = value
        self._encoding = encoding

    def encode(self, value: KeyValue[K, V]) -> bytes:
        pair = _check(value)
        if self._encoding is KeyValueEncoding.SEPARATED:
            return _encode_part(self._value, pair.value) or b""
        return b"".join(
            piece
            for part in (_encode_part(self._key, pair.key), _encode_part(self._value, pair.value))
            for piece in (_LENGTH.pack(_ABSENT if part is None else len(part)), part or b"")
        )

    def encode_key(self, value: KeyValue[K, V]) -> bytes | None:
        if self._encoding is KeyValueEncoding.INLINE:
            return None
        return _encode_part(self._key, _check(value).key)

    def decode(
        self, data: bytes, *, key: bytes | None, writer: SchemaData | None
    ) -> KeyValue[K, V]:
        encoding, key_writer, value_writer = self._encoding, None, None
        if writer is not None:
            key_writer, value_writer = split_schema(writer)
            encoding = encoding_of(writer)
        first, second = split_data(data, key, encoding)
        return KeyValue(
            _decode_part(self._key, first, key_writer),
            _decode_part(self._value, second, value_writer),
        )


def encoding_of(schema: SchemaData) -> KeyValueEncoding:
    word = schema.properties.get("kv.encoding.type") or "INLINE"
    try:
        return KeyValueEncoding(word.lower())
    except ValueError:
        raise SchemaError(f"No encoding of pairs is called {word!r}") from None


def split_schema(schema: SchemaData) -> tuple[SchemaData, SchemaData]:
    if schema.type is not SchemaType.KEY_VALUE:
        raise SchemaError(
            f"The message was written with a schema of type {schema.type.name}, not KEY_VALUE"
        )
    try:
        return decode_key_value(schema)
    except InvalidSchema as error:
        raise SchemaError(error.sentence) from None


def split_data(
    data: bytes, key: bytes | None, encoding: KeyValueEncoding
) -> tuple[bytes | None, bytes | None]:
    if encoding is KeyValueEncoding.SEPARATED:
        return key, data
    parts: list[bytes | None] = []
    at = 0
    for _ in range(2):
        if len(data) < at + _LENGTH.size:
            raise SchemaError(f"{len(data)} bytes are no pair")
        length: int = _LENGTH.unpack_from(data, at)[0]
        at += _LENGTH.size
        if length > len(data) - at or length < _ABSENT:
            raise SchemaError(f"A part of {length} bytes in a pair of {len(data)}")
        parts.append(None if length == _ABSENT else data[at : at + length])
        at += max(0, length)
    return parts[0], parts[1]


def _describe(key: SchemaData, value: SchemaData, encoding: KeyValueEncoding) -> SchemaData:
    properties = {"kv.encoding.type": encoding.name}
    for name, part in (("key", key), ("value", value)):
        properties[f"{name}.schema.name"] = ""
        properties[f"{name}.schema.type"] = part.type.name
        properties[f"{name}.schema.properties"] = json.dumps(dict(part.properties))
    definition = encode_key_value(key.definition, value.definition)
    return SchemaData(SchemaType.KEY_VALUE, definition, properties)


def _check(value: Any) -> KeyValue[Any, Any]:
    if isinstance(value, KeyValue):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return KeyValue(*value)
    raise refuse_value("KeyValue(key, value)", value)


def _encode_part(codec: Codec[Any], part: Any) -> bytes | None:
    return None if part is None else codec.encode(part)


def _decode_part(codec: Codec[Any], data: bytes | None, writer: SchemaData | None) -> Any:
    return None if data is None else codec.decode(data, key=None, writer=writer)
