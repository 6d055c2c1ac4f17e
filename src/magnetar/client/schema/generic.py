"""Reading whatever a topic holds: the schema of each message decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from magnetar.client.error import SchemaError
from magnetar.client.schema.codec import BY_TYPE, Codec, parse_json
from magnetar.client.schema.key_value import KeyValue, encoding_of, split_data, split_schema
from magnetar.model.schema import SchemaData, SchemaType
from magnetar.rules.descriptor import read_message
from magnetar.rules.protobuf import ProtobufUnreadable


class GenericRecord(Mapping[str, Any]):
    """A record by its field names; a field that is a record itself is one of these too."""

    __slots__ = ("_fields", "schema_type")

    def __init__(self, fields: Mapping[str, Any], schema_type: SchemaType) -> None:
        self._fields = fields
        self.schema_type = schema_type

    def __getitem__(self, name: str) -> Any:
        value = self._fields[name]
        return GenericRecord(value, self.schema_type) if isinstance(value, dict) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"GenericRecord({dict(self._fields)!r}, {self.schema_type.name})"


ReadAvro = Callable[[bytes, bytes], Any]
"""Definition and data to plain dictionaries."""


class AutoCodec(Codec[Any]):
    """Only reads. Without a schema the bytes are the value."""

    def __init__(self, read_avro: ReadAvro) -> None:
        super().__init__(SchemaData(SchemaType.AUTO_CONSUME), needs_writer=True)
        self._read_avro = read_avro

    def encode(self, value: Any) -> bytes:
        raise SchemaError("Schema.auto() only reads; a producer says what it writes")

    def decode(self, data: bytes, *, key: bytes | None, writer: SchemaData | None) -> Any:
        if writer is None:
            return data
        match writer.type:
            case SchemaType.AVRO:
                return _wrap(self._read_avro(writer.definition, data), writer.type)
            case SchemaType.JSON:
                return _wrap(parse_json(data), writer.type)
            case SchemaType.PROTOBUF_NATIVE:
                try:
                    return _wrap(read_message(writer.definition, data), writer.type)
                except ProtobufUnreadable as error:
                    raise SchemaError(str(error)) from None
            case SchemaType.KEY_VALUE:
                return self._decode_pair(data, key, writer)
            case SchemaType.PROTOBUF | SchemaType.EXTERNAL:
                raise SchemaError(
                    f"A schema of type {writer.type.name} does not say how to read its data;"
                    " use Schema.BYTES, or Schema.protobuf(Message) with the message's class"
                )
            case kind:
                return BY_TYPE[kind].decode(data, key=key, writer=None)

    def _decode_pair(
        self, data: bytes, key: bytes | None, writer: SchemaData
    ) -> KeyValue[Any, Any]:
        schemas = split_schema(writer)
        parts = split_data(data, key, encoding_of(writer))
        first, second = (
            None if part is None else self.decode(part, key=None, writer=schema)
            for part, schema in zip(parts, schemas, strict=True)
        )
        return KeyValue(first, second)


def _wrap(value: Any, kind: SchemaType) -> Any:
    return GenericRecord(value, kind) if isinstance(value, dict) else value
