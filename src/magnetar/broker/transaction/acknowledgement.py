"""What a transaction acknowledges on the subscriptions of a topic: held until it ends, then
acknowledged for good or delivered again.
"""

from __future__ import annotations

from magnetar.broker.consumer import Consumer
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.subscription import Subscription
from magnetar.model.bitset import join_words
from magnetar.model.position import Position
from magnetar.model.transaction import Acked, Acknowledged, TransactionId
from magnetar.rules.transaction.pending_ack import Held
from magnetar.wire.ackset import full_ack_set
from magnetar.wire.command import CommandAck, MessageIdData, position_of


def pend_acks(
    topic: PersistentTopic, subscription: Subscription, consumer: Consumer, ack: CommandAck
) -> Acked | None:
    """The record of what is news; raise TransactionConflict or TransactionNotFound."""
    id_ = TransactionId(ack.txnid_most_bits, ack.txnid_least_bits)
    name, cursor = subscription.name, subscription.cursor
    pending = topic.buffer.pending_on(name)
    is_individual = consumer.sharing.kind.is_individual
    if ack.ack_type == CommandAck.Cumulative:
        # Everything before a position means nothing where entries are handed out one by one.
        if len(ack.message_id) != 1 or is_individual:
            return None
        entry = _read_id(topic, ack.message_id[0])
        if not pending.acknowledge_through(id_, entry, cursor):
            return None
        return Acked(id_, name, True, (entry,))
    by_index = topic.host.config.acknowledgmentAtBatchIndexLevelEnabled
    ids = [each for each in ack.message_id if by_index or not each.ack_set]
    entries = [_read_id(topic, each) for each in ids]
    entries_max = topic.host.limits.transaction_acknowledgements
    news = pending.acknowledge(id_, entries, cursor, entries_max=entries_max)
    if not news:
        return None
    if is_individual and subscription.dispatcher is not None:
        left = [_left_of(topic, subscription, each) for each in news]
        messages = subscription.dispatcher.release(consumer, left, is_final=False)
        consumer.stats.ack_rate.add(messages, 0)
    return Acked(id_, name, False, news)


def _read_id(topic: PersistentTopic, message_id: MessageIdData) -> Acknowledged:
    position = position_of(message_id)
    if not message_id.ack_set:
        return Acknowledged(*position)
    size = message_id.batch_size
    if not size:  # some clients do not tell; what was delivered is still in memory, mostly
        run = topic.log.reader.read_cached(position, 1, 1)
        if run is not None and (run.ledger_id, run.first) == position:
            size = run.counts[0]
    return Acknowledged(*position, tuple(message_id.ack_set), size)


def _left_of(
    topic: PersistentTopic, subscription: Subscription, entry: Acknowledged
) -> tuple[tuple[int, int], int | None]:
    """How many messages of an entry a consumer is still to acknowledge; None: it is done."""
    position = Position(entry.ledger_id, entry.entry_id)
    if entry.remaining is None:
        return position, None
    bits = subscription.cursor.remaining(*position)
    left = full_ack_set(entry.size) if bits is None else bits
    left &= ~topic.buffer.pending_on(subscription.name).withheld(position)
    return position, left.bit_count() or None


def commit_acks(topic: PersistentTopic, subscription: Subscription, held: Held) -> None:
    """Acknowledge for good; the cursor is not durable yet."""
    cursor, sequence = subscription.cursor, topic.log.sequence
    released: list[tuple[tuple[int, int], int | None]] = []
    for position, entry in held.entries.items():
        if entry.remaining is None:
            cursor.acknowledge(*position)
            released.append((position, None))
        elif cursor.acknowledge_batch(*position, join_words(entry.remaining)):
            released.append((position, None))
    if held.cumulative is not None:
        last = Position(held.cumulative.ledger_id, held.cumulative.entry_id)
        if held.cumulative.remaining is None:
            cursor.acknowledge_through(last)
        else:
            cursor.acknowledge_through(sequence.previous_position(last))
            cursor.acknowledge_batch(*last, join_words(held.cumulative.remaining))
    if subscription.dispatcher is not None and released:
        subscription.dispatcher.release(None, released)
    subscription.last_acked_ms = topic.host.clock.now_ms()


def abort_acks(topic: PersistentTopic, subscription: Subscription, held: Held) -> None:
    """Deliver again what is not acknowledged otherwise by now, of what was delivered: a cumulative
    acknowledgement may name any end.
    """
    if subscription.dispatcher is None:
        return
    cursor, sequence = subscription.cursor, topic.log.sequence
    machine = subscription.dispatcher.machine
    positions = {each for each in held.entries if not cursor.is_acknowledged(*each)}
    if held.cumulative is not None:
        last = Position(held.cumulative.ledger_id, held.cumulative.entry_id)
        end = min(sequence.end_position, machine.read_position)
        position = cursor.first_unacked()
        while position <= last and position < end:
            if not cursor.is_acknowledged(*position):
                positions.add(position)
            position = sequence.next_position(position)
    machine.redeliver(None, sorted(positions))
    subscription.dispatcher.wake()
