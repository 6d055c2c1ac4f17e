"""Shared: whatever happens, nothing is lost and nothing is held by two."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.property.dispatch_history import Entry, History, Member, Step, steps
from tests.unit.broker.broker_place import Place, run
from tests.unit.broker.traffic import SHARED, Client, Delivery


class SharedHistory(History):
    kind = SHARED

    def on_delivery(self, member: Member, entry: Entry, delivery: Delivery) -> None:
        holders = [each.id for each in self.members.values() if entry.position in each.held]
        assert not holders, "what somebody holds is not delivered"
        assert delivery.redelivery_count == entry.redeliveries
        member.held[entry.position] = entry

    def on_left(self, member: Member) -> None:
        if not self.members:  # the next one reads from the mark again
            for entry in self.entries.values():
                entry.redeliveries = 0

    def check_quiet(self) -> None:
        held = {position for each in self.members.values() for position in each.held}
        if any(member.permits > 0 for member in self.members.values()):
            assert {entry.position for entry in self.unacked} == held


@pytest.mark.parametrize("cache_bytes", [1 << 24, 1])
@given(history=steps)
def test_what_is_unacknowledged_is_held_by_one_or_waits_for_permits(
    cache_bytes: int, history: list[Step]
) -> None:
    async def body(place: Place) -> None:
        await SharedHistory(place, Client(place.service)).run(history)

    run(body, cache_bytes=cache_bytes)
