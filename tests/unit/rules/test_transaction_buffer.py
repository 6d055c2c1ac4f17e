"""What a topic hides while it is not known what a transaction has written."""

from __future__ import annotations

from magnetar.model.position import Position
from magnetar.model.transaction import TransactionId
from magnetar.rules.transaction.buffer import TransactionBuffer

FIRST, SECOND = TransactionId(0, 1), TransactionId(0, 2)


def test_an_entry_that_was_refused_may_be_in_the_log_and_is_not_read() -> None:
    buffer = TransactionBuffer()
    buffer.join(FIRST, Position(1, 4), 0)
    buffer.join(SECOND, Position(1, 6), 0)
    buffer.on_refused(FIRST)
    assert buffer.pin == Position(1, 5)
    buffer.on_stored(SECOND, Position(2, 3), 2)
    buffer.on_stored(FIRST, Position(2, 0), 1)
    buffer.end(SECOND, is_commit=True)
    assert buffer.pin == Position(1, 5)
    buffer.end(FIRST, is_commit=False)
    assert buffer.pin is None
    assert buffer.is_aborted(Position(2, 0)) and not buffer.is_aborted(Position(2, 3))


def test_readers_go_on_at_the_next_transaction_that_is_open() -> None:
    buffer = TransactionBuffer()
    for id_, entry in ((FIRST, 0), (SECOND, 7)):
        buffer.join(id_, Position(1, entry - 1), 0)
        buffer.on_stored(id_, Position(1, entry), 1)
    buffer.end(FIRST, is_commit=True)
    assert buffer.pin == Position(1, 7)
