"""Shared: entries are handed out round robin and tracked one by one until they are acknowledged."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

from magnetar.broker.consumer import Consumer, SubscriptionType
from magnetar.broker.dispatch.chunk import ChunkOwners
from magnetar.broker.dispatch.dispatcher import READ_ENTRIES_MAX, Dispatcher, cut_by_permits
from magnetar.broker.dispatch.replay import DelayIndex, ReplayQueue, split_consecutive
from magnetar.broker.entry import metadata_or_none
from magnetar.ledger.run import EntryRun
from magnetar.model.position import Position
from magnetar.wire.ackset import encode_ack_set
from magnetar.wire.entry import strip_checksum
from magnetar.wire.run import (
    DELIVER_AT_TAG,
    UUID_TAG,
    encode_message,
    encode_messages,
    may_carry,
)

if TYPE_CHECKING:
    from magnetar.broker.subscription import Subscription

WAITING_MAX: Final = 2000
"""Entries that may wait for a busy consumer before reading ahead stops."""
_TURN_ENTRIES: Final = 20
_READ_AHEAD_ENTRIES: Final = 500
_NO_LIMIT: Final = 1 << 60


class SharedDispatcher(Dispatcher):
    """An unacknowledged entry that was read is in exactly one place: a consumer's `pending`, the
    replay queue, or the delay index.
    """

    kind = SubscriptionType.SHARED

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        self.replay = ReplayQueue()
        self.delayed = DelayIndex()
        self.redeliveries: dict[tuple[int, int], int] = {}
        self.unacked = 0
        self.blocked = False
        self._consumers: list[Consumer] = []
        self._turn_index = 0
        self._chunks = ChunkOwners()

    @property
    def consumers(self) -> list[Consumer]:
        return self._consumers

    def add_consumer(self, consumer: Consumer) -> None:
        if not self._consumers:
            self.rewind()
        self._consumers.append(consumer)
        self._consumers.sort(key=lambda each: each.priority)
        self.wake()

    def remove_consumer(self, consumer: Consumer) -> None:
        if consumer not in self._consumers:
            return
        self._consumers.remove(consumer)
        self.unacked -= consumer.unacked
        for position in consumer.pending:
            self._enqueue(position)
        consumer.pending.clear()
        consumer.unacked = 0
        self._chunks.remove_consumer(consumer)
        self._unblock_if_due()
        self.wake()

    def rewind(self) -> None:
        super().rewind()
        self.replay.clear()
        self.delayed.clear()
        self.redeliveries.clear()

    # ------------------------------------------------------------------ what waits

    def _enqueue(self, position: tuple[int, int]) -> None:
        """Let an entry wait to be delivered from the replay queue."""
        self.replay.add(position)

    def _dequeue(self, position: tuple[int, int]) -> None:
        self.replay.discard(position)
        self._chunks.let_go(position)

    def _forget(self, position: tuple[int, int]) -> None:
        """An entry is acknowledged, or gone."""
        self._dequeue(position)
        self.redeliveries.pop(position, None)

    def _skip(self, first: Position, last: Position) -> None:
        super()._skip(first, last)
        for position in [p for p in self.replay if first <= p <= last]:
            self._forget(position)

    # ------------------------------------------------------------------ acknowledgement

    def release(self, consumer: Consumer, position: tuple[int, int], remaining: int | None) -> int:
        """Forget an acknowledged entry, or all but `remaining` messages of it; return how many
        messages that was.
        """
        holder = consumer
        held = consumer.pending.get(position)
        if held is None:  # an acknowledgement may come through another consumer of the subscription
            for other in self._consumers:
                held = other.pending.get(position)
                if held is not None:
                    holder = other
                    break
        released = 0
        if held is not None and remaining is None:
            del holder.pending[position]
            released = held
            self._on_released(holder, position)
        elif held is not None and remaining is not None:
            released = max(0, held - remaining)
            holder.pending[position] = held - released
        if remaining is None:
            self._forget(position)
        self._count_released(holder, released)
        return released

    def discard(self, position: Position) -> None:
        """Forget an entry that was acknowledged from outside."""
        for consumer in self._consumers:
            if position in consumer.pending:
                self.release(consumer, position, None)
                return
        self._forget(position)

    def release_through(self, position: Position) -> None:
        """Forget everything up to a position that was acknowledged from outside (skip, expiry)."""
        for consumer in self._consumers:
            for held in [p for p in consumer.pending if p <= position]:
                self.release(consumer, held, None)
        for known in [*self.replay, *self.redeliveries]:
            if known <= position:
                self._forget(known)

    def redeliver(self, consumer: Consumer, positions: list[Position], epoch: int | None) -> None:
        given_back = [(p[0], p[1]) for p in positions] if positions else list(consumer.pending)
        for position in given_back:
            held = consumer.pending.pop(position, None)
            if held is None:
                continue
            consumer.redeliver_rate.add(held, 0)
            self.redeliveries[position] = self.redeliveries.get(position, 0) + 1
            self._on_released(consumer, position)
            self._enqueue(position)
            self._count_released(consumer, held)
        self.wake()

    def _on_released(self, consumer: Consumer, position: tuple[int, int]) -> None:
        """A hook for dispatchers that track more than the entry."""

    def _count_released(self, consumer: Consumer, messages: int) -> None:
        consumer.unacked -= messages
        self.unacked -= messages
        self._unblock_consumer_if_due(consumer)
        self._unblock_if_due()

    def _consumer_limit(self) -> int:
        return self.topic.policy.max_unacked_per_consumer or _NO_LIMIT

    def _unblock_consumer_if_due(self, consumer: Consumer) -> None:
        if consumer.blocked and consumer.unacked <= self._consumer_limit() // 2:
            consumer.unblock()
            self.wake()

    def _unblock_if_due(self) -> None:
        limit = self.topic.policy.max_unacked_per_subscription or _NO_LIMIT
        if self.blocked and self.unacked <= limit // 2:
            self.blocked = False
            self.wake()

    def on_policy_changed(self) -> None:
        super().on_policy_changed()
        for consumer in self._consumers:
            self._unblock_consumer_if_due(consumer)
        self._unblock_if_due()

    # ------------------------------------------------------------------ turns

    def _dispatch(self) -> None:
        self._take_due()
        if self.blocked or not any(consumer.can_receive for consumer in self._consumers):
            return
        allowed = self._allowance()
        if allowed <= 0:
            return
        if len(self.replay) and self._dispatch_replay(allowed):
            self.wake()
            return
        if self._reading or not self._may_read_ahead():
            return
        permits = sum(c.permits for c in self._consumers if c.can_receive)
        run = self._read(self.read_position, min(permits, allowed, _READ_AHEAD_ENTRIES))
        if run is None:
            if not self._reading:
                self.subscription.on_end_reached()
            return
        taken, _ = self._deliver(run, is_replay=False)
        self.read_position = Position(run.ledger_id, run.first + taken)
        self.cursor.read_position = self.read_position
        if taken:
            self.wake()

    def _may_read_ahead(self) -> bool:
        return not self._chunks.waiting_count or len(self.replay) < WAITING_MAX

    def _replay_candidates(self) -> list[tuple[int, int]]:
        if not self._chunks.waiting_count:
            return self.replay.first(_READ_AHEAD_ENTRIES)
        return [p for p in self.replay.first(WAITING_MAX) if self._chunks.is_free(p)]

    def _dispatch_replay(self, allowed: int) -> bool:
        """Deliver from the replay queue; tell whether it changed."""
        changed = False
        for ledger_id, first, count in split_consecutive(self._replay_candidates()[:allowed]):
            start = Position(ledger_id, first)
            run = self._read(start, min(count, READ_ENTRIES_MAX))
            if self._reading:
                return changed
            if run is None or run.ledger_id != ledger_id or run.first != first:
                # Trimmed since: nothing is left to deliver.
                for entry_id in range(first, first + count):
                    self._forget((ledger_id, entry_id))
                changed = True
                continue
            if len(run) > count:
                run = EntryRun(run.ledger_id, run.first, run.data[:count], run.counts[:count])
            before = len(self.replay)
            taken, sent = self._deliver(run, is_replay=True)
            changed = changed or sent > 0 or len(self.replay) < before
            if taken < count:  # what follows must not overtake the rest
                return changed
        return changed

    # ------------------------------------------------------------------ delivery

    def _deliver(self, run: EntryRun, *, is_replay: bool) -> tuple[int, int]:
        """Hand out a run from its front; return how many entries need no further care here, and how
        many of them went out.
        """
        done = sent = 0
        untouched = self._is_untouched(run)
        while done < len(run) and not self.blocked:
            position = (run.ledger_id, run.first + done)
            entry = run.data[done]
            plain = _is_plain(entry)
            if not untouched and self.cursor.is_acknowledged(*position):
                self._forget(position)
                done += 1
                continue
            if not plain and not is_replay and self._delay(entry, position):
                done += 1
                continue
            consumer, is_kept = self._choose_consumer(entry, position, plain=plain)
            if consumer is None or not consumer.can_receive:
                if not is_kept:
                    break
                self._enqueue(position)
                done += 1
                continue
            end = done + 1
            limit = min(len(run), done + _TURN_ENTRIES)
            while plain and end < limit and _is_plain(run.data[end]):
                if not untouched and self.cursor.is_acknowledged(run.ledger_id, run.first + end):
                    break
                end += 1
            end = done + cut_by_permits(run.counts[done:end], self._room_of(consumer))
            self._send(consumer, run, done, end, one_by_one=is_replay or not untouched)
            sent += end - done
            done = end
        return done, sent

    def _choose_consumer(
        self, entry: bytes, position: tuple[int, int], *, plain: bool
    ) -> tuple[Consumer | None, bool]:
        """Who gets an entry, and whether only that one may get it: all chunks of a message go to
        the consumer that got the first.
        """
        metadata = None if plain else metadata_or_none(entry)
        if metadata is None or not metadata.HasField("chunk_id"):
            return self._next_consumer(), False
        owner = self._chunks.owner(metadata.uuid)
        if owner is None:
            owner = self._next_consumer()
            if owner is None:
                return None, False
        elif not owner.can_receive:
            self._chunks.wait(position, owner)
            return owner, True
        is_last = metadata.chunk_id >= metadata.num_chunks_from_msg - 1
        self._chunks.on_chunk(metadata.uuid, owner, is_last=is_last)
        return owner, True

    def _next_consumer(self) -> Consumer | None:
        """Round robin inside the best priority level that has a consumer with permits."""
        best: list[Consumer] = []
        for consumer in self._consumers:
            if best and consumer.priority != best[0].priority:
                break
            if consumer.can_receive:
                best.append(consumer)
        if not best:
            return None
        self._turn_index += 1
        return best[self._turn_index % len(best)]

    def _send(
        self, consumer: Consumer, run: EntryRun, begin: int, end: int, *, one_by_one: bool
    ) -> None:
        ledger_id, first = run.ledger_id, run.first + begin
        counts, data = run.counts[begin:end], run.data[begin:end]
        size = sum(map(len, data))
        if one_by_one:
            for index, entry in enumerate(data):
                counts[index] = self._send_one(
                    consumer, (ledger_id, first + index), entry, counts[index]
                )
        else:
            partition = self.topic.name.partition_index
            entries = consumer.adapt(data)
            parts = encode_messages(consumer.id, ledger_id, first, entries, partition=partition)
            consumer.connection.send_many(parts, size)
        keys = zip(repeat(ledger_id), range(first, first + len(data)), strict=False)
        consumer.pending.update(zip(keys, counts, strict=True))
        self._account(consumer, sum(counts), size)

    def _send_one(
        self, consumer: Consumer, position: tuple[int, int], entry: bytes, count: int
    ) -> int:
        """Send an entry that may be acknowledged in part or come again; return how many messages of
        it are not acknowledged.
        """
        remaining = self.cursor.remaining(*position)
        self._dequeue(position)
        frame = encode_message(
            consumer.id,
            *position,
            entry if consumer.knows_checksums else strip_checksum(entry),
            partition=self.topic.name.partition_index,
            redelivery_count=self.redeliveries.get(position, 0),
            ack_set=() if remaining is None else encode_ack_set(remaining),
        )
        consumer.connection.send(frame)
        return count if remaining is None else min(count, remaining.bit_count())

    def _room_of(self, consumer: Consumer) -> int:
        """How many messages a consumer that can receive may be handed."""
        if not self.subscription.durable:
            return consumer.permits
        limit = self.topic.policy.max_unacked_per_subscription or _NO_LIMIT
        room = min(self._consumer_limit() - consumer.unacked, limit - self.unacked)
        return min(consumer.permits, max(1, room))

    def _account(self, consumer: Consumer, messages: int, size: int) -> None:
        consumer.permits -= messages
        consumer.unacked += messages
        self.unacked += messages
        if consumer.unacked >= self._consumer_limit() and self.subscription.durable:
            consumer.blocked = True
        limit = self.topic.policy.max_unacked_per_subscription
        if limit and self.unacked >= limit and self.subscription.durable:
            self.blocked = True
        self._spend(messages, size)
        self.subscription.on_delivered(consumer, messages, size)

    # ------------------------------------------------------------------ what is not due yet

    def _delay(self, entry: bytes, position: tuple[int, int]) -> bool:
        """Put an entry aside when it is not due; tell whether that was done."""
        if not may_carry(entry, DELIVER_AT_TAG) or not self.topic.policy.delayed_delivery_enabled:
            return False
        metadata = metadata_or_none(entry)
        if metadata is None or metadata.deliver_at_time <= self.topic.service.clock.now_ms():
            return False
        self.delayed.add(metadata.deliver_at_time, position)
        self._appoint_delayed()
        return True

    def _take_due(self) -> None:
        if not len(self.delayed):
            return
        for position in self.delayed.take_due(self.topic.service.clock.now_ms()):
            if self.cursor.is_acknowledged(*position):
                self._forget(position)
            else:
                self._enqueue(position)
        self._appoint_delayed()

    def _appoint_delayed(self) -> None:
        due_ms = self.delayed.next_due_ms()
        if due_ms is not None:
            self.wake_in(max(0.001, (due_ms - self.topic.service.clock.now_ms()) / 1000))


def _is_plain(entry: bytes) -> bool:
    """Whether an entry is neither a chunk nor delayed for sure, without parsing it."""
    return not may_carry(entry, UUID_TAG) and not may_carry(entry, DELIVER_AT_TAG)
