"""The records of scalable topics as JSON, spelled as Apache Pulsar 5 spells them.

Reading is lenient: missing numbers are 0, missing lists empty, and unknown fields are
kept for the next write. `wire.segment_record` spells the segments.

Some fields are ours; Pulsar's tools ignore them. In a topic's record:

    "magnetarIntent": {"kind": "SPLIT", "segmentIds": [0], "epoch": 3, "startedAtMs": 1700000000000,
                       "reason": "msgRateIn",
                       "targets": [{"segmentId": 4, "hashRange": {"start": 0, "end": 16383}}, …]}
    "magnetarHistory": [{"epoch": 4, "kind": "SPLIT", "segmentIds": [0], "childIds": [4, 5],
                         "atMs": 1700000000000, "reason": "msgRateIn"}, …]
    "magnetarScaleHold": {"segments": 16, "untilMs": 1700000000000}

`targets` are the children of a SPLIT or MERGE, what a PRUNE or DELETE still has to remove, and what
a MIGRATE has to seal (with its `legacyTopicName` when it has one; many are `targetRuns`, see
`wire.segment_run`); `segmentIds` and `epoch` belong to SPLIT and MERGE. In a subscription's record
`magnetarState` is there until all of its cursors are, and again while they are removed; in a
consumer's, `magnetarType` names a kind other than STREAM and `magnetarSegments` its segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, assert_never

import msgspec

from magnetar.errors import InvalidLayout, PreconditionFailed, RecordUnreadable
from magnetar.model.answer.scalable import LoadAnswer, PastLayoutChange
from magnetar.model.layout import Layout, Links
from magnetar.model.scalable import (
    ChangeKind,
    ConsumerKind,
    ConsumerRecord,
    DeleteIntent,
    HealIntent,
    Intent,
    LayoutEvent,
    MergeIntent,
    MigrateIntent,
    MigrationOrigin,
    PruneIntent,
    ScalableTopicMetadata,
    ScaleHold,
    SegmentLoad,
    SplitIntent,
    SubscriptionKind,
    SubscriptionRecord,
    SubscriptionState,
    WipeIntent,
)
from magnetar.model.segment import Segment, SegmentId, SegmentRef
from magnetar.wire.field import (
    Json,
    decode_object,
    member_in,
    number_in,
    object_in,
    objects_in,
    rate_in,
    text_in,
    texts_in,
    unknown_fields,
)
from magnetar.wire.segment_record import (
    SEGMENT_FIELDS,
    format_ref,
    format_segment,
    ids_in,
    parse_links,
    parse_segment,
)
from magnetar.wire.segment_run import format_runs, format_targets, parse_runs, parse_targets

_TOPIC_FIELDS: Final = frozenset(
    (
        "epoch",
        "nextSegmentId",
        "segments",
        "properties",
        "autoScalePolicy",
        "migratedFrom",
        "magnetarIntent",
        "magnetarHistory",
        "magnetarScaleHold",
        "magnetarLinks",
        "magnetarRuns",
    )
)


def encode_topic_record(record: ScalableTopicMetadata) -> bytes:
    links: dict[Links, int] = {}
    value = _format_topic(record, links)
    if links:
        value["magnetarLinks"] = list(links)
    return msgspec.json.encode(value)


def encode_plain_record(record: ScalableTopicMetadata) -> bytes:
    """Every segment as Pulsar spells it, for brokers of Pulsar that may read the record."""
    return msgspec.json.encode(_format_topic(record, None))


def format_topic_record(record: ScalableTopicMetadata) -> dict[str, Any]:
    """The record as the JSON values that REST answers with."""
    return _format_topic(record, None)


def _format_topic(record: ScalableTopicMetadata, links: dict[Links, int] | None) -> dict[str, Any]:
    """Long lists of links go to `links`, unless that is None."""
    layout = record.layout
    single, runs = (layout.segments, []) if links is None else _part_segments(record, links)
    value: dict[str, Any] = {
        "epoch": layout.epoch,
        "nextSegmentId": layout.next_id,
        "segments": {
            str(each.id): format_segment(each, links) | dict(record.unknown_of.get(each.id, {}))
            for each in single
        },
        "properties": dict(record.properties),
    }
    if runs:
        value["magnetarRuns"] = runs
    if record.auto_scale_policy is not None:
        value["autoScalePolicy"] = dict(record.auto_scale_policy)
    if record.migrated_from is not None:
        origin = record.migrated_from
        value["migratedFrom"] = {"topicName": origin.topic, "partitions": origin.partitions}
    if record.intent is not None:
        value["magnetarIntent"] = _format_intent(record.intent)
    if record.history:
        value["magnetarHistory"] = [format_event(event) for event in record.history]
    if record.scale_hold is not None:
        hold = record.scale_hold
        value["magnetarScaleHold"] = {"segments": hold.segments, "untilMs": hold.until_ms}
    return value | dict(record.unknown)


def _part_segments(
    record: ScalableTopicMetadata, links: dict[Links, int]
) -> tuple[Sequence[Segment], list[dict[str, Any]]]:
    """What is to be spelled one by one, and runs; a segment with unknown fields is in no run."""
    known = record.unknown_of
    rest, runs = format_runs((e for e in record.layout.segments if e.id not in known), links)
    if not runs:
        return record.layout.segments, runs
    rest += (record.layout.by_id[number] for number in known if number in record.layout.by_id)
    return sorted(rest, key=lambda each: each.id), runs


def decode_topic_record(data: bytes) -> ScalableTopicMetadata:
    """Raise RecordUnreadable for what is not a record, or an invalid one."""
    value = decode_object(data, "a scalable topic")
    stored = object_in(value, "segments")
    segments = {number: object_in(stored, number) for number in stored}
    links = parse_links(value)
    try:
        parsed = [parse_segment(each, links) for each in segments.values()]
        parsed += parse_runs(value, links)
        found = tuple(sorted(parsed, key=lambda each: each.id))
        layout = Layout(
            number_in(value, "epoch"), SegmentId(number_in(value, "nextSegmentId")), found
        )
        intent = object_in(value, "magnetarIntent")
        return ScalableTopicMetadata(
            layout,
            texts_in(value, "properties"),
            object_in(value, "autoScalePolicy")
            if value.get("autoScalePolicy") is not None
            else None,
            _parse_origin(object_in(value, "migratedFrom")),
            _parse_intent(intent) if intent else None,
            tuple(_parse_event(event) for event in objects_in(value, "magnetarHistory")),
            unknown_fields(value, _TOPIC_FIELDS),
            {
                SegmentId(number_in(segment, "segmentId")): fields
                for segment in segments.values()
                if (fields := unknown_fields(segment, SEGMENT_FIELDS))
            },
            _parse_hold(object_in(value, "magnetarScaleHold")),
        )
    except (InvalidLayout, PreconditionFailed) as error:
        raise RecordUnreadable(f"A stored layout cannot be: {error.sentence}") from None


def encode_subscription(record: SubscriptionRecord) -> bytes:
    value: dict[str, Any] = {"type": record.kind.value}
    if record.state is not SubscriptionState.READY:
        value["magnetarState"] = record.state.value
    return msgspec.json.encode(value | dict(record.unknown))


def decode_subscription(data: bytes) -> SubscriptionRecord:
    value = decode_object(data, "a subscription of a scalable topic")
    return SubscriptionRecord(
        member_in(value, "type", SubscriptionKind, SubscriptionKind.STREAM),
        member_in(value, "magnetarState", SubscriptionState, SubscriptionState.READY),
        unknown_fields(value, ("type", "magnetarState")),
    )


def encode_consumer(record: ConsumerRecord) -> bytes:
    value: dict[str, Any] = {}
    if record.kind is not ConsumerKind.STREAM:
        value["magnetarType"] = record.kind.value
    if record.segments:
        value["magnetarSegments"] = record.segments
    return msgspec.json.encode(value | dict(record.unknown))


def decode_consumer(data: bytes) -> ConsumerRecord:
    value = decode_object(data, "a consumer of a scalable topic")
    return ConsumerRecord(
        member_in(value, "magnetarType", ConsumerKind, ConsumerKind.STREAM),
        ids_in(value, "magnetarSegments"),
        unknown_fields(value, ("magnetarType", "magnetarSegments")),
    )


def format_load(load: SegmentLoad) -> LoadAnswer:
    return {
        "msgRateIn": load.rate_in_per_s,
        "bytesRateIn": load.bytes_in_per_s,
        "msgRateOut": load.rate_out_per_s,
        "bytesRateOut": load.bytes_out_per_s,
    }


def encode_load(load: SegmentLoad) -> bytes:
    return msgspec.json.encode(format_load(load))


def decode_load(data: bytes) -> SegmentLoad:
    value = decode_object(data, "the load of a segment")
    return SegmentLoad(
        rate_in(value, "msgRateIn"),
        rate_in(value, "bytesRateIn"),
        rate_in(value, "msgRateOut"),
        rate_in(value, "bytesRateOut"),
    )


def _format_intent(intent: Intent) -> dict[str, Any]:
    match intent:
        case SplitIntent():
            return _format_change(ChangeKind.SPLIT, intent)
        case MergeIntent():
            return _format_change(ChangeKind.MERGE, intent)
        case PruneIntent(segments):
            kind = ChangeKind.PRUNE
        case DeleteIntent(segments):
            kind = ChangeKind.DELETE
        case WipeIntent(segments):
            return _format_targets(ChangeKind.WIPE, intent, segments) | {"reason": intent.reason}
        case HealIntent(segments):
            kind = ChangeKind.HEAL
        case MigrateIntent(segments):
            kind = ChangeKind.MIGRATE
        case _:
            assert_never(intent)
    return _format_targets(kind, intent, segments)


def _format_targets(
    kind: ChangeKind, intent: Intent, segments: tuple[SegmentRef, ...]
) -> dict[str, Any]:
    return {
        "kind": kind.value,
        "startedAtMs": intent.started_at_ms,
        **format_targets(segments),
    }


def _format_change(kind: ChangeKind, intent: SplitIntent | MergeIntent) -> dict[str, Any]:
    return {
        "kind": kind.value,
        "segmentIds": list(intent.parents),
        "epoch": intent.epoch,
        "startedAtMs": intent.started_at_ms,
        "reason": intent.reason,
        "targets": [format_ref(ref) for ref in intent.children],
    }


def _parse_intent(value: Json) -> Intent:
    targets = parse_targets(value)
    parents = ids_in(value, "segmentIds")
    epoch, started, reason = (
        number_in(value, "epoch"),
        number_in(value, "startedAtMs"),
        text_in(value, "reason"),
    )
    match member_in(value, "kind", ChangeKind, None), parents, targets:
        case ChangeKind.SPLIT, (parent,), (left, right):
            return SplitIntent(parent, (left, right), epoch, started, reason)
        case ChangeKind.MERGE, (first, second), (child,):
            return MergeIntent((first, second), child, epoch, started, reason)
        case ChangeKind.PRUNE, (), _:
            return PruneIntent(targets, started)
        case ChangeKind.DELETE, (), _:
            return DeleteIntent(targets, started)
        case ChangeKind.WIPE, (), _:
            return WipeIntent(targets, started, reason)
        case ChangeKind.HEAL, (), _:
            return HealIntent(targets, started)
        case ChangeKind.MIGRATE, (), _:
            return MigrateIntent(targets, started)
        case kind, _, _:
            raise RecordUnreadable(
                f"A stored {kind} names {len(parents)} segments and {len(targets)} targets"
            )


def format_event(event: LayoutEvent) -> PastLayoutChange:
    return {
        "epoch": event.epoch,
        "kind": event.kind.value,
        "segmentIds": list(event.segments),
        "childIds": list(event.children),
        "atMs": event.at_ms,
        "reason": event.reason,
    }


def _parse_event(value: Json) -> LayoutEvent:
    return LayoutEvent(
        number_in(value, "epoch"),
        member_in(value, "kind", ChangeKind, None),
        ids_in(value, "segmentIds"),
        ids_in(value, "childIds"),
        number_in(value, "atMs"),
        text_in(value, "reason"),
    )


def _parse_hold(value: Json) -> ScaleHold | None:
    return ScaleHold(number_in(value, "segments"), number_in(value, "untilMs")) if value else None


def _parse_origin(value: Json) -> MigrationOrigin | None:
    if not value:
        return None
    return MigrationOrigin(text_in(value, "topicName"), number_in(value, "partitions"))
