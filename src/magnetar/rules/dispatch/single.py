"""Exclusive and Failover: one consumer at a time gets the entries, in the order of the log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeVar

from magnetar.errors import ConsumerBusy
from magnetar.model.position import Position
from magnetar.rules.dispatch.action import (
    Action,
    Announce,
    Deliver,
    Entries,
    Moment,
    Read,
    Rewind,
    Sleep,
)
from magnetar.rules.dispatch.machine import Machine, cut_by_permits
from magnetar.rules.dispatch.member import Member
from magnetar.rules.dispatch.replay import ReplayQueue, split_consecutive
from magnetar.rules.failover import Ranking

C = TypeVar("C")


class SingleActive(Machine[C]):
    def __init__(
        self, *, is_failover: bool, topic: str, partition_index: int, switch_delay_s: float
    ) -> None:
        super().__init__()
        self._is_failover = is_failover
        # One that is alone is ranked among none: it takes no place on a ring.
        index = partition_index if is_failover else 0
        self._ranking: Ranking[Member[C]] = Ranking(topic=topic, partition_index=index)
        self._switch_delay_s = switch_delay_s if is_failover else 0.0
        self._switch_at_s: float | None = None
        """When the active one begins. What a previous one was handed may be acknowledged until then
        instead of being repeated, and consumers that come together are elected once.
        """
        self._reader: Member[C] | None = None
        """Was handed everything before the read position. If it is elected again before another has
        begun, it reads on: a rewind would repeat what it still has.
        """
        self._allowed = 0
        self._again: ReplayQueue = ReplayQueue()
        """Entries that a transaction had acknowledged and did not commit."""

    # Who is active

    def rival_of(self, member: Member[C]) -> Member[C] | None:
        return self.members[0] if self.members and not self._is_failover else None

    def add(self, member: Member[C], now: Moment) -> Sequence[Action[C]]:
        if self.rival_of(member) is not None:
            raise ConsumerBusy("Exclusive consumer is already connected")
        self._note_arrival(member)
        self.members.append(member)
        self._ranking.add(member, name=member.name, priority=member.priority)
        return self._elect(now, newcomer=member)

    def remove(self, member: Member[C], now: Moment) -> Sequence[Action[C]]:
        if member not in self._ranking:
            return ()
        self._ranking.remove(member)
        del self.members[bisect_left(self.members, member.order, key=lambda each: each.order)]
        if self._reader is member:
            self._reader = None
        if self.active is member:
            self.active = None
            self._reading = None
        return self._elect(now)  # partitions are assigned anew after every departure

    def _elect(self, now: Moment, newcomer: Member[C] | None = None) -> Sequence[Action[C]]:
        chosen, previous = self._ranking.active(), self.active
        if chosen is not previous:
            self.active = chosen
            self._switch_at_s = None
            self._reading = None
        if chosen is None:
            return ()
        if chosen is previous or chosen is self._reader:
            self.is_due = True
            if newcomer is None or not self._is_failover:
                return ()
            return (Announce(newcomer.consumer, is_active=False),)
        if self._switch_delay_s > 0:
            self._switch_at_s = now.steady_s + self._switch_delay_s
            return (Sleep(self._switch_delay_s),)
        return self._start(chosen)

    def _start(self, active: Member[C]) -> Sequence[Action[C]]:
        self._switch_at_s = None
        self._reader = active
        rewind = Rewind(active.consumer)
        if not self._is_failover:
            return (rewind,)
        announcements = (Announce(each.consumer, each is active) for each in self.members)
        return (rewind, *announcements)

    # Delivery

    def poll(self, now: Moment, allowed: int) -> Sequence[Action[C]]:
        self.is_due = False
        active = self.active
        if active is None:
            return ()
        if self._switch_at_s is not None:
            left_s = self._switch_at_s - now.steady_s
            return (Sleep(left_s),) if left_s > 0 else self._start(active)
        if self._reading is not None or allowed <= 0 or not active.can_receive:
            return ()
        self._allowed = min(allowed, active.permits)
        self._reading = self._choose_read()
        return (self._reading,)

    def _choose_read(self) -> Read:
        """What was given back goes out before anything new."""
        if len(self._again):
            runs = split_consecutive(self._again.first(self._allowed))
            ledger_id, first, count = runs[0]
            return Read(Position(ledger_id, first), count, is_replay=True)
        return Read(self.read_position, self._allowed)

    def on_nothing(self, read: Read) -> None:
        super().on_nothing(read)
        if read.is_replay:  # it was trimmed
            self._forget_again(read, read.entries_max)

    def _forget_again(self, read: Read, count: int) -> None:
        ledger_id, first = read.position
        for entry_id in range(first, first + count):
            self._again.discard((ledger_id, entry_id))
        self.is_due = True

    def on_entries(self, read: Read, entries: Entries, now: Moment) -> Sequence[Deliver[C]]:
        if read is not self._reading:
            return ()
        self._reading = None
        self.is_due = True
        active = self.active
        if active is None or not active.can_receive:
            return ()
        if read.is_replay and (entries.ledger_id, entries.first) != read.position:
            self._forget_again(read, read.entries_max)
            return ()
        taken, deliveries = self._hand_out(active, entries, self._allowed)
        if read.is_replay:
            self._forget_again(read, taken)
            return deliveries
        self.read_position = Position(entries.ledger_id, entries.first + taken)
        return deliveries

    def offer(self, entries: Entries, now: Moment) -> Sequence[Deliver[C]]:
        active = self.active
        if active is None or not active.can_receive:
            return ()
        return self._hand_out(active, entries, active.permits)[1]

    def _hand_out(
        self, active: Member[C], entries: Entries, allowed: int
    ) -> tuple[int, Sequence[Deliver[C]]]:
        """How many entries from the front are dealt with, and what is delivered of them."""
        counts, skipped = entries.counts, entries.skipped
        messages, taken = sum(counts), len(counts)
        if messages > allowed:
            taken = cut_by_permits(counts, allowed)
            messages = sum(counts[:taken])
        indexes: Sequence[int] = range(taken)
        if skipped:
            indexes = [index for index in indexes if index not in skipped]
        if not indexes:
            return taken, ()
        active.permits -= messages
        return taken, (Deliver(active.consumer, indexes, messages),)

    def on_rewound(self, position: Position) -> None:
        super().on_rewound(position)
        for each in [*self._again]:
            if each >= position:
                self._again.discard(each)

    def redeliver(
        self, member: Member[C] | None, positions: Sequence[tuple[int, int]]
    ) -> Sequence[Action[C]]:
        """For a consumer the log is read again from the first unacknowledged entry on, whatever is
        asked for.
        """
        if member is None:
            for position in positions:
                if position < self.read_position:
                    self._again.add(position)
            self.is_due = True
            return ()
        if member is not self.active or self._switch_at_s is not None:
            if member is self._reader:
                self._reader = None  # if it is elected again, it begins with what it gave back
            return ()
        return (Rewind(member.consumer),)
