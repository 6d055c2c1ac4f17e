from __future__ import annotations

import pytest

from magnetar.admin.connection import HttpSlots
from magnetar.broker.unread import UnreadBytes
from magnetar.errors import ServiceNotReady
from magnetar.model.limit import Limits


class Held:
    def __init__(self) -> None:
        self.is_evicted = False

    def evict(self) -> None:
        self.is_evicted = True


def test_the_connection_without_a_request_for_longest_makes_room() -> None:
    slots = HttpSlots(3, UnreadBytes(Limits()))
    first, second, _ = connections = [Held(), Held(), Held()]
    for each in connections:
        slots.enter(each)
    slots.on_request(first)
    slots.on_request(second)
    slots.on_answer(second)
    slots.enter(Held())
    assert [each.is_evicted for each in connections] == [False, False, True]
    slots.enter(Held())
    assert second.is_evicted and not first.is_evicted


def test_connections_with_a_request_are_not_closed_for_another() -> None:
    slots = HttpSlots(2, UnreadBytes(Limits()))
    busy = [Held(), Held()]
    for each in busy:
        slots.enter(each)
        slots.on_request(each)
    with pytest.raises(ServiceNotReady, match="HTTP connections: 2"):
        slots.enter(Held())
    slots.leave(busy[0])
    slots.enter(Held())
    assert not any(each.is_evicted for each in busy)
