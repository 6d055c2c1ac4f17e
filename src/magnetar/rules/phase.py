"""What to do next about the intent in a topic's record, or in that of a preparation.

A change goes through phases, and each is found again from what can be seen: there is no counter of
phases to keep in step with the world. The topic's controller looks, decides, acts and looks again
until nothing is left. Every action may be done twice, and by two controllers at once: the record is
written conditionally, all else has the same outcome.

    split, merge:  CREATE → SEAL → CARRY → PUBLISH
    prune:         REMOVE → CLEAR            (the record that began it published it)
    delete:        REMOVE → FORGET
    wipe:          REMOVE → CLEAR
    heal:          CREATE → CLEAR
    prepare:       CREATE → PUBLISH → FORGET    (the record that it publishes begins to migrate)
    migrate:       CREATE → SEAL → CARRY → CLEAR    (the record that began it published it)

A split or merge can be taken back until the first parent is sealed, a heal until the first segment
is made, the preparation of a migration until it is published; from there on there is only forward.
The others have only forward from their beginning. A split or merge whose layout was changed by
another controller is taken back (UNDO); `plan_repair` then finds any parent it had sealed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias, assert_never

from magnetar.errors import PreconditionFailed
from magnetar.model.migration import Preparation
from magnetar.model.scalable import (
    DeleteIntent,
    HealIntent,
    MergeIntent,
    MigrateIntent,
    PruneIntent,
    ScalableTopicMetadata,
    SplitIntent,
    WipeIntent,
)
from magnetar.model.segment import Segment, SegmentId, SegmentRef
from magnetar.rules.layout import apply_intent, describe, is_current


class Phase(StrEnum):
    CREATE = "create"
    """Children are made, with a cursor at the start for every subscription."""
    SEAL = "seal"
    """Parents take no more writes: from the first of them on there is only forward."""
    CARRY = "carry"
    """Cursors that came to the parents since are given to the children too."""
    PUBLISH = "publish"
    """Clients learn of the children; the same write ends the change."""
    REMOVE = "remove"
    CLEAR = "clear"
    FORGET = "forget"
    UNDO = "undo"


SubscriptionProperties: TypeAlias = Mapping[str, Mapping[str, str]]
"""By subscription; of those alone that have any."""


@dataclass(frozen=True, slots=True)
class CreateSegment:
    """Make its topic unless it is there, with cursors at the start."""

    segment: SegmentRef
    subscriptions: tuple[str, ...]
    properties: SubscriptionProperties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AddCursors:
    """Give it cursors at the start, save those it has; or at the end, where nothing is read."""

    segment: SegmentRef
    subscriptions: tuple[str, ...]
    at_end: bool = False
    properties: SubscriptionProperties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SealSegment:
    """Terminate its topic; one that is missing is made first, or a writer could still make it."""

    segment: SegmentRef


@dataclass(frozen=True, slots=True)
class RemoveSegment:
    """Remove its load record, then its topic: a topic that is gone is not looked at again."""

    segment: SegmentRef


@dataclass(frozen=True, slots=True)
class StoreRecord:
    """Write the record, expecting the version that was read."""

    record: ScalableTopicMetadata


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """Remove the record and everything below it."""


Action: TypeAlias = (
    CreateSegment | AddCursors | SealSegment | RemoveSegment | StoreRecord | DeleteRecord
)


@dataclass(frozen=True, slots=True)
class Step:
    """Actions of one phase; they may run side by side. A record is written by a step of its own."""

    phase: Phase
    actions: tuple[Action, ...]
    can_undo: bool


@dataclass(frozen=True, slots=True)
class SegmentSeen:
    """A segment's topic as it is; a topic that does not exist is not seen."""

    is_sealed: bool = False
    cursors: frozenset[str] = frozenset()
    """Its durable subscriptions, without those the broker keeps for itself."""
    properties: SubscriptionProperties = field(default_factory=dict)


SegmentsSeen: TypeAlias = Mapping[SegmentId, SegmentSeen]


def segments_to_see(record: ScalableTopicMetadata) -> tuple[SegmentRef, ...]:
    """Whose topics must be looked at before a step can be decided."""
    match record.intent:
        case None:
            return ()
        case SplitIntent() | MergeIntent() as change:
            parents = (record.layout.by_id.get(number) for number in change.parents)
            return (*(each.ref for each in parents if each is not None), *change.children)
        case PruneIntent(segments) | DeleteIntent(segments) | WipeIntent(segments):
            return segments
        case HealIntent(segments):
            return segments
        case MigrateIntent(parents):
            return (*parents, *(each.ref for each in _migrated_children(record, parents)))
        case _:
            assert_never(record.intent)


def decide_step(
    record: ScalableTopicMetadata, seen: SegmentsSeen, subscriptions: Set[str], *, now_ms: int
) -> Step | None:
    """The next step, or None without an intent. `subscriptions` are the registered durable ones."""
    match record.intent:
        case None:
            return None
        case SplitIntent() | MergeIntent() as change:
            if not is_current(record.layout, change):
                return _undo(record, change, seen)
            return _decide_change(record, change, seen, subscriptions, now_ms=now_ms)
        case PruneIntent(segments) | WipeIntent(segments):
            return _removal(segments, seen) or _clear(record)
        case HealIntent(segments):
            active = {segment.id for segment in record.layout.active}
            wanted = tuple(each for each in segments if each.id in active)
            return _creation(wanted, seen, subscriptions, can_undo=not seen) or _clear(record)
        case DeleteIntent(segments):
            return _removal(segments, seen) or Step(Phase.FORGET, (DeleteRecord(),), False)
        case MigrateIntent(parents):
            return _decide_migration(record, parents, seen, subscriptions)
        case _:
            assert_never(record.intent)


def decide_undo(record: ScalableTopicMetadata, seen: SegmentsSeen) -> Step:
    """Take back a change that cannot go on, while that is possible."""
    change = record.intent
    if isinstance(change, HealIntent) and seen.keys().isdisjoint(
        each.id for each in change.segments
    ):
        return Step(Phase.UNDO, (StoreRecord(replace(record, intent=None)),), can_undo=True)
    if not isinstance(change, SplitIntent | MergeIntent):
        raise PreconditionFailed("There is no change that can be taken back")
    if is_current(record.layout, change) and _sealed(change, seen):
        raise PreconditionFailed(f"The {describe(change)} can only go forward: a parent is sealed")
    return _undo(record, change, seen)


def decide_preparation(
    record: ScalableTopicMetadata,
    seen: SegmentsSeen,
    subscriptions: Set[str],
    properties: SubscriptionProperties = MappingProxyType({}),
    *,
    is_held: bool,
) -> Step | None:
    """The next step before a regular topic is scalable, or None while its writers have to be held
    back: only then are `subscriptions` all that there are, and `record` may be published.
    """
    children = tuple(segment.ref for segment in record.layout.active)
    if step := _creation(children, seen, subscriptions, properties, can_undo=True):
        return step
    return Step(Phase.PUBLISH, (StoreRecord(record),), can_undo=False) if is_held else None


def decide_withdrawal(
    preparation: Preparation, record: ScalableTopicMetadata | None, seen: SegmentsSeen
) -> Step:
    """Take back what was prepared, unless it was published: then `record` has it."""
    if record is None and (removal := _removal(preparation.children, seen)):
        return Step(Phase.UNDO, removal.actions, can_undo=True)
    return Step(Phase.FORGET, (DeleteRecord(),), can_undo=False)


def _decide_change(
    record: ScalableTopicMetadata,
    change: SplitIntent | MergeIntent,
    seen: SegmentsSeen,
    subscriptions: Set[str],
    *,
    now_ms: int,
) -> Step:
    parents = [record.layout.get(number).ref for number in change.parents]
    wanted = set(subscriptions)
    there = [seen[parent.id] for parent in parents if parent.id in seen]
    for parent in there:
        wanted |= parent.cursors
    known = _properties(there)
    sealed = _sealed(change, seen)
    missing = tuple(
        CreateSegment(each, _names(wanted), known)
        for each in change.children
        if each.id not in seen
    )
    lacking = tuple(
        AddCursors(each, _names(lack), properties=_only(known, lack))
        for each in change.children
        if each.id in seen and (lack := wanted - seen[each.id].cursors)
    )
    if missing or (lacking and not sealed):
        return Step(Phase.CREATE, missing + lacking, can_undo=not sealed)
    if unsealed := tuple(SealSegment(each) for each in parents if each.id not in sealed):
        return Step(Phase.SEAL, unsealed, can_undo=not sealed)
    if lacking:
        return Step(Phase.CARRY, lacking, can_undo=False)
    after = apply_intent(record, change, now_ms=now_ms)
    return Step(Phase.PUBLISH, (StoreRecord(after),), can_undo=False)


def _decide_migration(
    record: ScalableTopicMetadata,
    parents: tuple[SegmentRef, ...],
    seen: SegmentsSeen,
    subscriptions: Set[str],
) -> Step:
    """The regular topics take no more writes, so there is no hurry, and no way back.

    A partition that was never made holds nothing and stays so. Where a subscription had no cursor
    it is owed nothing, but without one there it would wait for ever.
    """
    children = [each.ref for each in _migrated_children(record, parents)]
    there = [each for each in parents if each.id in seen]
    old = {each.id for each in there}
    wanted = set(subscriptions).union(*(seen[each.id].cursors for each in there))
    known = _properties(seen[each.id] for each in there)
    if missing := [
        CreateSegment(each, _names(wanted), known) for each in children if each.id not in seen
    ]:
        return Step(Phase.CREATE, tuple(missing), can_undo=False)
    if unsealed := [SealSegment(each) for each in there if not seen[each.id].is_sealed]:
        return Step(Phase.SEAL, tuple(unsealed), can_undo=False)
    lacking = [
        AddCursors(each, _names(lack), at_end=each.id in old, properties=_only(known, lack))
        for each in (*children, *there)
        if (lack := wanted - seen[each.id].cursors)
    ]
    if lacking:
        return Step(Phase.CARRY, tuple(lacking), can_undo=False)
    return _clear(record)


def _migrated_children(
    record: ScalableTopicMetadata, parents: tuple[SegmentRef, ...]
) -> tuple[Segment, ...]:
    old = {each.id for each in parents}
    return tuple(each for each in record.layout.segments if not old.isdisjoint(each.parents))


def _sealed(change: SplitIntent | MergeIntent, seen: SegmentsSeen) -> frozenset[SegmentId]:
    return frozenset(each for each in change.parents if each in seen and seen[each].is_sealed)


def _undo(
    record: ScalableTopicMetadata, change: SplitIntent | MergeIntent, seen: SegmentsSeen
) -> Step:
    """Children that no client was sent to are empty, so they can go."""
    unknown = (each for each in change.children if each.id not in record.layout.by_id)
    removal = _removal(unknown, seen)
    actions = removal.actions if removal else (StoreRecord(replace(record, intent=None)),)
    return Step(Phase.UNDO, actions, can_undo=True)


def _removal(segments: Iterable[SegmentRef], seen: SegmentsSeen) -> Step | None:
    actions = tuple(RemoveSegment(each) for each in segments if each.id in seen)
    return Step(Phase.REMOVE, actions, can_undo=False) if actions else None


def _creation(
    segments: Iterable[SegmentRef],
    seen: SegmentsSeen,
    subscriptions: Set[str],
    known: SubscriptionProperties = MappingProxyType({}),
    *,
    can_undo: bool,
) -> Step | None:
    """They are empty: no client is let in before the change has ended."""
    missing = [
        CreateSegment(each, _names(subscriptions), _only(known, subscriptions))
        for each in segments
        if each.id not in seen
    ]
    lacking = [
        AddCursors(each, _names(lack), properties=_only(known, lack))
        for each in segments
        if each.id in seen and (lack := subscriptions - seen[each.id].cursors)
    ]
    actions: tuple[Action, ...] = (*missing, *lacking)
    return Step(Phase.CREATE, actions, can_undo) if actions else None


def _clear(record: ScalableTopicMetadata) -> Step:
    return Step(Phase.CLEAR, (StoreRecord(replace(record, intent=None)),), can_undo=False)


def _properties(seen: Iterable[SegmentSeen]) -> SubscriptionProperties:
    return {name: own for each in seen for name, own in each.properties.items()}


def _only(known: SubscriptionProperties, names: Set[str]) -> SubscriptionProperties:
    return {name: own for name, own in known.items() if name in names}


def _names(subscriptions: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(subscriptions))
