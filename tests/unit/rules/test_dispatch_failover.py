"""Who reads a failover subscription when its consumers come and go in quick succession."""

from __future__ import annotations

from magnetar.model.position import Position
from magnetar.rules.dispatch.action import Announce, Moment, Read, Rewind, Sleep
from magnetar.rules.dispatch.member import Member
from magnetar.rules.dispatch.single import SingleActive


class Group:
    """Of partition 1 the second consumer by name is the active one."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self.machine: SingleActive[str] = SingleActive(
            is_failover=True, topic="t-partition-1", partition_index=1, switch_delay_s=1.0
        )
        self.first, self.second, self.third = (Member(name, name=name) for name in "abc")
        for each in (self.first, self.second, self.third):
            self.machine.add(each, self.now())
        self.pass_s(1)
        assert Rewind("b") in self.machine.poll(self.now(), 100)
        self.machine.on_rewound(Position(3, 0))
        self.machine.grant(self.second, 100)
        self.machine.on_rewound(Position(3, 20))  # it was handed everything before

    def now(self) -> Moment:
        return Moment(int(self.at_s * 1000), self.at_s)

    def pass_s(self, seconds: float) -> None:
        self.at_s += seconds

    def replace_first(self) -> None:
        """Without the first, the third is the second by name."""
        assert self.machine.remove(self.first, self.now()) == (Sleep(1.0),)
        assert self.machine.active is self.third
        self.pass_s(0.1)
        actions = self.machine.add(Member("a", name="a"), self.now())
        assert self.machine.active is self.second
        assert Rewind("b") not in actions


def test_a_consumer_elected_again_before_another_began_reads_on() -> None:
    group = Group()
    group.replace_first()
    assert group.machine.is_due
    (read,) = group.machine.poll(group.now(), 100)
    assert isinstance(read, Read) and read.position == (3, 20)


def test_what_it_gave_back_meanwhile_comes_again() -> None:
    group = Group()
    assert group.machine.remove(group.first, group.now()) == (Sleep(1.0),)
    assert group.machine.redeliver(group.second, [(3, 4)]) == ()
    assert group.machine.add(Member("a", name="a"), group.now()) == (Sleep(1.0),)
    group.pass_s(1)
    assert Rewind("b") in group.machine.poll(group.now(), 100)


def test_a_consumer_elected_after_another_began_starts_at_the_first_unacknowledged() -> None:
    group = Group()
    group.machine.remove(group.first, group.now())
    group.pass_s(1)
    assert group.machine.poll(group.now(), 100)[:1] == (Rewind("c"),)
    assert group.machine.add(Member("a", name="a"), group.now()) == (Sleep(1.0),)
    group.pass_s(1)
    actions = group.machine.poll(group.now(), 100)
    assert Rewind("b") in actions and Announce("b", is_active=True) in actions
