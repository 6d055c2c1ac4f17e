"""Random histories of one subscription against the plainest model of it.

The model knows what was published, what is acknowledged, and who holds what. It hears of deliveries
from the wire only and holds each against the laws; after every step the broker's own books must say
the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.subscription import Subscription
from magnetar.model.position import Position
from magnetar.rules.dispatch.shared import Shared
from magnetar.wire.command import BaseCommand
from tests.unit.broker.broker_place import Place
from tests.unit.broker.traffic import TOPIC, Client, Delivery, settle

OPERATIONS = (
    *("publish", "publish", "publish", "publish", "publish", "publish"),
    *("flow", "flow", "flow", "flow", "ack", "ack", "ack part", "ack through", "ack anything"),
    *("give back", "give back", "give all back", "join", "join", "leave"),
    *("seek", "reload", "skip"),
)

Step = tuple[str, int, int, int]
"""What to do, two numbers to choose by, and how many turns the loop gets before the next."""

steps = st.lists(
    st.tuples(
        st.sampled_from(OPERATIONS), st.integers(0, 999), st.integers(0, 999), st.integers(0, 12)
    ),
    max_size=45,
)


@dataclass
class Entry:
    position: tuple[int, int]
    key: str
    full: int
    """A bit for each message."""
    remaining: int
    """Bits of the messages that are not acknowledged."""
    redeliveries: int = 0

    @property
    def count(self) -> int:
        return self.remaining.bit_count()


@dataclass
class Member:
    """A consumer that is attached."""

    id: int
    permits: int = 0
    held: dict[tuple[int, int], Entry] = field(default_factory=dict)

    @property
    def unacked(self) -> int:
        return sum(entry.count for entry in self.held.values())


class History:
    """What is the same for every kind; a kind says what a delivery must be like."""

    kind: int
    members_max = 4

    def __init__(self, place: Place, client: Client) -> None:
        self._place = place
        self.client = client
        self.entries: dict[tuple[int, int], Entry] = {}
        self.members: dict[int, Member] = {}
        self._next_id = 1
        self._seen = 0

    # ------------------------------------------------------------------ what a kind says

    def on_delivery(self, member: Member, entry: Entry, delivery: Delivery) -> None:
        raise NotImplementedError

    def check_quiet(self) -> None:
        """Nothing moves any more: what could be delivered is."""
        raise NotImplementedError

    def on_left(self, member: Member) -> None:
        """A consumer is gone."""

    # ------------------------------------------------------------------ looking

    @property
    def unacked(self) -> list[Entry]:
        """In the order of the log."""
        return [self.entries[p] for p in sorted(self.entries) if self.entries[p].remaining]

    async def topic(self) -> PersistentTopic:
        return await self._place.topic(TOPIC)

    async def subscription(self) -> Subscription:
        return (await self.topic()).subscriptions["s"]

    def observe(self) -> None:
        """Take note of everything the broker has handed out so far."""
        self.client.flush()
        for consumer_id, delivery in self.client.deliveries_since(self._seen):
            member = self.members[consumer_id]
            entry = self.entries[delivery.position]
            assert entry.remaining, "what is acknowledged is not delivered again"
            assert member.permits > 0, "a delivery needs permits"
            told = entry.full if delivery.remaining is None else delivery.remaining
            assert told == entry.remaining, "of a batch only what is left counts"
            self.on_delivery(member, entry, delivery)
            member.permits -= entry.count
        self._seen = self.client.received_count

    async def check_books(self) -> None:
        subscription = await self.subscription()
        assert subscription.backlog == len(self.unacked)
        assert {each.id for each in subscription.consumers} == set(self.members)
        for consumer in subscription.consumers:
            assert consumer.member.permits == self.members[consumer.id].permits
        machine = None if subscription.dispatcher is None else subscription.dispatcher.machine
        if isinstance(machine, Shared):
            for consumer in subscription.consumers:
                assert consumer.member.unacked == self.members[consumer.id].unacked
            assert machine.unacked == sum(member.unacked for member in self.members.values())

    # ------------------------------------------------------------------ steps

    async def run(self, history: Sequence[Step]) -> None:
        await self.client.produce(TOPIC)
        await self.join()
        for step, a, b, turns in history:
            await self._step(step, a, b)
            for _ in range(turns):
                await asyncio.sleep(0)
            self.observe()
            await self.check_books()
            if turns > 10:
                await self._rest()
        await self._rest()
        await self._finish()

    async def _rest(self) -> None:
        heard = -1
        while heard != self.client.received_count:  # each ledger may cost a read
            heard = self.client.received_count
            await settle()
        self.observe()
        await self.check_books()
        self.check_quiet()

    async def _finish(self) -> None:
        """Whoever is attached takes and acknowledges all: everything must come, and be done."""
        if not self.members:
            await self.join()
        while self.unacked:
            before = len(self.unacked)
            for member in self.members.values():
                self._flow(member, 50)
            await self._rest()
            for member in list(self.members.values()):
                for entry in list(member.held.values()):
                    self._ack(member, entry)
            assert len(self.unacked) < before, "nothing comes any more"
        await self._rest()
        assert (await self.subscription()).backlog == 0

    async def _step(self, step: str, a: int, b: int) -> None:
        member = self._choose_member(a)
        match step:
            case "publish":
                await self._publish(a, b)
            case "join":
                if len(self.members) < self.members_max:
                    await self.join()
            case "seek":
                if member is not None:
                    await self._seek(member, b)
            case "reload":
                await self._place.service.catalog.unload_topic((await self.topic()).name)
                self._all_left()
                await self.client.produce(TOPIC)
            case "skip":
                for entry in self.unacked[: b % 4]:
                    self._on_acked(entry, 0)
                await (await self.subscription()).skip(b % 4)
            case _ if member is not None:
                self._say(step, member, b)
            case _:
                await self.join()

    def _say(self, step: str, member: Member, b: int) -> None:
        """What a client tells without waiting for an answer."""
        held = sorted(member.held)
        match step:
            case "flow":
                self._flow(member, 1 + b % 7)
            case "ack":
                if held:
                    self._ack(member, member.held[held[b % len(held)]])
            case "ack part":
                self._ack_part(member, b)
            case "ack anything":  # also what was not delivered, or not to this one
                if self.unacked:
                    self._ack(member, self.unacked[b % len(self.unacked)])
            case "ack through":
                self._ack_through(member, b)
            case "give back":
                self._give_back(member, [p for i, p in enumerate(held) if b >> i & 1])
            case "give all back":
                self._give_back(member, [])
            case "leave":
                self._leave(member)
            case _:
                raise AssertionError(step)

    def _choose_member(self, number: int) -> Member | None:
        ids = sorted(self.members)
        return self.members[ids[number % len(ids)]] if ids else None

    async def _publish(self, a: int, b: int) -> None:
        count = 1 + a % 4
        key = f"k{b % 4}"
        if count == 1:
            position = await self.client.publish("x", key=key)
        else:
            position = await self.client.publish_batch(["x"] * count, key=key)
        where = (position.ledger_id, position.entry_id)
        self.entries[where] = Entry(where, key, (1 << count) - 1, (1 << count) - 1)
        if b % 10 == 0:
            await (await self.topic()).log.roll()

    async def join(self) -> None:
        consumer_id, self._next_id = self._next_id, self._next_id + 1
        answer = await self.client.subscribe(
            TOPIC, "s", self.kind, consumer_id=consumer_id, permits=0
        )
        self.observe()
        assert answer.type == BaseCommand.SUCCESS
        self.members[consumer_id] = Member(consumer_id)

    def _leave(self, member: Member) -> None:
        self.client.say_goodbye(member.id)
        del self.members[member.id]
        self.on_left(member)

    def _all_left(self) -> None:
        self.observe_quietly()
        left = list(self.members.values())
        self.members.clear()
        for member in left:
            self.on_left(member)

    def observe_quietly(self) -> None:
        """What was on its way to consumers that are gone by now does not count."""
        self.client.flush()
        self._seen = self.client.received_count

    async def _seek(self, member: Member, b: int) -> None:
        everything = sorted(self.entries)
        if not everything:
            return
        target = everything[b % len(everything)]
        answer = await self.client.seek(member.id, Position(*target))
        assert answer.type == BaseCommand.SUCCESS
        self._all_left()
        for position, entry in self.entries.items():
            entry.remaining = 0 if position < target else entry.full

    def _flow(self, member: Member, permits: int) -> None:
        self.client.flow(member.id, permits)
        member.permits += permits

    def _ack(self, member: Member, entry: Entry) -> None:
        self.client.ack(member.id, entry.position)
        self._on_acked(entry, 0)

    def _ack_part(self, member: Member, b: int) -> None:
        batches = [entry for entry in self.unacked if entry.full > 1]
        if batches:
            entry = batches[b % len(batches)]
            mask = b // len(batches) % (entry.full + 1)
            self.client.ack_part(member.id, entry.position, mask)
            self._on_acked(entry, entry.remaining & mask)

    def _ack_through(self, member: Member, b: int) -> None:
        """Kinds that do not hear of it send it all the same."""
        if self.unacked:
            self.client.ack_through(member.id, self.unacked[b % len(self.unacked)].position)

    def _on_acked(self, entry: Entry, remaining: int) -> None:
        entry.remaining = remaining
        if not remaining:
            for member in self.members.values():
                member.held.pop(entry.position, None)

    def _give_back(self, member: Member, positions: list[tuple[int, int]]) -> None:
        self.client.redeliver(member.id, *positions)
        for position in positions or list(member.held):
            member.held.pop(position).redeliveries += 1
