from __future__ import annotations

import pytest

from magnetar.client.outgoing import PendingSend
from magnetar.client.pending import PendingQueue
from magnetar.errors import ProtocolViolation


def send(first: int, last: int | None = None, expires_at: float = 0.0) -> PendingSend:
    return PendingSend(first, first if last is None else last, b"", (), expires_at)


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


def test_what_is_too_old_is_taken_from_the_front() -> None:
    queue = queue_of(send(0, expires_at=1), send(1, expires_at=2), send(2, expires_at=3))
    assert [each.sequence_id for each in queue.expire(2)] == [0, 1]
    assert queue.next_expiry == 3
