from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from magnetar.rules.dispatch.selector import SLOTS, HalvingSelector, RingSelector

SELECTORS = st.sampled_from([RingSelector[int](10), HalvingSelector[int]()])
CHANGES = st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=25)
PROBES = st.lists(st.integers(1, SLOTS - 1), min_size=1, max_size=20)


@given(SELECTORS, CHANGES, PROBES)
def test_every_slot_has_one_living_owner_and_the_assignments_say_so(
    selector: RingSelector[int] | HalvingSelector[int],
    changes: list[tuple[bool, int]],
    probes: list[int],
) -> None:
    living: set[int] = set()
    for joins, consumer in changes:
        if joins and consumer not in living:
            selector = selector.add(consumer, name=f"name-{consumer % 3}")
            living.add(consumer)
        elif not joins:
            selector = selector.remove(consumer)
            living.discard(consumer)
    assignments = selector.assignments()
    for previous, following in pairwise(assignments):
        assert following.range.first == previous.range.last + 1
    for slot in probes:
        owner = selector.owner(slot)
        assert (owner in living) if living else (owner is None)
        owners = [one.owner for one in assignments if one.range.first <= slot <= one.range.last]
        assert owners == ([owner] if living else [])


@given(st.integers(1, 6), PROBES)
def test_on_a_ring_a_newcomer_only_takes_and_a_leaver_only_gives(
    consumers: int, probes: list[int]
) -> None:
    ring = RingSelector[int]()
    for consumer in range(consumers):
        ring = ring.add(consumer, name=f"c{consumer}")
    grown = ring.add(consumers, name="newcomer")
    for slot in probes:
        assert grown.owner(slot) in (ring.owner(slot), consumers)
        assert grown.remove(consumers).owner(slot) == ring.owner(slot)
