"""Consumers with a subscription, on one topic, on several or on those that match."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Generic, TypeVar

from magnetar.client.acknowledgement import check_batch
from magnetar.client.dead_letter import OpenLetterProducer, RetryLetters
from magnetar.client.error import (
    AlreadyClosedError,
    ConfigurationError,
    ConsumerBusyError,
    PulsarError,
)
from magnetar.client.handle import ConsumerStats, Enlisting, TransactionHandle, find_enlisting
from magnetar.client.inbox import Inbox, Receiver
from magnetar.client.message import Message, group_by_entry
from magnetar.client.message_id import (
    EARLIEST_ID,
    LATEST_ID,
    MessageId,
    Target,
    choose_target,
)
from magnetar.client.place import Done, Place, id_of, place_of, places_of
from magnetar.client.policy import DeadLetterPolicy
from magnetar.client.quantity import Duration, parse_duration, to_ms
from magnetar.client.retry import run_together
from magnetar.client.session import Session
from magnetar.client.subscribed_topic import SubscribedTopic
from magnetar.client.subscription import ConsumerSettings
from magnetar.client.topic_consumer import TopicConsumer, count_lag
from magnetar.client.topic_set import ConsumerTarget, Member, TopicSet
from magnetar.model.name import TopicName
from magnetar.model.segment import SegmentId
from magnetar.runtime.log import Logger

_log = Logger(__name__)

T = TypeVar("T")
M = TypeVar("M", bound=Member)


async def confirm_all(parts: Iterable[TopicConsumer]) -> None:
    """Once the broker has stored what each of them has acknowledged."""
    await asyncio.gather(*(part.acknowledger.confirm() for part in dict.fromkeys(parts)))


def refuse_detached(number: SegmentId, entry: MessageId) -> None:
    """A transaction must not be committed without what is said to be done in it."""
    raise ConsumerBusyError(
        f"Segment {number} is with another consumer, or ended; message {entry} comes again there"
    )


def check_concurrency(concurrency: int) -> None:
    if not isinstance(concurrency, int) or concurrency < 1:
        raise ConfigurationError(f"concurrency is a number above 0, not {concurrency!r}")


def log_failed(message: Message[Any], error: Exception) -> None:
    _log.error("handler failed", error=error, topic=message.topic, id=message.id)


class SubscriptionConsumer(Receiver[T], Generic[T, M]):
    """Opened by `open`; `target` says of what."""

    def __init__(
        self, session: Session, settings: ConsumerSettings, target: ConsumerTarget
    ) -> None:
        super().__init__(Inbox(session.clock))
        self._session = session
        self._settings = settings
        self._topic_set: TopicSet[M] = TopicSet(session, target, self._make_topic)
        self._acknowledged = self._refused = 0
        self._ended: asyncio.Event | None = None
        """Set once it is closed, for others that close it meanwhile."""

    @abstractmethod
    def _make_topic(self, name: TopicName, *, create: bool) -> M: ...

    def _lose_topic(self, member: M, error: PulsarError) -> None:
        if not self._topic_set.lose(member):
            self._inbox.fail(error)

    @property
    def topic(self) -> str:
        """The topic; `namespace://` and its name for a consumer of a namespace."""
        return self._topic_set.title

    @property
    def topics(self) -> tuple[str, ...]:
        return self._topic_set.topics

    @property
    def subscription(self) -> str:
        return self._settings.subscription

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def _has_receipts(self) -> bool:
        """Whether an acknowledgement waits until the broker has stored it."""
        return self._settings.ack_receipts

    @property
    def stats(self) -> ConsumerStats:
        self._inbox.settle()
        segments = {
            each.topic: tuple(sorted(each.consumers.parts)) for each in self._topic_set.members
        }
        return ConsumerStats(
            self._inbox.received, self._acknowledged, self._refused, len(self._inbox), segments
        )

    async def open(self) -> None:
        await self._topic_set.open()
        self._session.made[self] = None

    async def flush(self) -> None:
        """Send what is acknowledged now, without waiting for more of it."""
        for part in self._parts:
            part.acknowledger.flush()

    async def backlog(self) -> int:
        """How many entries are not acknowledged yet in the segments that it consumes, received or
        not: a batch is one, until all of it is acknowledged.
        """
        return sum(await asyncio.gather(*(each.acknowledger.count_left() for each in self._parts)))

    async def lag(self) -> int:
        """How many messages are not acknowledged yet in the segments that it consumes, received or
        not; about as many while a broker counts what was stored before it had the topic.

        Raises FeatureNotSupportedError on Apache Pulsar, which counts entries.
        """
        return sum(await asyncio.gather(*(count_lag(each) for each in self._parts)))

    @property
    def _parts(self) -> list[TopicConsumer]:
        members = self._topic_set.members
        return [part for each in members for part in each.consumers.parts.values()]

    def pause(self) -> None:
        """Ask for no more messages, of later topics neither; those asked for still come."""
        self._topic_set.is_paused = True
        for member in self._topic_set.members:
            member.consumers.pause()

    def resume(self) -> None:
        self._topic_set.is_paused = False
        for member in self._topic_set.members:
            member.consumers.resume()

    async def seek(self, target: datetime | MessageId) -> None:
        """Move the subscription to a time, or to `EARLIEST_ID` or `LATEST_ID`, in all segments.

        Raises ConsumerBusyError while other consumers of a stream hold some of them.
        """
        if isinstance(target, datetime):
            await self._move(to_ms("target", target))
        elif target in (EARLIEST_ID, LATEST_ID):
            await self._move(target)
        else:
            raise ConfigurationError(
                "A subscription moves to a datetime, EARLIEST_ID or LATEST_ID; the id of one"
                " message says nothing about other segments"
            )

    async def _move(self, place: MessageId | int) -> None:
        async def move(part: TopicConsumer, is_guest: bool) -> None:
            self._inbox.drop(part)
            await part.seek(place, is_leaving=is_guest)

        self._forget_ends()
        for member in self._topic_set.members:
            await member.consumers.visit(member.reads(), move)
        self._forget_positions()

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription in all segments, and close.

        Raises ConsumerBusyError while it has other consumers; with `force` a queue's are sent away.
        """

        async def leave(part: TopicConsumer, is_guest: bool) -> None:
            await part.unsubscribe(force=force)

        for member in self._topic_set.members:
            await member.consumers.visit(member.reads(), leave)
        await self.close()

    async def close(self) -> None:
        """Send what is acknowledged and leave; unacknowledged messages go to other consumers."""
        if self._ended is not None:
            if not self._session.is_ending_now:
                await self._ended.wait()
            return
        self._ended = asyncio.Event()
        self._inbox.close(AlreadyClosedError(f"The consumer of {self.subscription} is closed"))
        try:
            await self._topic_set.close()
        finally:
            self._session.made.pop(self, None)
            self._ended.set()
        self._failed.check()

    def _forget_ends(self) -> None:
        """Segments that were read to their end may be read again."""

    def _forget_positions(self) -> None:
        """Delivery starts elsewhere."""


class IndividualConsumer(SubscriptionConsumer[T, SubscribedTopic], Generic[T]):
    """Acknowledges each message on its own."""

    def __init__(
        self,
        session: Session,
        settings: ConsumerSettings,
        target: ConsumerTarget,
        dead_letter: DeadLetterPolicy | None,
        retries: RetryLetters | None,
        *,
        is_regular: bool,
        open_letter_producer: OpenLetterProducer,
    ) -> None:
        super().__init__(session, settings, target)
        self._dead_letter = dead_letter
        self._retries = retries
        self._is_regular = is_regular
        self._open_letter_producer = open_letter_producer
        self._stops = 0

    def _make_topic(self, name: TopicName, *, create: bool) -> SubscribedTopic:
        return SubscribedTopic(
            self._session,
            name,
            self._settings,
            self._inbox,
            create=create,
            names_topic=self._topic_set.is_of_many,
            dead_letter=self._dead_letter,
            open_letter_producer=self._open_letter_producer,
            is_regular=self._is_regular,
            on_lost=self._lose_topic if self._is_regular else None,
        )

    async def acknowledge(
        self, message: Done[T], transaction: TransactionHandle | None = None
    ) -> None:
        """The message is done, or all of several, such as a batch of `receive_many`.

        With `ack_receipts` returns once the broker has stored that. In a transaction it is done
        when that is committed, and redelivered when it is aborted.
        """
        places = self._check_done(message)
        parts = self._begin_acknowledge(places, find_enlisting(transaction))
        if self._settings.ack_receipts:
            await confirm_all(parts)

    def _check_done(self, message: Done[T]) -> list[Place]:
        """Where these came from: any thread may ask, before one of them is noted."""
        places = places_of(message)
        for place in places:
            self._check_place(place)
            check_batch(place[2])
        return places

    def _begin_acknowledge(
        self, places: Sequence[Place], transaction: Enlisting | None = None
    ) -> list[TopicConsumer]:
        """Note what is done; returns the consumers that send it."""
        parts: dict[TopicConsumer, None] = {}
        for place in places:
            part = self._find(place)
            if part is not None:
                part.acknowledge(place[2], transaction)
                parts[part] = None
            elif transaction is not None:
                refuse_detached(place[1], place[2])
        self._acknowledged += len(places)
        return list(parts)

    def _acknowledge_received(self, messages: Sequence[Message[T]]) -> None:
        """Note that these are done, entry by entry: a thread has acknowledged one after another."""
        for entry, indexes in group_by_entry(messages):
            part = self._find((entry.id.topic, entry.origin.segment_id, entry.id))
            if part is not None:
                first = entry.place(indexes[0])
                part.acknowledge(first, indexes=indexes if entry.batch_size else None)
        self._acknowledged += len(messages)

    def negative_acknowledge(
        self, message: Message[T] | MessageId, delay: Duration | None = None
    ) -> None:
        """Ask for the message again after `delay`, or as the consumer's backoff says."""
        self._refuse((self._check_refused(message, delay),))

    def _check_refused(
        self, message: Message[T] | MessageId, delay: Duration | None
    ) -> tuple[Place, float | None]:
        place = self._check_place(place_of(message))
        return place, None if delay is None else parse_duration("delay", delay)

    def _refuse(self, refused: Sequence[tuple[Place, float | None]]) -> None:
        for place, delay in refused:
            part = self._find(place)
            self._refused += 1
            if part is not None:
                part.negative_acknowledge(place[2], delay)

    async def reconsume_later(self, message: Message[T], delay: Duration) -> None:
        """Put the message aside: it is redelivered through the retry topic, `delay` later.

        Once it came more than `max_redeliveries` times, it goes to the dead-letter topic instead.
        """
        if self._retries is None:
            raise ConfigurationError(
                "reconsume_later needs dead_letter=DeadLetterPolicy(..., retry_topic=...)"
            )
        await self._retries.put_aside(message, parse_duration("delay", delay))
        await self.acknowledge(message)

    async def close(self) -> None:
        """Send what is acknowledged and leave; unacknowledged messages go to other consumers."""
        try:
            await super().close()
        finally:
            if self._retries is not None:
                await self._retries.close()

    async def run(
        self, handler: Callable[[Message[T]], Awaitable[object]], *, concurrency: int = 1
    ) -> None:
        """Call `handler` with every message, with so many at a time, until `stop` is called or the
        consumer is closed.

        A message is acknowledged when its handler returns. When it raises, that is logged, and the
        message is redelivered as `nack_backoff` says, and buried as `dead_letter` says.
        """
        check_concurrency(concurrency)
        at = self._stops

        async def work() -> None:
            while (message := await self._receive_until(lambda: self._stops != at)) is not None:
                try:
                    async with self.processing(message):
                        await handler(message)
                except Exception as error:  # an application's code may raise anything
                    log_failed(message, error)

        await run_together(work() for _ in range(concurrency))

    def stop(self) -> None:
        """Let every `run` return once the handlers under way have ended; what they have done is
        acknowledged, and the consumer stays open.
        """
        self._stops += 1
        self._inbox.wake()

    async def _receive_until(self, is_over: Callable[[], bool]) -> Message[T] | None:
        """The next message; None when it is over, or the consumer is closed."""
        try:
            while not is_over():
                message: Message[T] | None = self._inbox.take()
                if message is not None:
                    return message
                await self._inbox.wait(None)
        except AlreadyClosedError:
            pass
        return None

    @asynccontextmanager
    async def processing(self, message: Message[T]) -> AsyncIterator[Message[T]]:
        """Acknowledge when the body ends well; ask for the message again when it raises."""
        try:
            yield message
        except BaseException:
            self.negative_acknowledge(message)
            raise
        await self.acknowledge(message)

    def _check_place(self, place: Place) -> Place:
        """Raise unless it says of which topic it is, where there may be several."""
        if place[0] is None and self._topic_set.is_of_many:
            raise ConfigurationError(
                f"The id {place[2]} does not tell which topic it is of; use the message itself"
            )
        return place

    def _find(self, place: Place) -> TopicConsumer | None:
        topic, number, id = place
        member = self._topic_set.find(topic)
        part = member.consumers.parts.get(number) if member is not None else None
        if part is None:
            _log.warning(
                "segment is not attached; its message is redelivered elsewhere",
                segment=number,
                id=id,
            )
        return part


class AsyncQueueConsumer(IndividualConsumer[T], Generic[T]):
    """Made by `client.queue_consumer`; an async context manager and iterator of messages."""


class AsyncConsumer(IndividualConsumer[T], Generic[T]):
    """Made by `client.consumer`; an async context manager and iterator of messages."""

    @property
    def is_active(self) -> bool:
        """On a failover subscription: whether this consumer is the one that is served."""
        return any(part.is_active for part in self._parts)

    @property
    def has_reached_end(self) -> bool:
        """Whether every topic is terminated and consumed."""
        return all(part.has_reached_end for part in self._parts)

    async def acknowledge_cumulative(
        self, message: Message[T] | MessageId, transaction: TransactionHandle | None = None
    ) -> None:
        """This message and all before it on the same topic or partition are done."""
        place = self._check_cumulative(message)
        parts = self._begin_cumulative((place,), find_enlisting(transaction))
        if self._settings.ack_receipts:
            await confirm_all(parts)

    def _check_cumulative(self, message: Message[T] | MessageId) -> Place:
        """Where the message came from; raises where it can only be acknowledged on its own."""
        if self._settings.type.is_shared:
            raise ConfigurationError("A shared subscription has no cumulative acknowledgement")
        [place] = self._check_done(id_of(message))
        return place

    def _begin_cumulative(
        self, places: Sequence[Place], transaction: Enlisting | None = None
    ) -> list[TopicConsumer]:
        parts = []
        for place in places:
            part = self._find(place)
            if part is not None:
                part.acknowledge_cumulative(place[2], transaction)
                parts.append(part)
        self._acknowledged += len(places)
        return parts

    def redeliver_unacknowledged(self) -> None:
        """Ask for everything unacknowledged again, now."""
        for part in self._parts:
            part.redeliver_all()

    async def seek(self, target: Target) -> None:
        """Move the subscription to a message, which comes next, or to a publish time."""
        place = choose_target(target)
        if isinstance(place, int) or place in (EARLIEST_ID, LATEST_ID):
            await self._move(place)
            return
        part = self._find(self._check_place(place_of(place)))
        if part is not None:
            await part.seek(place)

    async def last_message_ids(self) -> dict[str, MessageId | None]:
        """The last message of each topic or partition; None for an empty one."""
        return {part.topic.full: await part.last_message_id() for part in self._parts}

    async def is_behind(self) -> bool:
        """Whether some topic has stored a message that `receive` has not returned yet."""
        if len(self._inbox):
            return True
        for part in self._parts:
            if await part.is_behind():
                return True
        return False
