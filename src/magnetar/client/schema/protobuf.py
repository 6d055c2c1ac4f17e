"""Protobuf schemas, of both types that Pulsar has."""

from __future__ import annotations

import json
from typing import Any, Protocol, TypeVar

from magnetar.client.error import SchemaError
from magnetar.client.schema.codec import Codec, refuse_value
from magnetar.model.schema import SchemaData, SchemaType
from magnetar.rules.descriptor import (
    format_avro_definition,
    format_native_definition,
    parse_message,
)
from magnetar.rules.protobuf import ProtobufUnreadable


class ProtobufMessage(Protocol):
    """A class that the protobuf compiler made."""

    DESCRIPTOR: Any

    def SerializeToString(self) -> bytes: ...


M = TypeVar("M", bound=ProtobufMessage)


class ProtobufCodec(Codec[M]):
    """Protobuf itself skips fields it does not know, so no writer's schema is needed."""

    def __init__(self, kind: type[M], schema_type: SchemaType) -> None:
        descriptor = getattr(kind, "DESCRIPTOR", None)
        if descriptor is None or not hasattr(kind, "FromString"):
            raise SchemaError(f"{kind!r} is no class that the protobuf compiler made")
        if schema_type is SchemaType.PROTOBUF_NATIVE:
            data = SchemaData(schema_type, format_native_definition(descriptor))
        else:
            fields = [
                {"number": field.number, "name": field.name, "definition": None}
                for field in descriptor.fields
            ]
            properties = {"__PARSING_INFO__": json.dumps(fields)}
            data = SchemaData(schema_type, format_avro_definition(descriptor), properties)
        super().__init__(data)
        self._kind: Any = kind

    def encode(self, value: M) -> bytes:
        if not isinstance(value, self._kind):
            raise refuse_value(self._kind.__name__, value)
        data: bytes = value.SerializeToString()
        return data

    def decode(self, data: bytes, *, key: bytes | None, writer: SchemaData | None) -> M:
        try:
            message: Any = parse_message(self._kind, data)
        except ProtobufUnreadable as error:
            raise SchemaError(f"The data is {error}") from None
        found: M = message
        return found
