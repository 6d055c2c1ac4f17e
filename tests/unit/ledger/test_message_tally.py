"""Messages that cursors have not acknowledged are counted, not estimated."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import BrokerError
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.flight import PlainRun
from magnetar.ledger.log import Log
from magnetar.ledger.message_tally import MessageTally, TallyPace
from magnetar.model.position import EARLIEST, Position
from tests.unit.ledger.log_place import Place

_ENTRIES_IN_LEDGER = 4


async def _append(log: Log, counts: Sequence[int]) -> None:
    """One entry for each count, whose bytes say it."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle(first: Position | None, error: BrokerError | None) -> None:
        done.set_result(None) if error is None else done.set_exception(error)

    log.flights.append(PlainRun([str(count).encode() for count in counts], counts, settle))
    await done


async def _left(log: Log, cursor: Cursor) -> int:
    """Counted by reading everything."""
    messages, position = 0, log.sequence.first_position
    while (run := await log.reader.read(position, 100, 1 << 20)) is not None:
        for index in cursor.unacked_in(run):
            remaining = cursor.remaining(run.ledger_id, run.first + index)
            messages += run.counts[index] if remaining is None else remaining.bit_count()
        position = log.sequence.next_position(Position(run.ledger_id, run.last))
        if position >= log.sequence.end_position:
            break
    return messages


async def _count(tally: MessageTally, cursor: Cursor) -> int | None:
    while not await tally.count(cursor.first_unacked()):
        pass
    return tally.unacknowledged(cursor)


@given(
    runs=st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=6), min_size=1, max_size=8),
    acknowledged=st.lists(st.integers(0, 40), max_size=12),
    partly=st.integers(0, 40),
    through=st.integers(0, 40),
)
def test_a_lag_is_what_reading_everything_counts(
    runs: list[list[int]], acknowledged: list[int], partly: int, through: int
) -> None:
    async def body() -> None:
        place = Place(count_messages=int)
        place.keep(entries_max=_ENTRIES_IN_LEDGER)
        log = await place.open()
        cursor = await log.cursors.open("s", start=EARLIEST)
        for run in runs:
            await _append(log, run)
        assert log.reader.tally.unacknowledged(cursor) == sum(map(sum, runs))
        last = log.sequence.end - 1
        for ordinal in acknowledged:
            cursor.acknowledge(*log.sequence.position_at(min(ordinal, last)))
        if through < last:
            cursor.acknowledge_through(log.sequence.position_at(through))
        place_of_batch = log.sequence.position_at(min(partly, last))
        cursor.acknowledge_batch(*place_of_batch, 0b1)
        expected = await _left(log, cursor)
        assert log.reader.tally.unacknowledged(cursor) == expected
        await log.close()

        again = await place.open()
        found = again.cursors["s"]
        assert await _count(again.reader.tally, found) == expected
        small = MessageTally(
            again.sequence, again.reader, again.scope, TallyPace(place.clock), sums_max=2
        )
        assert await _count(small, found) in (expected, None)  # with the sums of few ledgers
        await again.close()

    asyncio.run(body())


def test_ledgers_without_a_cursor_in_them_keep_their_total_alone() -> None:
    async def body() -> None:
        place = Place(count_messages=int)
        place.keep(entries_max=_ENTRIES_IN_LEDGER)
        log = await place.open()
        cursor = await log.cursors.open("s", start=EARLIEST)
        for _ in range(10):
            await _append(log, [1, 2, 3, 4])
        cursor.acknowledge(*log.sequence.first_position)
        small = MessageTally(
            log.sequence, log.reader, log.scope, TallyPace(place.clock), sums_max=8
        )
        assert await _count(small, cursor) == 99
        cursor.acknowledge_through(log.sequence.position_at(20))
        assert small.unacknowledged(cursor) is None  # of this ledger the total is known
        assert await _count(small, cursor) == 100 - 51
        await log.close()

    asyncio.run(body())


def test_what_another_owner_wrote_is_counted_on_the_side_and_then_followed() -> None:
    async def body() -> None:
        place = Place(count_messages=int)
        log = await place.open()
        cursor = await log.cursors.open("s", start=EARLIEST)
        await _append(log, [3, 1, 4])
        await log.close()
        again = await place.open()
        cursor = again.cursors["s"]
        assert again.reader.tally.unacknowledged(cursor) is None
        again.reader.tally.count_soon(cursor.first_unacked())
        while again.reader.tally.unacknowledged(cursor) is None:
            await asyncio.sleep(0)
        assert again.reader.tally.unacknowledged(cursor) == 8
        await _append(again, [5])
        cursor.acknowledge(*again.sequence.first_position)
        assert again.reader.tally.unacknowledged(cursor) == 10
        await cursor.reset(EARLIEST)
        assert again.reader.tally.unacknowledged(cursor) == 13
        await again.close()

    asyncio.run(body())
