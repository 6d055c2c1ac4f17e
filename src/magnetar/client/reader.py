"""A reader: goes through a topic from a place of its own, and leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Generic, Self, TypeVar, overload

from magnetar.client.consumer import AsyncConsumer, place_of
from magnetar.client.handle import ConsumerStats, Handle
from magnetar.client.message import Message
from magnetar.client.message_id import Target
from magnetar.client.quantity import Duration

T = TypeVar("T")


class AsyncReader(Handle, Generic[T]):
    """Made by `client.reader`; an async context manager and iterator of messages."""

    def __init__(self, consumer: AsyncConsumer[T]) -> None:
        self._consumer = consumer
        self._inbox = consumer._inbox

    @property
    def topic(self) -> str:
        return self._consumer.topics[0]

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
