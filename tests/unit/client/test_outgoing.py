from __future__ import annotations

from concurrent.futures import Future

import pytest

from magnetar.client.error import PulsarTimeoutError
from magnetar.client.message_id import MessageId
from magnetar.client.outgoing import MessageOptions, Outgoing, PendingQueue, PendingSend
from magnetar.errors import ProtocolViolation


def send(first: int, last: int | None = None) -> PendingSend:
    return PendingSend(first, first if last is None else last, b"", ())


def queue_of(*sends: PendingSend) -> PendingQueue:
    queue = PendingQueue()
    for each in sends:
        queue.append(each)
    return queue


def test_receipts_confirm_the_head_and_old_ones_are_ignored() -> None:
    queue = queue_of(send(0), send(1, 4), send(5))
    head = queue.confirm(0)
    assert head is not None and head.sequence_id == 0
    assert queue.confirm(0) is None
    batch = queue.confirm(1)
    assert batch is not None and batch.highest_sequence_id == 4
    assert len(queue) == 1


def test_a_receipt_ahead_of_the_head_is_a_violation() -> None:
    with pytest.raises(ProtocolViolation, match="5"):
        queue_of(send(0), send(5)).confirm(5)


def test_what_is_stored_up_to_a_sequence_id_is_taken_from_the_head() -> None:
    queue = queue_of(send(0), send(1, 4), send(5, 7))
    assert [each.sequence_id for each in queue.take_through(6)] == [0, 1]
    assert [each.sequence_id for each in queue] == [5]
    assert queue.take_through(-1) == []


def test_chunks_with_one_id_are_confirmed_one_by_one() -> None:
    queue = queue_of(send(3), send(3), send(4))
    assert queue.confirm(3) and queue.confirm(3)
    assert queue.confirm(3) is None
    assert queue.confirm(4)


def test_a_refusal_takes_out_the_send_that_holds_the_id() -> None:
    queue = queue_of(send(0), send(1, 4), send(5))
    refused = queue.refuse(4)
    assert refused is not None and refused.sequence_id == 1
    assert [each.sequence_id for each in queue] == [0, 5]
    assert queue.refuse(99) is None


def outgoing(*, is_ended: bool) -> Outgoing:
    sent: Future[MessageId] = Future()
    if is_ended:
        sent.set_exception(PulsarTimeoutError("late"))
    return Outgoing(b"", sent, None, MessageOptions(), 0)


def test_what_has_ended_without_a_receipt_is_dropped_from_the_front_with_its_chunks() -> None:
    late, waiting = outgoing(is_ended=True), outgoing(is_ended=False)
    queue = queue_of(
        PendingSend(0, 0, b"", (late,)),
        send(1),
        PendingSend(1, 1, b"", (late,)),
        send(2),
        PendingSend(2, 2, b"", (waiting,)),
        PendingSend(3, 3, b"", (late,)),
    )
    queue.drop_ended()
    assert [each.sequence_id for each in queue] == [2, 2, 3]
