"""The checkers find what is wrong in a history, and nothing in a right one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from magnetar.testing.simulation.checker import (
    Promise,
    find_transaction_breaks,
    find_violations,
)
from magnetar.testing.simulation.history import (
    HEALED,
    Acknowledged,
    Asked,
    Configured,
    Confirmed,
    Decided,
    Deciding,
    Dispatched,
    Entry,
    Event,
    Fault,
    History,
    NotSent,
    Received,
    Refused,
    Registered,
    Requeued,
    Rewound,
    Sent,
    Stored,
)
from magnetar.testing.simulation.lineage import find_layout_breaks
from magnetar.testing.simulation.workload import Traffic

TOPIC, NAME = "topic://public/default/orders", "stream"
ORDERED = Promise(TOPIC, NAME, keeps_order=True, has_deduplication=True)


def judge(*events: Event, promise: Promise = ORDERED, are_dispatched: bool = True) -> list[str]:
    """An event a second. What is received was dispatched just before, and there was cause to."""
    number = 0
    history = History(lambda: float(number))
    for event in events:
        if isinstance(event, Received) and are_dispatched:
            entry = event.message_id.partition("@")[2]
            history.add(subscribed())
            history.add(dispatched(entry))
        history.add(event)
        number += 1
    return [each.partition(":")[0] for each in find_violations(history, [promise])]


def dispatched(entry: str, *, broker: str = "b1.1") -> Event:
    return Dispatched(TOPIC, "0000-ffff-0", NAME, broker, "c", entry)


def subscribed(entry: str = "", *, opening: int = 0) -> Event:
    return Requeued(TOPIC, "0000-ffff-0", NAME, "b1.1", "c", entry, "subscribe", opening)


def sent(number: int) -> tuple[Event, Event]:
    return Sent(TOPIC, "k", number), Confirmed(TOPIC, "k", number, f"0@1:{number}")


def received(number: int, message_id: str = "") -> Event:
    return Received(TOPIC, NAME, "c", "k", number, message_id or f"0@1:{number}")


def acknowledged(number: int) -> Event:
    return Acknowledged(TOPIC, NAME, "k", number, f"0@1:{number}")


Part = tuple[int, int, list[int], list[int]]
"""The first and last hash of a segment, its parents and its children: with some it is sealed."""


def layout(
    epoch: int,
    segments: Mapping[int, Part],
    next_id: int,
    *,
    intent: Mapping[str, Any] | None = None,
    legacy: Collection[int] = (),
) -> Event:
    record: dict[str, Any] = {
        "epoch": epoch,
        "nextSegmentId": next_id,
        "segments": {
            str(number): {
                "hashRange": {"start": first, "end": last},
                "state": "SEALED" if children else "ACTIVE",
                "parentIds": parents,
                "childIds": children,
                "legacy": number in legacy,
            }
            for number, (first, last, parents, children) in segments.items()
        },
    }
    if intent is not None:
        record["magnetarIntent"] = intent
    return Stored(
        "/topics/public/default/orders", json.dumps(record, separators=(",", ":")).encode()
    )


def into(*targets: tuple[int, int, int], reason: str = "manual") -> dict[str, Any]:
    """The intent of a split or a merge: the children with their first and last hash."""
    spelled = [
        {"segmentId": number, "hashRange": {"start": first, "end": last}}
        for number, first, last in targets
    ]
    return {"kind": "SPLIT" if len(targets) > 1 else "MERGE", "targets": spelled, "reason": reason}


ROOT: Mapping[int, Part] = {0: (0, 65535, [], [])}
HALVES: Mapping[int, Part] = {
    0: (0, 65535, [], [1, 2]),
    1: (0, 32767, [0], []),
    2: (32768, 65535, [0], []),
}
MERGED: Mapping[int, Part] = {
    0: (0, 65535, [], [1, 2]),
    1: (0, 32767, [0], [3]),
    2: (32768, 65535, [0], [3]),
    3: (0, 65535, [1, 2], []),
}
SPLITTING = into((1, 0, 32767), (2, 32768, 65535))
MERGING = into((3, 0, 65535))
ONE = layout(0, ROOT, 1)
BEGUN = layout(0, ROOT, 1, intent=SPLITTING)
TWO = layout(1, HALVES, 3)


def test_a_right_history_has_no_violations() -> None:
    assert (
        judge(ONE, *sent(0), received(0), acknowledged(0), BEGUN, TWO, *sent(1), received(1)) == []
    )


def test_a_confirmed_message_that_does_not_come_is_lost() -> None:
    assert judge(*sent(0)) == ["lost"]


def test_a_message_that_was_not_confirmed_may_be_lost() -> None:
    assert judge(Sent(TOPIC, "k", 0), NotSent(TOPIC, "k", 0, "timeout")) == []


def test_a_message_without_an_outcome_is_found() -> None:
    assert judge(Sent(TOPIC, "k", 0), received(0)) == ["unanswered"]


def test_a_message_after_its_acknowledgement_is_repeated_whatever_broke() -> None:
    assert judge(*sent(0), received(0), acknowledged(0), Fault("cut"), received(0)) == ["repeated"]


def test_a_delivery_that_a_parted_network_held_up_may_come_after_the_acknowledgement() -> None:
    again = (*sent(0), received(0), acknowledged(0), Fault("parts"), HEALED)
    assert judge(*again, received(0)) == []
    assert judge(*again, Fault("cut"), Fault("cut"), received(0)) == ["repeated"]


def test_what_was_dispatched_before_the_acknowledgement_may_be_received_long_after() -> None:
    """It waits at a consumer that is slow."""
    both = (subscribed(), dispatched("1:0"), subscribed(), dispatched("1:0"))
    events = (*sent(0), *both, received(0), acknowledged(0), *[Fault("cut")] * 5, received(0))
    assert judge(*events, are_dispatched=False) == []


def test_a_message_may_come_again_after_a_fault_a_refusal_or_a_rewind() -> None:
    assert judge(*sent(0), received(0), Fault("cut"), received(0)) == []
    assert judge(*sent(0), received(0), Refused(TOPIC, NAME, "0@1:0"), received(0)) == []
    begun, done = (Rewound(TOPIC, NAME, is_done=each) for each in (False, True))
    assert judge(*sent(0), received(0), acknowledged(0), begun, done, received(0)) == []


def test_a_message_that_comes_twice_without_a_cause_is_repeated() -> None:
    assert judge(*sent(0), received(0), received(0)) == ["repeated"]


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ([], ["dispatched again"]),
        ([subscribed()], []),
        ([subscribed("1:0")], []),
        ([subscribed("1:7")], ["dispatched again"]),
        ([Requeued(TOPIC, "other", NAME, "b1.1", "c", "", "subscribe")], ["dispatched again"]),
        ([Requeued(TOPIC, "0000-ffff-0", "x", "b1.1", "c", "", "seek")], ["dispatched again"]),
        ([Fault("cut")], ["dispatched again"]),
    ],
    ids=["nothing", "all", "itself", "another", "elsewhere", "a subscription", "a fault alone"],
)
def test_what_is_dispatched_again_has_a_cause_since_it_was_last(
    between: list[Event], found: list[str]
) -> None:
    assert judge(subscribed(), dispatched("1:0"), *between, dispatched("1:0")) == found


def test_an_earlier_cause_is_no_cause_and_another_process_needs_none() -> None:
    again = [subscribed(), dispatched("1:0"), subscribed(), dispatched("1:0")]
    assert judge(*again) == []
    assert judge(*again, dispatched("1:0")) == ["dispatched again"]
    assert judge(*again, dispatched("1:0", broker="b1.2")) == []


def test_what_a_consumer_asks_for_comes_about_at_some_time_before_its_answer() -> None:
    asked = [dispatched("1:0"), subscribed(opening=1), dispatched("1:0"), dispatched("1:0")]
    assert judge(*asked) == []
    answered = [*asked, subscribed(opening=-1), dispatched("1:0")]
    assert judge(*answered) == []
    assert judge(*answered, dispatched("1:0")) == ["dispatched again"]


def test_a_client_that_hands_over_more_than_was_dispatched_to_it_is_found() -> None:
    events = (*sent(0), subscribed(), dispatched("1:0"), received(0), Fault("cut"))
    assert judge(*events, are_dispatched=False) == []
    assert judge(*events, received(0), are_dispatched=False) == ["duplicated"]
    again = (subscribed(), dispatched("1:0"), received(0))
    assert judge(*events, *again, are_dispatched=False) == []


REGISTERED = Registered(TOPIC, "p")


@pytest.mark.parametrize(
    ("has_deduplication", "is_resent", "is_late", "found"),
    [
        (True, True, False, ["stored twice"]),
        (False, False, False, ["stored twice"]),
        (False, True, False, []),
        (False, True, True, ["stored twice"]),
    ],
)
def test_a_message_is_stored_twice_only_if_its_producer_attached_anew_and_without_deduplication(
    has_deduplication: bool, is_resent: bool, is_late: bool, found: list[str]
) -> None:
    promise = Promise(TOPIC, NAME, keeps_order=True, has_deduplication=has_deduplication)
    first, confirmed = Sent(TOPIC, "p.k", 0), Confirmed(TOPIC, "p.k", 0, "0@1:0")
    sending = (first, confirmed, REGISTERED) if is_late else (first, REGISTERED, confirmed)
    copies = (Received(TOPIC, NAME, "c", "p.k", 0, f"0@1:{entry}") for entry in (0, 7))
    events = (*(sending if is_resent else (first, confirmed)), Fault("cut"), *copies)
    assert judge(*events, promise=promise) == found


@pytest.mark.parametrize(("is_broken", "found"), [(False, ["stored twice"]), (True, [])])
def test_without_a_tap_a_message_is_stored_twice_only_if_something_broke(
    is_broken: bool, found: list[str]
) -> None:
    promise = Promise(TOPIC, NAME, keeps_order=True, has_deduplication=False, is_tapped=False)
    sending = (Sent(TOPIC, "k", 0), Confirmed(TOPIC, "k", 0, "0@1:0"))
    copies = (Received(TOPIC, NAME, "c", "k", 0, f"0@1:{entry}") for entry in (0, 7))
    faults = (Fault("cut"),) if is_broken else ()
    assert judge(*sending, *faults, *copies, promise=promise) == found


def test_deduplication_spans_a_split() -> None:
    """A parent that was sealed before its receipt arrived has the message; a child must not."""
    events = (*sent(0), Fault("cut"), received(0), received(0, "1@1:0"))
    assert judge(*events) == ["stored twice"]


def test_a_refused_message_is_missing_until_it_comes_again() -> None:
    traffic = Traffic()
    traffic.on_refused(TOPIC, NAME, ("k", 0), "0@1:0")
    assert traffic.missing(TOPIC, NAME) == 1 and traffic.missing(TOPIC, "other") == 0
    traffic.on_received(TOPIC, NAME, "k", 0, "0@1:0")
    assert traffic.missing(TOPIC, NAME) == 0


def test_a_refused_message_that_another_consumer_acknowledges_need_not_come_again() -> None:
    """Whether or not that is confirmed: a broker that cannot store it may have taken note of it."""
    traffic = Traffic()
    traffic.on_refused(TOPIC, NAME, ("k", 0), "0@1:0")
    traffic.on_acknowledging(TOPIC, NAME, "0@1:0")
    traffic.on_refused(TOPIC, NAME, ("k", 0), "0@1:0")
    assert traffic.missing(TOPIC, NAME) == 0


def test_brokers_that_answer_differently_are_found() -> None:
    assert judge(Asked("owner", "b1", "b1"), Asked("owner", "b2", "b2")) == ["disagreement"]
    assert judge(Asked("owner", "b1", "b1"), Asked("owner", "b2", "b1")) == []


@pytest.mark.parametrize(
    ("answer", "found"), [("1", ["wrong answer"]), ("2", []), ("3", []), ("None", ["wrong answer"])]
)
def test_a_policy_has_the_value_last_set_or_one_that_was_not_confirmed(
    answer: str, found: list[str]
) -> None:
    events = [Configured("p", number, number < 3) for number in (1, 2, 3)]
    assert judge(*events, Asked("p", "b1", answer)) == found


def test_a_key_out_of_order_is_found_where_order_is_promised() -> None:
    events = (*sent(0), *sent(1), received(1), received(0))
    assert judge(*events) == ["out of order"]
    assert judge(*events, promise=Promise(TOPIC, NAME, False, True)) == []


def test_a_message_that_comes_again_is_not_out_of_order() -> None:
    events = (*sent(0), *sent(1), received(0), received(1), Fault("cut"), received(0), received(1))
    assert judge(*events) == []


def test_a_layout_that_follows_by_a_split_and_a_merge_is_right() -> None:
    assert judge(ONE, BEGUN, TWO, layout(1, HALVES, 3, intent=MERGING), layout(2, MERGED, 4)) == []
    legacy: Mapping[int, Part] = {0: (0, 65535, [], [1]), 1: (0, 65535, [0], [])}
    assert judge(layout(0, legacy, 2, legacy={0})) == []


@pytest.mark.parametrize(
    "second",
    [
        layout(1, {1: (0, 32767, [0], [])}, 3),
        layout(1, HALVES | {1: (0, 40000, [0], [])}, 3),
        layout(0, ROOT, 0),
        layout(2, HALVES, 3),
        layout(0, HALVES, 3),
        layout(1, HALVES | {1: (0, 30000, [0], []), 2: (30001, 65535, [0], [])}, 3),
        layout(1, HALVES | {2: (32768, 65535, [], [])}, 3),
        layout(1, HALVES | {0: (0, 65535, [], [1])}, 3),
        layout(1, {number: HALVES[number] for number in (1, 2)}, 3),
    ],
    ids=[
        "a gap",
        "an overlap",
        "an id given back",
        "an epoch too many",
        "an epoch too few",
        "children that are no halves",
        "a child without a parent",
        "a parent that names one child",
        "a parent that vanished",
    ],
)
def test_a_layout_that_does_not_tile_or_follow_is_found(second: Event) -> None:
    assert "layout of /topics/public/default/orders at 1.000, epoch" in ",".join(
        find_layout_breaks(in_order(BEGUN, second))
    )


def in_order(*events: Event) -> list[Entry]:
    return [Entry(float(number), event) for number, event in enumerate(events)]


def test_a_split_by_load_may_be_where_its_intent_says_and_nowhere_else() -> None:
    uneven = {**HALVES, 1: (0, 29999, [0], []), 2: (30000, 65535, [0], [])}
    intent = into((1, 0, 29999), (2, 30000, 65535), reason="load")
    assert not [
        *find_layout_breaks(in_order(layout(0, ROOT, 1, intent=intent), layout(1, uneven, 3)))
    ]
    assert [*find_layout_breaks(in_order(layout(0, ROOT, 1, intent=intent), TWO))]
    assert [*find_layout_breaks(in_order(ONE, TWO))], "no intent was recorded"


def test_a_merge_that_is_not_the_union_of_two_neighbours_is_found() -> None:
    quarters = {
        0: (0, 65535, [], []),
        **{n: (n * 16384, n * 16384 + 16383, [], []) for n in range(4)},
    }
    wrong = {
        **quarters,
        0: (0, 16383, [], [4]),
        2: (32768, 49151, [], [4]),
        4: (0, 49151, [0, 2], []),
    }
    entries = in_order(layout(0, quarters, 4, intent=into((4, 0, 49151))), layout(1, wrong, 5))
    assert any("their parents" in each for each in find_layout_breaks(entries))


def test_a_sealed_segment_that_is_active_again_is_found() -> None:
    assert judge(TWO, layout(2, ROOT, 3))


def test_what_was_begun_and_not_ended_is_found_at_the_end() -> None:
    assert judge(ONE, BEGUN) == ["unfinished"]
    prepared = Stored("/magnetar/migrations/public/default/orders", b"{}")
    assert judge(prepared) == ["unfinished"]
    assert judge(prepared, Stored(prepared.path, b"")) == []


def test_a_lease_that_goes_back_to_an_earlier_term_is_found() -> None:
    path = "/namespace/public/default/0x00000000_0xffffffff"
    one, two = (f'{{"term":{term},"directory":"d"}}'.encode() for term in (1, 2))
    assert judge(Stored(path, two), Stored(path, b""), Stored(path, one))
    assert not judge(Stored(path, one), Stored(path, b""), Stored(path, two))


def test_an_owner_that_is_replaced_while_its_record_stands_is_found() -> None:
    path = "/namespace/public/default/0x00000000_0x7fffffff"
    one, two = (f'{{"brokerId":"b{number}"}}'.encode() for number in (1, 2))
    assert judge(Stored(path, one), Stored(path, two)) == ["two owners"]
    assert not judge(Stored(path, two), Stored(path, two), Stored(path, b""), Stored(path, one))


OUTPUT = "persistent://public/bank/outputs"
VIEWS = [(TOPIC, NAME), (OUTPUT, "live")]


def seen(name: str, number: int, *views: tuple[str, str]) -> list[Event]:
    return [Received(topic, view, "c", name, number, "1:1") for topic, view in views]


BOTH = [Deciding("tx1-a", "1:0", True, 2), *seen("tx1-a", 0, *VIEWS), *seen("tx1-a", 1, *VIEWS)]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (BOTH, []),
        ([*BOTH, Decided("tx1-a")], []),
        (BOTH[:-1], ["half"]),
        ([BOTH[0], *BOTH[3:], Decided("tx1-a")], ["half", "half"]),
        ([Deciding("tx1-a", "1:0", True, 2), Decided("tx1-a")], ["half", "half"]),
        ([*BOTH[1:], BOTH[0]], ["not committed"] * 4),
        ([Deciding("tx1-a", "1:0", False, 1), *seen("tx1-a", 0, *VIEWS)], ["not committed"] * 2),
        (
            [*BOTH, Deciding("tx2-a", "1:0", True, 1), *seen("tx2-a", 0, *VIEWS)],
            ["consumed twice"],
        ),
    ],
    ids=[
        "whole",
        "known to be committed",
        "a message missing",
        "a message missing everywhere",
        "lost",
        "seen too early",
        "aborted",
        "an input twice",
    ],
)
def test_a_transaction_that_is_not_whole_is_found(events: list[Event], expected: list[str]) -> None:
    history = History(lambda: float(len(history.entries)))
    for event in events:
        history.add(event)
    found = find_transaction_breaks(history.entries, VIEWS)
    assert [each.partition(":")[0] for each in found] == expected
