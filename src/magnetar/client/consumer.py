"""The consumer an application holds: one queue over all its topics and their partitions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from magnetar.client.error import AlreadyClosedError, ConfigurationError, PulsarError
from magnetar.client.message import Message
from magnetar.client.message_id import EARLIEST, LATEST, MessageId
from magnetar.client.session import Session
from magnetar.client.subscription import ConsumerSettings
from magnetar.client.topic_consumer import TopicConsumer
from magnetar.model.name import TopicName

PARTITION_CHECK_S: Final = 60.0


class _Waiting(NamedTuple):
    part: TopicConsumer
    generation: int
    message: Message


class AsyncConsumer:
    """Made by `AsyncPulsarClient.subscribe`; an async context manager and iterator of messages."""

    def __init__(
        self, session: Session, topics: Sequence[TopicName], settings: ConsumerSettings
    ) -> None:
        self._session = session
        self._topics = tuple(topics)
        self._settings = settings
        self._parts: list[TopicConsumer] = []
        self._partitions: dict[TopicName, int] = {}
        self._queue: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._failure: PulsarError | None = None
        self._growth: asyncio.Task[None] | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(topic.full for topic in self._topics)

    @property
    def subscription(self) -> str:
        return self._settings.subscription

    @property
    def is_active(self) -> bool:
        """On a failover subscription: whether this consumer is the one that is served."""
        return any(part.is_active for part in self._parts)

    @property
    def has_reached_end(self) -> bool:
        """Whether every topic is terminated and consumed."""
        return all(part.has_reached_end for part in self._parts)

    async def open(self) -> None:
        """Attach to every partition of every topic; all or none."""
        try:
            for topic in self._topics:
                count = await self._session.lookup.count_partitions(
                    topic, create=self._settings.create_topic
                )
                self._partitions[topic] = count
                names = [topic.partition(index) for index in range(count)] or [topic]
                for name in names:
                    await self._add(name)
        except BaseException:
            await self._close_parts()
            raise
        self._session.made[self] = None
        if any(self._partitions.values()):
            self._growth = self._session.scope.periodic(
                PARTITION_CHECK_S, self._grow, f"partitions of {self.subscription}"
            )

    async def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None when there is none within `timeout` seconds."""
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while True:
            message = self.receive_nowait()
            if message is not None:
                return message
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._arrived.wait()
            except TimeoutError:
                return self.receive_nowait()

    def receive_nowait(self) -> Message | None:
        """A message that is here already, or None."""
        while self._queue:
            part, generation, message = self._queue.popleft()
            if part.generation == generation:
                part.on_taken(message)
                return message
        if self._failure is not None:
            raise self._failure
        return None

    async def receive_many(self, max_messages: int, timeout: float) -> list[Message]:
        """Up to `max_messages`, as soon as there are any; fewer, even none, after `timeout`."""
        first = await self.receive(timeout)
        if first is None:
            return []
        messages = [first]
        while len(messages) < max_messages:
            message = self.receive_nowait()
            if message is None:
                break
            messages.append(message)
        return messages

    async def acknowledge(self, message: Message | MessageId) -> None:
        """The message is done. With `ack_receipts` returns once the broker has stored that."""
        part, id = self._find(message)
        await part.acknowledge(id)

    async def acknowledge_cumulative(self, message: Message | MessageId) -> None:
        """This message and all before it on the same topic or partition are done."""
        if self._settings.type.is_shared:
            raise ConfigurationError("A shared subscription has no cumulative acknowledgement")
        part, id = self._find(message)
        await part.acknowledge_cumulative(id)

    def negative_acknowledge(
        self, message: Message | MessageId, delay: float | None = None
    ) -> None:
        """Ask for the message again after `delay` seconds (the consumer's `nack_delay`)."""
        part, id = self._find(message)
        part.negative_acknowledge(id, delay)

    def redeliver_unacknowledged(self) -> None:
        """Ask for everything unacknowledged again, now."""
        for part in self._parts:
            part.redeliver_all()

    async def seek(self, target: MessageId | int) -> None:
        """Move the subscription to a message (it comes next) or to a publish time in ms."""
        if isinstance(target, int) or target in (EARLIEST, LATEST):
            for part in self._parts:
                await part.seek(target)
        else:
            part, id = self._find(target)
            await part.seek(id)

    async def last_message_ids(self) -> dict[str, MessageId | None]:
        """The last message of each topic or partition; None for an empty one."""
        return {part.topic.full: await part.last_message_id() for part in self._parts}

    async def is_behind(self) -> bool:
        """Whether some topic has stored a message that `receive` has not returned yet."""
        if any(part.generation == generation for part, generation, _ in self._queue):
            return True
        for part in self._parts:
            if await part.is_behind():
                return True
        return False

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription and close."""
        for part in self._parts:
            await part.unsubscribe(force=force)
        await self.close()

    async def close(self) -> None:
        """Send what is acknowledged and leave; unacknowledged messages go to other consumers."""
        if isinstance(self._failure, AlreadyClosedError):
            return
        self._fail(AlreadyClosedError(f"The consumer of {self.subscription} is closed"))
        self._queue.clear()
        if self._growth is not None:
            self._growth.cancel()
        await self._close_parts()
        self._session.made.pop(self, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        try:
            message = await self.receive()
        except AlreadyClosedError:
            raise StopAsyncIteration from None
        assert message is not None, "receive without a timeout returns a message"
        return message

    def _find(self, message: Message | MessageId) -> tuple[TopicConsumer, MessageId]:
        """The part a message came through; an id alone tells it by its partition."""
        if isinstance(message, Message):
            return self._parts[message.origin], message.id
        matching = [part for part in self._parts if part.topic.partition_index == message.partition]
        if len(matching) != 1:
            raise ConfigurationError(
                f"The id {message} does not tell which topic it is of; use the message itself"
            )
        return matching[0], message

    async def _add(self, topic: TopicName) -> None:
        part = TopicConsumer(
            self._session,
            topic,
            self._settings,
            origin=len(self._parts),
            deliver=self._on_delivered,
            give_up=self._fail,
        )
        self._parts.append(part)
        await part.open()

    def _on_delivered(self, part: TopicConsumer, messages: list[Message]) -> None:
        self._queue.extend(_Waiting(part, part.generation, message) for message in messages)
        self._arrived.set()

    def _fail(self, failure: PulsarError) -> None:
        self._failure = failure
        self._arrived.set()

    async def _grow(self) -> None:
        for topic, known in self._partitions.items():
            if known:
                count = await self._session.lookup.count_partitions(topic, create=False)
                for index in range(known, count):
                    await self._add(topic.partition(index))
                    self._partitions[topic] = index + 1

    async def _close_parts(self) -> None:
        for part in self._parts:
            await part.close()
