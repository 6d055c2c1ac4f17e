"""Key_Shared: whatever happens, a key is with one consumer at a time and in order."""

from __future__ import annotations

import pytest
from hypothesis import given

from magnetar.rules.dispatch.keyshared import KeyShared
from magnetar.rules.dispatch.selector import RingSelector
from tests.property.dispatch_history import Entry, Member, Step, steps
from tests.property.test_dispatch_shared import SharedHistory
from tests.unit.broker.broker_place import Place, run
from tests.unit.broker.traffic import KEY_SHARED, Client, Delivery


class KeySharedHistory(SharedHistory):
    kind = KEY_SHARED

    def ring(self) -> RingSelector[int]:
        ring: RingSelector[int] = RingSelector()
        for consumer_id in sorted(self.members):
            ring = ring.add(consumer_id, name=f"s-{consumer_id}")
        return ring

    def slot_of(self, entry: Entry) -> int:
        return RingSelector[int]().slot_of(entry.key.encode())

    def on_delivery(self, member: Member, entry: Entry, delivery: Delivery) -> None:
        slot = self.slot_of(entry)
        assert self.ring().owner(slot) == member.id
        for other in self.members.values():
            if other is not member:
                assert slot not in map(self.slot_of, other.held.values()), "a key is with one"
        for earlier in self.unacked:
            if earlier.position < entry.position and self.slot_of(earlier) == slot:
                assert earlier.position in member.held, "a key stays in order"
        super().on_delivery(member, entry, delivery)

    def check_quiet(self) -> None:
        """The first entry of a slot that waits has a reason to."""
        ring = self.ring()
        held = {p: each.id for each in self.members.values() for p in each.held}
        looked_at: set[int] = set()
        for entry in self.unacked:
            slot = self.slot_of(entry)
            if entry.position in held or slot in looked_at:
                continue
            looked_at.add(slot)
            owner = ring.owner(slot)
            if owner is not None and self.members[owner].permits > 0:
                holders = {
                    held[other.position]
                    for other in self.unacked
                    if other.position in held and self.slot_of(other) == slot
                }
                assert holders - {owner}, "it could be delivered"

    async def check_books(self) -> None:
        await super().check_books()
        dispatcher = (await self.subscription()).dispatcher
        machine = None if dispatcher is None else dispatcher.machine
        if isinstance(machine, KeyShared) and self.members:
            counts: dict[int, tuple[int, int]] = {}
            for member in self.members.values():
                for entry in member.held.values():
                    slot = self.slot_of(entry)
                    counts[slot] = (member.id, counts.get(slot, (0, 0))[1] + 1)
            told = {
                slot: (each.consumer.id, count) for slot, (each, count) in machine._holders.items()
            }
            assert told == counts
            assert sum(machine._waiting.values()) == len(machine.replay)
            out = {position for member in self.members.values() for position in member.held}
            assert set(machine._slots) == out | set(machine.replay)
            assert set(machine.redeliveries) <= {each.position for each in self.unacked}


@pytest.mark.parametrize("cache_bytes", [1 << 24, 1])
@given(history=steps)
def test_a_key_is_with_one_consumer_at_a_time_and_in_order(
    cache_bytes: int, history: list[Step]
) -> None:
    async def body(place: Place) -> None:
        await KeySharedHistory(place, Client(place.service)).run(history)

    run(body, cache_bytes=cache_bytes)
