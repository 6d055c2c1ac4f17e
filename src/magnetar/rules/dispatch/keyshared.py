"""Key_Shared: entries of one key go to one consumer at a time, in order, also while consumers come
and go.

A slot is *held* by the consumer that has unacknowledged entries of it. An entry goes to the slot's
owner only if no other consumer holds the slot and nothing earlier of the slot waits in the replay
queue; else it waits there itself. So a slot that moves to another consumer drains first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from magnetar.model.subscription import SubscriptionType
from magnetar.rules.dispatch.action import Action, Deliver, Entries, Moment, Traits
from magnetar.rules.dispatch.machine import DispatchLimits
from magnetar.rules.dispatch.member import Member, Sharing
from magnetar.rules.dispatch.selector import (
    BucketSelector,
    HalvingSelector,
    RingSelector,
    StickySelector,
)
from magnetar.rules.dispatch.shared import WAITING_MAX, Shared

C = TypeVar("C")

Selector: TypeAlias = (
    StickySelector[Member[C]]
    | RingSelector[Member[C]]
    | HalvingSelector[Member[C]]
    | BucketSelector[Member[C]]
)


class KeyShared(Shared[C]):
    def __init__(
        self, sharing: Sharing, limits: DispatchLimits, *, ring_points: int, is_tracked: bool = True
    ) -> None:
        """`ring_points` of each consumer; 0: slots are shared by halving ranges instead."""
        super().__init__(limits, is_tracked=is_tracked)
        assert sharing.kind is SubscriptionType.KEY_SHARED
        self.is_sticky = sharing.is_sticky
        self.keeps_order = not sharing.allow_out_of_order
        self.selector: Selector[C] = _make_selector(sharing, ring_points)
        self._slots: dict[tuple[int, int], int] = {}
        """The slot of every entry that is out, waiting or delayed."""
        self._holders: dict[int, tuple[Member[C], int]] = {}
        """Who has unacknowledged entries of a slot, and how many; empty where order is not kept."""
        self._waiting: dict[int, int] = {}
        """How many entries of a slot wait in the replay queue."""

    # Consumers

    def rival_of(self, member: Member[C]) -> Member[C] | None:
        """The owner of a range that the newcomer asks for; none where slots are assigned."""
        selector = self.selector
        return selector.conflict(member.ranges) if isinstance(selector, StickySelector) else None

    def add(self, member: Member[C], now: Moment) -> Sequence[Action[C]]:
        selector = self.selector
        if isinstance(selector, BucketSelector):
            self.selector = selector.add(
                member, name=member.name, ranges=member.ranges, number=member.number
            )
        else:
            ranges = member.ranges if isinstance(selector, StickySelector) else ()
            self.selector = selector.add(member, name=member.name, ranges=ranges)
        return super().add(member, now)

    def remove(self, member: Member[C], now: Moment) -> Sequence[Action[C]]:
        self.selector = self.selector.remove(member)
        for position in member.pending:
            self._on_released(member, position)
        return super().remove(member, now)

    def _clear(self) -> None:
        super()._clear()
        self._slots.clear()
        self._holders.clear()
        self._waiting.clear()

    # Slots

    def draining(self) -> dict[C, list[tuple[int, int]]]:
        """Slots that belong to another by now, by who holds entries of them, and how many."""
        found: dict[C, list[tuple[int, int]]] = {}
        for slot, (holder, count) in sorted(self._holders.items(), key=lambda item: item[0]):
            if self.selector.owner(slot) is not holder:
                found.setdefault(holder.consumer, []).append((slot, count))
        return found

    def ranges(self) -> dict[C, list[tuple[int, int]]]:
        """The slots that each consumer owns."""
        found: dict[C, list[tuple[int, int]]] = {}
        for assignment in self.selector.assignments():
            found.setdefault(assignment.owner.consumer, []).append(assignment.range)
        return found

    def _slot_of(self, traits: Traits) -> int:
        """Where an entry was stamped for buckets that counts, else its key does."""
        selector = self.selector
        if isinstance(selector, BucketSelector) and traits.bucket_hash is not None:
            return selector.slot_at(traits.bucket_hash)
        return selector.slot_of(traits.key)

    def _note_slot(self, member: Member[C], position: tuple[int, int], slot: int) -> None:
        self._slots[position] = slot
        if self.keeps_order:
            _, count = self._holders.get(slot, (member, 0))
            self._holders[slot] = (member, count + 1)

    def _on_released(self, member: Member[C], position: tuple[int, int]) -> None:
        slot = self._slots[position]
        holder, count = self._holders.get(slot, (None, 0))
        if holder is not member:
            return
        if count > 1:
            self._holders[slot] = (member, count - 1)
        else:
            del self._holders[slot]
            if slot in self._waiting:
                self.is_due = True

    # What waits

    def _enqueue(self, position: tuple[int, int]) -> None:
        if position not in self.replay:
            slot = self._slots[position]
            self._waiting[slot] = self._waiting.get(slot, 0) + 1
            super()._enqueue(position)

    def _dequeue(self, position: tuple[int, int]) -> None:
        if position in self.replay:
            slot = self._slots[position]
            self._waiting[slot] -= 1
            if not self._waiting[slot]:
                del self._waiting[slot]
            super()._dequeue(position)

    def _forget(self, position: tuple[int, int]) -> None:
        super()._forget(position)
        self._slots.pop(position, None)

    # Delivery

    def _may_read_ahead(self) -> bool:
        return len(self.replay) < WAITING_MAX

    def _replay_candidates(self) -> list[tuple[int, int]]:
        """Only entries whose owner could take them now: the others would be read for nothing."""
        candidates: list[tuple[int, int]] = []
        stuck: set[int] = set()
        for position in self.replay.first(len(self.replay)):
            slot = self._slots[position]
            if slot not in stuck:
                if self._receiver(slot) is not None:
                    candidates.append(position)
                else:
                    stuck.add(slot)
        return candidates

    def _receiver(self, slot: int) -> Member[C] | None:
        """The slot's owner if it can take an entry of the slot now."""
        owner = self.selector.owner(slot)
        if owner is None or not owner.can_receive or self.blocked:
            return None
        holder, _ = self._holders.get(slot, (owner, 0))
        return owner if holder is owner else None

    def _hand_out(
        self, entries: Entries, now: Moment, *, is_replay: bool
    ) -> tuple[int, Sequence[Deliver[C]]]:
        stuck: set[int] = set()
        taken: dict[Member[C], list[int]] = {}
        for index in range(len(entries.counts)):
            position = (entries.ledger_id, entries.first + index)
            if index in entries.skipped:
                if index in entries.withheld:
                    self._dequeue(position)
                    self._slots.setdefault(position, self._slot_of(entries.traits(index)))
                else:
                    self._forget(position)
                continue
            known = self._slots.get(position)
            if known is None:
                traits = entries.traits(index)
                slot = self._slot_of(traits)
                if self._is_tracked:
                    self._slots[position] = slot
                    if self._delay(traits, position, now):
                        continue
            else:
                slot = known
            overtakes = not is_replay and self.keeps_order and slot in self._waiting
            owner = None if overtakes or slot in stuck else self._receiver(slot)
            if owner is not None:
                if self._is_tracked:
                    self._note_slot(owner, position, slot)
                    owner.pending[position] = entries.counts[index]
                self._charge(owner, entries.counts[index])
                taken.setdefault(owner, []).append(index)
            elif self._is_tracked:
                stuck.add(slot)
                self._enqueue(position)
        if is_replay and stuck:
            self._plan.clear()  # what follows must not overtake the rest
        deliveries = []
        for member, indexes in taken.items():
            messages = sum([entries.counts[index] for index in indexes])
            deliveries.append(self._conclude(member, entries, indexes, messages, is_replay))
        return len(entries.counts), deliveries


def _make_selector(sharing: Sharing, ring_points: int) -> Selector[C]:
    if sharing.is_bucketed:
        return BucketSelector()
    if sharing.is_sticky:
        return StickySelector()
    return RingSelector(ring_points) if ring_points else HalvingSelector()
