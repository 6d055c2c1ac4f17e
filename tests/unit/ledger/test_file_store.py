"""The file store over restarts: what is settled, reclaimed, and read without the broker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from magnetar.errors import LedgerCorrupt, LedgerFenced, LedgerNotFound
from magnetar.ledger.backends.file import (
    FileLedgerStore,
    FilePolicy,
    check_ledgers,
    open_file_store,
    read_sealed,
)
from magnetar.model.position import EntryId, Term
from magnetar.testing.disk import FaultyDisk
from tests.unit.ledger.file_place import (
    BY_HAND,
    ONE,
    append,
    extents,
    numbered,
    read_all,
    settled,
)

SMALL_EXTENTS = replace(BY_HAND, extent_bytes_max=4096)


async def reopened(
    store: FileLedgerStore, root: Path, policy: FilePolicy = BY_HAND
) -> FileLedgerStore:
    await store.close()
    return await open_file_store(root, policy=policy)


def test_ledgers_survive_a_restart(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=BY_HAND)
        opened = await store.create(term=Term(4), properties={"topic": "a"})
        await append(opened, numbered(10))
        sealed = await store.create(term=ONE, properties={})
        await append(sealed, numbered(3))
        await sealed.seal()
        store = await reopened(store, tmp_path)
        info = await store.describe(opened.id)
        assert (info.term, info.sealed, info.last, info.length) == (4, False, 9, 200)
        assert info.properties == {"topic": "a"}
        assert await read_all(store, opened.id) == numbered(10)
        assert (await store.describe(sealed.id)).sealed
        with pytest.raises(LedgerFenced):
            await store.recover(opened.id, term=Term(3))
        assert (await store.recover(opened.id, term=Term(5))).last == 9
        store = await reopened(store, tmp_path)
        assert (await store.describe(opened.id)).term == 5
        with pytest.raises(LedgerFenced):
            await store.recover(opened.id, term=Term(4))
        await store.close()
        assert check_ledgers(tmp_path) == []

    asyncio.run(body())


def test_appends_of_many_ledgers_share_their_syncs(tmp_path: Path) -> None:
    async def body() -> None:
        disk = FaultyDisk()
        store = await open_file_store(tmp_path, disk=disk, policy=BY_HAND)
        writers = await asyncio.gather(*(store.create(term=ONE, properties={}) for _ in range(200)))
        before = disk.syncs
        await asyncio.gather(
            *(append(writer, [b"%d" % number]) for writer in writers for number in range(10))
        )
        assert disk.syncs - before <= 10
        counts = store.counters()[""]
        assert counts["journal_groups"] <= 12
        assert counts["journal_bytes"] == store.journal_bytes - 40
        for writer in writers:
            assert await read_all(store, writer.id) == [b"%d" % number for number in range(10)]
        await store.close()

    asyncio.run(body())


def test_without_sync_no_append_is_synced(tmp_path: Path) -> None:
    async def body() -> None:
        disk = FaultyDisk()
        store = await open_file_store(tmp_path, disk=disk, sync=False, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        before = disk.syncs
        for number in range(20):
            await append(writer, [b"%d" % number])
        assert disk.syncs == before
        await store.close()

    asyncio.run(body())


def test_a_big_append_is_cut_into_runs_and_extents(tmp_path: Path) -> None:
    async def body() -> None:
        policy = replace(BY_HAND, extent_bytes_max=64_000, run_bytes_max=10_000)
        store = await open_file_store(tmp_path, policy=policy)
        writer = await store.create(term=ONE, properties={})
        entries = [bytes([number % 251]) * (number * 37 % 3000) for number in range(200)]
        await append(writer, entries)
        assert len(extents(tmp_path)) > 3
        assert await read_all(store, writer.id) == entries
        store = await reopened(store, tmp_path)
        assert await read_all(store, writer.id) == entries
        await store.close()
        assert check_ledgers(tmp_path) == []

    asyncio.run(body())


def test_an_extent_rolls_after_so_many_records(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=replace(BY_HAND, extent_records_max=10))
        writer = await store.create(term=ONE, properties={})
        for entry in numbered(35):
            await append(writer, [entry])
        assert len(extents(tmp_path)) == 4
        store = await reopened(store, tmp_path)
        assert await read_all(store, writer.id) == numbered(35)
        await store.close()

    asyncio.run(body())


def test_a_sealed_ledger_is_settled_and_the_journal_gives_its_space_back(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=SMALL_EXTENTS)
        writer = await store.create(term=ONE, properties={})
        for start in range(0, 1000, 10):
            await append(writer, numbered(10, start=start))
        assert len(extents(tmp_path)) > 5
        await writer.seal()
        await store.settle()
        assert settled(tmp_path) == [f"{writer.id}.led"]
        assert len(extents(tmp_path)) == 1
        assert await read_all(store, writer.id) == numbered(1000)
        assert await store.read(writer.id, EntryId(995), entries_max=9, bytes_max=999) == (
            numbered(5, start=995)
        )
        store = await reopened(store, tmp_path)
        assert await read_all(store, writer.id) == numbered(1000)
        await store.close()
        assert check_ledgers(tmp_path) == []

    asyncio.run(body())


def test_settling_happens_by_itself(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=replace(BY_HAND, settle_after_s=0.0))
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(5))
        await writer.seal()
        async with asyncio.timeout(30):
            while settled(tmp_path) != [f"{writer.id}.led"]:
                await asyncio.sleep(0.005)
        await store.close()

    asyncio.run(body())


def test_a_ledger_deleted_before_it_is_settled_is_never_copied(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=SMALL_EXTENTS)
        writer = await store.create(term=ONE, properties={})
        for start in range(0, 500, 10):
            await append(writer, numbered(10, start=start))
        await writer.seal()
        await store.delete(writer.id)
        await store.settle()
        assert settled(tmp_path) == []
        assert len(extents(tmp_path)) == 1
        await store.close()

    asyncio.run(body())


def test_deleting_a_settled_ledger_removes_its_file(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(5))
        await writer.seal()
        await store.settle()
        assert await read_all(store, writer.id) == numbered(5)
        await store.delete(writer.id)
        with pytest.raises(LedgerNotFound):
            await store.read(writer.id, EntryId(0), entries_max=1, bytes_max=1)
        await store.settle()
        assert settled(tmp_path) == []
        store = await reopened(store, tmp_path)
        assert await store.ledgers() == ()
        await store.close()

    asyncio.run(body())


def test_zeros_are_laid_behind_small_groups_and_end_with_the_extent(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        (extent,) = extents(tmp_path)
        laid = extent.stat().st_size
        assert laid > store.journal_bytes
        await append(writer, numbered(5))
        assert extent.stat().st_size == laid
        large = [bytes(100_000)] * 3
        await append(writer, large)
        assert extent.stat().st_size == store.journal_bytes
        await append(writer, numbered(1))
        assert extent.stat().st_size > store.journal_bytes
        await store.close()
        assert extent.stat().st_size == store.journal_bytes
        store = await open_file_store(tmp_path, policy=BY_HAND)
        assert await read_all(store, writer.id) == [*numbered(5), *large, *numbered(1)]
        await store.close()

    asyncio.run(body())


def test_an_overgrown_journal_settles_open_ledgers_in_parts(tmp_path: Path) -> None:
    async def body() -> None:
        policy = replace(SMALL_EXTENTS, journal_bytes_max=12_000, garbage_bytes_min=8_000)
        store = await open_file_store(tmp_path, policy=policy)
        writers = [await store.create(term=ONE, properties={"n": str(n)}) for n in range(3)]
        for start in range(0, 600, 10):
            for writer in writers:
                await append(writer, numbered(10, start=start))
            if start % 200 == 190:
                await store.settle()
        assert sum(path.stat().st_size for path in extents(tmp_path)) < 12_000
        assert f"{writers[0].id}.0.led" in settled(tmp_path)
        assert f"{writers[0].id}.1.led" in settled(tmp_path)
        with pytest.raises(LedgerNotFound):
            read_sealed(tmp_path, writers[0].id)
        for writer in writers:
            assert await read_all(store, writer.id) == numbered(600)
        await append(writers[1], numbered(5, start=600))
        await writers[1].seal()
        await store.settle()
        assert list(read_sealed(tmp_path, writers[1].id)) == numbered(605)
        assert list(read_sealed(tmp_path, writers[1].id, 599)) == numbered(6, start=599)
        store = await reopened(store, tmp_path, policy)
        assert await read_all(store, writers[0].id) == numbered(600)
        assert await read_all(store, writers[1].id) == numbered(605)
        await store.delete(writers[1].id)
        await store.settle()
        assert not [name for name in settled(tmp_path) if name.startswith(f"{writers[1].id}.")]
        await store.close()
        assert check_ledgers(tmp_path) == []

    asyncio.run(body())


def test_too_many_extents_are_settled_too(tmp_path: Path) -> None:
    async def body() -> None:
        policy = replace(BY_HAND, journal_extents_max=4)
        for _ in range(6):
            store = await open_file_store(tmp_path, policy=policy)
            await append(await store.create(term=ONE, properties={}), numbered(3))
            await store.close()
        assert len(extents(tmp_path)) == 6
        store = await open_file_store(tmp_path, policy=policy)
        await store.settle()
        assert len(extents(tmp_path)) == 3  # two old ones, and the notes on the rest
        for ledger in await store.ledgers():
            assert await read_all(store, ledger) == numbered(3)
        await store.close()

    asyncio.run(body())


def test_ids_are_not_used_again_after_everything_was_deleted(tmp_path: Path) -> None:
    async def body() -> None:
        used: set[int] = set()
        for _ in range(4):
            store = await open_file_store(tmp_path, policy=BY_HAND)
            writers = [await store.create(term=ONE, properties={}) for _ in range(3)]
            assert not used & {writer.id for writer in writers}
            used |= {writer.id for writer in writers}
            for writer in writers:
                await append(writer, [b"entry"])
                await store.delete(writer.id)
            await store.settle()
            await store.close()
        assert len(used) == 12
        store = await open_file_store(tmp_path, policy=BY_HAND)
        await store.settle()
        assert extents(tmp_path) == []
        await store.close()

    asyncio.run(body())


def test_another_process_reads_a_settled_ledger_while_the_store_is_open(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(500))
        await writer.seal()
        with pytest.raises(LedgerNotFound):
            read_sealed(tmp_path, writer.id)
        await store.settle()
        script = (
            "import sys; from pathlib import Path;"
            "from magnetar.ledger.backends.file import read_sealed;"
            "entries = list(read_sealed(Path(sys.argv[1]), int(sys.argv[2]), 100));"
            "print(len(entries), entries[0].decode(), entries[-1].decode())"
        )
        output = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path), str(writer.id)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        assert output.split() == ["400", f"{100:020d}", f"{499:020d}"]
        await store.close()

    asyncio.run(body())


def test_a_settled_empty_ledger_reads_as_empty(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await writer.seal()
        await store.settle()
        assert list(read_sealed(tmp_path, writer.id)) == []
        store = await reopened(store, tmp_path)
        assert await read_all(store, writer.id) == []
        await store.close()

    asyncio.run(body())


def test_reads_go_on_while_a_ledger_moves_to_its_own_file(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=SMALL_EXTENTS)
        writers = [await store.create(term=ONE, properties={}) for _ in range(10)]
        for start in range(0, 300, 10):
            for writer in writers:
                await append(writer, numbered(10, start=start))
        for writer in writers:
            await writer.seal()
        settling = asyncio.gather(store.settle(), store.settle())
        for _ in range(5):
            for writer in writers:
                assert await read_all(store, writer.id) == numbered(300)
        await settling
        await store.close()

    asyncio.run(body())


def test_reading_in_small_steps_through_a_big_run_loads_it_once(tmp_path: Path) -> None:
    class CountingDisk(FaultyDisk):
        reads = 0

        def read(self, path: Path, spans: object) -> list[bytes]:
            self.reads += 1
            return super().read(path, spans)  # type: ignore[arg-type]

    async def body() -> None:
        disk = CountingDisk()
        store = await open_file_store(tmp_path, disk=disk, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(1000))
        before = disk.reads
        assert await read_all(store, writer.id) == numbered(1000)
        assert disk.reads - before == 1
        await store.close()

    asyncio.run(body())


def test_a_missing_settled_file_is_named(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(5))
        await writer.seal()
        await store.settle()
        (tmp_path / "sealed" / f"{writer.id}.led").unlink()
        with pytest.raises(LedgerCorrupt, match=rf"{writer.id}\.led"):
            await store.read(writer.id, EntryId(0), entries_max=1, bytes_max=1)
        await store.close()
        assert [finding.ledger for finding in check_ledgers(tmp_path)] == [writer.id] * 2
        store = await open_file_store(tmp_path, policy=BY_HAND)
        with pytest.raises(LedgerCorrupt, match=rf"{writer.id}\.led is missing"):
            await store.read(writer.id, EntryId(0), entries_max=1, bytes_max=1)
        await store.close()

    asyncio.run(body())
