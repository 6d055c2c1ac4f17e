from __future__ import annotations

import pytest

from magnetar.client.acknowledgement import AckGroup, TransactionAcks, plan_redeliveries
from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import MessageId
from magnetar.model.transaction import TransactionId
from magnetar.wire.command import CommandAck


def of_batch(entry_id: int, index: int, size: int) -> MessageId:
    return MessageId(1, entry_id, -1, index, size)


def taken(group: AckGroup) -> list[tuple[int, int, list[int]]]:
    return [
        (command.ack_type, id.entryId, list(id.ack_set))
        for command in group.take(1)
        for id in command.message_id
    ]


def test_without_indexes_an_entry_is_told_only_when_all_of_it_is_done() -> None:
    group = AckGroup(by_index=False)
    group.add(of_batch(0, 0, 2))
    assert taken(group) == []
    group.add(of_batch(0, 1, 2))
    assert taken(group) == [(CommandAck.Individual, 0, [])]


def test_a_batch_that_is_done_stays_so_when_a_message_is_acknowledged_again() -> None:
    group = AckGroup(by_index=True)
    for index in (0, 1, 1, 0):
        group.add(of_batch(0, index, 2))
    assert taken(group) == [(CommandAck.Individual, 0, [])]


@pytest.mark.parametrize("by_index", [True, False])
@pytest.mark.parametrize("indexes", [[0], [3, 1], [2, 2], [0, 1, 2, 3], [3, 2, 1, 0]])
def test_messages_of_a_batch_may_be_added_one_by_one_or_together(
    by_index: bool, indexes: list[int]
) -> None:
    one_by_one, together = AckGroup(by_index=by_index), AckGroup(by_index=by_index)
    for group in (one_by_one, together):
        group.on_delivered(MessageId(1, 7), 0b1110)
        group.add(of_batch(7, 1, 4))
    for index in indexes:
        one_by_one.add(of_batch(7, index, 4))
    together.add_of_batch(MessageId(1, 7), 4, indexes)
    assert taken(one_by_one) == taken(together)


def test_a_cumulative_acknowledgement_inside_a_batch_tells_what_remains() -> None:
    group = AckGroup(by_index=True)
    group.add_cumulative(of_batch(4, 1, 4))
    assert taken(group) == [(CommandAck.Cumulative, 4, [0b1100])]


def test_a_cumulative_acknowledgement_at_the_end_of_a_batch_is_the_entry() -> None:
    group = AckGroup(by_index=True)
    group.add_cumulative(of_batch(4, 3, 4))
    assert taken(group) == [(CommandAck.Cumulative, 4, [])]


def test_without_indexes_a_cumulative_acknowledgement_stops_before_the_batch() -> None:
    group = AckGroup(by_index=False)
    group.add_cumulative(of_batch(4, 1, 4))
    assert taken(group) == [(CommandAck.Cumulative, 3, [])]


def test_a_cumulative_acknowledgement_never_goes_back_and_covers_what_is_below() -> None:
    group = AckGroup(by_index=True)
    group.add(MessageId(1, 2))
    group.add(MessageId(1, 8))
    group.add_cumulative(MessageId(1, 5))
    group.add_cumulative(MessageId(1, 3))
    assert taken(group) == [(CommandAck.Cumulative, 5, []), (CommandAck.Individual, 8, [])]
    assert len(group) == 0


def test_a_partly_acknowledged_batch_is_done_with_what_was_left() -> None:
    group = AckGroup(by_index=True)
    group.on_delivered(MessageId(1, 0), 0b100)
    group.add(of_batch(0, 2, 3))
    assert taken(group) == [(CommandAck.Individual, 0, [])]


def test_an_id_without_its_batch_size_is_refused() -> None:
    group = AckGroup(by_index=True)
    with pytest.raises(ConfigurationError, match="size of its batch"):
        group.add(MessageId(1, 0, -1, 3))


def test_redeliveries_name_each_entry_once_in_bounded_commands() -> None:
    ids = [of_batch(n // 2, n % 2, 2) for n in range(10)]
    plans = plan_redeliveries(ids, size_max=2)
    assert [[id.entry_id for id in plan] for plan in plans] == [[0, 1], [2, 3], [4]]


def test_a_transaction_tells_each_message_of_a_batch_so_that_every_conflict_is_found() -> None:
    acks = TransactionAcks()
    acks.add(MessageId(1, 0))
    for id in (of_batch(1, 0, 3), of_batch(1, 2, 3), of_batch(2, 1, 2), of_batch(2, 0, 2)):
        acks.add(id)
    acks.add(of_batch(3, 0, 1))
    [command] = acks.take(7, TransactionId(0, 0))
    assert command.HasField("txnid_most_bits") and command.HasField("txnid_least_bits")
    told = [(id.entryId, list(id.ack_set), id.batch_size) for id in command.message_id]
    assert told == [(0, [], 0), (1, [0b010], 3), (2, [0b01], 2), (2, [0b10], 2), (3, [], 0)]


def test_a_transaction_acknowledges_up_to_its_last_message_and_into_a_batch() -> None:
    acks = TransactionAcks()
    for id in (of_batch(4, 1, 3), of_batch(4, 0, 3), of_batch(3, 2, 3)):
        acks.add_cumulative(id)
    [command] = acks.take(7, TransactionId(2, 5))
    assert (command.txnid_most_bits, command.txnid_least_bits) == (2, 5)
    [told] = command.message_id
    assert command.ack_type == CommandAck.Cumulative
    assert (told.entryId, list(told.ack_set), told.batch_size) == (4, [0b100], 3)
