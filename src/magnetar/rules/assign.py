"""Which consumer of a STREAM subscription or a CHECKPOINT group reads which segment.

Segments are assigned evenly, and an owner keeps its segments unless evenness demands otherwise: a
change moves as few as it can, and a consumer that returns under its name gets what it left, as far
as something moves at all. A STREAM subscription gets what is neither withheld nor drained
(`rules.drain`). A CHECKPOINT group gets everything at once, active segments first, because it is
not known how far its members have read.

When there are more consumers than segments, those left over share a segment: the broker then parts
it by entry buckets among the sharers. Only consumers that understand buckets share, on both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache, partial
from typing import assert_never

from magnetar.model.layout import Layout, Links
from magnetar.model.name import TopicName
from magnetar.model.scalable import AssignedSegment, ConsumerAssignment, ConsumerKind
from magnetar.model.segment import Segment, SegmentId, bucket_ranges
from magnetar.rules.drain import find_assignable


@dataclass(frozen=True, slots=True, order=True)
class GroupMember:
    name: str
    shares: bool = False
    """Whether it can read some buckets of a segment only."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who reads each segment, by hash. Several readers share a segment by buckets."""

    epoch: int = 0
    owners: Mapping[SegmentId, tuple[str, ...]] = field(default_factory=dict)
    former: Mapping[SegmentId, str] = field(default_factory=dict)
    """Who left each segment behind last, to be preferred when it returns."""

    def segments_of(self, consumer: str) -> tuple[SegmentId, ...]:
        return tuple(number for number, names in self.owners.items() if consumer in names)

    def part_of(self, consumer: str, layout: Layout, topic: TopicName) -> ConsumerAssignment:
        """The assignment that a consumer gets; a legacy segment goes by its old name."""
        return ConsumerAssignment(
            self.epoch,
            tuple(
                _assigned(layout.get(number), topic, shared=len(self.owners[number]) > 1)
                for number in self.segments_of(consumer)
            ),
        )


def _assigned(segment: Segment, topic: TopicName, *, shared: bool) -> AssignedSegment:
    buckets = bucket_ranges(segment.bucket_splits) if shared else ()
    return AssignedSegment(segment.id, segment.range, segment.name_in(topic).full, buckets)


def restore_assignment(epoch: int, segments: Mapping[str, Iterable[SegmentId]]) -> Assignment:
    """What was assigned, out of the segments that each consumer's record names."""
    owners: dict[SegmentId, tuple[str, ...]] = {}
    for consumer in sorted(segments):
        for number in segments[consumer]:
            owners[number] = (*owners.get(number, ()), consumer)
    return Assignment(epoch, owners)


def decide_assignment(
    layout: Layout,
    members: Iterable[GroupMember],
    previous: Assignment,
    *,
    kind: ConsumerKind,
    drained: Set[SegmentId] = frozenset(),
) -> Assignment:
    """Deal the segments of a layout to members (connected ones and those that may yet return)."""
    present = {member.name: member for member in sorted(members)}
    former = _recall_former(layout, present, previous)
    if not present:
        return Assignment(layout.epoch, former=former)
    match kind:
        case ConsumerKind.STREAM:
            rounds: tuple[tuple[Segment, ...], ...] = (find_assignable(layout, drained),)
        case ConsumerKind.CHECKPOINT:
            rounds = (layout.active, tuple(sorted(layout.sealed, key=_by_hash)))
        case _:
            assert_never(kind)
    hands: dict[str, list[Segment]] = {name: [] for name in present}
    for segments in rounds:
        _deal(segments, hands, previous, former)
    owners = {segment.id: (name,) for name, hand in hands.items() for segment in hand}
    ordered = sorted((segment for segments in rounds for segment in segments), key=_by_hash)
    idle = [present[name] for name, hand in hands.items() if not hand]
    shared = _share(ordered, owners, [each.name for each in idle if each.shares], previous, present)
    return Assignment(layout.epoch, {segment.id: shared[segment.id] for segment in ordered}, former)


def _recall_former(
    layout: Layout, present: Mapping[str, GroupMember], previous: Assignment
) -> dict[SegmentId, str]:
    former: dict[SegmentId, str] = {}
    for segment in layout.segments:
        leaver = next(
            (name for name in previous.owners.get(segment.id, ()) if name not in present),
            previous.former.get(segment.id),
        )
        if leaver is not None:
            former[segment.id] = leaver
    return former


def changed_members(previous: Assignment, following: Assignment) -> tuple[str, ...]:
    """Whose segments, or whose company on one, are no longer the same."""
    numbers = previous.owners.keys() | following.owners.keys()
    names: set[str] = set()
    for number in numbers:
        before, after = previous.owners.get(number, ()), following.owners.get(number, ())
        names |= set(before) ^ set(after)
        if (len(before) > 1) is not (len(after) > 1):
            names |= set(before) | set(after)
    return tuple(sorted(names))


def _by_hash(segment: Segment) -> tuple[int, int, SegmentId]:
    return segment.range.first, segment.range.last, segment.id


def _deal(
    segments: Sequence[Segment],
    hands: dict[str, list[Segment]],
    previous: Assignment,
    former: Mapping[SegmentId, str],
) -> None:
    """Add the segments to the hands so that all hands end level, moving as few as possible."""
    kept: dict[str, list[Segment]] = {name: [] for name in hands}
    wishes = dict.fromkeys(hands, 0)
    loose: list[Segment] = []

    @cache
    def heirs_of(parents: Links) -> Counter[str]:
        """Who read how many of the parents of a new segment: they know the keys."""
        owners = (name for parent in parents for name in previous.owners.get(parent, ()))
        return Counter(name for name in owners if name in hands)

    for segment in segments:
        holder = next((n for n in previous.owners.get(segment.id, ()) if n in hands), None)
        if holder is not None:
            kept[holder].append(segment)
        else:
            loose.append(segment)
            for name, count in heirs_of(segment.parents).items():
                wishes[name] += count
    quotas = _quotas(len(segments), hands, kept, wishes)
    for name, hand in hands.items():
        kept[name].sort(key=partial(_is_missed, hands=hands, former=former, holder=name))
        hand += kept[name][: quotas[name]]
        loose += kept[name][quotas[name] :]
        quotas[name] -= len(kept[name][: quotas[name]])
    for segment in sorted(loose, key=_by_hash):
        heirs = heirs_of(segment.parents)
        name = max(
            hands,
            key=lambda one: (
                quotas[one] > 0,
                one == former.get(segment.id),
                one in heirs,
                -len(hands[one]),
            ),
        )
        hands[name].append(segment)
        quotas[name] -= 1


def _is_missed(
    segment: Segment,
    hands: Mapping[str, object],
    former: Mapping[SegmentId, str],
    holder: str,
) -> bool:
    """Whether another consumer that is here had it before its holder: it is given up first."""
    leaver = former.get(segment.id)
    return leaver != holder and leaver in hands


def _quotas(
    count: int,
    hands: Mapping[str, Sequence[Segment]],
    kept: Mapping[str, Sequence[Segment]],
    wishes: Mapping[str, int],
) -> dict[str, int]:
    """How many more each hand gets. Where one can be more than another, a move is saved by it."""
    level = 0
    while sum(max(0, level + 1 - len(hand)) for hand in hands.values()) <= count:
        level += 1
    quotas = {name: max(0, level - len(hand)) for name, hand in hands.items()}
    eligible = sorted(
        (name for name, hand in hands.items() if len(hand) <= level),
        key=lambda name: (len(kept[name]) <= quotas[name], -len(kept[name]) - wishes[name], name),
    )
    for name in eligible[: count - sum(quotas.values())]:
        quotas[name] += 1
    return quotas


def _share(
    segments: Sequence[Segment],
    owners: Mapping[SegmentId, tuple[str, ...]],
    idle: Sequence[str],
    previous: Assignment,
    members: Mapping[str, GroupMember],
) -> dict[SegmentId, tuple[str, ...]]:
    """Let idle consumers join, the least shared segment first, and back where they were before."""
    places = {
        segment.id: segment.bucket_count - 1
        for segment in segments
        if segment.bucket_count > 1 and members[owners[segment.id][0]].shares
    }
    claims: dict[SegmentId, list[str]] = {number: [] for number in places}
    free: list[str] = []
    for name in idle:
        was = next((number for number in places if name in previous.owners.get(number, ())), None)
        (free if was is None else claims[was]).append(name)
    joined: dict[SegmentId, list[str]] = {number: [] for number in places}
    for _ in idle[: sum(places.values())]:
        number = min(
            (number for number, most in places.items() if len(joined[number]) < most),
            key=lambda number: (len(joined[number]), not claims[number]),
        )
        source = claims[number] or free or next(names for names in claims.values() if names)
        joined[number].append(source.pop(0))
    return {
        number: tuple(sorted((*names, *joined.get(number, ())))) for number, names in owners.items()
    }
