"""What is read next, decided without Spark and without a broker."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.checkpoint import Checkpoint
from magnetar.spark.admission import Limits, admit, is_too_little
from magnetar.spark.bound import normalize_offset, plan_slices, resolve_bound
from magnetar.spark.offset import (
    BEFORE_ALL,
    InvalidOffset,
    Offset,
    Place,
    TopicOffset,
    format_offset,
    parse_offset,
    parse_place,
)
from magnetar.spark.option import Bound, Edge
from magnetar.spark.plan import (
    Gap,
    OffsetForeign,
    Outlook,
    SegmentView,
    TopicView,
    apply_reads,
    check_same_topic,
    explain_loss,
    find_gap,
    plan_outlook,
    start_latest,
)
from magnetar.spark.slice import KeyOrder, Slice, cut_slice, plan_tasks
from magnetar.spark.stretch import LedgerSize, Span, normalize_place, spans_between

NAME = "public/default/t"


def segment(
    number: int,
    *ledgers: tuple[int, int],
    parents: tuple[int, ...] = (),
    sealed: bool = False,
    batch: float = 1.0,
) -> SegmentView:
    sizes = tuple(LedgerSize(ledger, entries, entries * 100) for ledger, entries in ledgers)
    return SegmentView(number, f"segment-{number}", sizes, parents, sealed, batch)


def topic(*segments: SegmentView, next: int | None = None) -> TopicView:
    following = max([each.id + 1 for each in segments], default=0) if next is None else next
    return TopicView(NAME, f"topic://{NAME}", segments, following)


def read_all(read: TopicOffset, view: TopicView, limits: Limits | None = None) -> TopicOffset:
    outlook = plan_outlook(read, view, None)
    ends = admit(outlook.pending, limits or Limits())
    numbers = [each.segment.id for each in outlook.pending]
    return apply_reads(read, view, outlook, dict(zip(numbers, ends, strict=True)))


SPLIT = topic(
    segment(0, (1, 10), sealed=True),
    segment(1, (2, 5), parents=(0,)),
    segment(2, (3, 7), parents=(0,)),
)


def test_a_child_is_planned_only_after_the_batch_that_ends_its_parents() -> None:
    first = read_all(TopicOffset(), SPLIT)
    assert first.places == {0: Place(1, 9)} and first.ended == {0}
    second = read_all(first, SPLIT)
    assert second.places == {0: Place(1, 9), 1: Place(2, 4), 2: Place(3, 6)}


def test_a_child_of_a_merge_waits_for_both_parents() -> None:
    view = topic(
        segment(0, (1, 10), sealed=True),
        segment(1, (2, 100), sealed=True),
        segment(2, (3, 7), parents=(0, 1)),
    )
    read = read_all(TopicOffset(), view, Limits(messages_max=50))
    assert 2 not in read.places and 1 not in read.ended
    while 1 not in read.ended:
        assert 2 not in read.places
        read = read_all(read, view, Limits(messages_max=50))
    assert read_all(read, view).places[2] == Place(3, 6)


def test_an_empty_sealed_segment_ends_without_being_read() -> None:
    view = topic(segment(0, sealed=True), segment(1, (2, 5), parents=(0,)))
    assert read_all(TopicOffset(), view).ended == {0}


def test_a_sealed_segment_ends_with_the_transactions_that_hide_its_last_entries() -> None:
    parent = segment(0, (1, 10), sealed=True)
    pinned = replace(parent, visible=Place(1, 3), is_pinned=True)
    child = segment(1, (2, 5), parents=(0,))
    while_open, after = topic(pinned, child), topic(parent, child)
    read = read_all(read_all(TopicOffset(), while_open), while_open)
    assert read.places == {0: Place(1, 3)} and not read.ended
    assert not start_latest(while_open).ended
    assert normalize_offset(TopicOffset({0: Place(1, 3)}), while_open).ended == frozenset()
    read = read_all(read, after)
    assert (read.places, read.ended) == ({0: Place(1, 9)}, {0})
    assert read_all(read, after).places[1] == Place(2, 4)
    empty = topic(replace(pinned, visible=BEFORE_ALL), child)
    assert read_all(TopicOffset(), empty) == TopicOffset({}, frozenset(), 2)


def test_a_grandchild_waits_for_the_whole_line() -> None:
    view = topic(
        segment(0, (1, 1), sealed=True),
        segment(1, (2, 1), parents=(0,), sealed=True),
        segment(2, (3, 1), parents=(1,)),
    )
    seen = []
    read = TopicOffset()
    for _ in range(3):
        read = read_all(read, view)
        seen.append(sorted(read.places))
    assert seen == [[0], [0, 1], [0, 1, 2]]


def test_what_is_pruned_after_it_was_read_is_not_missed() -> None:
    read = read_all(read_all(TopicOffset(), SPLIT), SPLIT)
    pruned = topic(segment(1, (2, 8)), segment(2, (3, 7)), next=3)
    outlook = plan_outlook(read, pruned, None)
    assert not outlook.gaps
    after = read_all(read, pruned)
    assert after.ended == frozenset() and after.places == {1: Place(2, 7), 2: Place(3, 6)}


def test_what_is_pruned_before_it_was_read_is_a_gap() -> None:
    read = read_all(TopicOffset(), topic(segment(0, (1, 10))))
    grown = topic(segment(1, (2, 5)), segment(2, (3, 7)), next=3)
    assert plan_outlook(read, grown, None).gaps == (Gap(NAME, 0, Place(1, 9), None),)


def test_a_segment_that_came_and_went_unseen_is_a_gap() -> None:
    read = read_all(TopicOffset(), topic(segment(0, (1, 10)), next=1))
    read = TopicOffset(read.places, frozenset({0}), read.next)
    later = topic(segment(2, (9, 1)), next=3)
    assert plan_outlook(read, later, None).gaps == (Gap(NAME, 1, BEFORE_ALL, None),)


def test_trimmed_ledgers_are_a_gap_that_says_from_where_to_where() -> None:
    view = topic(segment(0, (5, 10), (6, 2)))
    gap = find_gap(view, view.segments[0], Place(3, 4))
    assert gap == Gap(NAME, 0, Place(3, 4), Place(5, 0))
    assert "after 3:4 and before 5:0" in explain_loss([gap])
    outlook = plan_outlook(TopicOffset({0: Place(3, 4)}, frozenset(), 1), view, None)
    assert outlook.pending[0].spans == (Span(5, 0, 9), Span(6, 0, 1))


def test_a_segment_that_waits_for_its_turn_is_missed_when_it_is_trimmed() -> None:
    """A limit of one message leaves nothing for the second."""
    view = topic(segment(0, (1, 10)), segment(1, (2, 10)))
    read = read_all(TopicOffset(), view, Limits(messages_max=1))
    assert sorted(read.places.values()) in ([(1, -1, -1), (2, 0, -1)], [(1, 0, -1), (2, -1, -1)])
    trimmed = topic(segment(0, (5, 3)), segment(1, (6, 3)))
    assert {gap.segment for gap in plan_outlook(read, trimmed, None).gaps} == {0, 1}


@pytest.mark.parametrize(
    ("after", "first", "last", "is_lost"),
    [
        (Place(3, 4), Place(3, 5), Place(3, 9), True),
        (Place(3, 4), Place(3, 1), Place(3, 5), True),
        (Place(3, 4), Place(3, 1), Place(3, 4), False),  # read before the hold was moved
        (Place(3, 4), Place(5, 0), Place(5, 3), False),  # still there
        (Place(3, 4), Place(4, 0), Place(5, 3), True),
        (Place(3, 4, 1), Place(3, 4), Place(3, 4), True),  # the rest of a batch
        (BEFORE_ALL, Place(3, 0), Place(3, 9), True),
    ],
)
def test_under_a_hold_that_was_moved_by_others_what_was_not_read_is_a_gap(
    after: Place, first: Place, last: Place, is_lost: bool
) -> None:
    held = replace(segment(0, (5, 10)), cursors=frozenset({"h"}), passed=(first, last))
    expected = Gap(NAME, 0, after, Place(5, 0)) if is_lost else None
    assert find_gap(topic(held), held, after, hold="h") == expected


def test_behind_a_hold_that_was_moved_to_the_end_reading_goes_on_there() -> None:
    held = replace(segment(0), cursors=frozenset({"h"}), passed=(Place(3, 5), Place(4, 2)))
    view = topic(held)
    read = TopicOffset({0: Place(3, 4)}, frozenset(), 1)
    outlook = plan_outlook(read, view, None, hold="h")
    assert outlook.gaps == (Gap(NAME, 0, Place(3, 4), None),)
    (pending,) = outlook.pending
    after = apply_reads(read, view, outlook, {0: pending.through})
    assert after.places == {0: Place(4, 2)}
    assert not plan_outlook(after, view, None, hold="h").gaps


def test_under_a_hold_a_trimmed_ledger_was_read_to_its_end() -> None:
    held = replace(segment(0, (5, 10)), cursors=frozenset({"h"}))
    view = topic(held)
    assert find_gap(view, held, Place(3, 4), hold="h") is None
    assert find_gap(view, held, Place(3, 4), hold="other") is not None


def test_the_end_of_a_full_ledger_is_told_by_the_next_one() -> None:
    ledgers = (LedgerSize(1, 10), LedgerSize(2, 0), LedgerSize(3, 4))
    assert normalize_place(ledgers, Place(1, 9)) == Place(3, -1)
    assert normalize_place(ledgers, Place(1, 8)) == Place(1, 8)
    trimmed = topic(segment(0, (3, 4)))
    assert find_gap(trimmed, trimmed.segments[0], Place(3, -1)) is None


def test_an_offset_beyond_the_end_belongs_to_another_topic() -> None:
    view = topic(segment(0, (5, 10)))
    with pytest.raises(OffsetForeign, match="another topic"):
        find_gap(view, view.segments[0], Place(7, 1))


def test_a_topic_made_anew_is_a_gap_and_is_read_from_its_start() -> None:
    read = read_all(read_all(TopicOffset(), SPLIT), SPLIT)
    anew = topic(segment(0, (20, 3)))
    outlook = plan_outlook(read, anew, None)
    assert {gap.segment for gap in outlook.gaps} == {0, 1, 2}
    assert outlook.pending[0].spans == (Span(20, 0, 2),)
    assert read_all(read, anew).places == {0: Place(20, 2)}


def test_a_checkpoint_of_another_topic_is_refused_with_both_names() -> None:
    with pytest.raises(OffsetForeign, match=r"public/default/a.*public/default/b"):
        check_same_topic(Offset({"public/default/a": TopicOffset()}), ["public/default/b"])
    check_same_topic(Offset({"public/default/a": TopicOffset()}), ["public/default/a", "x/y/z"])


def test_a_goal_bounds_what_is_read() -> None:
    goal = topic(segment(0, (1, 4)))
    grown = topic(segment(0, (1, 10)), segment(1, (2, 1)))
    outlook = plan_outlook(TopicOffset(), grown, goal)
    assert [each.through for each in outlook.pending] == [Place(1, 3)]


# ---------------------------------------------------------------------- offsets


def test_offsets_are_readable_and_round_trip() -> None:
    offset = Offset(
        {NAME: TopicOffset({0: Place(12, 99), 3: Place(4, 1, 2)}, frozenset({0}), 4, {3: 70})}, "h"
    )
    text = json.dumps(format_offset(offset))
    assert '"positions": {"0": "12:99:-1:-1", "3": "4:1:-1:2"}' in text
    assert parse_offset(json.loads(text)) == offset


def test_the_part_of_one_topic_is_a_checkpoint_of_the_sdk() -> None:
    document = format_offset(Offset({NAME: TopicOffset({0: Place(12, 99)}, frozenset(), 1)}))
    checkpoint = Checkpoint.from_json(json.dumps(document[NAME]))
    assert [str(each) for each in checkpoint.positions.values()] == ["12:99:-1:-1"]


@pytest.mark.parametrize(
    ("text", "place"),
    [("1:2", Place(1, 2)), ("1:2:-1:3/9", Place(1, 2, 3)), ("1:2:0:8/9", Place(1, 2))],
)
def test_a_position_is_parsed_as_any_client_writes_it(text: str, place: Place) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize("stated", [{"a/b/c": 5}, {"a/b/c": {"positions": {"x": "1:2"}}}])
def test_what_is_no_offset_is_refused(stated: dict[str, object]) -> None:
    with pytest.raises(InvalidOffset):
        parse_offset(stated)


def test_a_stated_end_of_a_sealed_segment_marks_it_ended() -> None:
    latest = f"{2**63 - 1}:{2**63 - 1}"
    settled = normalize_offset(TopicOffset({0: parse_place(latest), 1: Place(2, 0)}), SPLIT)
    assert settled.ended == {0} and settled.places[1] == Place(2, 0)


def test_latest_is_after_everything() -> None:
    assert start_latest(SPLIT).ended == {0}
    assert not plan_slices(SPLIT, start_latest(SPLIT), start_latest(SPLIT))


def test_a_time_skips_what_was_sealed_before_it() -> None:
    end = resolve_bound(Bound(Edge.LATEST), SPLIT, lambda *_: BEFORE_ALL)
    start = resolve_bound(Bound(at_ms=50), SPLIT, lambda *_: Place(2, 1))
    assert [each.after for each in plan_slices(SPLIT, start, end) if each.segment == 1] == [
        Place(2, 1)
    ]


# ---------------------------------------------------------------------- admission


def outlook_of(*counts: int, batch: float = 1.0) -> Outlook:
    view = topic(*(segment(i, (i + 1, count), batch=batch) for i, count in enumerate(counts)))
    return plan_outlook(TopicOffset(), view, None)


@given(
    st.lists(st.integers(1, 500), min_size=1, max_size=8),
    st.integers(1, 2000),
    st.sampled_from([1.0, 10.0]),
)
def test_a_limit_holds_and_something_is_always_read(
    counts: list[int], most: int, batch: float
) -> None:
    pending = outlook_of(*counts, batch=batch).pending
    ends = admit(pending, Limits(messages_max=most))
    taken = [
        sum(span.count for span in spans_between(each.segment.ledgers, BEFORE_ALL, end))
        for each, end in zip(pending, ends, strict=True)
    ]
    assert sum(taken) * batch <= max(most, batch)
    assert sum(taken) >= 1


def test_bytes_limit_in_proportion() -> None:
    pending = outlook_of(100, 300).pending
    ends = admit(pending, Limits(bytes_max=4000))
    assert ends == [Place(1, 9), Place(2, 29)]


def test_a_small_segment_is_not_starved_by_a_large_one() -> None:
    ends = admit(outlook_of(1, 10_000).pending, Limits(messages_max=100))
    assert ends[0] == Place(1, 0)


def test_too_little_waits_but_not_for_ever() -> None:
    pending = outlook_of(5).pending
    limits = Limits(messages_min=10, delay_s_max=60.0)
    assert is_too_little(pending, limits, waited_s=59.0)
    assert not is_too_little(pending, limits, waited_s=60.0)
    assert not is_too_little(outlook_of(10).pending, limits, waited_s=0.0)


# ---------------------------------------------------------------------- tasks


def piece(number: int, entries: int, size: int) -> Slice:
    return Slice(
        "t",
        number,
        f"s{number}",
        BEFORE_ALL,
        Place(1, entries - 1),
        (Span(1, 0, entries - 1),),
        size,
    )


def test_many_small_segments_share_few_tasks() -> None:
    tasks = plan_tasks(
        [piece(i, 10, 1000) for i in range(100)],
        order=KeyOrder.SEGMENT,
        task_bytes=25_000,
        tasks_max=1000,
    )
    assert len(tasks) == 4 and sum(map(len, tasks)) == 100


def test_a_huge_segment_is_cut_only_when_order_is_not_asked_for() -> None:
    huge = piece(0, 1000, 1_000_000)
    kept = plan_tasks([huge], order=KeyOrder.SEGMENT, task_bytes=100_000, tasks_max=1000)
    assert kept == [(huge,)]
    cut = plan_tasks([huge], order=KeyOrder.NONE, task_bytes=100_000, tasks_max=1000)
    assert len(cut) == 10
    assert sorted((s.first, s.last) for (each,) in cut for s in each.spans)[0] == (0, 99)


@pytest.mark.parametrize(
    ("order", "least", "expected"),
    [(KeyOrder.SEGMENT, 2, 2), (KeyOrder.SEGMENT, 9, 4), (KeyOrder.NONE, 9, 9)],
)
def test_so_many_tasks_as_asked_for_share_the_segments(
    order: KeyOrder, least: int, expected: int
) -> None:
    """As far as there are segments, unless they may be cut."""
    pieces = [piece(number, 90, 9000) for number in range(4)]
    tasks = plan_tasks(pieces, order=order, task_bytes=1 << 20, tasks_max=1000, tasks_min=least)
    assert expected <= len(tasks) <= expected + 3
    assert sum(each.size for task in tasks for each in task) == 36_000


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 10**6)), min_size=1, max_size=12),
    st.integers(1, 10**6),
    st.sampled_from(list(KeyOrder)),
    st.integers(1, 9),
)
def test_tasks_have_every_entry_exactly_once_and_are_the_same_each_time(
    shapes: list[tuple[int, int]], task_bytes: int, order: KeyOrder, tasks_max: int
) -> None:
    slices = [piece(i, entries, size) for i, (entries, size) in enumerate(shapes)]
    tasks = plan_tasks(slices, order=order, task_bytes=task_bytes, tasks_max=tasks_max)
    again = plan_tasks(slices[::-1], order=order, task_bytes=task_bytes, tasks_max=tasks_max)
    assert tasks == again and len(tasks) <= tasks_max
    seen = sorted(
        (each.segment, entry)
        for task in tasks
        for each in task
        for span in each.spans
        for entry in range(span.first, span.last + 1)
    )
    assert seen == [(i, e) for i, (entries, _) in enumerate(shapes) for e in range(entries)]
    if order is KeyOrder.SEGMENT:
        assert sum(map(len, tasks)) == len(slices)


def test_a_cut_keeps_the_places_of_its_ends() -> None:
    whole = Slice("t", 0, "s", Place(1, 3, 2), Place(2, 5, 1), (Span(1, 3, 9), Span(2, 0, 5)), 1300)
    pieces = cut_slice(whole, 400)
    assert pieces[0].after == whole.after and pieces[-1].through == whole.through
    assert [each.after for each in pieces[1:]] == [each.through for each in pieces[:-1]]
