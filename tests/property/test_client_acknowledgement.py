from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.acknowledgement import AckGroup
from magnetar.client.message_id import MessageId
from magnetar.wire.ackset import decode_ack_set, full_ack_set


@given(st.integers(1, 130).flatmap(lambda n: st.permutations(range(n))), st.data())
def test_a_batch_is_done_exactly_when_every_message_is_in_any_order(
    order: list[int], data: st.DataObject
) -> None:
    size = len(order)
    group = AckGroup(by_index=True)
    remaining = full_ack_set(size)
    for index in order:
        group.add(MessageId(1, 1, -1, index, size))
        remaining &= ~(1 << index)
        if data.draw(st.booleans()) or not remaining:
            [command] = group.take(1)
            assert decode_ack_set(command.message_id[0].ack_set) == remaining
    assert not group.take(1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1))
def test_a_cumulative_acknowledgement_is_the_furthest_one(ids: list[tuple[int, int]]) -> None:
    group = AckGroup(by_index=True)
    for entry_id, index in ids:
        group.add_cumulative(MessageId(1, entry_id, -1, index, 4))
    [command] = group.take(1)
    [told] = command.message_id
    entry_id, index = max(ids)
    assert told.entryId == entry_id
    assert decode_ack_set(told.ack_set) == full_ack_set(4) & ~full_ack_set(index + 1)
