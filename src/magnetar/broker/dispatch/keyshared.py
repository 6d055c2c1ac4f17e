"""Key_Shared: entries of one key go to one consumer at a time, in order, also while consumers come
and go.

A slot is *held* by the consumer that has unacknowledged entries of it. An entry goes to the slot's
owner only if nobody else holds the slot and nothing earlier of the slot waits in the replay queue;
else it waits there itself. So a slot that moves to another consumer drains first, whoever left or
joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.broker.consumer import Consumer, SubscriptionType
from magnetar.broker.dispatch.shared import SharedDispatcher
from magnetar.errors import ProtocolViolation
from magnetar.ledger.run import EntryRun
from magnetar.model.position import Position
from magnetar.rules.keyshared import (
    HalvingSelector,
    RingSelector,
    SlotRange,
    StickySelector,
)
from magnetar.wire.ackset import encode_ack_set
from magnetar.wire.entry import decode_metadata, sticky_key
from magnetar.wire.run import encode_message

if TYPE_CHECKING:
    from magnetar.broker.subscription import Subscription

_WAITING_MAX: Final = 2000
"""Entries that may wait for a busy consumer before reading ahead stops."""


class KeySharedDispatcher(SharedDispatcher):
    kind = SubscriptionType.KEY_SHARED

    def __init__(
        self, subscription: Subscription, *, is_sticky: bool, allow_out_of_order: bool
    ) -> None:
        super().__init__(subscription)
        self.is_sticky = is_sticky
        self.allow_out_of_order = allow_out_of_order
        config = self.topic.service.config
        self.selector: StickySelector[Consumer] | RingSelector[Consumer] | HalvingSelector[Consumer]
        if is_sticky:
            self.selector = StickySelector()
        elif config.subscriptionKeySharedUseConsistentHashing:
            self.selector = RingSelector(config.subscriptionKeySharedConsistentHashingReplicaPoints)
        else:
            self.selector = HalvingSelector()
        self._slots: dict[tuple[int, int], int] = {}
        """The slot of every entry that is out or waiting."""
        self._holders: dict[int, tuple[Consumer, int]] = {}
        """Who has unacknowledged entries of a slot, and how many."""
        self._waiting: dict[int, int] = {}
        """How many entries of a slot wait in the replay queue."""

    def fits(self, consumer: Consumer) -> bool:
        return (self.is_sticky, self.allow_out_of_order) == (
            consumer.is_sticky,
            consumer.allow_out_of_order,
        )

    async def add_consumer(self, consumer: Consumer) -> None:
        ranges = [SlotRange(*each) for each in consumer.hash_ranges]
        if isinstance(self.selector, StickySelector):
            # Whoever is in the way may be gone without a word: ask before the newcomer is refused.
            while (holder := self.selector.conflict(ranges)) is not None:
                if holder.connection is consumer.connection or await holder.connection.is_alive():
                    break
                holder.detach()
            self.selector = self.selector.add(consumer, name=consumer.name, ranges=ranges)
        else:
            self.selector = self.selector.add(consumer, name=consumer.name)
        await super().add_consumer(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        if consumer not in self._consumers:
            return
        self.selector = self.selector.remove(consumer)
        for position in consumer.pending:
            self._let_go(consumer, position)
            self._wait(position, self._slots.get(position, 0))
        super().remove_consumer(consumer)

    # ------------------------------------------------------------------ slots

    def draining(self) -> dict[Consumer, list[tuple[int, int]]]:
        """Slots that belong to another by now, by who holds entries of them, and how many."""
        found: dict[Consumer, list[tuple[int, int]]] = {}
        for slot, (holder, count) in sorted(self._holders.items(), key=lambda item: item[0]):
            if self.selector.owner(slot) is not holder:
                found.setdefault(holder, []).append((slot, count))
        return found

    def _hold(self, consumer: Consumer, position: tuple[int, int], slot: int) -> None:
        self._slots[position] = slot
        _, count = self._holders.get(slot, (consumer, 0))
        self._holders[slot] = (consumer, count + 1)

    def _let_go(self, consumer: Consumer, position: tuple[int, int]) -> None:
        slot = self._slots.get(position)
        held = self._holders.get(slot) if slot is not None else None
        if slot is None or held is None or held[0] is not consumer:
            return
        if held[1] > 1:
            self._holders[slot] = (consumer, held[1] - 1)
        else:
            del self._holders[slot]
            if self._waiting.get(slot):
                self.wake()

    def _wait(self, position: tuple[int, int], slot: int) -> None:
        if position not in self.replay:
            self.replay.add(position)
            self._slots[position] = slot
            self._waiting[slot] = self._waiting.get(slot, 0) + 1

    def _unwait(self, position: tuple[int, int], slot: int) -> None:
        if position in self.replay:
            self.replay.discard(position)
            left = self._waiting.get(slot, 0) - 1
            if left > 0:
                self._waiting[slot] = left
            else:
                self._waiting.pop(slot, None)

    def _on_released(self, consumer: Consumer, position: tuple[int, int]) -> None:
        self._let_go(consumer, position)

    def release(self, consumer: Consumer, position: tuple[int, int], remaining: int | None) -> int:
        if remaining is None and position in self.replay:
            self._unwait(position, self._slots.get(position, 0))
        released = super().release(consumer, position, remaining)
        if remaining is None:
            self._slots.pop(position, None)
        return released

    def redeliver(self, consumer: Consumer, positions: list[Position], epoch: int | None) -> None:
        given_back = [(p[0], p[1]) for p in positions] if positions else list(consumer.pending)
        waiting = [
            (p, self._slots[p]) for p in given_back if p in consumer.pending and p in self._slots
        ]
        super().redeliver(consumer, positions, epoch)
        for position, slot in waiting:
            self.replay.discard(position)
            self._wait(position, slot)

    def rewind(self) -> None:
        super().rewind()
        if hasattr(self, "_slots"):
            self._slots.clear()
            self._holders.clear()
            self._waiting.clear()

    # ------------------------------------------------------------------ delivery

    def _may_read_ahead(self) -> bool:
        return len(self.replay) < _WAITING_MAX

    def _may_skip_in_replay(self) -> bool:
        return True

    def _replay_candidates(self) -> list[tuple[int, int]]:
        """Only entries whose owner could take them now: the others would be read for nothing."""
        candidates: list[tuple[int, int]] = []
        stuck: set[int] = set()
        for position in self.replay.first(_WAITING_MAX + len(self.replay)):
            slot = self._slots.get(position)
            if slot is None:
                candidates.append(position)
            elif slot not in stuck:
                owner = self.selector.owner(slot)
                if owner is not None and owner.can_receive and self._is_free(slot, owner):
                    candidates.append(position)
                else:
                    stuck.add(slot)
        return candidates

    def _is_free(self, slot: int, owner: Consumer) -> bool:
        held = self._holders.get(slot)
        return self.allow_out_of_order or held is None or held[0] is owner

    def _slot_of(self, entry: bytes) -> int:
        try:
            return self.selector.slot_of(sticky_key(decode_metadata(entry)))
        except ProtocolViolation:
            return 1

    def _deliver(self, run: EntryRun, *, is_replay: bool) -> int:
        skipped = self._find_skipped(run)
        stuck: set[int] = set()
        for index, entry in enumerate(run.data):
            position = (run.ledger_id, run.first + index)
            slot = self._slots.get(position) if is_replay else None
            if slot is None:
                slot = self._slot_of(entry)
            if index in skipped:
                self._unwait(position, slot)
                continue
            owner = self.selector.owner(slot)
            blocked = slot in stuck or (
                not is_replay and slot in self._waiting and not self.allow_out_of_order
            )
            if blocked or owner is None or not owner.can_receive or not self._is_free(slot, owner):
                stuck.add(slot)
                self._wait(position, slot)
                continue
            self._unwait(position, slot)
            self._hold(owner, position, slot)
            self._send_one(owner, position, entry, run.counts[index])
        return len(run)

    def _send_one(
        self, consumer: Consumer, position: tuple[int, int], entry: bytes, count: int
    ) -> None:
        remaining = self.cursor.remaining(*position)
        messages = count if remaining is None else remaining.bit_count()
        frame = encode_message(
            consumer.id,
            *position,
            entry,
            partition=self.topic.name.partition_index,
            redelivery_count=self.redeliveries.get(position, 0),
            ack_set=() if remaining is None else encode_ack_set(remaining),
        )
        consumer.connection.send(frame)
        consumer.pending[position] = messages
        self._account(consumer, messages, len(entry))
