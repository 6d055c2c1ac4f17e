from __future__ import annotations

import pytest

from magnetar.client.message_id import EARLIEST_ID, LATEST_ID, MessageId
from magnetar.client.progress import Floor, UnackedIds


def test_before_means_handed_out_before_not_stored_before() -> None:
    first, second, third, fourth = (MessageId(1, entry) for entry in (7, 3, 9, 4))
    unacked = UnackedIds()
    unacked.add([first, second])
    unacked.add([third, fourth])
    assert unacked.up_to(third) == [first, second, third]
    for id in (first, second):
        unacked.remove(id)
    assert unacked.up_to(second) == []  # done already
    assert unacked.up_to(fourth) == [third, fourth]
    assert len(unacked) == 2


def test_a_message_that_comes_again_keeps_its_place() -> None:
    first, second = MessageId(1, 0, batch_index=0), MessageId(1, 0, batch_index=1)
    unacked = UnackedIds()
    unacked.add([first, second, first])
    assert unacked.up_to(first) == [first]


@pytest.mark.parametrize(
    ("floor", "is_included", "id", "expected"),
    [
        (MessageId(1, 5), False, MessageId(1, 5), False),
        (MessageId(1, 5), True, MessageId(1, 5), True),
        (MessageId(1, 5), False, MessageId(1, 6), True),
        (MessageId(1, 5), False, MessageId(2, 0), True),
        (MessageId(1, 5), True, MessageId(1, 4), False),
        (MessageId(1, 5), False, MessageId(1, 5, -1, 3, 4), False),
        (MessageId(1, 5), True, MessageId(1, 5, -1, 0, 4), True),
        (MessageId(1, 5, -1, 2), False, MessageId(1, 5, -1, 2, 4), False),
        (MessageId(1, 5, -1, 2), False, MessageId(1, 5, -1, 3, 4), True),
        (MessageId(1, 5, -1, 2), True, MessageId(1, 5, -1, 2, 4), True),
        (MessageId(1, 5, -1, 2), True, MessageId(1, 5, -1, 1, 4), False),
        (EARLIEST_ID, False, MessageId(0, 0), True),
        (LATEST_ID, False, MessageId(9, 9), True),
    ],
)
def test_a_floor_wants_what_lies_above_it(
    floor: MessageId, is_included: bool, id: MessageId, expected: bool
) -> None:
    assert Floor(floor, is_included).wants(id) is expected
