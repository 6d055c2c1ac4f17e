"""What an ACK does to a cursor and to those who hold the entries."""

from __future__ import annotations

from itertools import repeat

from magnetar.broker.consumer import Consumer
from magnetar.broker.dispatch.driver import Driver
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.sequence import LedgerSequence
from magnetar.wire.ackset import decode_ack_set
from magnetar.wire.command import CommandAck, MessageIdData, position_of
from magnetar.wire.plainack import read_plain_ids


def apply_ack(
    ack: CommandAck,
    consumer: Consumer,
    cursor: Cursor,
    sequence: LedgerSequence,
    dispatcher: Driver | None,
    *,
    by_index: bool,
) -> None:
    """`by_index`: single messages of a batch are acknowledged too."""
    is_individual = consumer.sharing.kind.is_individual
    if ack.ack_type == CommandAck.Cumulative:
        # Everything before a position means nothing where entries are handed out one by one.
        if len(ack.message_id) == 1 and not is_individual:
            _apply_cumulative(ack.message_id[0], cursor, sequence, by_index=by_index)
        return
    if not is_individual:
        dispatcher = None
    messages = len(ack.message_id)
    plain = read_plain_ids(ack)
    if plain is not None:
        ledger_id, entry_ids = plain
        cursor.acknowledge_entries(ledger_id, entry_ids)
        if dispatcher is not None:
            keys = zip(repeat(ledger_id), entry_ids, strict=False)
            messages = dispatcher.release(consumer, zip(keys, repeat(None), strict=False))
    else:
        released = _apply_each(ack, cursor, by_index=by_index)
        if dispatcher is not None:
            messages = dispatcher.release(consumer, released)
    consumer.stats.ack_rate.add(messages, 0)


def _apply_cumulative(
    message_id: MessageIdData, cursor: Cursor, sequence: LedgerSequence, *, by_index: bool
) -> None:
    position = position_of(message_id)
    if position > sequence.last_position:
        return  # it was never delivered, and neither was all before it
    if not message_id.ack_set:
        cursor.acknowledge_through(position)
        return
    cursor.acknowledge_through(sequence.previous_position(position))
    if by_index:
        cursor.acknowledge_batch(*position, decode_ack_set(message_id.ack_set))


def _apply_each(
    ack: CommandAck, cursor: Cursor, *, by_index: bool
) -> list[tuple[tuple[int, int], int | None]]:
    """Return what is acknowledged whole or up to so many messages.

    Whole entries are gathered by ledger: consecutive ones cost as much as one.
    """
    whole: dict[int, list[int]] = {}
    released: list[tuple[tuple[int, int], int | None]] = []
    for message_id in ack.message_id:
        ledger_id, entry_id = message_id.ledgerId, message_id.entryId
        if not message_id.ack_set:
            whole.setdefault(ledger_id, []).append(entry_id)
            released.append(((ledger_id, entry_id), None))
        elif by_index:
            remaining = decode_ack_set(message_id.ack_set)
            if cursor.acknowledge_batch(ledger_id, entry_id, remaining):
                released.append(((ledger_id, entry_id), None))
            elif (left := cursor.remaining(ledger_id, entry_id)) is not None:
                released.append(((ledger_id, entry_id), left.bit_count()))
    for ledger_id, entry_ids in whole.items():
        cursor.acknowledge_entries(ledger_id, entry_ids)
    return released
