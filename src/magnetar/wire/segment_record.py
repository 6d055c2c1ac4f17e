"""Segments in the records of scalable topics, spelled as Apache Pulsar 5 spells them.

The five booleans of a segment are derived and written for readers' sake. `magnetarMerges` is ours
and counts the merges behind a segment when it is not 0.

A topic that was migrated from N partitions has N times N links, both ways: with 512 partitions they
alone would be 2 MB, more than some stores take. So a stored record spells a list of more than 64
ids once, in `"magnetarLinks": [[0, 1, …], …]`, and a segment has its place there instead, as
`magnetarParents` or `magnetarChildren`. REST answers with whole lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from magnetar.errors import RecordUnreadable
from magnetar.model.layout import Links
from magnetar.model.segment import HashRange, Segment, SegmentId, SegmentRef, SegmentState
from magnetar.wire.field import Json, member_in, number_in, numbers_in, object_in, text_in

_LINKS_MAX: Final = 64
"""A longer list of links is written once for all segments that have it."""
_DERIVED: Final = ("sealed", "active", "root", "leaf", "legacy")
SEGMENT_FIELDS: Final = frozenset(
    (
        "segmentId",
        "hashRange",
        "state",
        "parentIds",
        "childIds",
        "createdAtEpoch",
        "sealedAtEpoch",
        "createdAtMs",
        "sealedAtMs",
        "legacyTopicName",
        "entryBucketSplits",
        "magnetarMerges",
        "magnetarParents",
        "magnetarChildren",
        *_DERIVED,
    )
)


def _format_range(span: HashRange) -> dict[str, int]:
    return {"start": span.first, "end": span.last}


def _format_links(
    links: Links, key: str, place: str, known: dict[Links, int] | None
) -> dict[str, Any]:
    if known is None or len(links) <= _LINKS_MAX:
        return {key: list(links)}
    return {place: known.setdefault(links, len(known))}


def format_segment(segment: Segment, links: dict[Links, int] | None) -> dict[str, Any]:
    """Long lists of links go to `links`, unless that is None."""
    value: dict[str, Any] = {
        "segmentId": segment.id,
        "hashRange": _format_range(segment.range),
        "state": segment.state.value,
        **_format_links(segment.parents, "parentIds", "magnetarParents", links),
        **_format_links(segment.children, "childIds", "magnetarChildren", links),
        "createdAtEpoch": segment.created_at_epoch,
        "sealedAtEpoch": -1 if segment.sealed_at_epoch is None else segment.sealed_at_epoch,
        "createdAtMs": segment.created_at_ms,
        "sealedAtMs": -1 if segment.sealed_at_ms is None else segment.sealed_at_ms,
    }
    if segment.legacy_topic:
        value["legacyTopicName"] = segment.legacy_topic
    value["entryBucketSplits"] = list(segment.bucket_splits)
    facts = (
        segment.is_sealed,
        segment.is_active,
        not segment.parents,
        not segment.children,
        segment.is_legacy,
    )
    value |= dict(zip(_DERIVED, facts, strict=True))
    if segment.merges:
        value["magnetarMerges"] = segment.merges
    return value


def _parse_range(value: Json) -> HashRange:
    span = object_in(value, "hashRange")
    return HashRange(number_in(span, "start"), number_in(span, "end"))


def parse_links(value: Json) -> Sequence[Links]:
    found = value.get("magnetarLinks")
    if found is None:
        return ()
    if type(found) is not list:
        raise RecordUnreadable(f"A stored magnetarLinks is {found!r}")
    return [ids_in({"magnetarLinks": each}, "magnetarLinks") for each in found]


def _links_in(value: Json, key: str, place: str, links: Sequence[Links]) -> Links:
    if value.get(place) is None:
        return ids_in(value, key)
    index = number_in(value, place)
    if not 0 <= index < len(links):
        raise RecordUnreadable(f"A stored {place} is {index}, but there are {len(links)} lists")
    return links[index]


def parse_segment(value: Json, links: Sequence[Links]) -> Segment:
    state = member_in(value, "state", SegmentState, SegmentState.ACTIVE)
    sealed = state is SegmentState.SEALED
    return Segment(
        SegmentId(number_in(value, "segmentId")),
        _parse_range(value),
        state,
        _links_in(value, "parentIds", "magnetarParents", links),
        _links_in(value, "childIds", "magnetarChildren", links),
        number_in(value, "createdAtEpoch"),
        number_in(value, "createdAtMs"),
        max(0, number_in(value, "sealedAtEpoch")) if sealed else None,
        max(0, number_in(value, "sealedAtMs")) if sealed else None,
        text_in(value, "legacyTopicName"),
        tuple(numbers_in(value, "entryBucketSplits")),
        number_in(value, "magnetarMerges"),
    )


def format_ref(ref: SegmentRef) -> dict[str, Any]:
    value: dict[str, Any] = {"segmentId": ref.id, "hashRange": _format_range(ref.range)}
    if ref.legacy_topic:
        value["legacyTopicName"] = ref.legacy_topic
    return value


def parse_ref(value: Json) -> SegmentRef:
    number = SegmentId(number_in(value, "segmentId"))
    return SegmentRef(number, _parse_range(value), text_in(value, "legacyTopicName"))


def ids_in(value: Json, key: str) -> Links:
    return cast(Links, tuple(numbers_in(value, key)))
