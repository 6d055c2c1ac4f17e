"""What a scalable topic does: as a whole, segment by segment, and why something waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from magnetar.broker.administration.topic import get_stats
from magnetar.broker.api.autoscale import AutoScaleApi
from magnetar.broker.api.scalable_subscription import describe_subscription
from magnetar.broker.api.subscription import SubscriptionApi
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.segment import together
from magnetar.errors import PreconditionFailed, ServiceNotReady
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName
from magnetar.model.position import Position
from magnetar.model.scalable import SegmentLoad, SubscriptionRecord
from magnetar.model.segment import Segment, SegmentId
from magnetar.rules.layout import describe
from magnetar.wire.scalable import format_load

if TYPE_CHECKING:
    from magnetar.broker.scalable.controller import Controller
    from magnetar.broker.service import Service

_SETTLING_S: Final = 0.01
_SETTLING_STEPS: Final = 1000


class ScalableStatsApi:
    def __init__(
        self,
        service: Service,
        subscriptions: SubscriptionApi,
        auto_scale: AutoScaleApi,
    ) -> None:
        self._service = service
        self._auto_scale = auto_scale
        self._subscriptions = subscriptions

    async def stats(self, topic: TopicName) -> Mapping[str, Any]:
        controller = await self._service.scalable.controller(topic)
        known = await controller.subscriptions()
        layout = controller.layout
        stats: dict[str, Any] = {
            "epoch": layout.epoch,
            "totalSegments": len(layout.segments),
            "activeSegments": len(layout.active),
            "sealedSegments": len(layout.sealed),
            "segments": await self._describe_segments(topic, layout),
            "subscriptions": {
                name: await self._describe_subscription(controller, name, known.get(name))
                for name in sorted(known.keys() | controller.coordinators.keys())
            },
        }
        if controller.metadata.intent is not None:
            stats["change"] = describe(controller.metadata.intent)
        for number, load in (await self.load(topic)).items():
            if "reported" in load:
                stats["segments"][number]["reportedLoad"] = load["reported"]
        decisions = controller.scaler.describe()
        stats["autoScale"] = {
            "policy": await self._auto_scale.effective(topic),
            "lastDecision": decisions[-1] if decisions else None,
        }
        return stats

    async def segments(self, topic: TopicName) -> Mapping[str, Any]:
        """Every segment with its rates and the backlog of each subscription."""
        controller = await self._service.scalable.controller(topic)
        segments = await self._describe_segments(topic, controller.layout)
        for described in segments.values():
            described["subscriptions"] = {}
        for name in sorted(await controller.subscriptions()):
            for number, backlog in (await controller.backlog(name)).items():
                if str(number) in segments:
                    segments[str(number)]["subscriptions"][name] = {"msgBacklog": backlog}
        return segments

    async def segment(self, topic: TopicName, number: SegmentId) -> Mapping[str, Any]:
        """One segment: its place in the layout, and all that the topic behind it does."""
        segment = (await self._service.scalable.metadata(topic)).layout.get(number)
        stats = await get_stats(self._service, segment.name_in(topic))
        return {**await self._describe_segment(topic, segment), **stats}

    async def internal(self, topic: TopicName, number: SegmentId) -> Mapping[str, Any]:
        """The log behind one segment: ledgers and cursors."""
        return (await self._load(topic, number)).internal_stats()

    async def last_sequence(self, topic: TopicName, number: SegmentId, producer: str) -> int:
        """The highest sequence id stored of a producer's name, -1 for none; also when the segment
        is sealed and takes no producers any more.
        """
        live = await self._load(topic, number)
        for _ in range(_SETTLING_STEPS):
            if live.dedup is None:
                raise PreconditionFailed(f"Deduplication is not enabled on {live.name}")
            if live.dedup.is_settled(producer):
                return live.dedup.last_sequence(producer)
            await asyncio.sleep(_SETTLING_S)
        raise ServiceNotReady(f"{live.name} is still storing what {producer} sent")

    async def _load(self, topic: TopicName, number: SegmentId) -> PersistentTopic:
        segment = (await self._service.scalable.metadata(topic)).layout.get(number)
        live = await self._service.load_topic(segment.name_in(topic))
        assert isinstance(live, PersistentTopic), "segments keep what they are sent"
        return live

    async def load(self, topic: TopicName) -> Mapping[str, Any]:
        """What each active segment carries now, and what was last reported of it."""
        layout = (await self._service.scalable.metadata(topic)).layout
        loads: dict[str, Any] = {}
        for segment in layout.active:
            load: dict[str, Any] = dict(format_load(self._measure(segment.name_in(topic))))
            reported = await self._service.scalable.records.get_load(topic, segment.id)
            if reported is not None:
                load["reported"] = {**format_load(reported[0]), "atMs": reported[1]}
            loads[str(segment.id)] = load
        return loads

    async def explain(self, topic: TopicName) -> Mapping[str, Any]:
        """Why the topic splits, merges or stays; for each subscription, what waits for what."""
        controller = await self._service.scalable.controller(topic)
        return {
            "scaling": await controller.scaler.explain(),
            "subscriptions": {
                name: controller.coordinators[name].explain()
                for name in sorted(controller.coordinators)
            },
        }

    async def decisions(self, topic: TopicName) -> Sequence[Mapping[str, Any]]:
        """What the topic decided about scaling itself, lately."""
        return (await self._service.scalable.controller(topic)).scaler.describe()

    async def peek(
        self, topic: TopicName, number: SegmentId, subscription: str, place: int
    ) -> tuple[Position, bytes]:
        """The nth unacknowledged entry of one segment."""
        segment = (await self._service.scalable.metadata(topic)).layout.get(number)
        return await self._subscriptions.peek(segment.name_in(topic), subscription, place)

    async def analyze_backlog(
        self, topic: TopicName, number: SegmentId, subscription: str, entries_max: int | None
    ) -> Mapping[str, Any]:
        """How many messages the backlog of one segment has, by reading it."""
        segment = (await self._service.scalable.metadata(topic)).layout.get(number)
        return await self._subscriptions.analyze_backlog(
            segment.name_in(topic), subscription, entries_max=entries_max
        )

    # One of many
    async def _describe_segments(self, topic: TopicName, layout: Layout) -> dict[str, Any]:
        described = await together(
            self._describe_segment(topic, segment) for segment in layout.segments
        )
        numbers = (str(segment.id) for segment in layout.segments)
        return dict(zip(numbers, described, strict=True))

    async def _describe_segment(self, topic: TopicName, segment: Segment) -> dict[str, Any]:
        """One without a topic holds nothing: somebody deleted its data, or it was never made."""
        name = segment.name_in(topic)
        live = self._live(name)
        described = {
            "name": name.full,
            "state": segment.state.value,
            "hashRange": str(segment.range),
            "parentIds": list(segment.parents),
            "childIds": list(segment.children),
            **format_load(self._measure(name)),
            "isLoaded": live is not None,
            "isMissing": not await self._service.topic_exists(name),
        }
        if live is not None:
            described |= {
                "msgInCounter": live.rate_in.count,
                "bytesInCounter": live.rate_in.bytes,
                "storageSize": live.chain.total_bytes,
                "producerCount": len(live.producers),
                "consumerCount": sum(len(each.consumers) for each in live.subscriptions.values()),
            }
        return described

    async def _describe_subscription(
        self, controller: Controller, name: str, record: SubscriptionRecord | None
    ) -> Mapping[str, Any]:
        attached = {
            consumer.name
            for segment in controller.layout.segments
            if (live := self._live(segment.name_in(controller.topic))) is not None
            and name in live.subscriptions
            for consumer in live.subscriptions[name].consumers
        }
        return {
            "consumerCount": len(attached),
            **await describe_subscription(controller, name, record),
        }

    def _live(self, name: TopicName) -> PersistentTopic | None:
        live = self._service.topics.get(name.full)
        return live if isinstance(live, PersistentTopic) and not live.closed else None

    def _measure(self, name: TopicName) -> SegmentLoad:
        """A segment that is not loaded carries nothing."""
        live = self._live(name)
        if live is None:
            return SegmentLoad()
        out = [each.rate for each in live.subscriptions.values()]
        return SegmentLoad(
            live.rate_in.count_per_s,
            live.rate_in.bytes_per_s,
            sum(rate.count_per_s for rate in out),
            sum(rate.bytes_per_s for rate in out),
        )
