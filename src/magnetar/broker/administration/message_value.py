"""The value of a message as JSON can show it, by the schema it was written with; and back."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from io import BytesIO
from typing import Any, Final

from magnetar.errors import BadRequest, InvalidSchema
from magnetar.model.schema import SchemaData, SchemaType, decode_key_value
from magnetar.rules.descriptor import read_message
from magnetar.rules.protobuf import ProtobufUnreadable

_LENGTH: Final = struct.Struct(">i")
_NUMBERS: Final[Mapping[SchemaType, str]] = {
    SchemaType.BOOLEAN: ">?",
    SchemaType.INT8: ">b",
    SchemaType.INT16: ">h",
    SchemaType.INT32: ">i",
    SchemaType.INT64: ">q",
    SchemaType.FLOAT: ">f",
    SchemaType.DOUBLE: ">d",
    SchemaType.TIME: ">q",
    SchemaType.LOCAL_TIME: ">q",
}
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_SECONDS_MAX: Final = 253_402_300_799
"""The end of the year 9999, the last that Python has."""


class ValueUnreadable(Exception):
    """The bytes do not fit the schema; the sentence says why."""


def show_value(data: bytes, schema: SchemaData | None, key: bytes = b"") -> object:
    """What JSON can hold. Without a schema: text where the bytes are text, else base64."""
    if schema is None:
        return _show_plain(data)
    try:
        return _READERS.get(schema.type, _read_bytes)(data, schema, key)
    except (ValueError, struct.error, OverflowError, ProtobufUnreadable, InvalidSchema) as error:
        raise ValueUnreadable(f"{len(data)} bytes are no {schema.type.name}: {error}") from None


def encode_value(value: Any, schema: SchemaData | None) -> bytes:
    """Of JSON, the bytes that a producer with this schema would send."""
    if schema is None or schema.type is SchemaType.STRING:
        return value.encode() if isinstance(value, str) else json.dumps(value).encode()
    if schema.type is SchemaType.JSON:
        return json.dumps(value).encode()
    try:
        if schema.type is SchemaType.AVRO:
            return _write_avro(value, schema)
        if schema.type in _NUMBERS:
            return struct.pack(_NUMBERS[schema.type], value)
    except (ValueError, TypeError, struct.error) as error:
        raise BadRequest(f"The value does not fit {schema.type.name}: {error}") from None
    raise BadRequest(f"Values of type {schema.type.name} are not written here")


def _show_plain(data: bytes) -> object:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
    return text if text.isprintable() or text.strip().isprintable() else _show_lines(text, data)


def _show_lines(text: str, data: bytes) -> object:
    is_text = all(each.isprintable() or each in "\r\n\t" for each in text)
    return text if is_text else {"base64": base64.b64encode(data).decode()}


def _read_bytes(data: bytes, schema: SchemaData, key: bytes) -> object:
    return _show_plain(data)


def _read_json(data: bytes, schema: SchemaData, key: bytes) -> object:
    return json.loads(data)


def _read_avro(data: bytes, schema: SchemaData, key: bytes) -> object:
    import fastavro

    definition = fastavro.parse_schema(json.loads(schema.definition))
    try:
        return _plain(fastavro.schemaless_reader(BytesIO(data), definition, None))
    except (EOFError, IndexError, KeyError, TypeError, StopIteration) as error:
        raise ValueError(error) from None


def _write_avro(value: Any, schema: SchemaData) -> bytes:
    import fastavro

    buffer = BytesIO()
    definition = fastavro.parse_schema(json.loads(schema.definition))
    try:
        fastavro.schemaless_writer(buffer, definition, value)
    except (KeyError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(error) from None
    return buffer.getvalue()


def _read_protobuf(data: bytes, schema: SchemaData, key: bytes) -> object:
    return _plain(read_message(schema.definition, data))


def _read_pair(data: bytes, schema: SchemaData, key: bytes) -> object:
    schemas = decode_key_value(schema)
    is_separated = schema.properties.get("kv.encoding.type", "").upper() == "SEPARATED"
    parts: list[bytes | None] = [key, data] if is_separated else _split_pair(data)
    names = ("key", "value")
    return {
        name: None if part is None else show_value(part, each)
        for name, part, each in zip(names, parts, schemas, strict=True)
    }


def _split_pair(data: bytes) -> list[bytes | None]:
    parts: list[bytes | None] = []
    at = 0
    for _ in range(2):
        size: int = _LENGTH.unpack_from(data, at)[0]
        at += _LENGTH.size
        if size > len(data) - at:
            raise ValueError("a part of a pair is cut off")
        parts.append(None if size < 0 else data[at : at + size])
        at += max(0, size)
    return parts


def _read_number(data: bytes, schema: SchemaData, key: bytes) -> object:
    return struct.unpack(_NUMBERS[schema.type], data)[0]


def _read_time(data: bytes, schema: SchemaData, key: bytes) -> object:
    return _moment(struct.unpack(">q", data)[0] / 1000)


def _read_instant(data: bytes, schema: SchemaData, key: bytes) -> object:
    seconds, nanoseconds = struct.unpack(">qi", data)
    return _moment(seconds + nanoseconds / 1e9)


def _read_day(data: bytes, schema: SchemaData, key: bytes) -> object:
    return date.fromordinal(_EPOCH_DAY + struct.unpack(">q", data)[0]).isoformat()


def _moment(seconds: float) -> str:
    if not 0 <= seconds <= _SECONDS_MAX:
        return f"{seconds} s since 1970"
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _read_text(data: bytes, schema: SchemaData, key: bytes) -> object:
    return data.decode()


_READERS: Final[Mapping[SchemaType, Callable[[bytes, SchemaData, bytes], object]]] = {
    **dict.fromkeys(_NUMBERS, _read_number),
    SchemaType.STRING: _read_text,
    SchemaType.JSON: _read_json,
    SchemaType.AVRO: _read_avro,
    SchemaType.PROTOBUF_NATIVE: _read_protobuf,
    SchemaType.KEY_VALUE: _read_pair,
    SchemaType.DATE: _read_time,
    SchemaType.TIMESTAMP: _read_time,
    SchemaType.INSTANT: _read_instant,
    SchemaType.LOCAL_DATE: _read_day,
}


def _plain(value: object) -> object:
    """Bytes, times and numbers that JSON does not have, as text."""
    match value:
        case dict():
            return {str(name): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case bytes():
            return _show_plain(value)
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
