"""Exclusive and Failover: one consumer at a time reads the log in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from magnetar.broker.consumer import Consumer, SubscriptionType
from magnetar.broker.dispatch.dispatcher import Dispatcher, cut_by_permits
from magnetar.errors import ConsumerBusy, ProtocolViolation
from magnetar.ledger.run import EntryRun
from magnetar.model.hash import murmur31
from magnetar.model.position import EARLIEST, Position
from magnetar.rules.failover import Candidate, choose_active
from magnetar.runtime.clock import Timer
from magnetar.wire.ackset import encode_ack_set
from magnetar.wire.command import CommandActiveConsumerChange, make_command
from magnetar.wire.entry import decode_metadata, sticky_key, strip_checksum
from magnetar.wire.run import encode_message, encode_messages

if TYPE_CHECKING:
    from magnetar.broker.subscription import Subscription


class SingleActiveDispatcher(Dispatcher):
    def __init__(self, subscription: Subscription, kind: SubscriptionType) -> None:
        super().__init__(subscription)
        self.kind = kind
        self.active: Consumer | None = None
        self._consumers: list[Consumer] = []
        self._switch: Timer | None = None

    @property
    def consumers(self) -> list[Consumer]:
        return self._consumers

    def rival_of(self, consumer: Consumer) -> Consumer | None:
        if self.kind is SubscriptionType.EXCLUSIVE and self._consumers:
            return self._consumers[0]
        return None

    def add_consumer(self, consumer: Consumer) -> None:
        if self.rival_of(consumer) is not None:
            raise ConsumerBusy("Exclusive consumer is already connected")
        self._consumers.append(consumer)
        self._elect(newcomer=consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        if consumer not in self._consumers:
            return
        self._consumers.remove(consumer)
        if self.active is consumer:
            self.active = None
            self._give_up_read()
        self._elect()  # partitions are dealt out anew whoever left

    def close(self) -> None:
        super().close()
        if self._switch is not None:
            self._switch.cancel()

    # ------------------------------------------------------------------ who is active

    def _elect(self, newcomer: Consumer | None = None) -> None:
        chosen = self._choose()
        if chosen is self.active:
            if newcomer is not None and self.kind is SubscriptionType.FAILOVER:
                self._notify(newcomer, is_active=False)
            return
        self.active = chosen
        if self._switch is not None:
            self._switch.cancel()
            self._switch = None
        self._give_up_read()
        if chosen is None:
            return
        delay_s = self.topic.service.config.activeConsumerFailoverDelayTimeMillis / 1000
        if self.kind is SubscriptionType.FAILOVER and delay_s > 0:
            # What a previous one was handed may be acknowledged in this time instead of being
            # repeated, and consumers that come together settle before the first is told.
            self._switch = self._clock.call_later(delay_s, self._start_active)
        else:
            self._start_active()

    def _start_active(self) -> None:
        self._switch = None
        if self.active is None:
            return
        self.source = self.topic.source(read_compacted=self.active.read_compacted)
        self.rewind()
        if self.kind is SubscriptionType.FAILOVER:
            for consumer in self._consumers:
                self._notify(consumer, is_active=consumer is self.active)
        self.wake()

    def rewind(self) -> None:
        super().rewind()
        if (
            self.active is not None
            and self.active.read_compacted
            and self.cursor.mark_delete == self.subscription.beginning
        ):
            self.read_position = EARLIEST  # what was compacted may stand before the log's start

    def refresh_source(self) -> None:
        """The topic was compacted: read on from the new view."""
        if self.active is not None and self.active.read_compacted and self._switch is None:
            self._give_up_read()
            self.source = self.topic.source(read_compacted=True)
            self.wake()

    def _choose(self) -> Consumer | None:
        if not self._consumers:
            return None
        if self.kind is SubscriptionType.EXCLUSIVE or len(self._consumers) == 1:
            return self._consumers[0]
        candidates = [Candidate(consumer.name, consumer.priority) for consumer in self._consumers]
        chosen = choose_active(
            candidates, topic=self.topic.name.full, partition_index=self.topic.name.partition_index
        )
        return self._consumers[chosen]

    def _notify(self, consumer: Consumer, *, is_active: bool) -> None:
        """Tell a consumer after the answer to its SUBSCRIBE: some drop what comes before."""
        if consumer.connection.protocol_version >= 12:
            change = CommandActiveConsumerChange(consumer_id=consumer.id, is_active=is_active)
            self._loop.call_soon(consumer.connection.send_command, make_command(change))

    # ------------------------------------------------------------------ delivery

    def _dispatch(self) -> None:
        consumer = self.active
        if consumer is None or self._switch is not None or not consumer.can_receive:
            return
        allowed = min(consumer.permits, self._allowance())
        if allowed <= 0:
            return
        run = self._read(self.read_position, allowed)
        if run is None:
            if not self._reading:
                self.subscription.on_end_reached()
            return
        taken = len(run) if sum(run.counts) <= allowed else cut_by_permits(run.counts, allowed)
        self._deliver(consumer, run, taken)
        self.read_position = Position(run.ledger_id, run.first + taken)
        self.cursor.read_position = self.read_position
        self.wake()

    def _deliver(self, consumer: Consumer, run: EntryRun, taken: int) -> None:
        data = run.data if taken == len(run) else run.data[:taken]
        if self._is_untouched(run) and not consumer.hash_ranges:
            counts = run.counts if taken == len(run) else run.counts[:taken]
            messages, size = sum(counts), sum(map(len, data))
            parts = encode_messages(
                consumer.id,
                run.ledger_id,
                run.first,
                consumer.adapt(data),
                partition=self.topic.name.partition_index,
                epoch=consumer.epoch,
            )
            consumer.connection.send_many(parts, size)
        else:
            messages, size = self._deliver_some(consumer, run, data)
        consumer.permits -= messages
        self._spend(messages, size)
        self.subscription.on_delivered(consumer, messages, size)

    def _deliver_some(
        self, consumer: Consumer, run: EntryRun, data: Sequence[bytes]
    ) -> tuple[int, int]:
        """Leave out what is acknowledged already or belongs to another hash range."""
        messages = size = 0
        for index, entry in enumerate(data):
            entry_id = run.first + index
            if self._is_acknowledged(Position(run.ledger_id, entry_id)):
                continue
            if consumer.hash_ranges and not _is_in_range(entry, consumer.hash_ranges):
                continue
            remaining = self.cursor.remaining(run.ledger_id, entry_id)
            count = run.counts[index]
            frame = encode_message(
                consumer.id,
                run.ledger_id,
                entry_id,
                entry if consumer.knows_checksums else strip_checksum(entry),
                partition=self.topic.name.partition_index,
                ack_set=() if remaining is None else encode_ack_set(remaining),
                epoch=consumer.epoch,
            )
            consumer.connection.send(frame)
            messages += count if remaining is None else min(count, remaining.bit_count())
            size += len(entry)
        return messages, size

    def _is_acknowledged(self, position: Position) -> bool:
        """What was compacted before the log's start is before the mark too, and yet unread."""
        beginning = self.subscription.beginning
        if beginning is not None and position <= beginning == self.cursor.mark_delete:
            return False
        return self.cursor.is_acknowledged(*position)

    def redeliver(self, consumer: Consumer, positions: list[Position], epoch: int | None) -> None:
        # The client drops everything of an older epoch from now on, also if it is active only
        # later.
        if epoch is not None and (consumer.epoch is None or epoch > consumer.epoch):
            consumer.epoch = epoch
        if consumer is self.active and self._switch is None:
            self.rewind()
            self.wake()


def _is_in_range(entry: bytes, ranges: Sequence[tuple[int, int]]) -> bool:
    try:
        key = sticky_key(decode_metadata(entry))
    except ProtocolViolation:
        return True
    slot = murmur31(key) % 65536 or 1
    return any(first <= slot <= last for first, last in ranges)
