"""The controller of one scalable topic: the one owner of its layout, its subscriptions and groups.

Brokers elect one leader for each topic. It does one thing after the other, in turns, and finishes
first what an earlier leader began. Leadership can come back after it was lost; every time, all that
is known is read anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from magnetar.broker.policy import PolicyService
from magnetar.broker.scalable.autoscale import ScalePolicies
from magnetar.broker.scalable.coordinator import CoordinatorFactory
from magnetar.broker.scalable.decision import Trigger
from magnetar.broker.scalable.group import Groups
from magnetar.broker.scalable.layout_change import LayoutChanges
from magnetar.broker.scalable.leadership import Leadership
from magnetar.broker.scalable.mutation import Mutation
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.broker.scalable.regular import RegularTopics
from magnetar.broker.scalable.scaler import IsOutdated, Scaler
from magnetar.broker.scalable.segment import SegmentsOf
from magnetar.broker.scalable.size import LayoutSize
from magnetar.broker.scalable.state import TopicState
from magnetar.broker.scalable.subscription_registry import SubscriptionRegistry
from magnetar.broker.scalable.topic_subscription import TopicSubscriptions
from magnetar.broker.schema import SchemaRegistry
from magnetar.errors import TopicNotFound
from magnetar.metadata.store import MetadataStore
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.scalable import ScalableTopicMetadata, SubscriptionKind
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration


@dataclass(frozen=True, slots=True)
class ControllerNeeds:
    """What the controllers of one broker share."""

    records: ScalableRecords
    segments_of: SegmentsOf
    wake_elsewhere: Callable[[TopicName], Awaitable[None]]
    """Wakes the controller of a topic at the broker that owns its name."""
    regular: RegularTopics
    """Gives its groups to the controller of a topic that has become scalable."""
    make_coordinator: CoordinatorFactory
    policies: PolicyService
    schemas: SchemaRegistry
    scale_policies: ScalePolicies
    size: LayoutSize
    is_outdated: IsOutdated
    store: MetadataStore
    broker_id: str
    clock: Clock
    config: Configuration


class Controller:
    def __init__(
        self, topic: TopicName, needs: ControllerNeeds, *, on_end: Callable[[Controller], None]
    ) -> None:
        self.topic: Final = topic
        self.records: Final = needs.records.groups
        self.segments: Final = needs.segments_of(topic)
        self._needs = needs
        self._on_end = on_end
        clock, policies = needs.clock, needs.policies.in_force
        self.state: Final = TopicState(topic, needs.records)
        self.state.listeners.append(self._on_changed)
        self._registry = SubscriptionRegistry(self.state, self.segments)
        self._mutation = Mutation(
            self.state,
            self.segments,
            self._registry,
            clock,
            check=partial(needs.size.check, topic),
            forget=self._forget,
        )
        self.leadership: Final = Leadership(needs.store, topic, needs.broker_id, self, clock=clock)
        self.groups: Final = Groups(self, needs.make_coordinator)
        self.changes: Final = LayoutChanges(
            self.state,
            self.leadership,
            self._mutation,
            self._registry,
            self.segments,
            policies=policies,
            clock=clock,
        )
        self.subscriptions: Final = TopicSubscriptions(
            self.state,
            self.leadership,
            self._registry,
            self.groups,
            self.segments,
            policies=policies,
            clock=clock,
        )
        self.scaler: Final = Scaler(
            self.state,
            self.leadership,
            self.changes,
            self.groups,
            self.segments,
            policies=needs.scale_policies,
            clock=clock,
            config=needs.config,
            is_outdated=needs.is_outdated,
        )
        self._cancel_watch = needs.records.watch(topic, self._on_record)

    @property
    def layout(self) -> Layout:
        return self.state.layout

    async def is_needed(self) -> bool:
        """Whether the topic is in use, or anything is left to be done or read in it."""
        if self.leadership.is_busy or self.groups.coordinators or self.scaler.is_waiting:
            return True
        if not self.state.is_loaded:
            return False
        if not self._mutation.is_idle or self.layout.sealed:
            return True
        for segment in self.layout.segments:
            if await self.segments.is_used(segment.ref):
                return True
        return False

    # ------------------------------------------------------------------ leading

    @property
    def is_idle(self) -> bool:
        return self._mutation.is_idle

    @property
    def is_gone(self) -> bool:
        return self.state.is_gone

    async def begin(self) -> None:
        """Read everything, finish what was begun, take over the consumers."""
        await self._drop_groups()
        try:
            await self.state.load()
            await self._registry.load()
            await self._mutation.resume()
            if self.state.is_gone:
                raise TopicNotFound(f"Scalable topic not found: {self.topic}")
            await self._mutation.repair()
            await self._registry.resume(self._needs.regular.group_names(self.topic))
        except TopicNotFound:
            self._on_end(self)
            raise
        await self.groups.restore(await self.records.load_groups(self.topic))
        await self.groups.adopt(self._needs.regular.release(self.topic))
        await self.scaler.start()

    async def resume(self) -> None:
        if not self._mutation.is_idle:
            await self.state.load()
            await self._mutation.resume()

    async def resign(self) -> None:
        await self.scaler.stop()
        await self._drop_groups()

    async def _drop_groups(self) -> None:
        await self.groups.drop_all(is_over=self.state.is_gone)

    async def _forget(self) -> None:
        """Remove the record. A broker that stays a candidate would write below its path again."""
        policies = self._needs.policies
        await policies.delete(self.topic)
        origin = self.state.record.migrated_from
        if origin is not None:
            await policies.delete(parse_topic(origin.topic))
        await self._needs.schemas.delete(self.topic)
        self._cancel_watch()
        await self.leadership.retire()
        try:
            await self._needs.records.delete(self.topic)
            self.state.forget()
        finally:
            self._on_end(self)

    # ------------------------------------------------------------------ the host of groups

    async def register_subscription(self, name: str, kind: SubscriptionKind) -> None:
        await self.subscriptions.register(name, kind)

    def on_consumers_changed(self, *, has_joined: bool) -> None:
        self.scaler.trigger(Trigger.JOIN if has_joined else Trigger.LEAVE)

    # ------------------------------------------------------------------ what happens

    def _on_changed(self, record: ScalableTopicMetadata | None) -> None:
        if record is not None:
            self.scaler.on_changed(record)
            self.groups.on_layout_changed()
        else:
            self.leadership.start(self._drop_groups)

    def _on_record(self) -> None:
        """The record was written; this controller's own writes are known to it."""
        if not self.state.is_writing and self.leadership.is_leading:
            self.leadership.start(self._reload)

    async def _reload(self) -> None:
        if self.state.is_gone:
            return
        try:
            await self.state.load()
        except TopicNotFound:
            self._on_end(self)
        else:
            await self.leadership.resume()

    async def close(self) -> None:
        """Leave the topic to its next controller."""
        self._cancel_watch()
        try:
            await self.scaler.stop()
            await self.scaler.remember()
            await self.leadership.close()
        finally:  # consumers that were not sent away would wait for this controller for ever
            await self._drop_groups()

    async def finish(self) -> None:
        """Let the consumers know that the topic is gone, then close."""
        await self.leadership.run(self._drop_groups)
        await self.close()
