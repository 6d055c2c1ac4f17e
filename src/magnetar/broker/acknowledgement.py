"""What an ACK does to a cursor and to those who hold the entries."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from magnetar.broker.consumer import Consumer
from magnetar.wire.ackset import decode_ack_set
from magnetar.wire.command import CommandAck, MessageIdData, position_of
from magnetar.wire.plainack import read_plain_ids

if TYPE_CHECKING:
    from magnetar.broker.subscription import Subscription


def apply_ack(subscription: Subscription, consumer: Consumer, ack: CommandAck) -> None:
    is_individual = consumer.sharing.kind.is_individual
    if ack.ack_type == CommandAck.Cumulative:
        # Everything before a position means nothing where entries are handed out one by one.
        if len(ack.message_id) == 1 and not is_individual:
            _apply_cumulative(subscription, ack.message_id[0])
        return
    dispatcher = subscription.dispatcher if is_individual else None
    messages = len(ack.message_id)
    plain = read_plain_ids(ack)
    if plain is not None:
        ledger_id, entry_ids = plain
        subscription.cursor.acknowledge_entries(ledger_id, entry_ids)
        if dispatcher is not None:
            keys = zip(repeat(ledger_id), entry_ids, strict=False)
            messages = dispatcher.release(consumer, zip(keys, repeat(None), strict=False))
    else:
        released = _apply_each(subscription, ack)
        if dispatcher is not None:
            messages = dispatcher.release(consumer, released)
    consumer.ack_rate.add(messages, 0)


def _counts_batch_indexes(subscription: Subscription) -> bool:
    return subscription.topic.service.config.acknowledgmentAtBatchIndexLevelEnabled


def _apply_cumulative(subscription: Subscription, message_id: MessageIdData) -> None:
    cursor, position = subscription.cursor, position_of(message_id)
    log = subscription.topic.log
    if position > log.sequence.last_position:
        return  # it was never delivered, and neither was all before it
    if not message_id.ack_set:
        cursor.acknowledge_through(position)
        return
    cursor.acknowledge_through(log.sequence.previous_position(position))
    if _counts_batch_indexes(subscription):
        cursor.acknowledge_batch(*position, decode_ack_set(message_id.ack_set))


def _apply_each(
    subscription: Subscription, ack: CommandAck
) -> list[tuple[tuple[int, int], int | None]]:
    """Return what is acknowledged whole or up to so many messages.

    Whole entries are gathered by ledger: consecutive ones cost as much as one.
    """
    cursor = subscription.cursor
    whole: dict[int, list[int]] = {}
    released: list[tuple[tuple[int, int], int | None]] = []
    for message_id in ack.message_id:
        ledger_id, entry_id = message_id.ledgerId, message_id.entryId
        if not message_id.ack_set:
            whole.setdefault(ledger_id, []).append(entry_id)
            released.append(((ledger_id, entry_id), None))
        elif _counts_batch_indexes(subscription):
            remaining = decode_ack_set(message_id.ack_set)
            if cursor.acknowledge_batch(ledger_id, entry_id, remaining):
                released.append(((ledger_id, entry_id), None))
            elif (left := cursor.remaining(ledger_id, entry_id)) is not None:
                released.append(((ledger_id, entry_id), left.bit_count()))
    for ledger_id, entry_ids in whole.items():
        cursor.acknowledge_entries(ledger_id, entry_ids)
    return released
