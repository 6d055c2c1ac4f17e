"""JSON schemas: the definition is an Avro record, the data is JSON text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from magnetar.client.error import SchemaError
from magnetar.client.schema.codec import Codec
from magnetar.model.document import decode_json
from magnetar.model.schema import SchemaData, SchemaType

T = TypeVar("T")


class JsonCodec(Codec[T]):
    """Reads by field names, so that no writer's schema is needed."""

    def __init__(
        self, definition: bytes, pack: Callable[[T], Any], unpack: Callable[[Any], T]
    ) -> None:
        super().__init__(SchemaData(SchemaType.JSON, definition))
        self._pack = pack
        self._unpack = unpack

    def encode(self, value: T) -> bytes:
        packed = self._pack(value)
        try:
            return msgspec.json.encode(packed)
        except (TypeError, ValueError, OverflowError) as error:
            raise SchemaError(f"JSON cannot hold the value: {error}") from None

    def decode(self, data: bytes, *, key: bytes | None, writer: SchemaData | None) -> T:
        return self._unpack(parse_json(data))


def parse_json(data: bytes) -> Any:
    try:
        return decode_json(data)
    except msgspec.DecodeError as error:
        raise SchemaError(f"The data is not JSON: {error}") from None
