"""Key_Shared: entries of one key go to one consumer at a time, in order, also while consumers come
and go.

A slot is *held* by the consumer that has unacknowledged entries of it. An entry goes to the slot's
owner only if nobody else holds the slot and nothing earlier of the slot waits in the replay queue;
else it waits there itself. So a slot that moves to another consumer drains first, whoever left or
joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.consumer import Consumer, SubscriptionType
from magnetar.broker.dispatch.selector import add_to, make_selector, rival_in, slot_of
from magnetar.broker.dispatch.shared import WAITING_MAX, SharedDispatcher
from magnetar.broker.entry import metadata_or_none
from magnetar.ledger.run import EntryRun

if TYPE_CHECKING:
    from magnetar.broker.subscription import Subscription


class KeySharedDispatcher(SharedDispatcher):
    kind = SubscriptionType.KEY_SHARED

    def __init__(
        self,
        subscription: Subscription,
        *,
        is_sticky: bool,
        is_bucketed: bool = False,
        allow_out_of_order: bool,
    ) -> None:
        super().__init__(subscription)
        self.is_sticky = is_sticky
        self.is_bucketed = is_bucketed
        self.allow_out_of_order = allow_out_of_order
        self.selector = make_selector(
            self.topic.service.config, is_sticky=is_sticky, is_bucketed=is_bucketed
        )
        self._slots: dict[tuple[int, int], int] = {}
        """The slot of every entry that is out, waiting or delayed."""
        self._holders: dict[int, tuple[Consumer, int]] = {}
        """Who has unacknowledged entries of a slot, and how many; empty where order is not kept."""
        self._waiting: dict[int, int] = {}
        """How many entries of a slot wait in the replay queue."""

    def fits(self, consumer: Consumer) -> bool:
        return (self.is_sticky, self.is_bucketed, self.allow_out_of_order) == (
            consumer.is_sticky,
            consumer.is_bucketed,
            consumer.allow_out_of_order,
        )

    def rival_of(self, consumer: Consumer) -> Consumer | None:
        return rival_in(self.selector, consumer)

    def add_consumer(self, consumer: Consumer) -> None:
        self.selector = add_to(self.selector, consumer)
        super().add_consumer(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        if consumer not in self._consumers:
            return
        self.selector = self.selector.remove(consumer)
        for position in consumer.pending:
            self._let_go(consumer, position)
        super().remove_consumer(consumer)

    def rewind(self) -> None:
        super().rewind()
        self._slots.clear()
        self._holders.clear()
        self._waiting.clear()

    # ------------------------------------------------------------------ slots

    def draining(self) -> dict[Consumer, list[tuple[int, int]]]:
        """Slots that belong to another by now, by who holds entries of them, and how many."""
        found: dict[Consumer, list[tuple[int, int]]] = {}
        for slot, (holder, count) in sorted(self._holders.items(), key=lambda item: item[0]):
            if self.selector.owner(slot) is not holder:
                found.setdefault(holder, []).append((slot, count))
        return found

    def _slot_of(self, position: tuple[int, int], entry: bytes) -> int:
        slot = self._slots.get(position)
        if slot is None:
            metadata = metadata_or_none(entry)
            slot = 1 if metadata is None else slot_of(self.selector, metadata)
        return slot

    def _hold(self, consumer: Consumer, position: tuple[int, int], slot: int) -> None:
        self._slots[position] = slot
        if not self.allow_out_of_order:
            _, count = self._holders.get(slot, (consumer, 0))
            self._holders[slot] = (consumer, count + 1)

    def _let_go(self, consumer: Consumer, position: tuple[int, int]) -> None:
        slot = self._slots[position]
        holder, count = self._holders.get(slot, (None, 0))
        if holder is not consumer:
            return
        if count > 1:
            self._holders[slot] = (consumer, count - 1)
        else:
            del self._holders[slot]
            if slot in self._waiting:
                self.wake()

    def _is_free(self, slot: int, owner: Consumer) -> bool:
        held = self._holders.get(slot)
        return held is None or held[0] is owner

    def _on_released(self, consumer: Consumer, position: tuple[int, int]) -> None:
        self._let_go(consumer, position)

    # ------------------------------------------------------------------ what waits

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

    # ------------------------------------------------------------------ delivery

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

    def _receiver(self, slot: int) -> Consumer | None:
        """The slot's owner if it can take an entry of the slot now."""
        owner = self.selector.owner(slot)
        if owner is None or not owner.can_receive or not self._is_free(slot, owner):
            return None
        return None if self.blocked else owner

    def _deliver(self, run: EntryRun, *, is_replay: bool) -> tuple[int, int]:
        sent = 0
        untouched = self._is_untouched(run)
        stuck: set[int] = set()
        for index, entry in enumerate(run.data):
            position = (run.ledger_id, run.first + index)
            if not untouched and self.cursor.is_acknowledged(*position):
                self._forget(position)
                continue
            slot = self._slots[position] = self._slot_of(position, entry)
            if not is_replay and self._delay(entry, position):
                continue
            overtakes = not is_replay and slot in self._waiting and not self.allow_out_of_order
            owner = None if overtakes or slot in stuck else self._receiver(slot)
            if owner is None:
                stuck.add(slot)
                self._enqueue(position)
                continue
            messages = self._send_one(owner, position, entry, run.counts[index])
            self._hold(owner, position, slot)
            owner.pending[position] = messages
            self._account(owner, messages, len(entry))
            sent += 1
        return len(run), sent
