"""Stream consumption: every segment has one consumer, which acknowledges how far it has come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Generic, TypeVar

from magnetar.client.consumer import (
    SubscriptionConsumer,
    confirm_all,
    refuse_detached,
)
from magnetar.client.consumer_set import ConsumerSet, SegmentConsumer, SegmentRead
from magnetar.client.error import ConfigurationError, PulsarError
from magnetar.client.handle import Enlisting, TransactionHandle, find_enlisting
from magnetar.client.inbox import Inbox, InboxSource
from magnetar.client.layout import LayoutWatch, is_apache
from magnetar.client.membership import Membership
from magnetar.client.message import Message
from magnetar.client.message_id import MessageId, Vector
from magnetar.client.place import id_of
from magnetar.client.progress import PositionVector, Progress, UnackedIds
from magnetar.client.session import Session
from magnetar.client.subscribed_topic import may_create, origin_of, plan_reads, settle_segment
from magnetar.client.subscription import ConsumerSettings, SubscriptionType
from magnetar.client.topic_consumer import TopicConsumer
from magnetar.client.topic_set import ConsumerTarget
from magnetar.errors import InvalidName
from magnetar.model.layout import Layout
from magnetar.model.name import TopicDomain, TopicName, parse_topic
from magnetar.model.scalable import ConsumerAssignment, ConsumerKind, LayoutView
from magnetar.model.segment import SegmentId
from magnetar.runtime.log import Logger
from magnetar.wire.command import IntRange, KeySharedMeta, KeySharedMode

T = TypeVar("T")

_HAND_OVER_S: Final = 1.0
"""How long a new consumer waits for those whose segments it gets; later they come by themselves."""

_log = Logger(__name__)


def plan_assigned(assignment: ConsumerAssignment) -> dict[SegmentId, SegmentRead]:
    reads = {}
    for each in assignment.segments:
        try:
            topic = parse_topic(each.topic)
        except InvalidName as error:
            _log.warning("assigned segment not understood", reason=error.sentence)
            continue
        reads[each.id] = SegmentRead(topic, topic.domain is not TopicDomain.SEGMENT, each.buckets)
    return reads


def name_for_controller(topic: TopicName, layout: Layout) -> TopicName:
    """A regular topic goes by its own name, until it is scalable."""
    return parse_topic(layout.active[0].legacy_topic).base if layout.is_synthetic else topic


class StreamTopic(InboxSource):
    """The stream subscription of one topic: an exclusive consumer on each assigned segment.

    The partitions of a regular topic are assigned as segments are. Apache Pulsar does not do that:
    there all consumers stand by on every partition, and the broker serves one on each. When such a
    topic becomes scalable they register with its controller.
    """

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        settings: ConsumerSettings,
        inbox: Inbox,
        positions: PositionVector,
        *,
        create: bool,
        names_topic: bool,
        release_timeout: float | None,
        on_lost: Callable[[StreamTopic, PulsarError], None],
    ) -> None:
        super().__init__(inbox)
        self._session = session
        self._settings = settings
        self._positions = positions
        self._names_topic = names_topic
        self._title = topic.full
        self._release_timeout = release_timeout
        self._on_lost = on_lost
        self._watch = LayoutWatch(session, topic, create=create, on_change=self._on_layout)
        self._membership: Membership | None = None
        self._known: frozenset[SegmentId] = frozenset()
        self._acknowledged: dict[SegmentId, tuple[MessageId, int]] = {}
        """How far, and under which generation of deliveries: what was said before a reconnect may
        be lost, so that it is said again.
        """
        self._shared: dict[SegmentId, UnackedIds] = {}
        """What was taken of segments that are acknowledged message by message."""
        self._assigned: dict[SegmentId, SegmentRead] = {}
        self._ended: set[SegmentId] = set()
        self._progress = asyncio.Event()
        self.consumers = ConsumerSet(
            session, str(topic), make=self._make, release=self._release, on_gone=self._end
        )

    @property
    def topic(self) -> str:
        return self._watch.topic.full

    async def open(self) -> None:
        try:
            await self._watch.open()
            self._title = self._watch.topic.full
            layout = self._watch.layout
            self._known = frozenset(layout.by_id)
            if layout.is_synthetic and is_apache(self._watch.server_version):
                await self.consumers.start(plan_reads(self._watch.topic, layout))
            else:
                self._assigned = plan_assigned(await self._join(self._watch.view))
                await self.consumers.start(self._plan(), hand_over_s=_HAND_OVER_S)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """The segments first: the consumer that is assigned them next must find them free."""
        self._watch.close()
        await self.consumers.close()
        if self._membership is not None:
            self._membership.close()

    def reads(self) -> dict[SegmentId, SegmentRead]:
        return plan_reads(self._watch.topic, self._watch.layout)

    def on_claimed(self, part: TopicConsumer, messages: Sequence[Message[Any]]) -> Progress:
        number = part.segment
        shared = self._shared.get(number)  # the loop may let go of it meanwhile
        if shared is not None:
            shared.add(each.place for each in messages)
        return self._positions.advance(self._title, number, messages[-1])

    def acknowledge(self, vector: Vector, transaction: Enlisting | None) -> list[TopicConsumer]:
        """One command for each segment in which the application has come farther.

        Returns the consumers that have something to send.
        """
        parts = []
        for number, entry in vector.items():
            shared = self._shared.get(number)
            before, generation = self._acknowledged.get(number, (None, -1))
            part = self.consumers.parts.get(number) or self.consumers.leaving.get(number)
            is_same = part is None or part.generation == generation
            if shared is None and before is not None and entry <= before and is_same:
                continue
            if part is None:
                if self._positions.last_id(self.topic, number) is not None:
                    if transaction is not None:
                        refuse_detached(number, entry)
                    _log.warning("segment is not attached any more", topic=self.topic, id=entry)
                continue
            if shared is None:
                self._acknowledged[number] = entry, part.generation
                if transaction is not None:
                    transaction.when_undone(partial(self._go_back, number, entry, before))
                part.acknowledge_cumulative(entry, transaction)
            else:
                for id in shared.up_to(entry):
                    part.acknowledge(id, transaction)
                    shared.remove(id)
            parts.append(part)
        self._progress.set()
        return parts

    def _go_back(self, number: SegmentId, entry: MessageId, before: MessageId | None) -> None:
        """A transaction acknowledged up to `entry`, and was not committed."""
        known = self._acknowledged.get(number)
        if known is not None and known[0] == entry:
            if before is None:
                del self._acknowledged[number]
            else:
                self._acknowledged[number] = before, known[1]

    def forget_ends(self) -> None:
        """Before a seek: what it brings to its end says so while it runs, and only once."""
        self._ended.clear()

    def forget_positions(self) -> None:
        self._acknowledged.clear()

    async def _join(self, view: LayoutView) -> ConsumerAssignment:
        self._membership = Membership(
            self._session,
            name_for_controller(self._watch.topic, view.layout),
            self._settings.subscription,
            self._settings.name,
            ConsumerKind.STREAM,
            on_assigned=self._on_assigned,
            on_lost=lambda error: self._on_lost(self, error),
        )
        return await self._membership.open(view)

    def _on_layout(self, view: LayoutView) -> None:
        if self._membership is not None:  # what is assigned follows the layout
            self._membership.topic = name_for_controller(self._watch.topic, view.layout)
            return
        if view.layout.is_synthetic:
            self.consumers.want(plan_reads(self._watch.topic, view.layout))
        else:
            self._session.scope.start(self._become_scalable(view), f"join {self.topic}")

    async def _become_scalable(self, view: LayoutView) -> None:
        self.consumers.want({})
        try:
            assignment = await self._join(view)
        except PulsarError as error:
            self._on_lost(self, error)
            return
        self._on_assigned(assignment)

    def _on_assigned(self, assignment: ConsumerAssignment) -> None:
        self._assigned = plan_assigned(assignment)
        self._ended &= self._assigned.keys()
        self.consumers.want(self._plan())

    def _end(self, number: SegmentId) -> None:
        self._ended.add(number)
        if self._membership is not None:
            self.consumers.want(self._plan())

    def _plan(self) -> dict[SegmentId, SegmentRead]:
        """What is assigned, save segments that came out of one which is not consumed yet.

        Brokers withhold active segments for that time, but not all of them sealed ones.
        """
        by_id = self._watch.layout.by_id
        return {
            number: read
            for number, read in self._assigned.items()
            if not any(
                parent in self._assigned and parent not in self._ended
                for parent in (by_id[number].parents if number in by_id else ())
            )
        }

    def _make(self, number: SegmentId, read: SegmentRead) -> TopicConsumer:
        kind, key_shared = SubscriptionType.EXCLUSIVE, None
        self._shared.pop(number, None)
        self._acknowledged.pop(number, None)
        if read.buckets:
            kind = SubscriptionType.KEY_SHARED
            key_shared = KeySharedMeta(
                keySharedMode=KeySharedMode.STICKY,
                hashRanges=[IntRange(start=each.first, end=each.last) for each in read.buckets],
                entryBucketDispatch=True,
            )
            self._shared[number] = UnackedIds()
        elif self._membership is None:
            kind = SubscriptionType.FAILOVER
        settings = settle_segment(self._settings, number, read, is_new=number not in self._known)
        return SegmentConsumer(
            self._session,
            read.topic,
            replace(settings, type=kind, key_shared=key_shared),
            origin=origin_of(self._title, number, is_named=self._names_topic),
            outlet=self,
        )

    def on_end(self, part: TopicConsumer) -> None:
        self._end(part.segment)

    def may_create(self, part: TopicConsumer) -> bool:
        return may_create(part, self._watch.layout)

    def on_lost(self, part: TopicConsumer, failure: PulsarError) -> None:
        is_current = self.is_current(part)
        super().on_lost(part, failure)
        if is_current:
            self._end(part.segment)

    async def _release(self, number: SegmentId, part: TopicConsumer) -> None:
        """What the application has of it is acknowledged first, or redelivered elsewhere."""
        self._inbox.drop(part)
        try:
            async with self._session.clock.timeout(self._release_timeout):
                while not self._is_settled(number):
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            _log.warning("segment left with messages unacknowledged", topic=part.topic)
        await part.close()
        self._positions.forget(self.topic, number)

    def _is_settled(self, number: SegmentId) -> bool:
        shared = self._shared.get(number)
        if shared is not None:
            return not shared
        taken = self._positions.last_id(self.topic, number)
        done, _ = self._acknowledged.get(number, (None, -1))
        return taken is None or (done is not None and done >= taken)


class AsyncStreamConsumer(SubscriptionConsumer[T, StreamTopic], Generic[T]):
    """Made by `client.stream_consumer`; an async context manager and iterator of messages."""

    def __init__(
        self,
        session: Session,
        settings: ConsumerSettings,
        target: ConsumerTarget,
        release_timeout: float | None,
    ) -> None:
        super().__init__(session, settings, target)
        self._positions = PositionVector()
        self._release_timeout = release_timeout

    def _make_topic(self, name: TopicName, *, create: bool) -> StreamTopic:
        return StreamTopic(
            self._session,
            name,
            self._settings,
            self._inbox,
            self._positions,
            create=create,
            names_topic=self._topic_set.is_of_many,
            release_timeout=self._release_timeout,
            on_lost=self._lose_topic,
        )

    async def acknowledge_cumulative(
        self, message: Message[T] | MessageId, transaction: TransactionHandle | None = None
    ) -> None:
        """Everything received up to this message is done, in all segments and topics.

        With `ack_receipts` returns once the broker has stored that. In a transaction it is done
        when that is committed.
        """
        enlisting = find_enlisting(transaction)
        parts = self._begin_cumulative([vector_id(message)], enlisting)
        if self._settings.ack_receipts:
            await confirm_all(parts)

    def _begin_cumulative(
        self, ids: Sequence[MessageId], transaction: Enlisting | None = None
    ) -> list[TopicConsumer]:
        """Note what is done; returns the consumers that send it."""
        parts = []
        for id in ids:
            self._acknowledged += 1
            for name, vector in (id.vectors or {}).items():
                member = self._topic_set.find(name)
                if member is not None:
                    parts += member.acknowledge(vector, transaction)
        return parts

    def _forget_ends(self) -> None:
        for member in self._topic_set.members:
            member.forget_ends()

    def _forget_positions(self) -> None:
        self._positions.clear()
        for member in self._topic_set.members:
            member.forget_positions()


def vector_id(message: Message[T] | MessageId) -> MessageId:
    """The id to acknowledge up to; raises unless it says how far its consumer had come."""
    id = id_of(message)
    if not id.vectors:
        raise ConfigurationError(
            f"The id {id} does not say how far a stream consumer had come;"
            " acknowledge a message it received, or that message's id"
        )
    return id
