"""From the bytes of a message to its value, with the schema it was written with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from magnetar.client.error import SchemaError
from magnetar.client.schema.book import SchemaBook
from magnetar.client.schema.schema import Schema
from magnetar.model.name import TopicName
from magnetar.model.schema import SchemaData

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Unprepared(Exception):
    """An entry cannot be decoded before `prepare` was awaited."""

    def __init__(self, prepare: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.prepare = prepare


class Values(Protocol[T_co]):
    def read(self, data: bytes | None, key: bytes | None, version: bytes | None) -> T_co: ...


class RawValues:
    """Bytes are the value."""

    def read(self, data: bytes | None, key: bytes | None, version: bytes | None) -> Any:
        return data


RAW: Final = RawValues()


class SchemaValues(Generic[T]):
    """The values of one topic, as the consumer's schema reads them."""

    def __init__(self, schema: Schema[T], topic: TopicName, book: SchemaBook) -> None:
        self._schema = schema
        self._topic = topic
        self._book = book

    def require(self, version: bytes) -> None:
        """Raise Unprepared unless everything needed to read that version is here."""
        if self._schema.needs_writer and version and self._book.find(self._topic, version) is None:
            raise Unprepared(lambda: self._book.load(self._topic, version))

    def read(self, data: bytes | None, key: bytes | None, version: bytes | None) -> T:
        """A tombstone has the value None, whatever the schema."""
        if data is None:
            return cast(T, None)
        writer: SchemaData | None = None
        if version and self._schema.needs_writer:
            known = self._book.find(self._topic, version)
            if isinstance(known, SchemaError):
                raise known
            writer = known
        return self._schema.decode(data, key=key, writer=writer)
