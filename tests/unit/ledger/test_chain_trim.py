from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from magnetar.errors import StoreUnavailable
from magnetar.ledger.chain import Chain, ChainPolicy
from magnetar.ledger.info import LedgerPart
from magnetar.ledger.orphan import load_references, remove_orphans
from magnetar.ledger.retention import plan_trim
from magnetar.ledger.sequence import LedgerSequence
from magnetar.model.position import EARLIEST, Position, Term
from tests.unit.ledger.chain_place import BYTES, Place, append, fill, read_all


@pytest.mark.parametrize(
    ("retention_ms", "retention_bytes", "expected"),
    [
        (0, 0, 3),
        (-1, -1, 0),
        (-1, 0, 3),
        (-1, 100, 3),
        (-1, 101, 2),
        (-1, 200, 2),
        (-1, 400, 0),
        (0, -1, 3),
        (999, -1, 1),
        (1000, -1, 0),
        (599, 1000, 2),
    ],
)
def test_a_ledger_goes_when_it_is_old_or_the_size_is_kept_without_it(
    retention_ms: int, retention_bytes: int, expected: int
) -> None:
    parts = [LedgerPart(number, 10, 100, 1000 + 400 * number) for number in range(3)]
    policy = ChainPolicy(retention_ms=retention_ms, retention_bytes=retention_bytes)
    passed = LedgerSequence(parts).parts
    assert plan_trim(passed, 400, policy, now_ms=2000) == expected


def entries_of(chain: Chain) -> Sequence[int]:
    return [part.entries for part in chain.ledgers]


def test_the_slowest_cursor_holds_ledgers_back() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        fast = await chain.open_cursor("fast", start=EARLIEST)
        slow = chain.transient_cursor("slow", EARLIEST)
        places = await fill(chain, 35)
        fast.acknowledge_through(places[-1])
        slow.acknowledge_through(places[18])
        place.clock.ms += 1
        await chain.trim()
        assert entries_of(chain) == [10, 10, 5]
        slow.acknowledge_through(places[19])
        await chain.trim()
        assert entries_of(chain) == [10, 5]
        await slow.close()
        await chain.trim()
        assert entries_of(chain) == [5]
        assert chain.total_entries == 5 and fast.backlog == 0
        assert set(await place.ledgers()) == {part.ledger_id for part in chain.ledgers}
        assert await read_all(chain) == [b"30", b"31", b"32", b"33", b"34"]
        await chain.close()

    asyncio.run(body())


def test_a_reader_behind_the_trimmed_part_goes_on_at_the_first_entry() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        places = await fill(chain, 25)
        place.clock.ms += 1
        await chain.trim()
        assert entries_of(chain) == [5]
        assert chain.first_position == places[20] == chain.next_position(places[3])
        run = await chain.read(places[3], 100, BYTES)
        assert run is not None and run.data[0] == b"20"
        cursor = await chain.open_cursor("s", start=places[3])
        assert cursor.first_unacked() == places[20]
        assert cursor.is_acknowledged(*places[3])
        assert chain.entries_between(places[3], chain.next_position(places[-1])) == 5
        await chain.close()

    asyncio.run(body())


def test_a_sealed_last_ledger_goes_too_and_positions_stay_behind_it() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        cursor = await chain.open_cursor("s", start=EARLIEST)
        places = await fill(chain, 5)
        cursor.acknowledge_through(places[-1])
        await chain.roll()
        place.clock.ms += 1
        await chain.trim()
        assert chain.ledgers == ()
        assert chain.last_position == places[-1]
        assert cursor.backlog == 0
        await chain.close()

        chain = await place.open()
        assert chain.cursors["s"].backlog == 0
        later = await append(chain, b"x")
        assert later > places[-1]
        assert chain.cursors["s"].first_unacked() == later
        assert chain.cursors["s"].backlog == 1
        await chain.close()

    asyncio.run(body())


def test_retention_keeps_what_everybody_has_read() -> None:
    async def body() -> None:
        place = Place()
        place.keep(retention_ms=1000, retention_bytes=-1)
        chain = await place.open()
        await fill(chain, 15)
        place.clock.ms += 1000
        await chain.trim()
        assert entries_of(chain) == [10, 5]
        place.clock.ms += 1
        await chain.trim()
        assert entries_of(chain) == [5]
        await chain.close()

    asyncio.run(body())


def test_ledgers_stay_when_the_record_could_not_be_written() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        await fill(chain, 15)
        place.clock.ms += 1
        place.records.fail_next(StoreUnavailable("no answer"))
        with pytest.raises(StoreUnavailable):
            await chain.trim()
        assert len(await read_all(chain)) == 15
        await chain.trim()
        assert entries_of(chain) == [5]
        await chain.close()

    asyncio.run(body())


def test_orphans_are_removed_and_nothing_else() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        cursor = await chain.open_cursor("s", start=EARLIEST)
        await fill(chain, 15)
        cursor.acknowledge_through(Position(1, 3))
        await cursor.flush()
        named = await place.ledgers()
        made = await place.inner.create(term=Term(1), properties={"chain": chain.name})
        gone = await place.inner.create(term=Term(1), properties={"chain": "deleted"})
        other = await place.inner.create(term=Term(1), properties={})

        async def references(name: str) -> frozenset[int]:
            return await load_references(place.records) if name == chain.name else frozenset()

        removed = await remove_orphans(
            place.store, await place.store.ledgers(), references, term=Term(9)
        )
        assert removed == (made.id, gone.id)
        assert await place.ledgers() == (*named, other.id)

    asyncio.run(body())
