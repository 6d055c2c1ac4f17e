"""The schemas that topics' messages were written with, asked for once, and the values they give."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from magnetar.client.connection import Type
from magnetar.client.error import NotFoundError, PulsarError, SchemaError, decode_refusal
from magnetar.client.policy import ConnectionPolicy
from magnetar.client.pool import ConnectionPool
from magnetar.client.retry import insist, is_passing
from magnetar.client.schema.schema import Schema
from magnetar.model.name import TopicName
from magnetar.model.schema import SchemaData
from magnetar.runtime.clock import Clock
from magnetar.wire.command import CommandGetSchema
from magnetar.wire.schema import decode_schema

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_REMEMBERED_MAX: Final = 1000


class SchemaBook:
    """One for a client; the oldest pages are forgotten and asked for again."""

    def __init__(
        self, pool: ConnectionPool, *, clock: Clock, policy: ConnectionPolicy, timeout: float
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._policy = policy
        self._timeout = timeout
        self._pages: OrderedDict[tuple[str, bytes], SchemaData | SchemaError] = OrderedDict()

    def find(self, topic: TopicName, version: bytes) -> SchemaData | SchemaError | None:
        """What is known about a version: the schema, why there is none, or nothing yet."""
        return self._pages.get((topic.full, version))

    async def load(self, topic: TopicName, version: bytes) -> None:
        """Know about a version; waits as long as no broker answers."""
        page: SchemaData | SchemaError | None = None
        backoff = self._policy.backoff.begin(self._clock.chance)
        while page is None:
            try:
                page = await self.fetch(topic, version)
            except PulsarError as error:
                if not is_passing(error):
                    page = SchemaError(f"No schema of {topic}: {error.sentence}")
                else:
                    await self._clock.sleep(backoff.next_s())
        self._pages[topic.full, version] = page
        if len(self._pages) > _REMEMBERED_MAX:
            self._pages.popitem(last=False)

    async def fetch(self, topic: TopicName, version: bytes | None = None) -> SchemaData:
        """A version, or the newest one; NotFoundError when the topic has no schema."""

        async def ask() -> SchemaData:
            connection = await self._pool.get_service()
            body = CommandGetSchema(topic=topic.full)
            if version is not None:
                body.schema_version = version
            answer = await connection.request(body, Type.GET_SCHEMA_RESPONSE, timeout=self._timeout)
            if answer.HasField("error_code"):
                raise decode_refusal(answer.error_code, answer.error_message)
            if not answer.HasField("schema"):
                raise NotFoundError(f"{topic} has no schema")
            return decode_schema(answer.schema)

        return await insist(ask, clock=self._clock, policy=self._policy, timeout=self._timeout)


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
