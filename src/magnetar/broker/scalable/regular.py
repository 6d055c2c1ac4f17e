"""Regular topics as V5 clients see them: a layout of legacy segments, and groups that share them.

A regular topic has no controller. Its layout never changes but for more partitions, so nothing has
to be kept for the next owner: consumers that come back are assigned segments anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.ownership import Ownership
from magnetar.broker.resource import PartitionedTopics
from magnetar.broker.scalable.coordinator import Coordinator, CoordinatorFactory
from magnetar.broker.scalable.group import Groups
from magnetar.broker.scalable.segment import Segments, SegmentsOf
from magnetar.errors import BrokerError, TopicNotFound
from magnetar.metadata.store import Cancel
from magnetar.model.layout import Layout
from magnetar.model.migration import legacy_names, regular_name
from magnetar.model.name import TopicName
from magnetar.model.scalable import ConsumerRecord, SubscriptionKind
from magnetar.model.segment import scalable_name
from magnetar.rules.bundle import Bundle
from magnetar.rules.migrate import refuse_regular
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_log = Logger(__name__)


class Unrecorded:
    """Registrations that end with the process."""

    async def load_consumers(
        self, topic: TopicName, subscription: str
    ) -> Mapping[str, ConsumerRecord]:
        return {}

    async def store_consumer(
        self, topic: TopicName, subscription: str, name: str, record: ConsumerRecord
    ) -> None:
        """Nothing reads it."""

    async def delete_consumer(self, topic: TopicName, subscription: str, name: str) -> None:
        """There is nothing to delete."""


class RegularTopic:
    """The host of the groups of one regular topic, as a controller is of a scalable one."""

    def __init__(
        self,
        topic: TopicName,
        layout: Layout,
        segments: Segments,
        make: CoordinatorFactory,
        stop: Cancel,
    ) -> None:
        self.topic = topic
        self.layout = layout
        self.segments = segments
        self.records = Unrecorded()
        self.groups = Groups(self, make)
        self.stop = stop
        """Ends the watch for more partitions."""

    async def register_subscription(self, name: str, kind: SubscriptionKind) -> None:
        """Its cursors come with its consumers, as on any regular topic."""

    def on_consumers_changed(self, *, has_joined: bool) -> None:
        """A regular topic does not scale itself."""


class RegularTopics:
    def __init__(
        self,
        catalog: TopicCatalog,
        partitioned: PartitionedTopics,
        segments_of: SegmentsOf,
        make: CoordinatorFactory,
        *,
        ownership: Ownership,
        clock: Clock,
        tasks: TaskScope,
    ) -> None:
        self._catalog = catalog
        self._partitioned = partitioned
        self._segments_of = segments_of
        self._make = make
        self._clock = clock
        self._tasks = tasks
        self._hosts: dict[TopicName, RegularTopic] = {}
        ownership.listen(self._on_lost)

    async def exists(self, name: TopicName) -> bool:
        """Whether there is a regular topic of this name, with or without partitions."""
        if await self._partitioned.get(name) is not None:
            return True
        return await self._catalog.topic_exists(name)

    async def check_scalable(self, topic: TopicName, what: str) -> None:
        """Refuse what a regular topic does not have, in words that say how to get it."""
        name = None if "/" in topic.local else regular_name(topic)
        if name is not None and await self.exists(name):
            raise refuse_regular(name, what)

    async def load_layout(self, name: TopicName) -> Layout:
        """Existing or not: one legacy segment for each partition, or one for the topic."""
        partitioned = await self._partitioned.get(name)
        count = 0 if partitioned is None else partitioned.partitions
        names = [each.full for each in legacy_names(name, count)]
        return Layout.synthetic(names, now_ms=self._clock.now_ms())

    # ------------------------------------------------------------------ groups

    def find(self, topic: TopicName) -> RegularTopic | None:
        return self._hosts.get(topic)

    def group_names(self, topic: TopicName) -> Collection[str]:
        host = self._hosts.get(topic)
        return () if host is None else tuple(host.groups.coordinators)

    async def coordinator(self, name: TopicName, subscription: str) -> Coordinator:
        """Who shares out the partitions of a topic that is there, or would be by attaching."""
        topic = scalable_name(name)
        host = self._hosts.get(topic)
        if host is None:
            await self._catalog.require_owner(topic)  # one group, whichever broker a client knows
            if not await self.exists(name) and not await self._catalog.may_create(name):
                raise TopicNotFound(f"Topic not found: {name}")
            layout = await self.load_layout(name)
            host = self._hosts.get(topic) or self._add(name, topic, layout)
        return host.groups.get_or_make(subscription)

    def _add(self, name: TopicName, topic: TopicName, layout: Layout) -> RegularTopic:
        def on_change() -> None:
            self._tasks.start(self._grow(name), name="partitions")

        stop = self._partitioned.watch(name, on_change)
        segments = self._segments_of(topic)
        host = self._hosts[topic] = RegularTopic(topic, layout, segments, self._make, stop)
        return host

    async def _grow(self, name: TopicName) -> None:
        try:
            layout = await self.load_layout(name)
        except BrokerError as failure:
            _log.warning("partitions not known", topic=name.full, reason=failure.sentence)
            return
        host = self._hosts.get(scalable_name(name))
        if host is not None and len(layout.segments) != len(host.layout.segments):
            host.layout = layout
            host.groups.on_layout_changed()

    def release(self, topic: TopicName) -> Mapping[str, Coordinator]:
        """The topic has become scalable: give its groups to its controller."""
        host = self._hosts.pop(topic, None)
        if host is None:
            return {}
        host.stop()
        return host.groups.coordinators

    # ------------------------------------------------------------------ the end

    async def drop_idle(self) -> None:
        """Groups without members, and topics without groups."""
        for topic, host in list(self._hosts.items()):
            await host.groups.drop_idle()
            if not host.groups.coordinators and self._hosts.get(topic) is host:
                self.release(topic)

    def _on_lost(self, bundle: Bundle) -> None:
        """Groups follow the names of their topics: here, their members would not learn that the
        topic became scalable under its new owner.
        """
        if any(map(bundle.holds, self._hosts)):
            self._tasks.start(self.leave(bundle), name="leave regular topics")

    async def leave(self, bundle: Bundle) -> None:
        """Another broker has the groups of the topics in a bundle: consumers look for it."""
        await self._close(filter(bundle.holds, tuple(self._hosts)))

    async def close(self) -> None:
        await self._close(tuple(self._hosts))

    async def _close(self, topics: Iterable[TopicName]) -> None:
        for topic in topics:
            for coordinator in self.release(topic).values():
                await coordinator.close()
