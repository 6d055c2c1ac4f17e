"""Regular topics that a migration made segments of, many in a few words.

The partitions of a topic are alike but for their number, and there may be thousands of them: one by
one they would take megabytes, more than some stores take. A stored record spells 64 or more that
are alike as a run, the first of them and the ids of all; the topic of each ends with its id:

    "magnetarRuns": [{"like": {"segmentId": 0, "legacyTopicName": "…-partition-0", …},
                      "ids": [[0, 4095], [5000, 5000]]}]

The targets of an intent are spelled in the same way, as `targetRuns`. REST answers with each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from magnetar.errors import RecordUnreadable
from magnetar.model.layout import Links
from magnetar.model.segment import Segment, SegmentId, SegmentRef
from magnetar.wire.field import Json, object_in, objects_in
from magnetar.wire.segment_record import format_ref, format_segment, parse_ref, parse_segment

T = TypeVar("T", Segment, SegmentRef)

_RUN_MIN: Final = 64
_RUN_MAX: Final = 1 << 20
"""More than any topic has; a stored run of more is damaged."""


def format_runs(
    segments: Iterable[Segment], links: dict[Links, int]
) -> tuple[list[Segment], list[dict[str, Any]]]:
    """Those that are to be spelled one by one, and the runs of the others."""

    def alike(segment: Segment) -> Hashable:
        # Links by identity: most are one object, and two runs for equal ones do no harm.
        return (
            segment.range,
            segment.state,
            segment.parents,
            id(segment.children),
            segment.created_at_epoch,
            segment.created_at_ms,
            segment.sealed_at_epoch,
            segment.sealed_at_ms,
            segment.bucket_splits,
            segment.merges,
        )

    rest, runs = _part(segments, alike)
    return rest, [
        {"like": format_segment(first, links), "ids": list(_ranges(ids))} for first, ids in runs
    ]


def parse_runs(value: Json, links: Sequence[Links]) -> Iterator[Segment]:
    for run in objects_in(value, "magnetarRuns"):
        like = parse_segment(object_in(run, "like"), links)
        stem = _stem(like)
        for number in _ids_in(run, stem):
            yield Segment(
                number,
                like.range,
                like.state,
                like.parents,
                like.children,
                like.created_at_epoch,
                like.created_at_ms,
                like.sealed_at_epoch,
                like.sealed_at_ms,
                f"{stem}{number}",
                like.bucket_splits,
                like.merges,
            )


def format_targets(refs: Iterable[SegmentRef]) -> dict[str, Any]:
    rest, runs = _part(refs, lambda ref: ref.range)
    value: dict[str, Any] = {"targets": [format_ref(ref) for ref in rest]}
    if runs:
        value["targetRuns"] = [
            {"like": format_ref(first), "ids": list(_ranges(ids))} for first, ids in runs
        ]
    return value


def parse_targets(value: Json) -> tuple[SegmentRef, ...]:
    """In the order they had, or by ascending id when there are runs."""
    found = [parse_ref(each) for each in objects_in(value, "targets")]
    runs = objects_in(value, "targetRuns")
    for run in runs:
        like = parse_ref(object_in(run, "like"))
        stem = _stem(like)
        found += [SegmentRef(each, like.range, f"{stem}{each}") for each in _ids_in(run, stem)]
    return tuple(sorted(found, key=lambda each: each.id) if runs else found)


def _part(
    found: Iterable[T], alike: Callable[[T], Hashable]
) -> tuple[list[T], list[tuple[T, list[SegmentId]]]]:
    every = list(found)
    groups: dict[Hashable, list[T]] = {}
    for each in every:
        stem = _stem(each)
        if stem:
            groups.setdefault((stem, alike(each)), []).append(each)
    long = [group for group in groups.values() if len(group) >= _RUN_MIN]
    gone = {each.id for group in long for each in group}
    rest = [each for each in every if each.id not in gone] if gone else every
    return rest, [(group[0], sorted(each.id for each in group)) for group in long]


def _stem(segment: Segment | SegmentRef) -> str:
    """The name of its regular topic without the id at its end; nothing when it does not end so."""
    number = str(segment.id)
    name = segment.legacy_topic
    return name[: -len(number)] if name.endswith(f"-{number}") else ""


def _ranges(ids: list[SegmentId]) -> Iterator[list[int]]:
    """First and last of each stretch of rising ids without a gap."""
    first = last = ids[0]
    for number in ids[1:]:
        if number != last + 1:
            yield [first, last]
            first = number
        last = number
    yield [first, last]


def _ids_in(run: Json, stem: str) -> Iterator[SegmentId]:
    found = run.get("ids")
    if not stem or type(found) is not list:
        raise RecordUnreadable("A stored run of segments has no ids or no names")
    count = 0
    for each in found:
        if type(each) is not list or [type(one) for one in each] != [int, int]:
            raise RecordUnreadable(f"A stored run of segments has ids of {each!r}")
        count += each[1] - each[0] + 1
        if not 0 <= each[0] <= each[1] or count > _RUN_MAX:
            raise RecordUnreadable(f"A stored run of segments has ids of {each!r}")
        yield from map(SegmentId, range(each[0], each[1] + 1))
