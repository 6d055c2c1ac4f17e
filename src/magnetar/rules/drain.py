"""What a subscription has read to the end, what waits for it, and what may go for good.

A subscription reads a segment only when it has read everything the segment came out of, however
long ago: only then do messages of one key arrive in order. So a segment is *withheld* while any of
its ancestors is not drained, and a seek that gives an ancestor new work withholds it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from magnetar.model.layout import Layout, Links
from magnetar.model.scalable import PruneIntent
from magnetar.model.segment import Segment, SegmentId

_CAUSES_MAX: Final = 5
"""How many segments a sentence names."""


def decide_drained(layout: Layout, backlog: Mapping[SegmentId, int]) -> frozenset[SegmentId]:
    """Sealed segments of which nothing is left to acknowledge; one without a count is not."""
    return frozenset(each.id for each in layout.sealed if backlog.get(each.id, 1) <= 0)


def find_withheld(layout: Layout, drained: Set[SegmentId]) -> frozenset[SegmentId]:
    """Segments with an ancestor that is not drained. Parents have lower ids than children."""
    withheld: set[SegmentId] = set()
    waits: dict[Links, bool] = {}
    """By parents: those of a migrated topic are the same for all, and looked at once."""
    for segment in layout.segments:
        parents = segment.parents
        if parents not in waits:
            waits[parents] = any(one in withheld or one not in drained for one in parents)
        if waits[parents]:
            withheld.add(segment.id)
    return frozenset(withheld)


def find_assignable(layout: Layout, drained: Set[SegmentId]) -> tuple[Segment, ...]:
    """What a STREAM subscription may read now, by hash: not withheld, and not read to the end."""
    withheld = find_withheld(layout, drained)
    ready = [s for s in layout.segments if s.id not in withheld and s.id not in drained]
    return tuple(sorted(ready, key=lambda segment: (segment.range, segment.id)))


def explain_withheld(
    layout: Layout,
    drained: Set[SegmentId],
    *,
    unacked: Mapping[SegmentId, int],
    owners: Mapping[SegmentId, tuple[str, ...]],
) -> Mapping[SegmentId, str]:
    """A sentence for each withheld segment: what it waits for, and whose turn that is.

    Of its ancestors those are named that can be read now; the others wait themselves.
    """
    withheld = find_withheld(layout, drained)

    def explain(number: SegmentId) -> str:
        behind = sorted(each for each in layout.ancestors(number) if each not in drained)
        first = [each for each in behind if each not in withheld]
        causes = [
            _explain_cause(each, unacked.get(each), owners.get(each, ()))
            for each in first[:_CAUSES_MAX]
        ]
        if len(first) > _CAUSES_MAX:
            causes.append(f"{len(first) - _CAUSES_MAX} more segments")
        sentence = f"waits for {' and for '.join(causes)}"
        if later := len(behind) - len(first):
            sentence += f", then for {later} more that came out of {_these(first)}"
        return sentence

    sentences: dict[Links, str] = {}
    for number in withheld:
        parents = layout.get(number).parents
        if parents not in sentences:
            sentences[parents] = explain(number)
    return {
        number: f"segment {number} {sentences[layout.get(number).parents]}"
        for number in sorted(withheld)
    }


def _these(numbers: list[SegmentId]) -> str:
    return "it" if len(numbers) == 1 else "these"


def _explain_cause(number: SegmentId, unacked: int | None, owners: tuple[str, ...]) -> str:
    what = f"segment {number}, whose backlog is not known"
    if unacked is not None:
        messages = "message" if unacked == 1 else "messages"
        whose = f" of consumer {', '.join(owners)}" if owners else ""
        what = f"{unacked} unacked {messages}{whose} on segment {number}"
    return what if owners else f"{what}, which no consumer reads"


@dataclass(frozen=True, slots=True)
class Retention:
    """How long, and up to which size of the topic, acknowledged data stays; None does not bound.

    Data goes when either bound is passed; without any bound it stays.
    """

    time_ms: int | None = 0
    size_bytes: int | None = 0


@dataclass(frozen=True, slots=True)
class SegmentUse:
    size_bytes: int = 0
    waiting: tuple[str, ...] = ()
    """Durable subscriptions that have not drained it, and holds that were moved past entries of it
    which their query has not read.
    """


@dataclass(frozen=True, slots=True)
class PrunePlan:
    intent: PruneIntent | None
    kept: Mapping[SegmentId, str]
    """Why each of the other sealed segments stays."""


_OPENED_AT_ONCE: Final = 100
_OPENING_MS: Final = 30
"""A client that was sent the layout subscribes to its segments one by one, and some clients fail as
a whole when one of thousands is gone meanwhile.
"""


def plan_prune(
    layout: Layout, uses: Mapping[SegmentId, SegmentUse], retention: Retention, *, now_ms: int
) -> PrunePlan:
    """Which sealed segments go: drained by all, beyond retention, and older ones first.

    A segment whose use could not be found out stays.
    """
    total_bytes = sum(use.size_bytes for use in uses.values())
    opening_ms = _OPENING_MS * max(0, len(layout.segments) - _OPENED_AT_ONCE)
    gone: dict[SegmentId, Segment] = {}
    kept: dict[SegmentId, str] = {}
    for segment in sorted(layout.sealed, key=lambda each: (each.sealed_at_ms or 0, each.id)):
        use = uses.get(segment.id)
        before = [parent for parent in segment.parents if parent not in gone]
        if use is None:
            kept[segment.id] = "its use is not known"
        elif use.waiting:
            kept[segment.id] = f"not drained by {', '.join(use.waiting)}"
        elif before:
            kept[segment.id] = f"segment {before[0]}, which it came out of, stays"
        elif opening_ms and now_ms - (segment.sealed_at_ms or 0) < opening_ms:
            kept[segment.id] = f"clients have {opening_ms / 1000:g} s to open what was just sealed"
        elif not _is_expired(segment, retention, total_bytes - use.size_bytes, now_ms=now_ms):
            kept[segment.id] = "retained"
        else:
            gone[segment.id] = segment
            total_bytes -= use.size_bytes
    refs = tuple(gone[number].ref for number in sorted(gone))
    return PrunePlan(PruneIntent(refs, now_ms) if refs else None, kept)


def _is_expired(
    segment: Segment, retention: Retention, bytes_without_it: int, *, now_ms: int
) -> bool:
    sealed_at_ms = segment.sealed_at_ms or 0
    too_old = retention.time_ms is not None and now_ms - sealed_at_ms >= retention.time_ms
    too_big = retention.size_bytes is not None and bytes_without_it >= retention.size_bytes
    return too_old or too_big


class ToStart(msgspec.Struct, frozen=True, tag=True):
    """Read the segment from its first message."""


class ToTime(msgspec.Struct, frozen=True, tag=True):
    at_ms: int


class ToEnd(msgspec.Struct, frozen=True, tag=True):
    """Skip all of it."""


SeekTarget: TypeAlias = ToStart | ToTime | ToEnd


def decide_seek(segment: Segment, at_ms: int) -> SeekTarget:
    """Where a subscription goes in one segment when it seeks the whole topic to a time."""
    if segment.sealed_at_ms and segment.sealed_at_ms <= at_ms:
        return ToEnd()
    if segment.created_at_ms and segment.created_at_ms >= at_ms and not segment.is_legacy:
        return ToStart()
    return ToTime(at_ms)
