"""What a scalable topic does: as a whole, segment by segment, and why something waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from magnetar.broker.administration.registry import Document, carries_out, finds
from magnetar.broker.administration.scalable import describe_auto_scale, describe_subscription
from magnetar.broker.administration.subscription import count_backlog, find_subscription, peek
from magnetar.broker.administration.topic import find_topic
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.controller import Controller
from magnetar.broker.scalable.segment import together
from magnetar.broker.service import Service
from magnetar.broker.stats import topic_internal_stats, topic_stats
from magnetar.errors import PreconditionFailed, ServiceNotReady
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName
from magnetar.model.position import Position
from magnetar.model.scalable import ScalableTopicMetadata, SegmentLoad
from magnetar.model.segment import Segment, SegmentId
from magnetar.rules.layout import describe
from magnetar.wire.scalable import format_load

_SETTLING_S: Final = 0.01
_SETTLING_STEPS: Final = 1000


@carries_out("scalable_topics.stats")
async def get_stats(service: Service, controller: Controller) -> Document:
    topic, layout = controller.topic, controller.layout
    known = controller.subscriptions.registry.records
    stats: dict[str, Any] = {
        "epoch": layout.epoch,
        "totalSegments": len(layout.segments),
        "activeSegments": len(layout.active),
        "sealedSegments": len(layout.sealed),
        "segments": await _describe_segments(service, topic, layout),
        "subscriptions": {
            name: {
                "consumerCount": _count_consumers(service, controller, name),
                **await describe_subscription(controller, name),
            }
            for name in sorted(known.keys() | controller.groups.coordinators.keys())
        },
    }
    if controller.state.record.intent is not None:
        stats["change"] = describe(controller.state.record.intent)
    for segment in layout.active:
        reported = await _reported(service, topic, segment)
        if reported is not None:
            stats["segments"][str(segment.id)]["reportedLoad"] = reported
    decisions = controller.scaler.describe()
    stats["autoScale"] = {
        "policy": await describe_auto_scale(service, topic),
        "lastDecision": decisions[-1] if decisions else None,
    }
    return stats


@carries_out("scalable_topics.segments")
async def get_segments(service: Service, controller: Controller) -> Document:
    segments = await _describe_segments(service, controller.topic, controller.layout)
    for described in segments.values():
        described["subscriptions"] = {}
    registry = controller.subscriptions.registry
    for name in sorted(registry.records):
        for number, backlog in (await registry.backlog(name)).items():
            if str(number) in segments:
                segments[str(number)]["subscriptions"][name] = {"msgBacklog": backlog}
    return segments


@carries_out("scalable_topics.load")
async def get_load(service: Service, topic: TopicName, record: ScalableTopicMetadata) -> Document:
    """What each active segment carries now, and what was last reported of it."""
    loads: dict[str, Any] = {}
    for segment in record.layout.active:
        live = _live(service, segment.name_in(topic))
        load = loads[str(segment.id)] = dict[str, Any](format_load(_measure(live)))
        reported = await _reported(service, topic, segment)
        if reported is not None:
            load["reported"] = reported
    return loads


@carries_out("scalable_topics.explain")
async def explain(controller: Controller) -> Document:
    coordinators = sorted(controller.groups.coordinators.items())
    return {
        "scaling": await controller.scaler.explain(),
        "subscriptions": {name: each.assigner.explain() for name, each in coordinators},
    }


@carries_out("scalable_topics.decisions")
async def get_decisions(controller: Controller) -> Sequence[Document]:
    return controller.scaler.describe()


# One segment
@finds(Segment)
async def find_segment(service: Service, topic: TopicName, segment: SegmentId) -> Segment:
    return (await service.scalable.records.require(topic)).layout.get(segment)


async def _load(service: Service, topic: TopicName, segment: Segment) -> PersistentTopic:
    live = await find_topic(service, segment.name_in(topic))
    assert isinstance(live, PersistentTopic), "segments keep what they are sent"
    return live


@carries_out("scalable_topics.segment_stats")
async def get_segment_stats(service: Service, topic: TopicName, segment: Segment) -> Document:
    stats = topic_stats(await _load(service, topic, segment))
    return {**await _describe_segment(service, topic, segment), **stats}


@carries_out("scalable_topics.segment_internal_stats")
async def get_segment_log(service: Service, topic: TopicName, segment: Segment) -> Document:
    return topic_internal_stats(await _load(service, topic, segment))


@carries_out("scalable_topics.last_sequence_id")
async def get_last_sequence_id(
    service: Service, topic: TopicName, segment: Segment, producer: str
) -> int:
    live = await _load(service, topic, segment)
    for _ in range(_SETTLING_STEPS):
        if live.dedup is None:
            raise PreconditionFailed(f"Deduplication is not enabled on {live.name}")
        if live.dedup.is_settled(producer):
            return live.dedup.last_sequence(producer)
        await service.clock.sleep(_SETTLING_S)
    raise ServiceNotReady(f"{live.name} is still storing what {producer} sent")


@carries_out("scalable_topics.peek")
async def peek_segment(
    service: Service, topic: TopicName, segment: Segment, subscription: str, place: int
) -> tuple[Position, bytes]:
    return await peek(service, segment.name_in(topic), subscription, place)


@carries_out("scalable_topics.analyze_backlog")
async def analyze_backlog(
    service: Service, topic: TopicName, segment: Segment, subscription: str, entries_max: int | None
) -> Document:
    found = await find_subscription(service, segment.name_in(topic), subscription)
    return await count_backlog(found, entries_max=entries_max)


# One of many
async def _describe_segments(service: Service, topic: TopicName, layout: Layout) -> dict[str, Any]:
    described = await together(
        _describe_segment(service, topic, segment) for segment in layout.segments
    )
    return {str(each.id): told for each, told in zip(layout.segments, described, strict=True)}


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
        **format_load(_measure(live)),
        "isLoaded": live is not None,
        "isMissing": not await service.catalog.topic_exists(name),
    }
    if live is not None:
        described |= {
            "msgInCounter": live.rate_in.count,
            "bytesInCounter": live.rate_in.bytes,
            "storageSize": live.log.sequence.total_bytes,
            "producerCount": len(live.producers),
            "consumerCount": sum(len(each.consumers) for each in live.subscriptions.values()),
        }
    return described


def _count_consumers(service: Service, controller: Controller, name: str) -> int:
    """One that is attached to several segments counts once."""
    segments = (
        _live(service, each.name_in(controller.topic)) for each in controller.layout.segments
    )
    found = (each.subscriptions.get(name) for each in segments if each is not None)
    return len({consumer.name for each in found if each for consumer in each.consumers})


async def _reported(service: Service, topic: TopicName, segment: Segment) -> Document | None:
    found = await service.scalable.records.scaling.get_load(topic, segment.id)
    return None if found is None else {**format_load(found[0]), "atMs": found[1]}


def _live(service: Service, name: TopicName) -> PersistentTopic | None:
    live = service.catalog.topics.get(name.full)
    return live if isinstance(live, PersistentTopic) and not live.closed else None


def _measure(live: PersistentTopic | None) -> SegmentLoad:
    """A segment that is not loaded carries nothing."""
    if live is None:
        return SegmentLoad()
    out = [each.rate for each in live.subscriptions.values()]
    return SegmentLoad(
        live.rate_in.count_per_s,
        live.rate_in.bytes_per_s,
        sum(rate.count_per_s for rate in out),
        sum(rate.bytes_per_s for rate in out),
    )
