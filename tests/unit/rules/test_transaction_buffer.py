"""What a topic hides while it is not known what a transaction has written."""

from __future__ import annotations

from magnetar.model.position import Position
from magnetar.model.transaction import Hidden, TransactionId
from magnetar.rules.transaction.buffer import ENDED_MAX, TransactionBuffer

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


def test_what_was_aborted_is_hidden_as_long_as_its_ledger_is_there_however_much_it_is() -> None:
    buffer = TransactionBuffer()
    count = 3 * ENDED_MAX
    for number in range(count):
        id_, ledger = TransactionId(0, number), number % 2
        buffer.join(id_, Position(ledger, 2 * number - 1), 0)
        buffer.on_stored(id_, Position(ledger, 2 * number), 1)
        buffer.end(id_, is_commit=False)
    assert len(buffer.ended) == ENDED_MAX
    assert all(buffer.is_aborted(Position(number % 2, 2 * number)) for number in range(count))
    assert not any(buffer.is_aborted(Position(number % 2, 2 * number + 1)) for number in range(9))
    again = TransactionBuffer()
    for record in buffer.records():
        assert isinstance(record, Hidden), "none is open"
        again.hide(record)
    again.forget({1})
    assert len(again.aborted) == count // 2
    assert all(again.is_aborted(Position(1, 2 * number)) for number in range(1, count, 2))
    assert not any(again.is_aborted(Position(0, 2 * number)) for number in range(0, count, 2))
