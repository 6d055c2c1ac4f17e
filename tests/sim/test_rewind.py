"""What may be passed over by a seek, and what must come again after one."""

from __future__ import annotations

from magnetar.testing.simulation.rewind import Message, Rewinds

TOPIC, NAME = "topic://public/default/orders", "queue"
FIRST, SECOND, THIRD = messages = [("k", number) for number in range(3)]


def id_of(message: Message, entry: int) -> str:
    return f"0@1:{entry}:-1:{message[1]}"


def make(*, received: int = 3, acknowledged: int = 3, name: str = NAME) -> Rewinds:
    """Each message is sent at its second and confirmed half a second later; two share an entry."""
    rewinds = Rewinds()
    for at, message in enumerate(messages, start=1):
        rewinds.on_sent(TOPIC, message, at)
        rewinds.on_answered(TOPIC, message, at + 0.5)
    for number, message in enumerate(messages[:received]):
        rewinds.on_received(TOPIC, name, message, id_of(message, number // 2))
    for number, message in enumerate(messages[:acknowledged]):
        rewinds.on_acknowledged(TOPIC, name, message, id_of(message, number // 2))
    return rewinds


def test_a_seek_may_not_go_beyond_what_is_still_to_be_received() -> None:
    limit_s = make().find_limit(TOPIC, NAME, {FIRST}, 9.0)
    assert limit_s is not None and 1.4 < limit_s < 1.5, "the second, less what it took to store it"
    assert make().find_limit(TOPIC, NAME, set(), 9.0) is not None
    late = make()
    late.on_sent(TOPIC, ("k", 3), 4.0)
    assert late.find_limit(TOPIC, NAME, set(messages), 9.0) is None, "it may be stored by now"


def test_a_topic_with_messages_that_are_not_known_has_no_limit() -> None:
    rewinds = make()
    rewinds.unbounded.add(TOPIC)
    assert rewinds.find_limit(TOPIC, NAME, set(messages), 9.0) is None


def test_what_was_acknowledged_comes_again_from_the_time_on() -> None:
    rewinds = make()
    rewinds.begin(TOPIC, NAME, 9.0, time_s=1.4)
    assert rewinds.missing(TOPIC, NAME) == 0, "not before it is done"
    rewinds.end(TOPIC, NAME, is_done=True)
    assert rewinds.missing(TOPIC, NAME) == 2
    for message in (SECOND, THIRD):
        rewinds.on_received(TOPIC, NAME, message, id_of(message, 0))
    assert rewinds.missing(TOPIC, NAME) == 0
    assert not rewinds.is_ahead(TOPIC, NAME, FIRST) and rewinds.is_ahead(TOPIC, NAME, SECOND)


def test_an_entry_that_may_lie_before_an_earlier_one_need_not_come() -> None:
    """It took half a second to store a message: the second may lie before the first."""
    rewinds = make()
    rewinds.begin(TOPIC, NAME, 9.0, time_s=1.6)
    rewinds.end(TOPIC, NAME, is_done=True)
    assert rewinds.missing(TOPIC, NAME) == 1


def test_a_seek_to_a_message_brings_that_one_back() -> None:
    rewinds = make()
    rewinds.begin(TOPIC, NAME, 9.0, only=THIRD)
    rewinds.end(TOPIC, NAME, is_done=True)
    assert rewinds.missing(TOPIC, NAME) == 1


def test_an_acknowledgement_on_its_way_may_outlive_the_seek_for_all_of_its_batch() -> None:
    rewinds = make(acknowledged=1)
    rewinds.begin(TOPIC, NAME, 9.0)
    rewinds.end(TOPIC, NAME, is_done=True)
    assert rewinds.missing(TOPIC, NAME) == 0


def test_a_cumulative_acknowledgement_on_its_way_may_outlive_the_seek_for_all_before() -> None:
    for name, expected in (("queue", 2), ("stream", 0)):
        rewinds = make(acknowledged=2, name=name)
        rewinds.begin(TOPIC, name, 9.0)
        rewinds.end(TOPIC, name, is_done=True)
        assert rewinds.missing(TOPIC, name) == expected


def test_what_comes_during_a_seek_may_be_acknowledged_over_it() -> None:
    rewinds = make(received=1, acknowledged=1)
    rewinds.begin(TOPIC, NAME, 9.0)
    rewinds.on_received(TOPIC, NAME, SECOND, id_of(SECOND, 0))
    rewinds.end(TOPIC, NAME, is_done=True)
    assert rewinds.missing(TOPIC, NAME) == 0


def test_nothing_is_expected_of_a_seek_that_failed_or_overlaps_another() -> None:
    for is_done in (False, True):
        rewinds = make()
        rewinds.begin(TOPIC, NAME, 9.0)
        if is_done:
            rewinds.begin(TOPIC, NAME, 9.0)
        rewinds.end(TOPIC, NAME, is_done=is_done)
        assert rewinds.missing(TOPIC, NAME) == 0
