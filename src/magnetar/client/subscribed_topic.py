"""The subscription on one topic: a consumer on every segment or partition there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from magnetar.client.consumer_set import ConsumerSet, SegmentRead
from magnetar.client.dead_letter import DeadLetters, OpenLetterProducer, RetryLetters
from magnetar.client.error import ConfigurationError, PulsarError
from magnetar.client.inbox import Inbox, InboxSource
from magnetar.client.layout import (
    LayoutWatch,
    PartitionLayout,
    parse_name,
    parse_regular,
    parse_scalable,
)
from magnetar.client.message import Origin
from magnetar.client.message_id import EARLIEST_ID, NO_SEGMENT
from magnetar.client.policy import DeadLetterPolicy
from magnetar.client.progress import Floor
from magnetar.client.session import Session
from magnetar.client.subscription import ConsumerSettings, InitialPosition
from magnetar.client.topic_consumer import TopicConsumer
from magnetar.model.layout import Layout
from magnetar.model.migration import MANAGED
from magnetar.model.name import TopicDomain, TopicName
from magnetar.model.scalable import LayoutView
from magnetar.model.segment import SegmentId


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


def may_create(part: TopicConsumer, layout: Layout) -> bool:
    """A regular topic that was deleted is made again, as by other clients; a legacy segment that is
    gone does not come back as a regular topic of its name.
    """
    return layout.is_synthetic or part.topic.domain is TopicDomain.SEGMENT


def plan_reads(topic: TopicName, layout: Layout) -> dict[SegmentId, SegmentRead]:
    """Everything there is to read: sealed segments hold what is not consumed yet."""
    return {
        segment.id: SegmentRead(segment.name_in(topic), segment.is_legacy)
        for segment in layout.segments
    }


def settle_partition(settings: ConsumerSettings, *, is_new: bool) -> ConsumerSettings:
    """The same for a partition of a regular topic."""
    if not is_new:
        return settings
    start = None if settings.start is None else Floor(EARLIEST_ID, is_included=True)
    return replace(settings, initial_position=InitialPosition.EARLIEST, start=start)


def origin_of(topic: str, number: SegmentId, *, is_named: bool = False) -> Origin:
    return Origin(topic, number, (number, topic if is_named else None))


class SubscribedTopic(InboxSource):
    """Follows the layout of a scalable topic, or of a regular one until it is scalable; with
    `is_regular`, the partitions of a regular topic, under whose own names consumers appear there.
    """

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        settings: ConsumerSettings,
        inbox: Inbox,
        *,
        create: bool,
        names_topic: bool,
        dead_letter: DeadLetterPolicy | None,
        open_letter_producer: OpenLetterProducer,
        is_regular: bool = False,
        on_lost: Callable[[SubscribedTopic, PulsarError], None] | None = None,
    ) -> None:
        """`on_lost` is called when a partition cannot be consumed any more."""
        super().__init__(inbox)
        self._session = session
        self._dead_letters: DeadLetters | None = None
        if dead_letter is not None:
            self._dead_letters = DeadLetters(
                dead_letter,
                settings.subscription,
                scope=session.scope,
                open_letter_producer=lambda: open_letter_producer(
                    dead_letter.topic or f"{self.topic}-DLQ", dead_letter.initial_subscription
                ),
            )
            settings = replace(settings, dead_letters=self._dead_letters)
        self._settings = settings
        self._names_topic = names_topic
        self._is_regular = is_regular
        self._on_lost = on_lost
        follow = PartitionLayout if is_regular else LayoutWatch
        self._layout = follow(session, topic, create=create, on_change=self._on_layout)
        self._known: frozenset[SegmentId] = frozenset()
        self.consumers = ConsumerSet(
            session, str(topic), make=self._make, waits_if_busy=not is_regular
        )

    @property
    def topic(self) -> str:
        return self._layout.topic.full

    async def open(self) -> None:
        try:
            await self._layout.open()
            self._known = frozenset(self._layout.layout.by_id)
            await self.consumers.start(self.reads())
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self._layout.close()
        await self.consumers.close()
        if self._dead_letters is not None:
            await self._dead_letters.close()

    def reads(self) -> dict[SegmentId, SegmentRead]:
        return plan_reads(self._layout.topic, self._layout.layout)

    def _on_layout(self, view: LayoutView) -> None:
        self.consumers.want(plan_reads(self._layout.topic, view.layout))

    def _make(self, number: SegmentId, read: SegmentRead) -> TopicConsumer:
        is_new = number not in self._known
        if self._is_regular:
            named = self.topic if self._names_topic else None
            origin = Origin(read.topic.full, number, (NO_SEGMENT, named))
            settings = settle_partition(self._settings, is_new=is_new)
        else:
            origin = origin_of(self.topic, number, is_named=self._names_topic)
            settings = settle_segment(self._settings, number, read, is_new=is_new)
        return TopicConsumer(self._session, read.topic, settings, origin=origin, outlet=self)

    def may_create(self, part: TopicConsumer) -> bool:
        return may_create(part, self._layout.layout)

    def on_lost(self, part: TopicConsumer, failure: PulsarError) -> None:
        is_current = self.is_current(part)
        super().on_lost(part, failure)
        if is_current and self._on_lost is not None:
            self._on_lost(self, failure)


def plan_letters(
    policy: DeadLetterPolicy | None,
    topics: tuple[TopicName, ...],
    subscription: str,
    *,
    is_regular: bool,
    open_letter_producer: OpenLetterProducer,
) -> tuple[tuple[TopicName, ...], DeadLetterPolicy | None, RetryLetters | None]:
    """What to consume, the retry topic among it, where dead letters go, and what puts messages
    aside. On regular topics the names are those that other clients give.
    """
    if policy is None:
        return topics, None, None
    graves = policy.topic and parse_name(policy.topic).full
    if graves is None and topics:
        middle = f"-{subscription}" if is_regular else ""
        graves = f"{topics[0].base.full}{middle}-DLQ"
    if is_regular and graves is None:
        raise ConfigurationError("With a pattern, dead_letter needs a topic of its own")
    named = replace(policy, topic=graves)
    if policy.retry_topic is None:
        return topics, named if is_regular else policy, None
    if not topics or graves is None:
        raise ConfigurationError("A retry_topic needs topics, not a namespace or a pattern")
    parse = parse_regular if is_regular else parse_scalable
    retry_topic = parse(policy.retry_topic)
    retries = RetryLetters(
        subscription,
        retry_topic=retry_topic.full,
        dead_letter_topic=graves,
        policy=policy,
        open_letter_producer=open_letter_producer,
    )
    return (*topics, retry_topic), named, retries
