"""Values that the application has encoded itself, under a schema that it names."""

from __future__ import annotations

from typing import Any

from magnetar.client.schema.codec import Codec
from magnetar.client.schema.primitive import BytesCodec


class EncodedCodec(BytesCodec):
    """Registers another codec's schema, and lets pass what that codec can read."""

    def __init__(self, reader: Codec[Any]) -> None:
        super().__init__(reader.data)
        self._reader = reader

    def encode(self, value: bytes) -> bytes:
        data = super().encode(value)
        self._reader.decode(data, key=None, writer=None)
        return data
