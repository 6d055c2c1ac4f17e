"""Exclusive and Failover: whatever happens, the active consumer reads the log in order."""

from __future__ import annotations

import pytest
from hypothesis import given

from magnetar.rules.failover import Ranking
from tests.property.dispatch_history import Entry, History, Member, Step, steps
from tests.unit.broker.broker_place import Place, run
from tests.unit.broker.traffic import EXCLUSIVE, FAILOVER, TOPIC, Client, Delivery


class ExclusiveHistory(History):
    kind = EXCLUSIVE
    members_max = 1

    def __init__(self, place: Place, client: Client) -> None:
        super().__init__(place, client)
        self.reads_after = (-1, -1)
        """The last entry that was read since the last rewind."""
        self._active: int | None = None

    def active(self) -> int | None:
        return next(iter(self.members), None)

    def _look_who_is_active(self) -> None:
        active = self.active()
        if active != self._active:
            self._active = active
            self.reads_after = (-1, -1)

    def on_delivery(self, member: Member, entry: Entry, delivery: Delivery) -> None:
        self._look_who_is_active()
        assert member.id == self._active
        unread = [each for each in self.unacked if each.position > self.reads_after]
        assert unread[0] is entry, "nothing is left out, and nothing comes twice"
        assert delivery.redelivery_count == 0
        self.reads_after = entry.position
        member.held[entry.position] = entry

    def on_left(self, member: Member) -> None:
        self._look_who_is_active()

    async def join(self) -> None:
        await super().join()
        self._look_who_is_active()

    def check_quiet(self) -> None:
        active = self.active()
        if active is not None and self.members[active].permits > 0:
            assert not [each for each in self.unacked if each.position > self.reads_after]

    def _ack_through(self, member: Member, b: int) -> None:
        held = sorted(member.held)
        if held:
            position = held[b % len(held)]
            self.client.ack_through(member.id, position)
            for entry in [each for each in self.unacked if each.position <= position]:
                self._on_acked(entry, 0)

    def _give_back(self, member: Member, positions: list[tuple[int, int]]) -> None:
        self.client.redeliver(member.id, *positions)
        if member.id == self.active():
            self.reads_after = (-1, -1)


class FailoverHistory(ExclusiveHistory):
    kind = FAILOVER
    members_max = 4

    def active(self) -> int | None:
        ranking: Ranking[int] = Ranking(topic=TOPIC, partition_index=-1)
        for each in sorted(self.members):
            ranking.add(each, name=f"s-{each}", priority=0)
        return ranking.active()


@pytest.mark.parametrize("cache_bytes", [1 << 24, 1])
@pytest.mark.parametrize("kind", [ExclusiveHistory, FailoverHistory])
@given(history=steps)
def test_the_active_consumer_reads_on_from_the_mark_without_a_gap(
    kind: type[ExclusiveHistory], cache_bytes: int, history: list[Step]
) -> None:
    async def body(place: Place) -> None:
        await kind(place, Client(place.service)).run(history)

    run(body, cache_bytes=cache_bytes)
