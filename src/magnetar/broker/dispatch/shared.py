"""Shared: entries are handed out round robin and tracked one by one until they are acknowledged."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

from magnetar.broker.consumer import Consumer, SubscriptionType
from magnetar.broker.dispatch.dispatcher import READ_ENTRIES_MAX, Dispatcher, cut_by_permits
from magnetar.broker.dispatch.replay import DelayIndex, ReplayQueue, split_consecutive
from magnetar.broker.entry import metadata_or_none
from magnetar.ledger.run import EntryRun
from magnetar.model.position import Position
from magnetar.wire.ackset import encode_ack_set
from magnetar.wire.run import (
    DELIVER_AT_TAG,
    UUID_TAG,
    encode_message,
    encode_messages,
    may_carry,
)

if TYPE_CHECKING:
    from magnetar.broker.subscription import Subscription

_TURN_ENTRIES: Final = 20
_READ_AHEAD_ENTRIES: Final = 500


class SharedDispatcher(Dispatcher):
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
        self._chunk_owners: dict[str, Consumer] = {}

    @property
    def consumers(self) -> list[Consumer]:
        return self._consumers

    async def add_consumer(self, consumer: Consumer) -> None:
        if not self._consumers:
            self.replay.clear()
            self.delayed.clear()
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
            self.replay.add(position)
        consumer.pending.clear()
        consumer.unacked = 0
        for uuid in consumer.chunks:
            self._chunk_owners.pop(uuid, None)
        self._unblock_if_due()
        self.wake()

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
        if remaining is None:
            self.redeliveries.pop(position, None)
            self.replay.discard(position)
        if held is None:
            return 0
        if remaining is None:
            del holder.pending[position]
            released = held
            self._on_released(holder, position)
        else:
            released = max(0, held - remaining)
            holder.pending[position] = held - released
        holder.unacked -= released
        self.unacked -= released
        if holder.blocked and holder.unacked <= self._consumer_limit() // 2:
            holder.unblock()
            self.wake()
        self._unblock_if_due()
        return released

    def release_through(self, position: Position) -> None:
        """Forget everything up to a position that was acknowledged from outside (skip, expiry)."""
        for consumer in self._consumers:
            for held in [p for p in consumer.pending if p <= position]:
                self.release(consumer, held, None)
        for waiting in [p for p in self.replay if p <= position]:
            self.replay.discard(waiting)
        for counted in [p for p in self.redeliveries if p <= position]:
            del self.redeliveries[counted]

    def _on_released(self, consumer: Consumer, position: tuple[int, int]) -> None:
        """A hook for dispatchers that track more than the entry."""

    def _consumer_limit(self) -> int:
        return self.topic.policy.max_unacked_per_consumer or 1 << 60

    def _unblock_if_due(self) -> None:
        limit = self.topic.policy.max_unacked_per_subscription or 1 << 60
        if self.blocked and self.unacked <= limit // 2:
            self.blocked = False
            self.wake()

    def redeliver(self, consumer: Consumer, positions: list[Position], epoch: int | None) -> None:
        given_back = [tuple(p) for p in positions] if positions else list(consumer.pending)
        for position in given_back:
            held = consumer.pending.pop(position, None)  # type: ignore[arg-type]
            if held is None:
                continue
            key = (position[0], position[1])
            consumer.unacked -= held
            self.unacked -= held
            consumer.redeliver_rate.add(held, 0)
            self.redeliveries[key] = self.redeliveries.get(key, 0) + 1
            self._on_released(consumer, key)
            self.replay.add(key)
        if consumer.blocked and consumer.unacked <= self._consumer_limit() // 2:
            consumer.unblock()
        self._unblock_if_due()
        self.wake()

    # ------------------------------------------------------------------ delivery

    def _dispatch(self) -> None:
        self._take_due()
        if self.blocked or not any(consumer.can_receive for consumer in self._consumers):
            return
        if self._allowance() <= 0:
            return
        if len(self.replay) and self._dispatch_replay():
            self.wake()
            return
        if self._reading or not self._may_read_ahead():
            return
        permits = sum(c.permits for c in self._consumers if c.can_receive)
        run = self._read(self.read_position, min(permits, _READ_AHEAD_ENTRIES))
        if run is None:
            if not self._reading:
                for consumer in self._consumers:
                    self.subscription.on_end_reached(consumer)
            return
        taken = self._deliver(run, is_replay=False)
        self.read_position = Position(run.ledger_id, run.first + taken)
        self.cursor.read_position = self.read_position
        if taken:
            self.wake()

    def _may_read_ahead(self) -> bool:
        return True

    def _replay_candidates(self) -> list[tuple[int, int]]:
        return self.replay.first(_READ_AHEAD_ENTRIES)

    def _dispatch_replay(self) -> bool:
        """Deliver from the replay queue; tell whether anything went out or is being fetched."""
        went_out = False
        for ledger_id, first, count in split_consecutive(self._replay_candidates()):
            start = Position(ledger_id, first)
            run = self._read(start, min(count, READ_ENTRIES_MAX))
            if self._reading:
                return went_out
            if run is None or run.ledger_id != ledger_id or run.first != first:
                # Trimmed since: nothing is left to deliver.
                for entry_id in range(first, first + count):
                    self.replay.discard((ledger_id, entry_id))
                went_out = True
                continue
            if len(run) > count:
                run = EntryRun(run.ledger_id, run.first, run.data[:count], run.counts[:count])
            delivered = self._deliver(run, is_replay=True)
            went_out = went_out or delivered > 0
            if delivered < len(run) and not self._may_skip_in_replay():
                return went_out
        return went_out

    def _may_skip_in_replay(self) -> bool:
        return False

    def _deliver(self, run: EntryRun, *, is_replay: bool) -> int:
        """Hand out a run from its front; return how many entries need no further care here."""
        done = 0
        skipped = self._find_skipped(run)
        while done < len(run):
            if done in skipped:
                if is_replay:
                    self.replay.discard((run.ledger_id, run.first + done))
                done += 1
                continue
            consumer = self._chunk_consumer(run.data[done]) or self._next_consumer()
            if consumer is None or not consumer.can_receive:
                break
            end = done + 1
            limit = min(len(run), done + _TURN_ENTRIES)
            if not may_carry(run.data[done], UUID_TAG):
                while end < limit and end not in skipped:
                    if may_carry(run.data[end], UUID_TAG):
                        break
                    end += 1
            end = done + cut_by_permits(run.counts[done:end], consumer.permits)
            self._send(consumer, run, done, end, is_replay=is_replay)
            done = end
        return done

    def _send(
        self, consumer: Consumer, run: EntryRun, begin: int, end: int, *, is_replay: bool
    ) -> None:
        ledger_id, first = run.ledger_id, run.first + begin
        counts, data = run.counts[begin:end], run.data[begin:end]
        messages, size = sum(counts), sum(map(len, data))
        partition = self.topic.name.partition_index
        if is_replay or not self._is_untouched(run):
            for index, entry in enumerate(data):
                position = (ledger_id, first + index)
                remaining = self.cursor.remaining(*position)
                if remaining is not None:
                    messages += remaining.bit_count() - counts[index]
                    counts[index] = remaining.bit_count()
                self.replay.discard(position)
                frame = encode_message(
                    consumer.id,
                    *position,
                    entry,
                    partition=partition,
                    redelivery_count=self.redeliveries.get(position, 0),
                    ack_set=() if remaining is None else encode_ack_set(remaining),
                )
                consumer.connection.send(frame)
        else:
            parts = encode_messages(consumer.id, ledger_id, first, data, partition=partition)
            consumer.connection.send_many(parts)
        keys = zip(repeat(ledger_id), range(first, first + len(data)), strict=False)
        consumer.pending.update(zip(keys, counts, strict=True))
        self._account(consumer, messages, size)

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

    def _chunk_consumer(self, entry: bytes) -> Consumer | None:
        """All chunks of a message go to the consumer that got the first."""
        if not may_carry(entry, UUID_TAG):
            return None
        metadata = metadata_or_none(entry)
        if metadata is None or not metadata.HasField("chunk_id"):
            return None
        owner = self._chunk_owners.get(metadata.uuid)
        if owner is None or owner.closed:
            owner = self._next_consumer()
            if owner is None:
                return None
            self._chunk_owners[metadata.uuid] = owner
            owner.chunks.add(metadata.uuid)
        if metadata.chunk_id >= metadata.num_chunks_from_msg - 1 and owner.can_receive:
            self._chunk_owners.pop(metadata.uuid, None)
            owner.chunks.discard(metadata.uuid)
        return owner

    # ------------------------------------------------------------------ what is not delivered now

    def _find_skipped(self, run: EntryRun) -> set[int]:
        """Indexes of entries that are acknowledged already, or not yet due."""
        skipped: set[int] = set()
        if not self._is_untouched(run):
            for index in range(len(run)):
                if self.cursor.is_acknowledged(run.ledger_id, run.first + index):
                    skipped.add(index)
        if self.topic.policy.delayed_delivery_enabled:
            now_ms = self.topic.service.clock.now_ms()
            for index, entry in enumerate(run.data):
                if may_carry(entry, DELIVER_AT_TAG) and index not in skipped:
                    metadata = metadata_or_none(entry)
                    if metadata is not None and metadata.deliver_at_time > now_ms:
                        self.delayed.add(
                            metadata.deliver_at_time, (run.ledger_id, run.first + index)
                        )
                        skipped.add(index)
            if skipped:
                self._appoint_delayed()
        return skipped

    def _take_due(self) -> None:
        if not len(self.delayed):
            return
        for position in self.delayed.take_due(self.topic.service.clock.now_ms()):
            if not self.cursor.is_acknowledged(*position):
                self.replay.add(position)
        self._appoint_delayed()

    def _appoint_delayed(self) -> None:
        due_ms = self.delayed.next_due_ms()
        if due_ms is not None:
            self.wake_in(max(0.001, (due_ms - self.topic.service.clock.now_ms()) / 1000))

    def rewind(self) -> None:
        super().rewind()
        self.replay.clear()
        self.delayed.clear()
