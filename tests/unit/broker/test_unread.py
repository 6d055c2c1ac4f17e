"""What peers do not read is counted, and paid for by those who do not read."""

from __future__ import annotations

from magnetar.broker.unread import UnreadBytes
from magnetar.model.limit import Limits


class Slow:
    """A connection for the count of what is not read."""

    def __init__(self, unread: UnreadBytes, address: str) -> None:
        self.address = address
        self.unread_bytes = 0
        self.is_closed = False
        self._unread = unread

    def grow(self, size: int) -> None:
        self.unread_bytes += size
        self._unread.check(self)

    def abort(self) -> None:
        self.is_closed = True


def test_who_leaves_too_much_unread_is_closed() -> None:
    unread = UnreadBytes(Limits(unread_answer_bytes=1000, message_bytes=500))
    one, other = Slow(unread, "one"), Slow(unread, "other")
    one.grow(1500)
    other.grow(1501)
    assert not one.is_closed and other.is_closed


def test_of_all_that_is_unread_the_slowest_connections_pay() -> None:
    unread = UnreadBytes(Limits(unread_answer_total_bytes=10_000))
    all_of_them = [Slow(unread, str(number)) for number in range(5)]
    for each in all_of_them:
        each.grow(3000)
    assert [each.is_closed for each in all_of_them] == [True, True, False, False, False]
    first = all_of_them[2]
    first.unread_bytes = 0  # it has read by now what was counted before
    all_of_them[3].grow(3500)
    assert not any(each.is_closed for each in all_of_them[2:])
    all_of_them[4].grow(3000)
    assert [each.is_closed for each in all_of_them[2:]] == [True, True, False]
    unread.forget(all_of_them[4])
    Slow(unread, "last").grow(9999)
