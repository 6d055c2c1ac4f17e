"""Messages that have arrived from any number of segments and wait for the application."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from magnetar.client.error import AlreadyClosedError, ConfigurationError, PulsarError
from magnetar.client.message import Message as Delivered
from magnetar.client.scalable.message import Message, MessageBatch
from magnetar.client.topic_consumer import TopicConsumer

T = TypeVar("T")


class Source(Protocol):
    """A topic that delivers here."""

    def take(self, part: TopicConsumer, delivered: Delivered[Any]) -> Message[Any] | None:
        """The message for the application, which has it from now on; None for one that is void."""


class _Waiting(NamedTuple):
    source: Source
    part: TopicConsumer
    generation: int
    delivered: Delivered[Any]


class Inbox(Generic[T]):
    """One queue in the order of arrival; every receiver that waits hears of what comes.

    What waits is bounded by the permits that each segment was given.
    """

    def __init__(self) -> None:
        self._queue: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self.failure: PulsarError | None = None

    def put(self, source: Source, part: TopicConsumer, messages: list[Delivered[Any]]) -> None:
        generation = part.generation
        self._queue.extend(_Waiting(source, part, generation, each) for each in messages)
        self._arrived.set()

    def take(self) -> Message[T] | None:
        while self._queue:
            source, part, generation, delivered = self._queue.popleft()
            if part.generation == generation:
                message = source.take(part, delivered)
                if message is not None:
                    return message
        if self.failure is not None:
            raise self.failure
        return None

    def drop(self, part: TopicConsumer) -> None:
        """The broker will deliver these elsewhere."""
        self._queue = deque(each for each in self._queue if each.part is not part)

    async def wait(self, deadline: float | None) -> bool:
        """Until something may be there; False when the time is over."""
        self._arrived.clear()
        try:
            async with asyncio.timeout_at(deadline):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    def fail(self, failure: PulsarError) -> None:
        """Receivers get what is here, then hear why no more comes."""
        if self.failure is None:
            self.failure = failure
        self._arrived.set()

    def close(self, failure: AlreadyClosedError) -> None:
        self.failure = failure
        self._queue.clear()
        self._arrived.set()


class Receiver(ABC, Generic[T]):
    """What all consumers of scalable topics share: how messages are received."""

    def __init__(self, inbox: Inbox[T]) -> None:
        self._inbox = inbox
        self._received = 0

    async def receive(self, timeout: float | None = None) -> Message[T] | None:
        """The next message; None when there is none within `timeout` seconds."""
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while True:
            message = self.receive_nowait()
            if message is not None or not await self._inbox.wait(deadline):
                return message or self.receive_nowait()

    def receive_nowait(self) -> Message[T] | None:
        """A message that is here already, or None."""
        message = self._inbox.take()
        if message is not None:
            self._received += 1
        return message

    async def receive_many(
        self, max_messages: int, timeout: float | None = None, *, linger: float = 0.0
    ) -> MessageBatch[T]:
        """Up to `max_messages`: those that are here as soon as there is one, even none after
        `timeout` seconds. With `linger`, wait so many seconds after the first one for more.
        """
        if max_messages < 1:
            raise ConfigurationError("max_messages must be above 0")
        first = await self.receive(timeout)
        messages = [] if first is None else [first]
        until = asyncio.get_running_loop().time() + linger
        while messages and len(messages) < max_messages:
            message = self.receive_nowait()
            if message is not None:
                messages.append(message)
            elif linger <= 0 or not await self._inbox.wait(until):
                break
        return MessageBatch(messages)

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        try:
            message = await self.receive()
        except AlreadyClosedError:
            raise StopAsyncIteration from None
        assert message is not None, "receive without a timeout returns a message"
        return message
