"""Random histories of splits, merges and prunes: the laws of a layout, and of changing one.

The world below is what a controller acts upon: the topic's record, the segments' topics, and the
subscriptions on them. It dies after any action and a new controller takes over.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import assert_never

from hypothesis import assume, given
from hypothesis import strategies as st

from magnetar.errors import BrokerError
from magnetar.model.layout import Layout
from magnetar.model.scalable import (
    HealIntent,
    Intent,
    PruneIntent,
    ScalableTopicMetadata,
    WipeIntent,
)
from magnetar.model.segment import RING, SegmentId
from magnetar.rules.layout import begin, plan_delete, plan_merge, plan_repair, plan_split
from magnetar.rules.phase import (
    Action,
    AddCursors,
    CreateSegment,
    DeleteRecord,
    Phase,
    RemoveSegment,
    SealSegment,
    SegmentSeen,
    StoreRecord,
    decide_step,
    decide_undo,
    segments_to_see,
)
from magnetar.wire.scalable import decode_topic_record, encode_topic_record

CHANGES = st.lists(
    st.tuples(st.sampled_from(["split", "split at", "merge", "prune"]), st.integers(0, RING - 1)),
    max_size=25,
)
COUNTS = st.sampled_from([1, 2, 3, 5, 64])


def prunable(layout: Layout) -> list[SegmentId]:
    return [segment.id for segment in layout.sealed if not segment.parents]


def change(layout: Layout, verb: str, place: int, now_ms: int) -> Layout:
    """The layout after a change somewhere; the same layout when it is not possible there."""
    segment = layout.find_active(place)
    index = layout.active.index(segment)
    try:
        match verb:
            case "split":
                return layout.split(segment.id, now_ms=now_ms)
            case "split at":
                return layout.split(segment.id, now_ms=now_ms, at=place)
            case "merge":
                following = layout.active[(index + 1) % len(layout.active)]
                return layout.merge(segment.id, following.id, now_ms=now_ms)
            case _:
                candidates = prunable(layout)
                return layout.prune(candidates[place % len(candidates) :] if candidates else [])
    except BrokerError:
        return layout


@given(COUNTS, CHANGES, st.integers(0, RING - 1))
def test_the_laws_of_a_layout(count: int, changes: list[tuple[str, int]], probe: int) -> None:
    layout = Layout.initial(count, now_ms=0, bucket_budget=4)
    used: set[SegmentId] = {segment.id for segment in layout.segments}
    for now_ms, (verb, place) in enumerate(changes, start=1):
        after = change(layout, verb, place, now_ms)
        new = {segment.id for segment in after.segments} - set(layout.by_id)
        assert new.isdisjoint(used)
        assert after is layout or after.epoch > layout.epoch or verb == "prune"
        assert after.next_id >= layout.next_id
        used |= new
        layout = after
        for segment in layout.segments:
            line = [layout.by_id[each] for each in (segment.id, *layout.ancestors(segment.id))]
            merges = sum(len(each.parents) > 1 for each in line)
            assert layout.merge_depth(segment.id) == max(merges, segment.merges)
        serving = [each.id for each in layout.active if probe in each.range]
        assert serving == [layout.find_active(probe).id]
        assert sum(segment.range.size for segment in layout.active) == RING
    for segment in layout.segments:
        line = layout.ancestors(segment.id)
        assert len(line) == len(set(line))
        assert all(each < segment.id for each in line)
        assert sum(one.bucket_count for one in layout.active) >= len(layout.active)
    record = ScalableTopicMetadata(layout)
    assert decode_topic_record(encode_topic_record(record)) == record


@dataclass
class World:
    """A record as bytes and topics as they are; each action is done twice, as it may be."""

    stored: bytes | None
    topics: dict[SegmentId, SegmentSeen] = field(default_factory=dict)
    subscriptions: set[str] = field(default_factory=lambda: {"registered"})

    @property
    def record(self) -> ScalableTopicMetadata | None:
        return None if self.stored is None else decode_topic_record(self.stored)

    def act(self, action: Action) -> None:
        for _ in range(2):
            self._act(action)

    def _act(self, action: Action) -> None:
        match action:
            case CreateSegment(ref, names) | AddCursors(ref, names):
                topic = self.topics.get(ref.id, SegmentSeen())
                self.topics[ref.id] = replace(topic, cursors=topic.cursors | set(names))
            case SealSegment(ref):
                topic = self.topics.get(ref.id, SegmentSeen())
                self.topics[ref.id] = replace(topic, is_sealed=True)
            case RemoveSegment(ref):
                self.topics.pop(ref.id, None)
            case StoreRecord(record):
                self.stored = encode_topic_record(record)
            case DeleteRecord():
                self.stored = None
            case _:
                assert_never(action)

    def step(self) -> tuple[Action, ...]:
        record = self.record
        if record is None:
            return ()
        sight = {
            ref.id: self.topics[ref.id] for ref in segments_to_see(record) if ref.id in self.topics
        }
        decided = decide_step(record, sight, self.subscriptions, now_ms=1000)
        return () if decided is None else decided.actions

    def finish(self) -> None:
        while actions := self.step():
            for action in actions:
                self.act(action)


def build(changes: list[tuple[str, int]], late: bool) -> World:
    layout = Layout.initial(2, now_ms=0)
    for now_ms, (verb, place) in enumerate(changes, start=1):
        layout = change(layout, verb, place, now_ms)
    topics = {
        segment.id: SegmentSeen(segment.is_sealed, frozenset({f"only on {segment.id}"}))
        for segment in layout.segments
    }
    if late:  # nobody has written to the first active segment yet: it has no topic
        del topics[layout.active[0].id]
    return World(encode_topic_record(ScalableTopicMetadata(layout)), topics)


def plan(record: ScalableTopicMetadata, verb: str, place: int) -> Intent | None:
    layout = record.layout
    segment = layout.find_active(place)
    try:
        match verb:
            case "split":
                return plan_split(layout, segment.id, now_ms=500)
            case "merge":
                index = layout.active.index(segment)
                following = layout.active[(index + 1) % len(layout.active)]
                return plan_merge(layout, segment.id, following.id, now_ms=500)
            case "prune":
                refs = tuple(layout.get(number).ref for number in prunable(layout))
                return PruneIntent(refs, 500) if refs else None
            case "wipe":
                return WipeIntent((segment.ref,), 500)
            case "heal":
                return HealIntent((segment.ref,), 500)
            case _:
                return plan_delete(record, now_ms=500)
    except BrokerError:
        return None


PLANS = st.sampled_from(["split", "merge", "prune", "delete", "wipe", "heal"])


@given(CHANGES, PLANS, st.integers(0, RING - 1), st.booleans())
def test_a_change_stopped_after_any_action_ends_the_same(
    changes: list[tuple[str, int]], verb: str, place: int, late: bool
) -> None:
    world = build(changes, late)
    assert world.record is not None
    intent = plan(world.record, verb, place)
    assume(intent is not None)
    assert intent is not None
    world.stored = encode_topic_record(begin(world.record, intent))
    undisturbed = replace(world, topics=dict(world.topics))
    undisturbed.finish()
    stopped = replace(world, topics=dict(world.topics))
    while actions := stopped.step():
        stopped.act(actions[0])  # and then it dies; whoever comes next looks anew
        resumed = replace(stopped, topics=dict(stopped.topics))
        resumed.finish()
        assert resumed == undisturbed
        for action in actions[1:]:  # or its siblings were done first
            alone = replace(stopped, topics=dict(stopped.topics))
            alone.act(action)
            alone.finish()
            assert alone == undisturbed
    assert stopped == undisturbed
    check_finished(undisturbed, verb, {one.id for one in segments_to_see(begun(world))})


def begun(world: World) -> ScalableTopicMetadata:
    assert world.record is not None
    return world.record


def check_finished(world: World, verb: str, touched: set[SegmentId]) -> None:
    record = world.record
    if verb == "delete":
        assert record is None and not world.topics
        return
    assert record is not None and record.intent is None
    if verb == "wipe":
        assert touched.isdisjoint(world.topics) and touched <= record.layout.by_id.keys()
        return
    if verb == "heal":
        assert all(world.subscriptions <= world.topics[each].cursors for each in touched)
        return
    for segment in record.layout.segments:
        if segment.id not in touched:
            continue
        topic = world.topics[segment.id]
        assert topic.is_sealed is segment.is_sealed
        for parent in segment.parents if segment.is_active else ():
            assert world.topics[parent].cursors | world.subscriptions <= topic.cursors
    if verb == "prune":
        assert touched.isdisjoint(world.topics)
        assert touched.isdisjoint(record.layout.by_id)


@given(CHANGES, st.sampled_from(["split", "merge"]), st.integers(0, RING - 1), st.integers(0, 9))
def test_a_change_can_be_taken_back_without_a_trace_until_a_parent_is_sealed(
    changes: list[tuple[str, int]], verb: str, place: int, stop_after: int
) -> None:
    world = build(changes, late=False)
    before = replace(world, topics=dict(world.topics))
    intent = plan(begun(world), verb, place)
    assume(intent is not None)
    assert intent is not None
    world.stored = encode_topic_record(begin(begun(world), intent))
    for _ in range(stop_after):
        decided = decide_step(begun(world), world.topics, world.subscriptions, now_ms=1000)
        assert decided is not None and decided.can_undo
        if decided.phase is Phase.SEAL:
            break
        world.act(decided.actions[0])
    while begun(world).intent is not None:
        for action in decide_undo(begun(world), world.topics).actions:
            world.act(action)
    assert world == before


@given(CHANGES, st.sets(st.integers(0, RING - 1), max_size=4))
def test_a_ring_with_terminated_segments_becomes_writable_again(
    changes: list[tuple[str, int]], places: set[int]
) -> None:
    world = build(changes, late=False)
    layout = begun(world).layout
    for place in places:
        world.act(SealSegment(layout.find_active(place).ref))
    while True:
        terminated = {number for number, topic in world.topics.items() if topic.is_sealed}
        intent = plan_repair(begun(world).layout, terminated, now_ms=500)
        if intent is None:
            break
        world.stored = encode_topic_record(begin(begun(world), intent))
        world.finish()
    assert not any(world.topics[each.id].is_sealed for each in begun(world).layout.active)
