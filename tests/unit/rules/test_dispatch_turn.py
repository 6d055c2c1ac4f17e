"""Whose turn it is among many consumers of a shared subscription, and what it costs to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from magnetar.rules.dispatch.action import Moment, Traits
from magnetar.rules.dispatch.machine import DispatchLimits
from magnetar.rules.dispatch.member import Member
from magnetar.rules.dispatch.shared import Shared

NOW = Moment(0, 0.0)


class CountingMember(Member[int]):
    """Counts how often it is asked, and compared with another."""

    asked = 0
    compared = 0

    @property
    def can_receive(self) -> bool:
        CountingMember.asked += 1
        return super().can_receive

    def __eq__(self, other: object) -> bool:
        CountingMember.compared += 1
        return self is other

    __hash__ = Member.__hash__


@dataclass(frozen=True, slots=True)
class Plain:
    """Entries of one message each."""

    counts: Sequence[int]
    ledger_id: int = 1
    first: int = 0
    skipped: Collection[int] = ()
    withheld: Collection[int] = ()

    def special(self) -> Collection[int]:
        return ()

    def traits(self, index: int) -> Traits:
        raise AssertionError("no entry is special")


def crowd(permits: Sequence[int], levels: Sequence[int]) -> Shared[int]:
    machine: Shared[int] = Shared(DispatchLimits())
    for number, (each, level) in enumerate(zip(permits, levels, strict=True)):
        member = CountingMember(number, name=f"c{number}", priority=level)
        machine.add(member, NOW)
        member.permits = each
    return machine


def hand_out(machine: Shared[int], entries: int) -> Counter[int]:
    got: Counter[int] = Counter()
    for delivery in machine.offer(Plain([1] * entries), NOW):
        got[delivery.consumer] += delivery.messages
    return got


def test_a_turn_asks_few_of_many_consumers() -> None:
    count = 2_000
    machine = crowd([1] * count, [0] * count)
    CountingMember.asked = 0
    assert hand_out(machine, count) == Counter(range(count))
    assert CountingMember.asked < 4 * count


def test_those_without_permits_are_passed_over_and_the_others_stay_even() -> None:
    machine = crowd([100, 0, 100, 0, 100], [0] * 5)
    got = hand_out(machine, 240)
    assert set(got) == {0, 2, 4} and max(got.values()) - min(got.values()) <= 20


def test_a_level_gets_what_all_better_levels_have_no_permits_for() -> None:
    machine = crowd([1, 1, 1, 1, 1, 1], [2, 0, 1, 0, 1, 2])
    assert hand_out(machine, 2) == Counter([1, 3])
    assert hand_out(machine, 2) == Counter([2, 4])
    assert hand_out(machine, 3) == Counter([0, 5])


def test_a_member_that_leaves_is_found_without_comparing_it_with_the_others() -> None:
    count = 2_000
    machine = crowd([1] * count, [number % 3 for number in range(count)])
    CountingMember.compared = 0
    for member in reversed(list(machine.members)):
        machine.remove(member, NOW)
        machine.remove(member, NOW)
    assert not machine.members and CountingMember.compared < count


def test_members_of_one_level_stand_as_they_came_whoever_leaves() -> None:
    machine = crowd([1] * 6, [1, 0, 1, 0, 1, 0])
    second = machine.members[1]
    assert second.consumer == 3
    machine.remove(second, NOW)
    machine.add(second, NOW)
    assert [member.consumer for member in machine.members] == [1, 5, 3, 0, 2, 4]
