"""Without a subscription: a reader, and a table of the latest value of every key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, ItemsView, KeysView, ValuesView
from dataclasses import replace
from typing import Generic, Self, TypeVar, overload

from magnetar.client.consumer import AsyncConsumer
from magnetar.client.error import AlreadyClosedError, PulsarError
from magnetar.client.handle import ConsumerStats, Handle
from magnetar.client.message import Message
from magnetar.client.message_id import Target
from magnetar.client.place import place_of
from magnetar.client.quantity import Duration
from magnetar.client.session import Session
from magnetar.runtime.log import Logger

T = TypeVar("T")


class AsyncReader(Handle, Generic[T]):
    """Made by `client.reader`; an async context manager and iterator of messages."""

    def __init__(self, consumer: AsyncConsumer[T]) -> None:
        self._consumer = consumer
        self._inbox = consumer._inbox
        self._failed = consumer._failed
        self._topic = consumer.topics[0]

    @property
    def topic(self) -> str:
        return self._topic

    def _tell_state(self) -> str:
        return self._consumer._tell_state()

    @property
    def stats(self) -> ConsumerStats:
        # What it tells the broker about its progress is no acknowledgement of the application's.
        return replace(self._consumer.stats, acknowledged=0)

    def _settle(self) -> None:
        places = [place_of(messages[-1]) for messages in self._inbox.settle()]
        self._consumer._begin_cumulative(places)

    @overload
    async def read(self, timeout: None = None) -> Message[T]: ...

    @overload
    async def read(self, timeout: Duration | None) -> Message[T] | None: ...

    async def read(self, timeout: Duration | None = None) -> Message[T] | None:
        """The next message; with a `timeout`, None when there is none within it."""
        message = await self._consumer.receive(timeout)
        if message is not None:  # lets the broker drop what the reader has passed
            await self._consumer.acknowledge_cumulative(message)
        return message

    async def has_message_available(self) -> bool:
        """Whether a message was stored that `read` has not returned yet."""
        return await self._consumer.is_behind()

    async def lag(self) -> int:
        """How many messages were stored that `read` has not returned yet; about as many while a
        broker counts what was stored before it had the topic.

        Raises FeatureNotSupportedError on Apache Pulsar, which counts entries.
        """
        self._settle()
        return await self._consumer.lag()

    async def seek(self, target: Target) -> None:
        """Move to a message (it comes next) or to a publish time."""
        await self._consumer.seek(target)

    async def close(self) -> None:
        await self._consumer.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        message = await anext(self._consumer)
        await self._consumer.acknowledge_cumulative(message)
        return message


_log = Logger(__name__)

Listener = Callable[[str, T | None], None]
"""Gets a key and its new value; None when the key was deleted."""


class AsyncTableView(Handle, Generic[T]):
    """Made by `client.table_view`. Messages without a key are skipped.

    Holds one value for each key: as much memory as the topic has keys.
    """

    def __init__(
        self, session: Session, open_reader: Callable[[], Awaitable[AsyncReader[T]]]
    ) -> None:
        self._session = session
        self._open_reader = open_reader
        self._reader: AsyncReader[T] | None = None
        self._values: dict[str, T] = {}
        self._listeners: list[Listener[T]] = []
        self._changed = asyncio.Event()
        self._failure: PulsarError | None = None

    async def open(self) -> None:
        """Read everything there is, then follow."""
        self._reader = await self._open_reader()
        try:
            while await self._reader.has_message_available():
                message = await self._reader.read(self._session.operation_timeout)
                if message is not None:
                    self._apply(message)
        except BaseException:
            await self._reader.close()
            raise
        self._session.made[self] = None
        self._session.scope.start(self._follow(), "table view")

    @property
    def topic(self) -> str:
        assert self._reader is not None, "a view is open once it is returned"
        return self._reader.topic

    def get(self, key: str, default: T | None = None) -> T | None:
        return self._values.get(key, default)

    def keys(self) -> KeysView[str]:
        return self._values.keys()

    def values(self) -> ValuesView[T]:
        return self._values.values()

    def items(self) -> ItemsView[str, T]:
        return self._values.items()

    def __getitem__(self, key: str) -> T:
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def listen(self, listener: Listener[T]) -> None:
        """Call for every key there is, then for every change; on the event loop, in order."""
        for key, value in tuple(self._values.items()):
            listener(key, value)
        self._listeners.append(listener)

    async def refresh(self) -> None:
        """Wait until everything stored before the call is here."""
        if self._failure is not None:
            raise self._failure
        assert self._reader is not None
        while await self._reader.has_message_available():
            self._changed.clear()
            await self._changed.wait()
            if self._failure is not None:
                raise self._failure

    async def close(self) -> None:
        if isinstance(self._failure, AlreadyClosedError):
            return
        self._failure = AlreadyClosedError("The table view is closed")
        self._session.made.pop(self, None)
        if self._reader is not None:
            await self._reader.close()

    async def _follow(self) -> None:
        assert self._reader is not None
        try:
            async for message in self._reader:
                self._apply(message)
                self._changed.set()
        except PulsarError as error:
            self._failure = error
        finally:
            self._changed.set()

    def _apply(self, message: Message[T]) -> None:
        key = message.key
        if key is None:
            return
        changed: T | None = None
        if message.data:
            try:
                changed = message.value
            except PulsarError as error:  # one bad message must not end the view
                _log.warning("value not read", error=error, topic=message.topic, key=key)
                return
            self._values[key] = changed
        else:
            self._values.pop(key, None)
        for listener in self._listeners:
            try:
                listener(key, changed)
            # An application's code may raise anything; the view goes on.
            except Exception as error:
                _log.error("listener failed", error=error, topic=message.topic)
