from __future__ import annotations

from magnetar.client.message_id import MessageId
from magnetar.client.progress import UnackedIds


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
