"""Laws of dispatch, held against the machines alone: no broker, no loop, no clock."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.model.position import Position
from magnetar.model.subscription import SubscriptionType
from magnetar.rules.dispatch.action import Traits
from magnetar.rules.dispatch.keyshared import KeyShared
from magnetar.rules.dispatch.machine import DispatchLimits
from magnetar.rules.dispatch.member import Member, Sharing
from magnetar.rules.dispatch.shared import Shared
from magnetar.rules.dispatch.single import SingleActive
from tests.property.dispatch_world import Entry, Found, Reader, Step, World, steps

limits = st.builds(
    DispatchLimits,
    unacked_per_consumer=st.sampled_from([3, 6, 1 << 60]),
    unacked_in_all=st.sampled_from([4, 9, 1 << 60]),
    delays=st.booleans(),
)


class SingleWorld(World):
    """One at a time reads on without a gap."""

    tracks = False

    def __init__(self, *, is_failover: bool, switch_delay_s: float) -> None:
        self.readers_max = 4 if is_failover else 1
        self._read_to = Position(-1, -1)
        super().__init__(
            SingleActive(
                is_failover=is_failover,
                topic="t",
                partition_index=-1,
                switch_delay_s=switch_delay_s,
            ),
            DispatchLimits(),
        )

    def on_rewound(self) -> None:
        self._read_to = Position(-1, -1)

    def on_delivered(self, reader: Reader, entry: Entry, redeliveries: int) -> None:
        assert self.machine.active is self.members[reader]
        unread = [each for each in self.unacked if each.position > self._read_to]
        assert unread[0] is entry, "nothing is left out, nothing comes twice, all in order"
        self._read_to = entry.position

    def check_quiet(self) -> None:
        active = self.machine.active
        assert (active is None) == (not self.members)
        if active is not None and self.can_receive(active.consumer):
            assert not [each for each in self.unacked if each.position > self._read_to]

    def rest(self) -> None:
        self.pass_ms(60_000)  # the switch to another is over
        super().rest()


class SharedWorld(World):
    """What is unacknowledged is held by one, or waits for permits."""

    def __init__(self, limits: DispatchLimits) -> None:
        super().__init__(self.make(limits), limits)

    def make(self, limits: DispatchLimits) -> Shared[Reader]:
        return Shared(limits)

    def on_delivered(self, reader: Reader, entry: Entry, redeliveries: int) -> None:
        assert self.holder_of(entry) is None, "no message with two consumers at once"
        assert redeliveries == entry.redeliveries
        assert reader.unacked < self.limits.unacked_per_consumer
        assert sum(each.unacked for each in self.members) < self.limits.unacked_in_all
        assert entry.traits.deliver_at_ms <= self.now_ms or not self.limits.delays
        self.check_chunk(reader, entry)

    def check_chunk(self, reader: Reader, entry: Entry) -> None:
        """All chunks of a message go to one consumer, for as long as it is there."""
        chunk = entry.traits.chunk
        if chunk is not None:
            assert not [r for r in self.members if r is not reader and chunk.uuid in r.chunks]
            reader.chunks.add(chunk.uuid)
            if chunk.is_last:
                reader.chunks.discard(chunk.uuid)

    def on_left(self, reader: Reader) -> None:
        if not self.members:  # the next one reads from the start again
            for entry in self.log:
                entry.redeliveries = 0

    def is_blocked(self) -> bool:
        return self.machine.blocked

    def waiting(self) -> list[Entry]:
        """What could be delivered so far as the entry itself is concerned."""
        return [
            entry
            for entry in self.unacked
            if self.holder_of(entry) is None
            and (entry.traits.deliver_at_ms <= self.now_ms or not self.limits.delays)
        ]

    def check_quiet(self) -> None:
        if self.is_blocked():
            assert sum(each.unacked for each in self.members) > self.limits.unacked_in_all // 2
            return
        if any(self.can_receive(each) for each in self.members):
            for entry in self.waiting():
                chunk = entry.traits.chunk
                assert chunk is not None, "a message and permits are there"
                owners = [each for each in self.members if chunk.uuid in each.chunks]
                assert owners and not self.can_receive(owners[0])


class KeySharedWorld(SharedWorld):
    """A key is with one consumer at a time, in order."""

    def make(self, limits: DispatchLimits) -> Shared[Reader]:
        return KeyShared(Sharing(SubscriptionType.KEY_SHARED), limits, ring_points=10)

    def slot_of(self, entry: Entry) -> int:
        assert isinstance(self.machine, KeyShared)
        return self.machine.selector.slot_of(entry.traits.key)

    def owner_of(self, slot: int) -> Reader | None:
        assert isinstance(self.machine, KeyShared)
        owner = self.machine.selector.owner(slot)
        return None if owner is None else owner.consumer

    def is_late(self, entry: Entry) -> bool:
        return self.limits.delays and entry.traits.deliver_at_ms > 0

    def check_chunk(self, reader: Reader, entry: Entry) -> None:
        slot = self.slot_of(entry)
        assert self.owner_of(slot) is reader
        for other in self.members:
            if other is not reader:
                assert slot not in map(self.slot_of, other.held.values()), "a key is with one"
        for earlier in self.unacked:
            if earlier.position >= entry.position:
                break
            if self.slot_of(earlier) == slot and not self.is_late(earlier):
                assert earlier.position in reader.held, "a key stays in order"

    def check_quiet(self) -> None:
        if self.is_blocked():
            return
        seen: set[int] = set()
        for entry in self.waiting():
            slot = self.slot_of(entry)
            owner = self.owner_of(slot)
            if slot not in seen and owner is not None and self.can_receive(owner):
                holders = {self.holder_of(e) for e in self.unacked if self.slot_of(e) == slot}
                assert holders - {owner, None}, "a message and permits are there"
            seen.add(slot)


@pytest.mark.parametrize("is_failover", [False, True])
@settings(max_examples=300)
@given(history=steps, switch_delay_s=st.sampled_from([0.0, 0.02]))
def test_the_active_consumer_gets_all_in_the_order_of_the_log(
    is_failover: bool, history: list[Step], switch_delay_s: float
) -> None:
    SingleWorld(is_failover=is_failover, switch_delay_s=switch_delay_s).run(history)


@settings(max_examples=300)
@given(history=steps, limits=limits)
def test_a_message_is_with_one_consumer_until_it_is_acknowledged(
    history: list[Step], limits: DispatchLimits
) -> None:
    SharedWorld(limits).run(history)


@settings(max_examples=300)
@given(history=steps, limits=limits)
def test_a_key_is_with_one_consumer_and_in_order(
    history: list[Step], limits: DispatchLimits
) -> None:
    KeySharedWorld(limits).run(history)


@pytest.mark.parametrize("world", [SharedWorld, KeySharedWorld])
def test_what_is_redelivered_while_the_end_of_the_log_is_read_is_not_forgotten(
    world: type[SharedWorld],
) -> None:
    world(DispatchLimits()).run([("publish", 0, 0, 3), ("redeliver", 3, 5, 1), ("rest", 0, 0, 0)])


def test_nothing_overtakes_what_a_failed_read_should_have_redelivered() -> None:
    KeySharedWorld(DispatchLimits()).run(
        [
            ("join", 0, 0, 0),
            ("publish", 4, 11, 1),
            ("publish", 2, 169, 2),
            ("redeliver", 8, 11, 4),
            ("fail", 0, 0, 0),
        ]
    )


@given(count=st.integers(1, 5), published=st.integers(0, 150), permits=st.integers(200, 400))
def test_consumers_with_permits_take_turns(count: int, published: int, permits: int) -> None:
    world = SharedWorld(DispatchLimits())
    readers = [world.join(0) for _ in range(count)]
    for reader in readers:
        world._grant(reader, permits)
    for _ in range(published):
        world.publish(1, Traits())
    world.rest()
    turns = [reader.turns for reader in readers]
    assert max(turns) - min(turns) <= 1


@given(first=st.integers(1, 30), published=st.integers(1, 60))
def test_a_lower_level_is_served_when_the_best_has_no_permits(first: int, published: int) -> None:
    world = SharedWorld(DispatchLimits())
    best, other = world.join(0), world.join(1)
    world._grant(best, first)
    world._grant(other, 100)
    for _ in range(published):
        world.publish(1, Traits())
    world.rest()
    assert len(best.held) == min(first, published)
    assert len(other.held) == max(0, published - first)


@pytest.mark.parametrize("kind", list(SubscriptionType))
@given(
    counts=st.lists(st.integers(1, 3), min_size=1, max_size=30),
    permits=st.lists(st.integers(0, 12), min_size=1, max_size=3),
)
def test_what_is_kept_nowhere_goes_out_once_and_only_for_permits(
    kind: SubscriptionType, counts: list[int], permits: list[int]
) -> None:
    machine = {
        SubscriptionType.SHARED: lambda: Shared[Reader](DispatchLimits(), is_tracked=False),
        SubscriptionType.KEY_SHARED: lambda: KeyShared[Reader](
            Sharing(SubscriptionType.KEY_SHARED), DispatchLimits(), ring_points=10, is_tracked=False
        ),
    }.get(
        kind,
        lambda: SingleActive[Reader](
            is_failover=kind is SubscriptionType.FAILOVER,
            topic="t",
            partition_index=-1,
            switch_delay_s=0.0,
        ),
    )()
    world = SharedWorld(DispatchLimits())
    readers = [Reader(number) for number in range(len(permits))]
    if kind is SubscriptionType.EXCLUSIVE:
        readers = readers[:1]
    members = [Member(reader, name=f"c{reader.id}") for reader in readers]
    for member, granted in zip(members, permits, strict=False):
        machine.add(member, world.moment)
        machine.grant(member, granted)
    for number, count in enumerate(counts):
        world.publish(count, Traits(key=b"k%d" % (number % 5)))
    deliveries = machine.offer(Found(world.log), world.moment)
    out = [index for delivery in deliveries for index in delivery.indexes]
    assert len(out) == len(set(out)), "no message with two consumers at once"
    for member, granted in zip(members, permits, strict=False):
        sent = [counts[i] for d in deliveries if d.consumer is member.consumer for i in d.indexes]
        assert member.permits == granted - sum(sent)
        assert not sent or granted - sum(sent[:-1]) > 0, "permits are never overspent"
        assert not member.pending and not member.unacked
    if kind is SubscriptionType.SHARED:
        assert len(out) == len(counts) or all(member.permits <= 0 for member in members)
