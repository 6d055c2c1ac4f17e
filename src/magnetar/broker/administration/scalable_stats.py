"""What a scalable topic does: as a whole, segment by segment, and why something waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from magnetar.broker.administration.autoscale import describe_auto_scale
from magnetar.broker.administration.registry import Document, carries_out
from magnetar.broker.administration.scalable_subscription import describe_subscription
from magnetar.broker.administration.subscription import count_backlog, peek
from magnetar.broker.administration.topic import get_stats as topic_stats
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.controller import Controller
from magnetar.broker.scalable.segment import together
from magnetar.broker.service import Service
from magnetar.errors import PreconditionFailed, ServiceNotReady
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName
from magnetar.model.position import Position
from magnetar.model.scalable import SegmentLoad, SubscriptionRecord
from magnetar.model.segment import Segment, SegmentId
from magnetar.rules.layout import describe
from magnetar.wire.scalable import format_load

_SETTLING_S: Final = 0.01
_SETTLING_STEPS: Final = 1000


@carries_out("scalable_topics.stats")
async def get_stats(service: Service, topic: TopicName) -> Document:
    controller = await service.scalable.controller(topic)
    known = await controller.subscriptions()
    layout = controller.layout
    stats: dict[str, Any] = {
        "epoch": layout.epoch,
        "totalSegments": len(layout.segments),
        "activeSegments": len(layout.active),
        "sealedSegments": len(layout.sealed),
        "segments": await _describe_segments(service, topic, layout),
        "subscriptions": {
            name: await _describe_subscription(service, controller, name, known.get(name))
            for name in sorted(known.keys() | controller.coordinators.keys())
        },
    }
    if controller.metadata.intent is not None:
        stats["change"] = describe(controller.metadata.intent)
    for number, load in (await get_load(service, topic)).items():
        if "reported" in load:
            stats["segments"][number]["reportedLoad"] = load["reported"]
    decisions = controller.scaler.describe()
    stats["autoScale"] = {
        "policy": await describe_auto_scale(service, topic),
        "lastDecision": decisions[-1] if decisions else None,
    }
    return stats


@carries_out("scalable_topics.segments")
async def get_segments(service: Service, topic: TopicName) -> Document:
    controller = await service.scalable.controller(topic)
    segments = await _describe_segments(service, topic, controller.layout)
    for described in segments.values():
        described["subscriptions"] = {}
    for name in sorted(await controller.subscriptions()):
        for number, backlog in (await controller.backlog(name)).items():
            if str(number) in segments:
                segments[str(number)]["subscriptions"][name] = {"msgBacklog": backlog}
    return segments


@carries_out("scalable_topics.segment_stats")
async def get_segment_stats(service: Service, topic: TopicName, segment: SegmentId) -> Document:
    found = (await service.scalable.metadata(topic)).layout.get(segment)
    stats = await topic_stats(service, found.name_in(topic))
    return {**await _describe_segment(service, topic, found), **stats}


@carries_out("scalable_topics.segment_internal_stats")
async def get_segment_log(service: Service, topic: TopicName, segment: SegmentId) -> Document:
    return (await _load(service, topic, segment)).internal_stats()


@carries_out("scalable_topics.last_sequence_id")
async def get_last_sequence_id(
    service: Service, topic: TopicName, segment: SegmentId, producer: str
) -> int:
    live = await _load(service, topic, segment)
    for _ in range(_SETTLING_STEPS):
        if live.dedup is None:
            raise PreconditionFailed(f"Deduplication is not enabled on {live.name}")
        if live.dedup.is_settled(producer):
            return live.dedup.last_sequence(producer)
        await asyncio.sleep(_SETTLING_S)
    raise ServiceNotReady(f"{live.name} is still storing what {producer} sent")


async def _name_of(service: Service, topic: TopicName, segment: SegmentId) -> TopicName:
    return (await service.scalable.metadata(topic)).layout.get(segment).name_in(topic)


async def _load(service: Service, topic: TopicName, segment: SegmentId) -> PersistentTopic:
    live = await service.load_topic(await _name_of(service, topic, segment))
    assert isinstance(live, PersistentTopic), "segments keep what they are sent"
    return live


@carries_out("scalable_topics.load")
async def get_load(service: Service, topic: TopicName) -> Document:
    """What each active segment carries now, and what was last reported of it."""
    layout = (await service.scalable.metadata(topic)).layout
    loads: dict[str, Any] = {}
    for segment in layout.active:
        load: dict[str, Any] = dict(format_load(_measure(service, segment.name_in(topic))))
        reported = await service.scalable.records.get_load(topic, segment.id)
        if reported is not None:
            load["reported"] = {**format_load(reported[0]), "atMs": reported[1]}
        loads[str(segment.id)] = load
    return loads


@carries_out("scalable_topics.explain")
async def explain(service: Service, topic: TopicName) -> Document:
    controller = await service.scalable.controller(topic)
    return {
        "scaling": await controller.scaler.explain(),
        "subscriptions": {
            name: controller.coordinators[name].explain()
            for name in sorted(controller.coordinators)
        },
    }


@carries_out("scalable_topics.decisions")
async def get_decisions(service: Service, topic: TopicName) -> Sequence[Document]:
    return (await service.scalable.controller(topic)).scaler.describe()


@carries_out("scalable_topics.peek")
async def peek_segment(
    service: Service, topic: TopicName, segment: SegmentId, subscription: str, place: int
) -> tuple[Position, bytes]:
    return await peek(service, await _name_of(service, topic, segment), subscription, place)


@carries_out("scalable_topics.analyze_backlog")
async def analyze_backlog(
    service: Service,
    topic: TopicName,
    segment: SegmentId,
    subscription: str,
    entries_max: int | None,
) -> Document:
    name = await _name_of(service, topic, segment)
    return await count_backlog(service, name, subscription, entries_max=entries_max)


# One of many
async def _describe_segments(service: Service, topic: TopicName, layout: Layout) -> dict[str, Any]:
    described = await together(
        _describe_segment(service, topic, segment) for segment in layout.segments
    )
    numbers = (str(segment.id) for segment in layout.segments)
    return dict(zip(numbers, described, strict=True))


async def _describe_segment(service: Service, topic: TopicName, segment: Segment) -> dict[str, Any]:
    """One without a topic holds nothing: somebody deleted its data, or it was never made."""
    name = segment.name_in(topic)
    live = _live(service, name)
    described = {
        "name": name.full,
        "state": segment.state.value,
        "hashRange": str(segment.range),
        "parentIds": list(segment.parents),
        "childIds": list(segment.children),
        **format_load(_measure(service, name)),
        "isLoaded": live is not None,
        "isMissing": not await service.topic_exists(name),
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
    service: Service, controller: Controller, name: str, record: SubscriptionRecord | None
) -> Document:
    attached = {
        consumer.name
        for segment in controller.layout.segments
        if (live := _live(service, segment.name_in(controller.topic))) is not None
        and name in live.subscriptions
        for consumer in live.subscriptions[name].consumers
    }
    return {"consumerCount": len(attached), **await describe_subscription(controller, name, record)}


def _live(service: Service, name: TopicName) -> PersistentTopic | None:
    live = service.topics.get(name.full)
    return live if isinstance(live, PersistentTopic) and not live.closed else None


def _measure(service: Service, name: TopicName) -> SegmentLoad:
    """A segment that is not loaded carries nothing."""
    live = _live(service, name)
    if live is None:
        return SegmentLoad()
    out = [each.rate for each in live.subscriptions.values()]
    return SegmentLoad(
        live.rate_in.count_per_s,
        live.rate_in.bytes_per_s,
        sum(rate.count_per_s for rate in out),
        sum(rate.bytes_per_s for rate in out),
    )
