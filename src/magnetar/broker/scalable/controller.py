"""The controller of one scalable topic: whoever changes its layout, its subscriptions or who reads
what, does it here.

Brokers elect one leader for each topic. It does one thing after the other, in turns, and finishes
first whatever an earlier leader began. Leadership can come back after it was lost; every time, all
that is known is read anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.coordinator import Coordinator
from magnetar.broker.scalable.decision import Trigger
from magnetar.broker.scalable.group import Groups
from magnetar.broker.scalable.leadership import Leadership
from magnetar.broker.scalable.limit import load_limits
from magnetar.broker.scalable.mutation import Mutation
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.broker.scalable.roster import Roster
from magnetar.broker.scalable.scaler import Scaler
from magnetar.broker.scalable.segment import LocalSegments, SegmentAccess, together
from magnetar.broker.scalable.size import check_size
from magnetar.broker.scalable.state import Listener, TopicState
from magnetar.errors import NotAllowed, ResourceBusy, TopicNotFound
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.position import Position, Term
from magnetar.model.scalable import (
    Intent,
    ScalableTopicMetadata,
    ScaleHold,
    SubscriptionKind,
    SubscriptionRecord,
)
from magnetar.model.segment import Segment, SegmentId
from magnetar.model.subscription import check_subscription_name
from magnetar.rules.layout import MANUAL, plan_delete, plan_merge, plan_scale, plan_split
from magnetar.runtime.log import Log

if TYPE_CHECKING:
    from magnetar.broker.service import Service

T = TypeVar("T")

_log = Log(__name__)


class Controller:
    def __init__(
        self,
        service: Service,
        topic: TopicName,
        records: ScalableRecords,
        *,
        on_end: Callable[[Controller], None],
    ) -> None:
        self.service = service
        self.topic = topic
        self.records = records
        self.segments: SegmentAccess = LocalSegments(service, topic)
        self._groups = Groups(self)
        self._on_end = on_end
        self._state = TopicState(topic, records)
        self._state.listeners.append(self._on_changed)
        self._roster = Roster(self._state, self.segments)
        self._mutation = Mutation(
            self._state,
            self.segments,
            self._roster,
            service.clock,
            check=partial(check_size, service, topic),
            forget=self._on_forget,
        )
        self.scaler = Scaler(self)
        self._leadership = Leadership(
            service.store, topic, service.broker_id, self, clock=service.clock
        )
        self._cancel_watch = records.watch(topic, self._on_record)

    # ------------------------------------------------------------------ what it knows

    @property
    def metadata(self) -> ScalableTopicMetadata:
        return self._state.record

    @property
    def layout(self) -> Layout:
        return self._state.layout

    @property
    def term(self) -> Term:
        return self._leadership.term

    @property
    def is_leading(self) -> bool:
        return self._leadership.is_leading

    @property
    def listeners(self) -> list[Listener]:
        """Called after every change that clients can see, in order; None: the topic is gone."""
        return self._state.listeners

    @property
    def coordinators(self) -> Mapping[str, Coordinator]:
        return self._groups.coordinators

    @property
    def kept(self) -> Mapping[SegmentId, str]:
        """Why sealed segments are still there."""
        return self._mutation.kept

    @property
    def is_needed(self) -> bool:
        """Whether anybody uses the topic, or anything is left to be done or read in it."""
        if self._leadership.is_busy or self.coordinators or self.scaler.is_waiting:
            return True
        if not self._state.is_loaded:
            return False
        if not self._mutation.is_settled or self.layout.sealed:
            return True
        return any(self._is_used(segment) for segment in self.layout.segments)

    def _is_used(self, segment: Segment) -> bool:
        live = self.service.topics.get(segment.name_in(self.topic).full)
        return isinstance(live, PersistentTopic) and (
            live.has_clients() or any(each.backlog for each in live.subscriptions.values())
        )

    async def run(self, body: Callable[[], Awaitable[T]]) -> T:
        """Do something in a turn of its own: nothing else changes the topic meanwhile."""
        return await self._leadership.run(body)

    # ------------------------------------------------------------------ leading

    async def ready(self) -> None:
        """Return when this broker leads and knows everything; raise NoOwner when another leads."""
        await self._leadership.ready()

    @property
    def is_settled(self) -> bool:
        return self._mutation.is_settled

    @property
    def is_gone(self) -> bool:
        return self._state.is_gone

    async def begin(self) -> None:
        """Read everything, finish what was begun, take over the consumers."""
        await self._groups.drop_all()
        try:
            await self._state.load()
            await self._roster.load()
            await self._mutation.settle()
            if self._state.is_gone:
                raise TopicNotFound(f"Scalable topic not found: {self.topic}")
            await self._mutation.repair()
            await self._roster.settle(self.service.scalable.regular.group_names(self.topic))
        except TopicNotFound:
            self._on_end(self)
            raise
        await self._groups.restore()
        await self.scaler.start()

    async def settle(self) -> None:
        if not self._mutation.is_settled:
            await self._state.load()
            await self._mutation.settle()

    async def resign(self) -> None:
        await self.scaler.stop()
        await self._groups.drop_all()

    # ------------------------------------------------------------------ changes

    async def split(
        self, segment: SegmentId, *, at: int | None = None, reason: str = MANUAL
    ) -> None:
        """Two segments take over from one; `at` is the first hash of the upper one."""
        await self.change(
            lambda layout, now_ms: plan_split(layout, segment, now_ms=now_ms, at=at, reason=reason)
        )

    async def merge(self, left: SegmentId, right: SegmentId, *, reason: str = MANUAL) -> None:
        """One segment takes over from two neighbours."""
        await self.change(
            lambda layout, now_ms: plan_merge(layout, left, right, now_ms=now_ms, reason=reason)
        )

    async def scale_to(self, count: int, *, hold_until_ms: int | None = None) -> None:
        """Split or merge until there are so many active segments. Till the given time there are no
        fewer, however little they carry.
        """
        hold = None if hold_until_ms is None else ScaleHold(count, hold_until_ms)

        async def note() -> None:
            if self.metadata.scale_hold != hold:
                await self._state.update(lambda record: replace(record, scale_hold=hold))

        await self._leadership.lead(note)
        while await self.change(lambda layout, now_ms: plan_scale(layout, count, now_ms=now_ms)):
            pass

    async def change(self, plan: Callable[[Layout, int], Intent | None]) -> bool:
        """Plan on the layout as it is when the turn comes; say whether anything was to be done."""

        async def body() -> bool:
            intent = plan(self.layout, self.service.clock.now_ms())
            if intent is not None:
                await self._mutation.begin(intent)
            return intent is not None

        return await self._leadership.lead(body)

    async def prune(self) -> tuple[SegmentId, ...]:
        """Remove sealed segments that everyone has drained and retention does not keep."""

        async def body() -> tuple[SegmentId, ...]:
            limits = await load_limits(self.service.policies, self.topic)
            return await self._mutation.prune(limits.retention)

        return await self._leadership.lead(body)

    async def heal(self, segment: SegmentId) -> None:
        """See to it that an active segment has a topic, with every subscription."""
        await self._leadership.lead(lambda: self._mutation.heal((segment,)))

    async def wipe(self, segment: SegmentId, *, reason: str) -> None:
        """Remove the data of a segment that stays in the layout, read or not."""
        await self._leadership.lead(lambda: self._mutation.wipe(segment, reason))

    async def delete(self, *, force: bool = False) -> None:
        """Remove the topic with all its segments. From the first step on there is only forward."""

        async def body() -> None:
            attached = await self._attached()
            intent = plan_delete(
                self.metadata, now_ms=self.service.clock.now_ms(), force=force, attached=attached
            )
            await self._mutation.begin(intent)

        await self._leadership.lead(body)

    async def _attached(self) -> list[str]:
        """Who is in the way of deleting the topic."""
        names = [f"subscription {name}" for name in sorted(self._roster.names)]
        return names + await self._clients()

    async def _clients(self) -> list[str]:
        found = await together(
            self.segments.attached(segment.ref) for segment in self.layout.segments
        )
        return [client for each in found for client in each]

    async def _on_forget(self) -> None:
        """Remove the record. Whoever stays a candidate would write below its path again."""
        await self.service.policies.delete(self.topic)
        origin = self.metadata.migrated_from
        if origin is not None:
            await self.service.policies.delete(parse_topic(origin.topic))
        await self.service.schemas.delete(self.topic)
        self._cancel_watch()
        await self._leadership.retire()
        try:
            await self.records.delete(self.topic)
            self._state.forget()
        finally:
            self._on_end(self)

    # ------------------------------------------------------------------ subscriptions

    async def create_subscription(self, name: str, kind: SubscriptionKind) -> None:
        """At the start of every active segment; one that exists stays as it is."""
        check_subscription_name(name)

        async def body() -> None:
            if name not in self._roster.records:
                limits = await load_limits(self.service.policies, self.topic)
                if 0 < limits.subscriptions_max <= len(self._roster.names):
                    raise NotAllowed(
                        f"Exceed the maximum number of subscriptions of the topic: {self.topic}"
                    )
            await self._roster.create(name, kind)

        await self._leadership.lead(body)

    async def register_subscription(self, name: str, kind: SubscriptionKind) -> None:
        """Note a subscription whose consumers are about to attach wherever they want to begin."""
        if name not in self._roster.records or not self.is_leading:
            await self._leadership.lead(lambda: self._roster.register(name, kind))

    async def adopt_subscription(self, name: str, start: Position | None) -> None:
        """A consumer has just made a cursor on a segment: it is one of the whole topic."""
        if not self._roster.is_complete(name) or not self.is_leading:
            await self._leadership.lead(lambda: self._roster.adopt(name, start))

    async def delete_subscription(self, name: str, *, force: bool = False) -> None:
        """From every segment, with its consumers; one that is not there is fine."""

        async def body() -> None:
            if not force:
                await self._check_unused(name)
            await self._groups.drop(name, is_over=True)
            await self._roster.delete(name)

        await self._leadership.lead(body)

    async def _check_unused(self, name: str) -> None:
        attached = any(client.endswith(f" of {name}") for client in await self._clients())
        if attached or self._groups.has_consumers(name):
            raise ResourceBusy(f"Subscription {name} has active connected consumers")

    async def seek(self, name: str, timestamp_ms: int) -> None:
        await self._leadership.lead(lambda: self._roster.seek(name, timestamp_ms))
        self.on_cursor_moved(name)

    async def clear_backlog(self, name: str) -> None:
        await self._leadership.lead(lambda: self._roster.clear_backlog(name))
        self.on_cursor_moved(name)

    async def expire(self, name: str, seconds: int) -> None:
        await self._leadership.lead(lambda: self._roster.expire(name, seconds))
        self.on_cursor_moved(name)

    async def subscriptions(self) -> Mapping[str, SubscriptionRecord]:
        return dict(self._roster.records)

    async def backlog(self, name: str) -> Mapping[SegmentId, int]:
        """Entries left to acknowledge on each segment where the subscription has a cursor."""
        return await self._roster.backlog(name)

    async def delete_unused_subscriptions(self) -> None:
        """Those without a consumer for longer than the policy allows."""
        limits = await load_limits(self.service.policies, self.topic)
        if not limits.subscription_expiration_min:
            return
        for name in await self._roster.find_unused(
            limits.subscription_expiration_min,
            busy=self.coordinators,
            now_ms=self.service.clock.now_ms(),
        ):
            await self.delete_subscription(name)
            _log.info("unused subscription deleted", topic=self.topic.full, subscription=name)

    # ------------------------------------------------------------------ consumers

    async def coordinator(self, name: str) -> Coordinator:
        """Who shares out the segments of a group; made when it is first asked for."""

        async def body() -> Coordinator:
            return self._groups.get_or_make(name)

        return await self._leadership.lead(body)

    async def drop_idle_coordinators(self) -> None:
        """Groups that everyone has left need none."""
        await self._leadership.lead(self._groups.drop_idle)

    def on_consumers_changed(self, *, has_joined: bool) -> None:
        self.scaler.trigger(Trigger.JOIN if has_joined else Trigger.LEAVE)

    def on_drained(self, segment: SegmentId, subscription: str) -> None:
        self._groups.on_drained(segment, subscription)

    def on_cursor_moved(self, subscription: str) -> None:
        """What was drained may have work again, and the other way round."""
        self._groups.on_cursor_moved(subscription)

    # ------------------------------------------------------------------ what happens

    def _on_changed(self, record: ScalableTopicMetadata | None) -> None:
        if record is not None:
            self.scaler.on_changed(record)
            self._groups.on_layout_changed()
        else:
            self._leadership.start(self._groups.drop_all)

    def _on_record(self) -> None:
        """Somebody wrote the record; this controller's own writes are known to it."""
        if not self._state.is_writing and self.is_leading:
            self._leadership.start(self._reload)

    async def _reload(self) -> None:
        if self._state.is_gone:
            return
        try:
            await self._state.load()
        except TopicNotFound:
            self._on_end(self)
        else:
            await self._leadership.settle()

    async def close(self) -> None:
        """Leave the topic to whoever controls it next."""
        self._cancel_watch()
        await self.scaler.stop()
        await self.scaler.remember()
        await self._leadership.close()
        await self._groups.drop_all()

    async def finish(self) -> None:
        """Let those who wait hear that the topic is gone, then close."""
        await self.run(self._groups.drop_all)
        await self.close()
