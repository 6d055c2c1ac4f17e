from __future__ import annotations

import asyncio

from magnetar.ledger.cache import EntryCache
from magnetar.ledger.info import LogPolicy
from magnetar.ledger.run import EntryRun
from magnetar.model.position import EARLIEST
from tests.unit.ledger.log_place import BYTES, Place, append, fill, read_all


def entries(first: int, count: int, size: int = 100) -> list[bytes]:
    return [str(number).encode().ljust(size) for number in range(first, first + count)]


def test_what_was_appended_is_read_back_in_slices() -> None:
    view = EntryCache(64 * BYTES).view()
    view.switch(True)
    for first in range(0, 20_000, 100):
        view.append(1, first, entries(first, 100), [1] * 100, 10_000)
    for start in (0, 1, 99, 4_999, 12_345):
        run = view.get(1, start, 500, BYTES)
        assert run is not None and run.first == start
        assert run.data == entries(start, 500)
    run = view.get(1, 19_990, 500, BYTES)
    assert run is not None and (len(run), run.last) == (10, 19_999)
    assert view.get(1, 20_000, 1, BYTES) is None
    assert view.get(2, 0, 1, BYTES) is None


def test_bytes_cut_a_run_but_one_entry_always_comes() -> None:
    view = EntryCache(64 * BYTES).view()
    view.switch(True)
    view.append(1, 0, entries(0, 10), [1] * 10, 1000)
    run = view.get(1, 0, 10, 399)
    assert run is not None and len(run) == len(run.counts) == 3
    run = view.get(1, 4, 10, 1)
    assert run is not None and run.data == entries(4, 1)


def test_the_oldest_chunks_go_first_across_logs() -> None:
    cache = EntryCache(2 * BYTES)
    views = [cache.view() for _ in range(4)]
    for view in views:
        view.switch(True)
        view.append(1, 0, [b"x" * BYTES], [1], BYTES)
        assert cache.bytes_used <= cache.bytes_max
    assert [view.get(1, 0, 1, BYTES) is not None for view in views] == [False, False, False, True]
    for view in views:
        view.switch(False)
    assert cache.bytes_used == 0


def test_cold_reads_compete_for_a_quarter() -> None:
    cache = EntryCache(8 * BYTES)
    hot, cold = cache.view(), cache.view()
    hot.switch(True)
    cold.switch(True)
    hot.append(1, 0, [b"x" * BYTES] * 5, [1] * 5, 5 * BYTES)
    for first in range(50):
        cold.keep(EntryRun(1, first, [b"y" * (BYTES // 2)], [1]))
    assert hot.get(1, 0, 1, BYTES) is not None
    assert cold.get(1, 0, 1, BYTES) is None
    assert cold.get(1, 49, 1, BYTES) is not None
    assert cache.bytes_used < 7.1 * BYTES


def test_a_gap_in_what_was_appended_is_not_papered_over() -> None:
    view = EntryCache(64 * BYTES).view()
    view.switch(True)
    view.append(1, 0, entries(0, 5), [1] * 5, 500)
    view.switch(False)
    view.switch(True)
    view.append(1, 10, entries(10, 5), [1] * 5, 500)
    assert view.get(1, 0, 100, BYTES) is None
    view.keep(EntryRun(1, 3, entries(3, 4), [1] * 4))
    run = view.get(1, 3, 100, BYTES)
    assert run is not None and run.last == 6
    run = view.get(1, 12, 100, BYTES)
    assert run is not None and run.data == entries(12, 3)


def test_a_log_caches_only_while_it_has_cursors() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        first = await append(log, b"a")
        assert log.reader.read_cached(first, 1, BYTES) is None
        cursor = log.cursors.open_transient("r", EARLIEST)
        second = await append(log, b"b")
        run = log.reader.read_cached(second, 10, BYTES)
        assert run is not None and run.data == [b"b"]
        assert log.reader.read_cached(first, 10, BYTES) is None
        await cursor.close()
        assert log.reader.read_cached(second, 10, BYTES) is None
        assert place.cache.bytes_used == 0
        await log.close()

    asyncio.run(body())


def test_a_cold_read_brings_more_and_readers_at_one_place_share_it() -> None:
    async def body() -> None:
        place = Place(policy=LogPolicy())
        log = await place.open()
        await log.cursors.open("s", start=EARLIEST)
        await append(log, *[str(number).encode() for number in range(3000)])
        await log.close()
        log = await place.open()
        place.store.reads = 0
        runs = await asyncio.gather(*(log.reader.read(EARLIEST, 10, BYTES) for _ in range(5)))
        assert place.store.reads == 1
        assert [run.data for run in runs if run] == [[b"%d" % n for n in range(10)]] * 5
        assert len(await read_all(log, step=100)) == 3000
        assert place.store.reads == 3
        await log.close()

    asyncio.run(body())


def test_a_cached_read_at_a_ledgers_end_goes_on_in_the_next() -> None:
    async def body() -> None:
        log = await Place().open()
        log.cursors.open_transient("r", EARLIEST)
        places = await fill(log, 15)
        run = log.reader.read_cached(places[5], 100, BYTES)
        assert run is not None and (run.first, run.last) == (5, 9)
        run = log.reader.read_cached(run.next_position, 100, BYTES)
        assert run is not None and run.data == [b"10", b"11", b"12", b"13", b"14"]
        assert log.reader.read_cached(run.next_position, 100, BYTES) is None
        await log.close()

    asyncio.run(body())
