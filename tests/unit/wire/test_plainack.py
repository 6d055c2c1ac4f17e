"""Acknowledgements read a column at a time say what protobuf says, or nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.wire.command import CommandAck, MessageIdData
from magnetar.wire.plainack import read_plain_ids

ids = st.one_of(st.integers(0, 400), st.integers(0, 2**40), st.integers(16_000, 17_000))


def make_ack(*message_ids: MessageIdData, request_id: int | None = None) -> CommandAck:
    return CommandAck(
        consumer_id=3,
        ack_type=CommandAck.Individual,
        message_id=message_ids,
        request_id=request_id,
    )


@given(
    ledger_id=ids,
    first=ids,
    steps=st.lists(st.integers(0, 300), min_size=1, max_size=60)
    | st.integers(1, 600).map(lambda count: list(range(count))),
    request_id=st.none() | ids,
)
def test_entries_of_one_ledger_are_read_as_they_are(
    ledger_id: int, first: int, steps: list[int], request_id: int | None
) -> None:
    entry_ids = [first + step for step in steps]
    message_ids = [MessageIdData(ledgerId=ledger_id, entryId=each) for each in entry_ids]
    read = read_plain_ids(make_ack(*message_ids, request_id=request_id))
    sizes = {len(each.SerializeToString()) for each in message_ids}
    assert read == ((ledger_id, entry_ids) if len(steps) >= 8 and len(sizes) == 1 else None)


@given(
    st.lists(
        st.builds(
            MessageIdData,
            ledgerId=st.integers(0, 200),
            entryId=st.integers(0, 300),
            partition=st.sampled_from([-1, 0, 5]),
            batch_index=st.sampled_from([-1, 3]),
            ack_set=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=2),
        ),
        max_size=12,
    )
)
def test_ids_that_say_more_are_never_read_as_plain(message_ids: list[MessageIdData]) -> None:
    read = read_plain_ids(make_ack(*message_ids))
    if read is not None:
        ledger_id, entry_ids = read
        assert message_ids == [
            MessageIdData(ledgerId=ledger_id, entryId=each) for each in entry_ids
        ]


def test_one_id_out_of_the_row_is_read_as_it_is() -> None:
    for at in range(300):
        entry_ids = [16_400 + number + (number >= at) for number in range(300)]
        message_ids = [MessageIdData(ledgerId=7, entryId=each) for each in entry_ids]
        assert read_plain_ids(make_ack(*message_ids)) == (7, entry_ids)


def test_an_entry_and_a_field_behind_it_do_not_pass_for_a_longer_entry_id() -> None:
    long = [MessageIdData(ledgerId=1, entryId=20_000 + number) for number in range(8)]
    short = MessageIdData(ledgerId=1, entryId=5, partition=6)
    assert len(short.SerializeToString()) == len(long[0].SerializeToString())
    assert read_plain_ids(make_ack(*long)) is not None
    assert read_plain_ids(make_ack(*long[:4], short, *long[4:])) is None
