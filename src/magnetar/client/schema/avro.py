"""Avro schemas. Loaded with the first one that is made: the library takes its time."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import fastavro
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from magnetar.client.error import SchemaError
from magnetar.client.schema.codec import Codec
from magnetar.model.schema import SchemaData, SchemaType

T = TypeVar("T")

# What fastavro raises for data that does not fit, beside its own errors.
_UNFIT = (
    SchemaResolutionError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    EOFError,
    OverflowError,
    StopIteration,
    struct.error,
)


class AvroCodec(Codec[T]):
    """Data is resolved from the schema it was written with to this one."""

    def __init__(
        self, definition: bytes, pack: Callable[[T], Any], unpack: Callable[[Any], T]
    ) -> None:
        super().__init__(SchemaData(SchemaType.AVRO, definition), needs_writer=True)
        self._schema = parse_definition(definition)
        self._pack = pack
        self._unpack = unpack

    def encode(self, value: T) -> bytes:
        buffer = io.BytesIO()
        packed = self._pack(value)
        try:
            fastavro.schemaless_writer(buffer, self._schema, packed)
        except _UNFIT as error:
            raise SchemaError(f"The value does not fit the schema: {error}") from None
        return buffer.getvalue()

    def decode(self, data: bytes, *, key: bytes | None, writer: SchemaData | None) -> T:
        if writer is None or writer.definition == self.data.definition:
            return self._unpack(_read(data, self._schema, None))
        if writer.type is not SchemaType.AVRO:
            raise SchemaError(
                f"The message was written with a schema of type {writer.type.name}, not AVRO;"
                " Schema.auto() reads both"
            )
        return self._unpack(_read(data, parse_definition(writer.definition), self._schema))


def read_generic(definition: bytes, data: bytes) -> Any:
    """What was written with `definition`, as plain dictionaries and lists."""
    return _read(data, parse_definition(definition), None)


def read_resolved(data: bytes, writer: Any, reader: Any) -> Any:
    """What was written with one parsed definition, as another has it."""
    return _read(data, writer, None if writer is reader else reader)


@lru_cache(maxsize=256)
def parse_definition(definition: bytes) -> Any:
    try:
        return fastavro.parse_schema(json.loads(definition))
    except (ValueError, TypeError, KeyError, SchemaParseException, UnknownType) as error:
        raise SchemaError(f"Not an Avro schema: {error}") from None


def _read(data: bytes, writer: Any, reader: Any) -> Any:
    try:
        return fastavro.schemaless_reader(io.BytesIO(data), writer, reader)
    except _UNFIT as error:
        raise SchemaError(f"The data does not fit the schema: {error}") from None
