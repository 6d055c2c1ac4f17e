"""What an ACK does to a cursor and to those who hold the entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.consumer import Consumer
from magnetar.broker.dispatch.shared import SharedDispatcher
from magnetar.wire.ackset import decode_ack_set
from magnetar.wire.command import CommandAck, MessageIdData, position_of

if TYPE_CHECKING:
    from magnetar.broker.subscription import Subscription


def apply_ack(subscription: Subscription, consumer: Consumer, ack: CommandAck) -> None:
    if ack.ack_type == CommandAck.Cumulative:
        # Everything before a position means nothing where entries are handed out one by one.
        if len(ack.message_id) == 1 and not consumer.kind.is_individual:
            _apply_cumulative(subscription, ack.message_id[0])
    elif isinstance(subscription.dispatcher, SharedDispatcher):
        messages = sum(
            _release(subscription, subscription.dispatcher, consumer, each)
            for each in ack.message_id
        )
        consumer.ack_rate.add(messages, 0)
    else:
        _apply_individual(subscription, ack)
        consumer.ack_rate.add(len(ack.message_id), 0)


def _counts_batch_indexes(subscription: Subscription) -> bool:
    return subscription.topic.service.config.acknowledgmentAtBatchIndexLevelEnabled


def _apply_cumulative(subscription: Subscription, message_id: MessageIdData) -> None:
    cursor, position = subscription.cursor, position_of(message_id)
    log = subscription.topic.log
    if position > log.sequence.last_position:
        return  # nobody was handed this: taking it would acknowledge what was never delivered
    if not message_id.ack_set:
        cursor.acknowledge_through(position)
        return
    cursor.acknowledge_through(log.sequence.previous_position(position))
    if _counts_batch_indexes(subscription):
        cursor.acknowledge_batch(*position, decode_ack_set(message_id.ack_set))


def _apply_individual(subscription: Subscription, ack: CommandAck) -> None:
    """Whole entries are gathered by ledger: consecutive ones cost as much as one."""
    whole: dict[int, list[int]] = {}
    for message_id in ack.message_id:
        if not message_id.ack_set:
            whole.setdefault(message_id.ledgerId, []).append(message_id.entryId)
        elif _counts_batch_indexes(subscription):
            remaining = decode_ack_set(message_id.ack_set)
            subscription.cursor.acknowledge_batch(*position_of(message_id), remaining)
    for ledger_id, entry_ids in whole.items():
        subscription.cursor.acknowledge_entries(ledger_id, entry_ids)


def _release(
    subscription: Subscription,
    dispatcher: SharedDispatcher,
    consumer: Consumer,
    message_id: MessageIdData,
) -> int:
    """Acknowledge what one id says; return how many messages are not held any more."""
    cursor, position = subscription.cursor, position_of(message_id)
    if not message_id.ack_set:
        cursor.acknowledge(*position)
        return dispatcher.release(consumer, position, None)
    if not _counts_batch_indexes(subscription):
        return 0
    if cursor.acknowledge_batch(*position, decode_ack_set(message_id.ack_set)):
        return dispatcher.release(consumer, position, None)
    left = cursor.remaining(*position)
    return 0 if left is None else dispatcher.release(consumer, position, left.bit_count())
