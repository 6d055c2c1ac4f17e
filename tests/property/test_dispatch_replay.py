"""The queues of a dispatcher against a set and a list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.rules.dispatch.replay import DelayIndex, ReplayQueue, split_consecutive

positions = st.tuples(st.integers(0, 3), st.integers(0, 12))


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "first"]), positions), max_size=60))
def test_a_replay_queue_is_a_set_that_gives_its_lowest_first(
    steps: list[tuple[str, tuple[int, int]]],
) -> None:
    queue, model = ReplayQueue(), set[tuple[int, int]]()
    for step, position in steps:
        if step == "add":
            queue.add(position)
            model.add(position)
        elif step == "discard":
            queue.discard(position)
            model.discard(position)
        else:
            assert queue.first(position[1]) == sorted(model)[: position[1]]
        assert len(queue) == len(model)
        assert list(queue) == sorted(model)
        assert (position in queue) == (position in model)


@given(st.sets(positions))
def test_consecutive_positions_are_joined_and_none_is_lost(found: set[tuple[int, int]]) -> None:
    runs = split_consecutive(sorted(found))
    assert [(ledger, first + i) for ledger, first, count in runs for i in range(count)] == sorted(
        found
    )
    ends = {(ledger, first + count) for ledger, first, count in runs}
    assert not ends & {(ledger, first) for ledger, first, _ in runs}


@given(
    st.lists(st.tuples(st.integers(0, 5_000), positions)),
    st.sets(positions),
    st.lists(st.integers(0, 6_000)),
)
def test_what_is_delayed_comes_when_it_is_due_and_once(
    delayed: list[tuple[int, tuple[int, int]]],
    acknowledged: set[tuple[int, int]],
    times: list[int],
) -> None:
    index = DelayIndex()
    known: dict[tuple[int, int], int] = {}
    for due_ms, position in delayed:
        index.add(due_ms, position)
        known.setdefault(position, due_ms)
    for position in acknowledged:
        assert index.discard(position) == (known.pop(position, None) is not None)
    waiting = sorted((due_ms, position) for position, due_ms in known.items())
    for now_ms in sorted(times):
        due = [position for due_ms, position in waiting if due_ms <= now_ms]
        asked: list[tuple[int, int]] = []
        while (next_ms := index.next_due_ms()) is not None and next_ms <= now_ms:
            some = index.take_due(now_ms, 2)
            assert len(some) <= 2
            asked += some
        assert asked == due
        waiting = waiting[len(due) :]
        next_ms = index.next_due_ms()
        assert next_ms is None or not waiting or now_ms < next_ms <= waiting[0][0]
        assert len(index) == len(waiting)
        assert index.within((1, 3), (2, 8)) == sorted(
            p for _, p in waiting if (1, 3) <= p <= (2, 8)
        )
