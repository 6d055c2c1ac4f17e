"""What every kind of schema does: values to bytes and back, and what is sent to the broker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from magnetar.client.error import SchemaError
from magnetar.model.schema import SchemaData

T = TypeVar("T")


class Codec(ABC, Generic[T]):
    """`data` is what the broker registers. Everything that does not fit is a SchemaError."""

    def __init__(self, data: SchemaData, *, needs_writer: bool = False) -> None:
        self.data = data
        self.needs_writer = needs_writer
        """Whether bytes can be read only with the schema they were written with."""

    @abstractmethod
    def encode(self, value: T) -> bytes: ...

    @abstractmethod
    def decode(self, data: bytes, *, key: bytes | None, writer: SchemaData | None) -> T:
        """Read what was written with `writer`, or with this schema when that is not known."""

    def encode_key(self, value: T) -> bytes | None:
        """The message key, for a schema that keeps part of the value there."""
        return None


def refuse_value(expected: str, value: object) -> SchemaError:
    kind = type(value).__name__
    return SchemaError(f"The schema takes {expected}, not {kind}: {_shorten(value)}")


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
