"""Which change of a layout to begin: split, merge, delete, repair, scale to a number.

A plan is an intent: a value that is stored in the topic's record before anything else is done.
`rules.phase` says what to do then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import pairwise
from typing import Final, assert_never

from magnetar.errors import Conflict, PreconditionFailed, ResourceBusy
from magnetar.model.layout import Layout
from magnetar.model.scalable import (
    ChangeKind,
    DeleteIntent,
    HealIntent,
    Intent,
    LayoutEvent,
    MergeIntent,
    MigrateIntent,
    PruneIntent,
    ScalableTopicMetadata,
    SplitIntent,
    WipeIntent,
)
from magnetar.model.scaling import ScaleTally
from magnetar.model.segment import SegmentId, SegmentName, SegmentRef, tile

MANUAL: Final = "manual"
_REPAIR: Final = "repair"
_SCALE: Final = "scale"
_NOT_BY_LOAD: Final = frozenset((MANUAL, _REPAIR, _SCALE))


def plan_split(
    layout: Layout, segment: SegmentId, *, now_ms: int, at: int | None = None, reason: str = ""
) -> SplitIntent:
    """Refuse an unknown or sealed segment and a range that has no hash to split at."""
    after = layout.split(segment, now_ms=now_ms, at=at)
    left, right = (after.get(child).ref for child in after.get(segment).children)
    return SplitIntent(segment, (left, right), layout.epoch, now_ms, reason)


def plan_merge(
    layout: Layout, left: SegmentId, right: SegmentId, *, now_ms: int, reason: str = ""
) -> MergeIntent:
    """Refuse unknown or sealed segments and such as are not neighbours."""
    after = layout.merge(left, right, now_ms=now_ms)
    return MergeIntent((left, right), after.segments[-1].ref, layout.epoch, now_ms, reason)


def plan_delete(
    record: ScalableTopicMetadata, *, now_ms: int, force: bool = False, attached: Sequence[str] = ()
) -> DeleteIntent:
    """All that is to go, children of a change under way included; `attached` names who is there."""
    if attached and not force:
        raise ResourceBusy(f"The topic is in use by {', '.join(attached)}")
    refs = {segment.id: segment.ref for segment in record.layout.segments}
    match record.intent:
        case SplitIntent() | MergeIntent() as change:
            refs |= {ref.id: ref for ref in change.children}
        case PruneIntent(segments) | DeleteIntent(segments):
            refs |= {ref.id: ref for ref in segments}
        case WipeIntent() | HealIntent() | MigrateIntent() | None:
            pass  # the layout names them all
        case _:
            assert_never(record.intent)
    return DeleteIntent(tuple(refs[number] for number in sorted(refs)), now_ms)


def plan_repair(
    layout: Layout, terminated: Set[SegmentId], *, now_ms: int
) -> SplitIntent | MergeIntent | None:
    """What makes the ring writable again when active segments refuse writes.

    A controller sealed them and never published what should follow. A single hash cannot be
    split; it joins a neighbour.
    """
    for index, segment in enumerate(layout.active):
        if segment.id not in terminated:
            continue
        if segment.range.size > 1:
            return plan_split(layout, segment.id, now_ms=now_ms, reason=_REPAIR)
        neighbour = layout.active[index - 1 if index else 1]
        return plan_merge(layout, segment.id, neighbour.id, now_ms=now_ms, reason=_REPAIR)
    return None


def plan_scale(layout: Layout, count: int, *, now_ms: int) -> SplitIntent | MergeIntent | None:
    """The next step towards `count` active segments, or None when there are as many.

    The widest is split and the narrowest neighbours are merged, so that all end about equally wide.
    """
    tile(count)  # refuses what no topic can have
    active = layout.active
    if len(active) < count:
        widest = max(active, key=lambda segment: (segment.range.size, -segment.range.first))
        return plan_split(layout, widest.id, now_ms=now_ms, reason=_SCALE)
    if len(active) > count:
        left, right = min(pairwise(active), key=lambda pair: sum(one.range.size for one in pair))
        return plan_merge(layout, left.id, right.id, now_ms=now_ms, reason=_SCALE)
    return None


def begin(record: ScalableTopicMetadata, intent: Intent) -> ScalableTopicMetadata:
    """The record to store before anything else is done; refused while another change is under way.

    A prune is published by this very record: what clients no longer see may be removed. A delete
    takes the place of whatever was under way.
    """
    if record.is_deleting:
        raise Conflict("The topic is being deleted")
    match intent:
        case DeleteIntent():
            return replace(record, intent=intent)
        case _ if record.intent is not None:
            raise Conflict(f"Another change is under way: {describe(record.intent)}")
        case SplitIntent() | MergeIntent():
            check_current(record.layout, intent)
            return replace(record, intent=intent)
        case PruneIntent():
            numbers = tuple(ref.id for ref in intent.segments)
            layout = record.layout.prune(numbers)
            event = LayoutEvent(layout.epoch, ChangeKind.PRUNE, numbers, (), intent.started_at_ms)
            return replace(record.with_change(layout, event), intent=intent)
        case WipeIntent():
            return _note(record, intent, ChangeKind.WIPE, intent.reason)
        case HealIntent():
            return _note(record, intent, ChangeKind.HEAL, "topic missing")
        case MigrateIntent():
            raise Conflict("The topic is scalable already")
        case _:
            assert_never(intent)


def _note(
    record: ScalableTopicMetadata, intent: WipeIntent | HealIntent, kind: ChangeKind, reason: str
) -> ScalableTopicMetadata:
    """What changes data and not the layout stands in the history all the same."""
    numbers = tuple(ref.id for ref in intent.segments)
    event = LayoutEvent(record.layout.epoch, kind, numbers, (), intent.started_at_ms, reason)
    return replace(record.with_change(record.layout, event), intent=intent)


def is_current(layout: Layout, intent: SplitIntent | MergeIntent) -> bool:
    """Whether the layout is still the one the change was planned on."""
    active = {segment.id for segment in layout.active}
    return (
        layout.epoch == intent.epoch
        and layout.next_id == intent.children[0].id
        and active.issuperset(intent.parents)
    )


def check_current(layout: Layout, intent: SplitIntent | MergeIntent) -> None:
    if not is_current(layout, intent):
        raise PreconditionFailed(
            f"The layout is at epoch {layout.epoch}; {describe(intent)} was planned on another"
        )


def apply_intent(
    record: ScalableTopicMetadata, intent: SplitIntent | MergeIntent, *, now_ms: int
) -> ScalableTopicMetadata:
    """The record that publishes a split or merge and ends it, in one write."""
    check_current(record.layout, intent)
    match intent:
        case SplitIntent():
            kind, at = ChangeKind.SPLIT, intent.children[1].range.first
            layout = record.layout.split(intent.segment, now_ms=now_ms, at=at)
        case MergeIntent():
            kind = ChangeKind.MERGE
            layout = record.layout.merge(*intent.parents, now_ms=now_ms)
        case _:
            assert_never(intent)
    children = tuple(ref.id for ref in intent.children)
    event = LayoutEvent(layout.epoch, kind, intent.parents, children, now_ms, intent.reason)
    return replace(record.with_change(layout, event), intent=None)


def describe(intent: Intent) -> str:
    """A few words for refusals and stats."""
    match intent:
        case SplitIntent():
            return f"split of segment {intent.segment} into {_list(intent.children)}"
        case MergeIntent():
            first, second = intent.parents
            return f"merge of segments {first} and {second} into {_list(intent.children)}"
        case PruneIntent():
            return f"removal of segments {_list(intent.segments)}"
        case DeleteIntent():
            return "deletion of the topic"
        case WipeIntent():
            return f"deletion of the data of segments {_list(intent.segments)}"
        case HealIntent():
            return f"making of the missing segments {_list(intent.segments)}"
        case MigrateIntent():
            return f"sealing of the regular topics {_list(intent.parents)}"
        case _:
            assert_never(intent)


def _list(refs: Sequence[SegmentRef]) -> str:
    return ", ".join(str(ref.id) for ref in refs)


def count_changes(tally: ScaleTally, history: Sequence[LayoutEvent]) -> ScaleTally:
    """With the splits and merges by load that came after those that are counted.

    What changed the layout is in the same record as the change: nothing is counted twice or lost.
    """
    fresh = [each for each in history if each.epoch > tally.epoch]
    own = Counter(each.kind for each in fresh if each.reason not in _NOT_BY_LOAD)
    return replace(
        tally,
        splits=tally.splits + own[ChangeKind.SPLIT],
        merges=tally.merges + own[ChangeKind.MERGE],
        epoch=max((each.epoch for each in fresh), default=tally.epoch),
    )


def serves(record: ScalableTopicMetadata, segment: SegmentName) -> bool:
    """Whether it takes writes and nothing has begun that would seal it."""
    known = record.layout.by_id.get(segment.id)
    if known is None or known.range != segment.range or not known.is_active:
        return False
    match record.intent:
        case SplitIntent() | MergeIntent() as change:
            return segment.id not in change.parents
        case DeleteIntent():
            return False
        case _:
            return True


def belongs(record: ScalableTopicMetadata, segment: SegmentName) -> bool:
    """Whether the layout, or a change that has begun, names exactly this segment."""
    known = record.layout.by_id.get(segment.id)
    if known is not None:
        return known.range == segment.range and not known.is_legacy
    match record.intent:
        case SplitIntent() | MergeIntent() as change:
            refs = change.children
        case DeleteIntent(segments):
            refs = segments
        case _:
            return False
    return any((ref.id, ref.range) == (segment.id, segment.range) for ref in refs)


def is_kept(record: ScalableTopicMetadata, segment: SegmentRef) -> bool:
    """Whether the layout names a segment whose data is to stay. A controller that was replaced and
    does not know it yet may want to remove it, as the child of a change that others completed.
    """
    known = record.layout.by_id.get(segment.id)
    if known is None or known.ref != segment or record.is_deleting:
        return False
    return not (isinstance(record.intent, WipeIntent) and segment in record.intent.segments)
