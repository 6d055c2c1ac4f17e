"""Control of a scalable topic from afar: what brokers that serve segments ask of, and report to,
the broker that controls the topic.

That is the owner of the topic's own name. It also has the groups of a regular topic of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from magnetar.broker.broker_call import OwnerPort
from magnetar.broker.scalable.controller_directory import ControllerDirectory
from magnetar.broker.scalable.coordinator import Coordinator
from magnetar.broker.scalable.group import GroupOwner, GroupOwnersOf
from magnetar.broker.scalable.registration import reader_name
from magnetar.errors import TopicNotFound
from magnetar.model.name import TopicDomain, TopicName, parse_topic
from magnetar.model.position import Position
from magnetar.model.scalable import ConsumerKind
from magnetar.model.segment import SegmentId, parse_segment


@dataclass(frozen=True, slots=True)
class ReaderRef:
    """A consumer of a segment, as the broker sees it that serves the segment."""

    topic: str
    """The topic of the segment."""
    subscription: str
    durable: bool
    name: str


def find_groups(
    owners: Sequence[GroupOwner], name: TopicName, subscription: str, *, durable: bool
) -> list[tuple[Coordinator, SegmentId]]:
    """The groups that may read a topic as one of its segments; what was a regular topic may be one.

    Readers of a CHECKPOINT group keep no place, so their subscriptions have names of their own.
    """
    owner = next(iter(owners), None)
    if owner is None or not owner.groups.coordinators:
        return []
    if name.domain is TopicDomain.SEGMENT:
        segment = parse_segment(name).id
    else:
        same = (each.id for each in owner.layout.segments if each.legacy_topic == name.full)
        segment = next(same, SegmentId(-1))
    return [
        (group, segment)
        for group in owner.groups.coordinators.values()
        if group.subscription == subscription
        or (group.members.kind is ConsumerKind.CHECKPOINT and not durable)
    ]


class Control:
    """Port of the broker that controls one scalable topic."""

    def __init__(
        self, controllers: ControllerDirectory, owners_of: GroupOwnersOf, topic: TopicName
    ) -> None:
        self._controllers = controllers
        self._owners_of = owners_of
        self._topic = topic

    async def wake(self) -> None:
        """The topic is used: it needs a controller."""
        await self._controllers.get(self._topic)

    async def adopt(self, subscription: str, start: Position | None) -> None:
        """Give every segment a subscription that one of them has."""
        controller = await self._controllers.get(self._topic)
        await controller.subscriptions.adopt(subscription, start)

    async def heal(self, segment: SegmentId) -> None:
        """See to it that an active segment has a topic, with every subscription."""
        await (await self._controllers.get(self._topic)).changes.heal(segment)

    async def split(self, segment: SegmentId, reason: str) -> None:
        await (await self._controllers.get(self._topic)).changes.split(segment, reason=reason)

    async def wipe(self, segment: SegmentId, reason: str) -> None:
        await (await self._controllers.get(self._topic)).changes.wipe(segment, reason=reason)

    async def clear_backlog(self, subscription: str | None = None) -> None:
        """Acknowledge everything, in one subscription or in all."""
        subscriptions = (await self._controllers.get(self._topic)).subscriptions
        for known in tuple(subscriptions.registry.records):
            if subscription in (None, known):
                await subscriptions.clear_backlog(known)

    async def unsubscribe(self, subscription: str) -> None:
        """Delete a subscription, if it is there."""
        subscriptions = (await self._controllers.get(self._topic)).subscriptions
        if subscription in subscriptions.registry.records:
            await subscriptions.delete(subscription)

    async def on_drained(self, segment_topic: str, subscription: str) -> None:
        """Nothing is left to acknowledge on a sealed segment, and that is durable."""
        found = self._controllers.find(self._topic)
        if found is not None:
            for segment in found.layout.sealed:
                if segment.name_in(found.topic).full == segment_topic:
                    found.groups.on_drained(segment.id, subscription)

    async def on_cursor_moved(self, subscription: str) -> None:
        found = self._controllers.find(self._topic)
        if found is not None:
            found.groups.on_cursor_moved(subscription)

    async def awaits(self, reader: ReaderRef) -> bool:
        """Whether a group has assigned the segment to the consumer of this reader."""
        return any(
            reader_name(each, segment) == reader.name
            for group, segment in await self._find_groups(reader)
            for each in group.assigner.owners_of(segment)
        )

    async def remind(self, reader: ReaderRef) -> None:
        """The reader stays where another waits."""
        for group, segment in await self._find_groups(reader):
            group.remind(segment, reader.name)

    async def on_reader_closed(self, reader: ReaderRef, since_ms: int) -> None:
        for group, segment in await self._find_groups(reader):
            group.on_reader_closed(segment, reader.name, since_ms=since_ms)

    async def on_reader_attached(self, reader: ReaderRef, since_ms: int) -> bool:
        """Whether its consumer had another reader there before, so that it is to be watched."""
        returned = [
            group.note_reader(segment, reader.name, (reader, since_ms))
            for group, segment in await self._find_groups(reader)
        ]
        return any(each is not None for each in returned)

    async def recall(self, reader: ReaderRef, has_left: bool) -> None:
        """A reader that came back acknowledges nothing of a sealed segment: assign that anew."""
        for group, segment in await self._find_groups(reader):
            group.recall(segment, reader.name, has_left=has_left)

    async def members(self) -> dict[str, tuple[str, ...]]:
        """The consumers of each group."""
        return {
            name: each.members.names
            for owner in await self._owners()
            for name, each in owner.groups.coordinators.items()
        }

    async def _owners(self) -> Sequence[GroupOwner]:
        """A scalable topic has a controller by then."""
        try:
            await self._controllers.get(self._topic)
        except TopicNotFound:
            pass  # it is a regular one
        return self._owners_of(self._topic)

    async def _find_groups(self, reader: ReaderRef) -> list[tuple[Coordinator, SegmentId]]:
        name, subscription = parse_topic(reader.topic), reader.subscription
        return find_groups(await self._owners(), name, subscription, durable=reader.durable)


Controls: TypeAlias = OwnerPort[Control]
"""Asks what controls any scalable topic, wherever that is."""
