"""The consumer an application holds: one queue over all its topics and their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

from magnetar.client.backlog import Backlog
from magnetar.client.deadline import find_deadline
from magnetar.client.error import AlreadyClosedError, ConfigurationError, PulsarError
from magnetar.client.message import Message
from magnetar.client.message_id import EARLIEST, LATEST, MessageId, Target, choose_target
from magnetar.client.pattern import TopicPattern
from magnetar.client.quantity import Duration, parse_duration
from magnetar.client.retry_letter import RetryLetters
from magnetar.client.session import Session
from magnetar.client.stats import ConsumerStats
from magnetar.client.subscription import ConsumerSettings
from magnetar.client.supply import Supply
from magnetar.client.topic_consumer import TopicConsumer
from magnetar.client.topic_watch import TopicWatch
from magnetar.model.name import TopicName
from magnetar.model.segment import SegmentId
from magnetar.runtime.log import Logger

_log = Logger(__name__)

PARTITION_CHECK_S: Final = 60.0

T = TypeVar("T")


class AsyncConsumer(Supply[Message[T]], Generic[T]):
    """Made by `client.classic.subscribe`; an async context manager and iterator of messages."""

    def __init__(
        self,
        session: Session,
        topics: Sequence[TopicName],
        settings: ConsumerSettings,
        *,
        pattern: TopicPattern | None = None,
        retries: RetryLetters | None = None,
    ) -> None:
        self._session = session
        self._topics = tuple(topics)
        self._settings = settings
        self._pattern = pattern
        self._retries = retries
        self._parts: list[TopicConsumer] = []
        self._partitions: dict[TopicName, int] = {}
        self._attached: set[TopicName] = set()
        self._backlog: Backlog[None] = Backlog()
        self._arrived = asyncio.Event()
        self._received = self._acknowledged = self._refused = 0
        self._failure: PulsarError | None = None
        self._growth: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._watch: TopicWatch | None = None
        if pattern is not None:
            self._watch = TopicWatch(session, pattern, self._changed.set)

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

    @property
    def stats(self) -> ConsumerStats:
        attached: dict[str, tuple[SegmentId, ...]] = {part.topic.full: () for part in self._parts}
        return ConsumerStats(
            self._received, self._acknowledged, self._refused, len(self._backlog), attached
        )

    async def open(self) -> None:
        """Attach to every partition of every topic; all or none."""
        try:
            if self._pattern is not None:
                self._topics = tuple(await self._pattern.find(self._session.lookup))
            for topic in self._topics:
                await self._add_topic(topic)
        except BaseException:
            await self._close_parts()
            raise
        self._session.made[self] = None
        if self._pattern is not None or any(self._partitions.values()):
            self._growth = self._session.scope.start(
                self._follow(), f"topics of {self.subscription}"
            )

    async def receive(self, timeout: Duration | None = None) -> Message[T] | None:
        """The next message; None when there is none within `timeout`."""
        message = self.receive_nowait()
        if message is None and await self._wait(timeout):
            return self.receive_nowait()
        return message

    def receive_nowait(self) -> Message[T] | None:
        """A message that is here already, or None."""
        found = self._backlog.take_one()
        if found is not None:
            _, part, message = found
            part.on_taken((message,))
            self._received += 1
            return message
        if self._failure is not None:
            raise self._failure
        return None

    async def receive_many(
        self, max_messages: int, timeout: Duration | None = None
    ) -> list[Message[T]]:
        """Up to `max_messages`, as soon as there are any; fewer, even none, after `timeout`."""
        if not self._backlog and self._failure is None:
            await self._wait(timeout)
        messages: list[Message[T]] = []
        while len(messages) < max_messages:
            found = self._backlog.take_run(max_messages - len(messages))
            if found is None:
                break
            _, part, run = found
            part.on_taken(run)
            messages += run
        self._received += len(messages)
        if not messages and self._failure is not None:
            raise self._failure
        return messages

    async def _wait(self, timeout: Duration | None) -> bool:
        """Until something is there, or will not come; False when the time is over."""
        deadline = find_deadline(timeout, self._session.clock)
        while not self._backlog and self._failure is None:
            self._arrived.clear()
            try:
                async with self._session.clock.timeout_at(deadline):
                    await self._arrived.wait()
            except TimeoutError:
                return bool(self._backlog)
        return True

    async def acknowledge(self, message: Message[Any] | MessageId) -> None:
        """The message is done. With `ack_receipts` returns once the broker has stored that."""
        part, id = self._find(message)
        self._acknowledged += 1
        await part.acknowledge(id)

    async def acknowledge_cumulative(self, message: Message[Any] | MessageId) -> None:
        """This message and all before it on the same topic or partition are done."""
        if self._settings.type.is_shared:
            raise ConfigurationError("A shared subscription has no cumulative acknowledgement")
        part, id = self._find(message)
        self._acknowledged += 1
        await part.acknowledge_cumulative(id)

    def negative_acknowledge(
        self, message: Message[Any] | MessageId, delay: Duration | None = None
    ) -> None:
        """Ask for the message again after `delay`, or as the consumer's backoff says."""
        part, id = self._find(message)
        self._refused += 1
        part.negative_acknowledge(id, None if delay is None else parse_duration("delay", delay))

    async def reconsume_later(self, message: Message[T], delay: Duration) -> None:
        """Put the message aside: it comes again through the retry topic, `delay` later.

        Once it came more than `max_redeliveries` times, it goes to the dead-letter topic instead.
        """
        if self._retries is None:
            raise ConfigurationError(
                "reconsume_later needs dead_letter=DeadLetterPolicy(..., retry_topic=...)"
            )
        await self._retries.put_aside(message, parse_duration("delay", delay))
        await self.acknowledge(message)

    def pause(self) -> None:
        """Ask for no more messages; those on their way still come."""
        for part in self._parts:
            part.pause()

    def resume(self) -> None:
        for part in self._parts:
            part.resume()

    def redeliver_unacknowledged(self) -> None:
        """Ask for everything unacknowledged again, now."""
        for part in self._parts:
            part.redeliver_all()

    async def seek(self, target: Target) -> None:
        """Move the subscription to a message (it comes next) or to a publish time."""
        place = choose_target(target)
        if isinstance(place, int) or place in (EARLIEST, LATEST):
            for part in self._parts:
                await part.seek(place)
        else:
            part, id = self._find(place)
            await part.seek(id)

    async def last_message_ids(self) -> dict[str, MessageId | None]:
        """The last message of each topic or partition; None for an empty one."""
        return {part.topic.full: await part.last_message_id() for part in self._parts}

    async def is_behind(self) -> bool:
        """Whether some topic has stored a message that `receive` has not returned yet."""
        if self._backlog:
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
        self._backlog.clear()
        if self._growth is not None:
            self._growth.cancel()
        if self._watch is not None:
            self._watch.close()
        await self._close_parts()
        self._session.made.pop(self, None)
        if self._settings.dead_letters is not None:
            await self._settings.dead_letters.close()
        if self._retries is not None:
            await self._retries.close()

    def _find(self, message: Message[Any] | MessageId) -> tuple[TopicConsumer, MessageId]:
        """The part a message came through; an id alone tells it by its partition."""
        if isinstance(message, Message):
            return self._parts[message.origin], message.id
        matching = [part for part in self._parts if part.topic.partition_index == message.partition]
        if len(matching) != 1:
            raise ConfigurationError(
                f"The id {message} does not tell which topic it is of; use the message itself"
            )
        return matching[0], message

    async def _add_topic(self, topic: TopicName) -> None:
        count = await self._session.lookup.count_partitions(
            topic, create=self._settings.create_topic
        )
        for name in [topic.partition(index) for index in range(count)] or [topic]:
            if name not in self._attached:
                await self._add(name)
        self._partitions[topic] = count

    async def _add(self, topic: TopicName) -> None:
        def on_lost(failure: PulsarError) -> None:
            """One topic of a pattern is gone: the others go on, and it may come back."""
            _log.warning("topic lost", error=failure, topic=topic)
            self._attached.discard(topic)
            self._partitions.pop(topic.base, None)

        part = TopicConsumer(
            self._session,
            topic,
            self._settings,
            origin=len(self._parts),
            deliver=self._on_delivered,
            give_up=self._fail if self._pattern is None else on_lost,
            retract=self._backlog.retract,
        )
        self._parts.append(part)
        try:
            await part.open()
        except BaseException:
            self._parts.remove(part)  # the last one: those before it keep their places
            await part.close()
            raise
        self._attached.add(topic)

    def _on_delivered(self, part: TopicConsumer, messages: Sequence[Message[T]]) -> None:
        self._backlog.put(None, part, messages)
        self._arrived.set()

    def _fail(self, failure: PulsarError) -> None:
        self._failure = failure
        self._arrived.set()

    async def _follow(self) -> None:
        """Look for topics and partitions now and then, and when the broker says that some came."""
        interval = PARTITION_CHECK_S if self._pattern is None else self._pattern.interval
        while True:
            if self._watch is not None:
                await self._watch.ensure()
            try:
                async with self._session.clock.timeout(interval):
                    await self._changed.wait()
            except TimeoutError:
                pass  # time to look
            self._changed.clear()
            try:
                await self._grow()
            except PulsarError as error:
                _log.warning("topics not found", subscription=self.subscription, reason=error)

    async def _grow(self) -> None:
        if self._pattern is not None:
            for topic in await self._pattern.find(self._session.lookup):
                if topic not in self._partitions:
                    await self._add_topic(topic)
                    if topic not in self._topics:
                        self._topics += (topic,)
        for topic, known in tuple(self._partitions.items()):
            if known:
                count = await self._session.lookup.count_partitions(topic, create=False)
                for index in range(known, count):
                    await self._add(topic.partition(index))
                    self._partitions[topic] = index + 1

    async def _close_parts(self) -> None:
        for part in self._parts:
            await part.close()
