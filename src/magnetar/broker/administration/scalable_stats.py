"""What a scalable topic does: as a whole, segment by segment, and why something waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, cast

from magnetar.broker.administration.port import PeerOwners
from magnetar.broker.administration.registry import carries_out, finds
from magnetar.broker.administration.scalable import describe_auto_scale, describe_subscription
from magnetar.broker.administration.subscription import count_backlog, find_subscription, peek
from magnetar.broker.administration.topic import find_topic
from magnetar.broker.broker_call import OwnerPort
from magnetar.broker.log_search import SeenEntry
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.controller import Controller
from magnetar.broker.scalable.segment import Segments, SegmentStats, together
from magnetar.broker.scalable.service import ScalableService
from magnetar.broker.stats import topic_internal_stats, topic_stats
from magnetar.errors import NotFound, PreconditionFailed, ServiceNotReady
from magnetar.model.answer.log import BacklogAnalysis, LogStats
from magnetar.model.answer.scalable import (
    MeasuredLoad,
    ReportedLoad,
    ScalableExplanation,
    ScalableTopicStats,
    ScaleDecisionAnswer,
    SegmentAnswer,
    SegmentTopicStats,
)
from magnetar.model.answer.topic import TopicStats
from magnetar.model.layout import Layout
from magnetar.model.migration import READER_INFIX
from magnetar.model.name import TopicName
from magnetar.model.scalable import ScalableTopicMetadata
from magnetar.model.segment import Segment, SegmentId
from magnetar.rules.layout import describe
from magnetar.wire.scalable import format_load

_DURABLE_S: Final = 0.01
_DURABLE_STEPS: Final = 1000


@carries_out("scalable_topics.stats")
async def get_stats(scalable: ScalableService, controller: Controller) -> ScalableTopicStats:
    topic, layout = controller.topic, controller.layout
    segments, seen = layout.segments, await _load_stats(controller.segments, layout)
    known = controller.subscriptions.registry.records
    decisions = controller.scaler.describe()
    stats: ScalableTopicStats = {
        "epoch": layout.epoch,
        "totalSegments": len(layout.segments),
        "activeSegments": len(layout.active),
        "sealedSegments": len(layout.sealed),
        "segments": {str(each.id): _describe(topic, each, seen[each.id]) for each in segments},
        "subscriptions": {
            name: {
                "consumerCount": _count_consumers(seen, name),
                **await describe_subscription(controller, name),
            }
            for name in sorted(known.keys() | controller.groups.coordinators.keys())
        },
        "autoScale": {
            "policy": await describe_auto_scale(scalable, topic),
            "lastDecision": decisions[-1] if decisions else None,
        },
    }
    if controller.state.record.intent is not None:
        stats["change"] = describe(controller.state.record.intent)
    for segment in layout.active:
        reported = await _reported(scalable, topic, segment)
        if reported is not None:
            stats["segments"][str(segment.id)]["reportedLoad"] = reported
    return stats


@carries_out("scalable_topics.segments")
async def get_segments(controller: Controller) -> dict[str, SegmentAnswer]:
    layout, topic = controller.layout, controller.topic
    seen = await _load_stats(controller.segments, layout)
    segments = {str(each.id): _describe(topic, each, seen[each.id]) for each in layout.segments}
    for described in segments.values():
        described["subscriptions"] = {}
    registry = controller.subscriptions.registry
    for name in sorted(registry.records):
        for number, lag in (await registry.lag(name)).items():
            if str(number) in segments:
                segments[str(number)]["subscriptions"][name] = {
                    "msgBacklog": lag.entries,
                    "lagMessages": lag.messages,
                    "isLagEstimated": not lag.is_exact,
                }
    return segments


@carries_out("scalable_topics.load")
async def get_load(
    scalable: ScalableService, topic: TopicName, record: ScalableTopicMetadata
) -> dict[str, MeasuredLoad]:
    """What each active segment carries now, and what was last reported of it."""
    loads: dict[str, MeasuredLoad] = {}
    segments = scalable.segments_of(topic)
    for segment in record.layout.active:
        measured = (await segments.stats(segment.ref)).load
        load = loads[str(segment.id)] = cast(MeasuredLoad, format_load(measured))
        reported = await _reported(scalable, topic, segment)
        if reported is not None:
            load["reported"] = reported
    return loads


@carries_out("scalable_topics.explain")
async def explain(controller: Controller) -> ScalableExplanation:
    coordinators = sorted(controller.groups.coordinators.items())
    return {
        "scaling": await controller.scaler.explain(),
        "subscriptions": {name: each.assigner.explain() for name, each in coordinators},
    }


@carries_out("scalable_topics.decisions")
async def get_decisions(controller: Controller) -> Sequence[ScaleDecisionAnswer]:
    return controller.scaler.describe()


# One segment
class SegmentDetail:
    """Port of the broker that owns one segment: what callers of REST ask about it."""

    def __init__(self, owners: PeerOwners, name: TopicName) -> None:
        self._owners = owners
        self._name = name

    async def _load(self) -> PersistentTopic:
        live = await find_topic(self._owners, self._name)
        assert isinstance(live, PersistentTopic), "segments keep what they are sent"
        return live

    async def stats(self) -> TopicStats:
        return topic_stats(await self._load())

    async def log(self) -> LogStats:
        return topic_internal_stats(await self._load())

    async def last_sequence_id(self, producer: str) -> int:
        live = await self._load()
        for _ in range(_DURABLE_STEPS):
            if live.dedup is None and not live.policy.dedup_enabled:
                raise PreconditionFailed(f"Deduplication is not enabled on {live.name}")
            if live.dedup is not None and live.dedup.is_durable(producer):
                return live.dedup.last_sequence(producer)
            await self._owners.clock.sleep(_DURABLE_S)
        raise ServiceNotReady(f"{live.name} is still storing what {producer} sent")

    async def peek(self, subscription: str, place: int) -> SeenEntry:
        return await peek(self._owners, self._name, subscription, place)

    async def analyze(self, subscription: str, entries_max: int | None = None) -> BacklogAnalysis:
        found = await find_subscription(self._owners, self._name, subscription)
        return await count_backlog(found, entries_max=entries_max)


SegmentDetails: TypeAlias = OwnerPort[SegmentDetail]


@finds(SegmentDetails)
def find_details(owners: PeerOwners) -> SegmentDetails:
    return OwnerPort(owners.calls, SegmentDetail, partial(SegmentDetail, owners))


@finds(Segment)
async def find_segment(scalable: ScalableService, topic: TopicName, segment: SegmentId) -> Segment:
    return (await scalable.records.require(topic)).layout.get(segment)


@carries_out("scalable_topics.segment_stats")
async def get_segment_stats(
    scalable: ScalableService, details: SegmentDetails, topic: TopicName, segment: Segment
) -> SegmentTopicStats:
    seen = await scalable.segments_of(topic).stats(segment.ref)
    stats = await details.at(segment.name_in(topic)).stats()
    return cast(SegmentTopicStats, {**_describe(topic, segment, seen), **stats})


@carries_out("scalable_topics.segment_internal_stats")
async def get_segment_log(details: SegmentDetails, topic: TopicName, segment: Segment) -> LogStats:
    return await details.at(segment.name_in(topic)).log()


@carries_out("scalable_topics.last_sequence_id")
async def get_last_sequence_id(
    details: SegmentDetails, topic: TopicName, segment: Segment, producer: str
) -> int:
    return await details.at(segment.name_in(topic)).last_sequence_id(producer)


@carries_out("scalable_topics.last_sequence_ids")
async def get_last_sequence_ids(
    details: SegmentDetails,
    topic: TopicName,
    record: ScalableTopicMetadata,
    producer: str,
    segments: tuple[str, ...] = (),
) -> Mapping[str, int]:
    """Of segments whose data is gone nothing is known."""

    async def ask(segment: Segment) -> int | None:
        name = f"{producer}-seg-{segment.id}"
        try:
            return await details.at(segment.name_in(topic)).last_sequence_id(name)
        except NotFound:
            return None

    asked = [each for each in record.layout.segments if not segments or str(each.id) in segments]
    found = zip(asked, await together(map(ask, asked)), strict=True)
    return {str(segment.id): number for segment, number in found if number is not None}


@carries_out("scalable_topics.peek")
async def peek_segment(
    details: SegmentDetails, topic: TopicName, segment: Segment, subscription: str, place: int
) -> SeenEntry:
    return await details.at(segment.name_in(topic)).peek(subscription, place)


@carries_out("scalable_topics.analyze_backlog")
async def analyze_backlog(
    details: SegmentDetails,
    topic: TopicName,
    segment: Segment,
    subscription: str,
    entries_max: int | None,
) -> BacklogAnalysis:
    return await details.at(segment.name_in(topic)).analyze(subscription, entries_max)


# One of many
async def _load_stats(segments: Segments, layout: Layout) -> dict[SegmentId, SegmentStats]:
    found = await together(segments.stats(each.ref) for each in layout.segments)
    return {each.id: stats for each, stats in zip(layout.segments, found, strict=True)}


def _describe(topic: TopicName, segment: Segment, seen: SegmentStats) -> SegmentAnswer:
    """One without a topic holds nothing: its data was deleted, or it was never made."""
    described: SegmentAnswer = {
        "name": segment.name_in(topic).full,
        "state": segment.state.value,
        "hashRange": str(segment.range),
        "parentIds": list(segment.parents),
        "childIds": list(segment.children),
        "msgRateIn": seen.load.rate_in_per_s,
        "bytesRateIn": seen.load.bytes_in_per_s,
        "msgRateOut": seen.load.rate_out_per_s,
        "bytesRateOut": seen.load.bytes_out_per_s,
        "isLoaded": seen.is_loaded,
        "isMissing": seen.is_missing,
    }
    if seen.is_loaded:
        producers = sum(each.subscription is None for each in seen.clients)
        described |= {
            "msgInCounter": seen.msgs_in,
            "bytesInCounter": seen.bytes_in,
            "storageSize": seen.storage_bytes,
            "producerCount": producers,
            "consumerCount": len(seen.clients) - producers,
        }
    return described


def _count_consumers(seen: Mapping[SegmentId, SegmentStats], name: str) -> int:
    """One that is attached to several segments, on each by a name that ends in its id, counts
    once.
    """
    return len(
        {
            client.name.removesuffix(f"{READER_INFIX}{segment}")
            for segment, stats in seen.items()
            for client in stats.clients
            if client.subscription == name
        }
    )


async def _reported(
    scalable: ScalableService, topic: TopicName, segment: Segment
) -> ReportedLoad | None:
    found = await scalable.records.scaling.get_load(topic, segment.id)
    return None if found is None else {**format_load(found[0]), "atMs": found[1]}
