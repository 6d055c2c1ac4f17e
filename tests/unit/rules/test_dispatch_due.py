"""Messages whose time comes together."""

from __future__ import annotations

from magnetar.rules.dispatch.action import Moment, Sleep
from magnetar.rules.dispatch.machine import DispatchLimits
from magnetar.rules.dispatch.shared import WAITING_MAX, Shared

DUE_MS = 1_000_000


def test_of_many_that_are_due_at_once_only_so_many_wait_to_be_read_as_may_wait() -> None:
    machine = Shared[None](DispatchLimits())
    for entry_id in range(5 * WAITING_MAX):
        machine.delayed.add(DUE_MS, (1, entry_id))
    assert [type(each) for each in machine.poll(Moment(DUE_MS - 1, 0.0), 100)] == [Sleep]
    assert not len(machine.replay)
    now = Moment(DUE_MS, 0.0)
    for _ in range(3):
        machine.poll(now, 100)
        assert len(machine.replay) == WAITING_MAX
        assert len(machine.delayed) == 4 * WAITING_MAX
    assert list(machine.poll(now, 100)) == [Sleep(1.0)]
    for position in machine.replay.first(WAITING_MAX - 10):
        machine.replay.discard(position)
    machine.poll(now, 100)
    assert len(machine.replay) == WAITING_MAX
    assert machine.replay.first(1) == [(1, WAITING_MAX - 10)]
