"""The file store on a disk that is full or failing: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from magnetar.errors import BrokerError, LedgerSealed, StorageFailed, StorageFull
from magnetar.ledger.backends.file import check_ledgers, open_file_store
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


def fill(disk: FaultyDisk) -> None:
    disk.fill(room_bytes=70)


def fail_writes(disk: FaultyDisk) -> None:
    disk.fail_writes()


def fail_syncs(disk: FaultyDisk) -> None:
    disk.fail_syncs()


def fail_syncs_and_truncates(disk: FaultyDisk) -> None:
    disk.fail_syncs()
    disk.fail_truncates()


FAULTS = [
    (fill, StorageFull),
    (fail_writes, StorageFailed),
    (fail_syncs, StorageFailed),
    (fail_syncs_and_truncates, StorageFailed),
]


def test_a_group_for_which_there_is_room_needs_none_for_zeros_behind_it(tmp_path: Path) -> None:
    async def body() -> None:
        disk = FaultyDisk()
        store = await open_file_store(tmp_path, disk=disk, policy=BY_HAND)
        disk.fill(10_000)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(5))
        (extent,) = extents(tmp_path)
        assert extent.stat().st_size == store.journal_bytes
        disk.heal()
        await append(writer, numbered(5, start=5))
        assert extent.stat().st_size > store.journal_bytes
        assert await read_all(store, writer.id) == numbered(10)
        await store.close()

    asyncio.run(body())


class RollFailingDisk(FaultyDisk):
    """Makes no names of files durable once it is told to."""

    names_left: int | None = None

    def sync_directory(self, path: Path) -> None:
        if self.names_left is not None:
            self.names_left -= 1
            if self.names_left < 0:
                raise OSError(errno.EIO, "told to fail")
        super().sync_directory(path)


@pytest.mark.parametrize("seed", [2, 1, 5, 0])  # of the last changes of names, 3, 2, 1, 0 are lost
def test_extents_of_a_group_that_failed_go_so_that_none_is_left_that_follows_a_missing_one(
    tmp_path: Path, seed: int
) -> None:
    async def body() -> None:
        disk = RollFailingDisk()
        policy = replace(BY_HAND, extent_bytes_max=400, run_bytes_max=200)
        store = await open_file_store(tmp_path / "live", disk=disk, policy=policy)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(5))
        await store.settle()
        disk.names_left = 1
        with pytest.raises(StorageFailed):
            await append(writer, numbered(40, start=5))
        disk.cut_power(tmp_path / "live", tmp_path / "cut", Random(seed))
        await store.close()
        again = await open_file_store(tmp_path / "cut", policy=policy)
        assert (await read_all(again, writer.id))[:5] == numbered(5)
        await again.close()
        assert check_ledgers(tmp_path / "cut") == []

    asyncio.run(body())


@pytest.mark.parametrize(("fault", "refusal"), FAULTS)
def test_a_failed_append_ends_its_ledger_and_the_next_one_works(
    tmp_path: Path, fault: Callable[[FaultyDisk], None], refusal: type[BrokerError]
) -> None:
    async def body() -> None:
        disk = FaultyDisk()
        store = await open_file_store(tmp_path, disk=disk, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(5))
        fault(disk)
        answers: list[BrokerError | None] = []
        for start in (5, 10, 15):
            writer.append(numbered(5, start=start), answers.append)
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            while len(answers) < 3:
                await asyncio.sleep(0.001)
        assert all(isinstance(answer, refusal) for answer in answers)
        assert writer.last_confirmed == 4
        assert store.queued_bytes == 0
        with pytest.raises(LedgerSealed):
            writer.append([b"late"], lambda _: None)
        with pytest.raises((StorageFull, StorageFailed)):
            await store.create(term=ONE, properties={})
        disk.heal()
        fresh = await store.create(term=ONE, properties={})
        assert (await store.describe(writer.id)).sealed
        await append(fresh, numbered(3))
        info = await writer.seal()
        assert (info.last, info.length) == (4, 100)
        assert await read_all(store, writer.id) == numbered(5)
        await store.close()
        store = await open_file_store(tmp_path, policy=BY_HAND)
        assert await store.describe(writer.id) == info
        assert await read_all(store, writer.id) == numbered(5)
        assert await read_all(store, fresh.id) == numbered(3)
        await store.settle()
        await store.close()
        assert check_ledgers(tmp_path) == []

    asyncio.run(body())


@pytest.mark.parametrize("fault", [fault for fault, _ in FAULTS])
def test_a_failure_in_the_middle_of_a_group_that_rolls_loses_nothing(
    tmp_path: Path, fault: Callable[[FaultyDisk], None]
) -> None:
    async def body() -> None:
        disk = FaultyDisk()
        policy = replace(BY_HAND, extent_bytes_max=2000, run_bytes_max=500)
        store = await open_file_store(tmp_path, disk=disk, policy=policy)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(5))
        disk.fill(room_bytes=5000)
        with pytest.raises(StorageFull):
            await append(writer, numbered(1000, start=5))
        fault(disk)
        with pytest.raises(BrokerError):
            await store.create(term=ONE, properties={})
        disk.heal()
        fresh = await store.create(term=ONE, properties={})
        await append(fresh, numbered(400))
        # The process dies here: nothing is closed, a new one reads what is on disk.
        again = await open_file_store(tmp_path, policy=policy)
        assert await read_all(again, writer.id) == numbered(5)
        assert await read_all(again, fresh.id) == numbered(400)
        await again.close()
        await store.close()

    asyncio.run(body())


def test_a_seal_that_finds_no_room_can_be_repeated(tmp_path: Path) -> None:
    async def body() -> None:
        disk = FaultyDisk()
        store = await open_file_store(tmp_path, disk=disk, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(5))
        disk.fill()
        with pytest.raises(StorageFull):
            await writer.seal()
        assert not (await store.describe(writer.id)).sealed
        disk.heal()
        assert (await writer.seal()).last == 4
        await store.close()

    asyncio.run(body())


def test_deleting_makes_room_on_a_full_disk(tmp_path: Path) -> None:
    class SmallDisk(FaultyDisk):
        """Removing a file gives room for one more record."""

        def remove(self, path: Path) -> None:
            super().remove(path)
            self.fill(room_bytes=200)

    async def body() -> None:
        disk = SmallDisk()
        store = await open_file_store(tmp_path, disk=disk, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(5))
        await writer.seal()
        await store.settle()
        disk.fill()
        await store.delete(writer.id)
        assert await store.ledgers() == ()
        assert settled(tmp_path) == []
        disk.heal()
        await store.close()
        store = await open_file_store(tmp_path, policy=BY_HAND)
        assert await store.ledgers() == ()
        await store.close()

    asyncio.run(body())


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_settling_that_fails_leaves_the_journal_alone_and_is_repeated(
    tmp_path: Path, error: int
) -> None:
    async def body() -> None:
        disk = FaultyDisk()
        policy = replace(BY_HAND, extent_bytes_max=4096)
        store = await open_file_store(tmp_path, disk=disk, policy=policy)
        writer = await store.create(term=ONE, properties={})
        for start in range(0, 500, 10):
            await append(writer, numbered(10, start=start))
        await writer.seal()
        before = extents(tmp_path)
        disk.fail_syncs(error)
        with pytest.raises((StorageFull, StorageFailed)):
            await store.settle()
        assert settled(tmp_path) == []
        assert extents(tmp_path) == before
        assert await read_all(store, writer.id) == numbered(500)
        disk.heal()
        await store.settle()
        assert settled(tmp_path) == [f"{writer.id}.led"]
        assert len(extents(tmp_path)) == 1
        assert await read_all(store, writer.id) == numbered(500)
        await store.close()

    asyncio.run(body())


def test_a_store_that_cannot_write_its_last_catalogue_still_closes(tmp_path: Path) -> None:
    async def body() -> None:
        disk = FaultyDisk()
        store = await open_file_store(tmp_path, disk=disk, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(5))
        disk.fill()
        await store.close()
        store = await open_file_store(tmp_path, policy=BY_HAND)
        assert await read_all(store, writer.id) == numbered(5)
        await store.close()

    asyncio.run(body())


def test_a_failing_callback_keeps_nobody_from_an_answer(tmp_path: Path) -> None:
    def broken(error: BrokerError | None) -> None:
        raise RuntimeError("a bug in the caller")

    async def body() -> None:
        store = await open_file_store(tmp_path, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        writer.append([b"one"], broken)
        assert await append(writer, [b"two"]) == 1
        await store.close()

    asyncio.run(body())


def test_a_cancelled_creation_still_leaves_a_ledger_that_can_be_found(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=BY_HAND)
        creating = asyncio.ensure_future(store.create(term=ONE, properties={}))
        await asyncio.sleep(0)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
        writer = await store.create(term=ONE, properties={})
        assert len(await store.ledgers()) == 2
        assert await append(writer, [b"entry"]) == 0
        await store.close()

    asyncio.run(body())
