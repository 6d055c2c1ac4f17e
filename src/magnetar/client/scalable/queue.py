"""Queue consumption: any consumer of a subscription gets any message, and acknowledges it alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Generic, TypeVar

from magnetar.client.dead_letter import DeadLetters, OpenLetterProducer
from magnetar.client.error import ConfigurationError, PulsarError
from magnetar.client.message import Message as Delivered
from magnetar.client.policy import DeadLetterPolicy
from magnetar.client.quantity import Duration, parse_duration
from magnetar.client.retry_letter import RetryLetters
from magnetar.client.scalable.consumer import SubscriptionConsumer, id_of
from magnetar.client.scalable.consumer_set import ConsumerSet, SegmentRead
from magnetar.client.scalable.inbox import Inbox
from magnetar.client.scalable.layout import LayoutWatch
from magnetar.client.scalable.message import Message
from magnetar.client.scalable.message_id import MessageId
from magnetar.client.scalable.topic_set import TopicSet
from magnetar.client.scalable.trail import Mark
from magnetar.client.scalable.transaction import refuse_transaction
from magnetar.client.session import Session
from magnetar.client.subscription import ConsumerSettings, InitialPosition
from magnetar.client.topic_consumer import TopicConsumer
from magnetar.model.layout import Layout
from magnetar.model.migration import MANAGED
from magnetar.model.name import TopicName
from magnetar.model.scalable import LayoutView
from magnetar.model.segment import SegmentId
from magnetar.runtime.log import Logger

T = TypeVar("T")

_log = Logger(__name__)


def settle_segment(
    settings: ConsumerSettings, number: SegmentId, read: SegmentRead, *, is_new: bool
) -> ConsumerSettings:
    """The settings for one segment; one that came later is read from its beginning."""
    properties = dict(settings.properties)
    if read.is_legacy:
        properties[MANAGED] = "true"
    return replace(
        settings,
        name=f"{settings.name}-{'guest' if read.is_guest else 'seg'}-{number}",
        initial_position=InitialPosition.EARLIEST if is_new else settings.initial_position,
        properties=properties,
    )


def plan_reads(topic: TopicName, layout: Layout) -> dict[SegmentId, SegmentRead]:
    """Everything there is to read: sealed segments hold what is not consumed yet."""
    return {
        segment.id: SegmentRead(segment.name_in(topic), segment.is_legacy)
        for segment in layout.segments
    }


class QueueTopic:
    """The queue subscription of one topic: a shared consumer on every segment."""

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        settings: ConsumerSettings,
        inbox: Inbox[Any],
        *,
        create: bool,
        names_topic: bool,
        dead_letter: DeadLetterPolicy | None,
        open_letter_producer: OpenLetterProducer,
    ) -> None:
        self._session = session
        self._marks: dict[SegmentId, Mark] = {}
        self._dead_letters: DeadLetters | None = None
        if dead_letter is not None:
            self._dead_letters = DeadLetters(
                dead_letter,
                settings.subscription,
                scope=session.scope,
                open_letter_producer=lambda: open_letter_producer(
                    dead_letter.topic or f"{self.topic}-DLQ", dead_letter.initial_subscription
                ),
                name_origin=lambda message: self.topic,
            )
        self._settings = replace(settings, dead_letters=self._dead_letters)
        self._inbox = inbox
        self._names_topic = names_topic
        self._watch = LayoutWatch(session, topic, create=create, on_change=self._on_layout)
        self._known: frozenset[SegmentId] = frozenset()
        self.consumers = ConsumerSet(session, str(topic), make=self._make)

    @property
    def topic(self) -> str:
        return self._watch.topic.full

    async def open(self) -> None:
        try:
            await self._watch.open()
            self._known = frozenset(self._watch.layout.by_id)
            await self.consumers.start(plan_reads(self._watch.topic, self._watch.layout))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self._watch.close()
        await self.consumers.close()
        if self._dead_letters is not None:
            await self._dead_letters.close()

    def reads(self) -> dict[SegmentId, SegmentRead]:
        return plan_reads(self._watch.topic, self._watch.layout)

    def take(self, part: TopicConsumer, delivered: Sequence[Delivered[Any]]) -> Mark | None:
        number = part.segment
        if self.consumers.parts.get(number) is not part:
            return None
        part.on_taken(delivered)
        mark = self._marks.get(number)
        if mark is None:
            mark = self._marks[number] = Mark(self.topic, number, names_topic=self._names_topic)
        return mark

    def _on_layout(self, view: LayoutView) -> None:
        self.consumers.want(plan_reads(self._watch.topic, view.layout))

    def _make(self, number: SegmentId, read: SegmentRead) -> TopicConsumer:
        is_new = number not in self._known

        def on_lost(error: PulsarError) -> None:
            _log.warning("segment lost", topic=read.topic, reason=error)
            self.consumers.skip(number)

        return TopicConsumer(
            self._session,
            read.topic,
            settle_segment(self._settings, number, read, is_new=is_new),
            origin=number,
            deliver=lambda part, messages: self._inbox.put(self, part, messages),
            give_up=on_lost,
            retract=self._inbox.retract,
        )


class AsyncQueueConsumer(SubscriptionConsumer[T, QueueTopic], Generic[T]):
    """Made by `client.queue_consumer`; an async context manager and iterator of messages."""

    def __init__(
        self,
        session: Session,
        settings: ConsumerSettings,
        inbox: Inbox[T],
        topic_set: TopicSet[QueueTopic],
        retries: RetryLetters | None,
    ) -> None:
        super().__init__(session, settings, inbox, topic_set)
        self._retries = retries

    async def acknowledge(self, message: Message[T] | MessageId, transaction: None = None) -> None:
        """The message is done. With `ack_receipts` returns once the broker has stored that."""
        refuse_transaction(transaction)
        part, id = self._find(message)
        self._acknowledged += 1
        if part is not None:
            await part.acknowledge(id.entry)

    def negative_acknowledge(
        self, message: Message[T] | MessageId, delay: Duration | None = None
    ) -> None:
        """Ask for the message again after `delay`, or as the consumer's backoff says."""
        part, id = self._find(message)
        self._refused += 1
        if part is not None:
            seconds = None if delay is None else parse_duration("delay", delay)
            part.negative_acknowledge(id.entry, seconds)

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

    async def close(self) -> None:
        """Send what is acknowledged and leave; unacknowledged messages go to other consumers."""
        await super().close()
        if self._retries is not None:
            await self._retries.close()

    @asynccontextmanager
    async def processing(self, message: Message[T]) -> AsyncIterator[Message[T]]:
        """Acknowledge when the body ends well; ask for the message again when it raises."""
        try:
            yield message
        except BaseException:
            self.negative_acknowledge(message)
            raise
        await self.acknowledge(message)

    def _find(self, message: Message[T] | MessageId) -> tuple[TopicConsumer | None, MessageId]:
        id = id_of(message)
        member = self._topic_set.find(id.topic)
        part = member.consumers.parts.get(id.segment_id) if member is not None else None
        if part is None:
            _log.warning("segment is not attached; its message comes again elsewhere", id=id)
        return part, id
