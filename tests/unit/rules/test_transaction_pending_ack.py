"""What transactions acknowledge on a subscription, step by step."""

from __future__ import annotations

from typing import Final

import pytest

from magnetar.errors import TransactionConflict
from magnetar.model.bitset import split_words
from magnetar.model.position import Position
from magnetar.model.transaction import Acknowledged, TransactionId
from magnetar.rules.transaction.pending_ack import PendingAcks

ID = TransactionId(0, 1)


class Nothing:
    """Is acknowledged for good."""

    mark_delete: Final = Position(1, -1)

    def is_acknowledged(self, ledger_id: int, entry_id: int) -> bool:
        return False

    def remaining(self, ledger_id: int, entry_id: int) -> int | None:
        return None


def first_of_four(count: int) -> Acknowledged:
    left = 0b1111 & ~((1 << count) - 1)
    return Acknowledged(1, 0, split_words(left) if left else None, 4)


@pytest.mark.parametrize("reached", [2, 3, 4])
def test_a_cumulative_acknowledgement_goes_forward_within_a_batch_and_not_back(
    reached: int,
) -> None:
    pending = PendingAcks()
    pending.join(ID, "s", 0)
    for count in range(1, reached + 1):
        assert pending.acknowledge_through(ID, first_of_four(count), Nothing())
    assert not pending.acknowledge_through(ID, first_of_four(reached), Nothing()), "the same again"
    with pytest.raises(TransactionConflict):
        pending.acknowledge_through(ID, first_of_four(reached - 1), Nothing())
    withheld = pending.withheld(Position(1, 0))
    assert withheld & 0b1111 == (1 << reached) - 1
