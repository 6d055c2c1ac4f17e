"""Laws of assignment: order is never at risk, nothing ready is left lying, few segments move."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import BrokerError
from magnetar.model.layout import Layout
from magnetar.model.scalable import ConsumerKind
from magnetar.model.segment import RING, SegmentId
from magnetar.rules.assign import Assignment, GroupMember, changed_members, decide_assignment

STREAM, CHECKPOINT = ConsumerKind.STREAM, ConsumerKind.CHECKPOINT
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["join", "leave", "split", "merge", "drain", "seek", "prune"]),
        st.integers(0, RING - 1),
    ),
    max_size=30,
)


class Subscription:
    """A topic that changes under a subscription whose consumers come and go."""

    def __init__(self, *, sharing: bool) -> None:
        self.layout = Layout.initial(2, now_ms=0, bucket_budget=8)
        self.members: set[str] = set()
        self.drained: set[SegmentId] = set()
        self.sharing = sharing

    def apply(self, event: str, place: int) -> None:
        sealed = [segment.id for segment in self.layout.sealed]
        active = self.layout.find_active(place)
        match event:
            case "join":
                self.members.add(f"c{place % 5}")
            case "leave":
                self.members.discard(f"c{place % 5}")
            case "drain" if sealed:
                self.drained.add(sealed[place % len(sealed)])
            case "seek" if sealed:
                self.drained.discard(sealed[place % len(sealed)])
            case "split" | "merge" | "prune":
                self._change(event, active.id)

    def _change(self, event: str, active: SegmentId) -> None:
        try:
            if event == "split":
                self.layout = self.layout.split(active, now_ms=1)
            elif event == "merge":
                index = [each.id for each in self.layout.active].index(active)
                other = self.layout.active[index - 1].id
                self.layout = self.layout.merge(other, active, now_ms=1)
            else:
                gone = [s.id for s in self.layout.sealed if not s.parents and s.id in self.drained]
                self.layout = self.layout.prune(gone)
                self.drained -= set(gone)
        except BrokerError:
            return

    def assign(self, previous: Assignment, kind: ConsumerKind) -> Assignment:
        members = [GroupMember(name, self.sharing) for name in self.members]
        return decide_assignment(self.layout, members, previous, kind=kind, drained=self.drained)


@given(EVENTS, st.booleans())
def test_a_stream_is_read_in_order_and_whole(events: list[tuple[str, int]], sharing: bool) -> None:
    subscription = Subscription(sharing=sharing)
    assignment = Assignment()
    for event, place in events:
        subscription.apply(event, place)
        before, assignment = assignment, subscription.assign(assignment, STREAM)
        layout, drained = subscription.layout, subscription.drained
        assert assignment.epoch == layout.epoch
        if not subscription.members:
            assert not assignment.owners
            continue
        for segment in layout.segments:
            ready = drained.issuperset(layout.ancestors(segment.id))
            expected = ready and segment.id not in drained
            assert (segment.id in assignment.owners) is expected
        for number, names in assignment.owners.items():
            assert names and subscription.members.issuperset(names)
            assert len(names) == len(set(names)) <= layout.get(number).bucket_count
            assert sharing or len(names) == 1
        assert subscription.assign(assignment, STREAM) == assignment
        assert not changed_members(assignment, subscription.assign(assignment, STREAM))
        if event in ("leave", "join"):
            check_only_consumers_changed(before, assignment, subscription.members)


def check_only_consumers_changed(before: Assignment, after: Assignment, members: set[str]) -> None:
    """Survivors of a leave keep all they had; a join takes only for the newcomer."""
    newcomers = members - {name for names in before.owners.values() for name in names}
    for number, names in before.owners.items():
        gained = set(after.owners.get(number, ())) - set(names)
        if members & set(names):
            assert gained <= newcomers


@given(EVENTS)
def test_hands_are_level(events: list[tuple[str, int]]) -> None:
    subscription = Subscription(sharing=False)
    stream, group = Assignment(), Assignment()
    for event, place in events:
        subscription.apply(event, place)
        stream = subscription.assign(stream, STREAM)
        group = subscription.assign(group, CHECKPOINT)
        if not subscription.members:
            continue
        for assignment in (stream, group):
            sizes = [len(assignment.segments_of(name)) for name in subscription.members]
            assert max(sizes) - min(sizes) <= 1
        active = {segment.id for segment in subscription.layout.active}
        shares = [len(active & set(group.segments_of(name))) for name in subscription.members]
        assert max(shares) - min(shares) <= 1
        assert group.owners.keys() == set(subscription.layout.by_id)


def count_moves(before: Sequence[str], after: Sequence[str], names: Sequence[str]) -> int:
    return sum(1 for old, new in zip(before, after, strict=True) if old in names and old != new)


@given(
    st.integers(1, 6),
    st.lists(st.sampled_from(["a", "b", "c", "gone"]), min_size=6, max_size=6),
    st.sets(st.sampled_from(["a", "b", "c"]), min_size=1),
)
def test_no_level_assignment_moves_fewer_segments(
    count: int, holders: list[str], names: set[str]
) -> None:
    layout = Layout.initial(count, now_ms=0)
    before = holders[:count]
    previous = Assignment(0, {SegmentId(index): (name,) for index, name in enumerate(before)})
    members = [GroupMember(name) for name in sorted(names)]
    decided = decide_assignment(layout, members, previous, kind=STREAM)
    after = [decided.owners[SegmentId(index)][0] for index in range(count)]
    present = sorted(names)
    fewest = min(
        count_moves(before, choice, present)
        for choice in product(present, repeat=count)
        if max(map(choice.count, present)) - min(map(choice.count, present)) <= 1
    )
    assert count_moves(before, after, present) == fewest
