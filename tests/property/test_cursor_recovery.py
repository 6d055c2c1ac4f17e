"""What a cursor is after a crash: what was flushed, and nothing that was not acknowledged."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.errors import StorageFailed
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.info import LogPolicy
from magnetar.model.position import EARLIEST, Position
from tests.unit.ledger.log_place import Place, append, fill

ENTRIES = 40

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["one", "one", "bulk", "through", "batch", "flush", "wait", "fault", "crash", "close"]
        ),
        st.integers(0, ENTRIES - 1),
        st.integers(1, 6),
    ),
    max_size=30,
)


def acked(cursor: Cursor, places: list[Position]) -> set[Position]:
    return {position for position in places if cursor.is_acknowledged(*position)}


def bits(cursor: Cursor, places: list[Position]) -> list[int]:
    """What remains of each entry; an entry has seven messages here."""
    return [
        0 if cursor.is_acknowledged(*position) else cursor.remaining(*position) or 0b111_1111
        for position in places
    ]


def acknowledge(cursor: Cursor, kind: str, places: list[Position], at: int, more: int) -> None:
    position = places[at]
    if kind == "one":
        cursor.acknowledge(*position)
    elif kind == "bulk":
        same = [p.entry_id for p in places[at : at + more] if p.ledger_id == position.ledger_id]
        cursor.acknowledge_entries(position.ledger_id, same[::-1])
    elif kind == "through":
        cursor.acknowledge_through(position)
    elif kind == "batch":
        cursor.acknowledge_batch(*position, 0b111_1111 ^ (1 << more))


async def flush(cursor: Cursor) -> None:
    """Again after a fault: each fault fails one write."""
    while True:
        try:
            return await cursor.flush()
        except StorageFailed:
            continue


# An owner that is killed leaves work behind that never began.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@settings(max_examples=150)
@given(steps)
def test_a_recovered_cursor_is_what_was_flushed_and_claims_no_more_than_was_acknowledged(
    steps: list[tuple[str, int, int]],
) -> None:
    async def body() -> None:
        place = Place(
            policy=LogPolicy(entries_max=9, roll_min_ms=0, cursor_entries_max=3),
            interval_s=0.0005,
        )
        log = await place.open()
        cursor = await log.cursors.open("s", start=EARLIEST)
        places = await fill(log, ENTRIES)
        flushed = bits(cursor, places)
        exact = True  # nothing was acknowledged since the last flush
        for kind, at, more in steps:
            if kind == "flush":
                await flush(cursor)
                flushed, exact = bits(cursor, places), True
            elif kind == "wait":
                await asyncio.sleep(0.001)
            elif kind == "fault":
                place.store.fail_next(StorageFailed("no disk"))
            elif kind in ("crash", "close"):
                known = bits(cursor, places)
                if kind == "close":
                    await log.close()
                    flushed, exact = known, True
                log = await place.crash()
                cursor = log.cursors["s"]
                recovered = bits(cursor, places)
                for entry in range(ENTRIES):
                    assert recovered[entry] & ~flushed[entry] == 0, "what was flushed is there"
                    assert known[entry] & ~recovered[entry] == 0, "no more than was acknowledged"
                if exact:
                    assert recovered == flushed
                flushed, exact = recovered, True
            else:
                acknowledge(cursor, kind, places, at, more)
                exact = False
        await flush(cursor)
        state = cursor.describe()
        again = (await place.crash()).cursors["s"]
        assert again.mark_delete == state.mark_delete
        assert again.ranges == state.ranges
        assert again.describe().batches == state.batches
        assert again.backlog == ENTRIES - len(acked(again, places))

    asyncio.run(body())


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["append", "fault", "full", "crash", "roll"]), st.integers(1, 12)
        ),
        max_size=30,
    )
)
def test_whatever_fails_what_was_answered_is_read_back_in_order(
    steps: list[tuple[str, int]],
) -> None:
    async def body() -> None:
        place = Place(policy=LogPolicy(entries_max=7, roll_min_ms=0))
        log = await place.open()
        written: list[bytes] = []
        for number, (kind, size) in enumerate(steps):
            if kind == "append":
                run = [f"{number}.{index}".encode() for index in range(size)]
                try:
                    await append(log, *run)
                except StorageFailed:
                    continue
                written += run
            elif kind == "fault":
                place.store.fail_next(StorageFailed("no disk"))
            elif kind == "full":
                place.store.fail_next_create(StorageFailed("no room"))
            elif kind == "crash":
                log = await place.crash()
            else:
                await log.roll()
        log = await place.crash()
        found: list[bytes] = []
        start = EARLIEST
        while (taken := await log.reader.read(start, 5, 1000)) is not None:
            found += taken.data
            start = taken.next_position
        assert found == written
        assert log.sequence.total_entries == len(written)

    asyncio.run(body())
