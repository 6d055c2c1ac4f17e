from __future__ import annotations

from magnetar.client.message_id import MessageId
from magnetar.client.scalable.handout import Handout


def test_before_means_handed_out_before_not_stored_before() -> None:
    first, second, third, fourth = (MessageId(1, entry) for entry in (7, 3, 9, 4))
    handout = Handout()
    handout.add([first, second])
    handout.add([third, fourth])
    assert handout.up_to(third) == [first, second, third]
    for id in (first, second):
        handout.remove(id)
    assert handout.up_to(second) == []  # done already
    assert handout.up_to(fourth) == [third, fourth]
    assert len(handout) == 2


def test_a_message_that_comes_again_keeps_its_place() -> None:
    first, second = MessageId(1, 0, batch_index=0), MessageId(1, 0, batch_index=1)
    handout = Handout()
    handout.add([first, second, first])
    assert handout.up_to(first) == [first]
