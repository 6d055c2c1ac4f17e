"""Recovery of the file store: torn tails are cut, damage is named and concerns those it hit."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from magnetar.errors import LedgerCorrupt
from magnetar.ledger.backends.file import (
    FileLedgerStore,
    FindingKind,
    check_ledgers,
    open_file_store,
)
from magnetar.ledger.backends.file.record import HEADER
from magnetar.model.position import EntryId, LedgerId, Term
from magnetar.testing.disk import FaultyDisk
from tests.unit.ledger.file_place import BY_HAND, ONE, append, extents, numbered, read_all


async def abandoned(store: FileLedgerStore, root: Path, target: Path) -> Path:
    """What a process that dies now leaves behind; the store itself is closed all the same."""
    shutil.copytree(root, target)
    await store.close()
    return target


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.write_bytes(data)


def offset_of(path: Path, needle: bytes) -> int:
    found = path.read_bytes().index(needle)
    assert path.read_bytes().count(needle) == 1
    return found


def test_the_last_extent_may_end_at_any_byte(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path / "live", policy=BY_HAND)
        ends: list[tuple[int, int]] = []
        writers = [await store.create(term=ONE, properties={"n": str(n)}) for n in range(2)]
        for number in range(4):
            for writer in writers:
                await append(writer, [b"%d/%d" % (writer.id, number)] * 2)
            ends.append((store.journal_bytes, 2 * number + 1))
        await writers[0].seal()
        whole = await abandoned(store, tmp_path / "live", tmp_path / "whole")
        (extent,) = extents(whole)
        data = extent.read_bytes()
        for cut in range(len(data)):
            target = tmp_path / "cut"
            shutil.copytree(whole, target)
            (target / "journal" / extent.name).write_bytes(data[:cut])
            again = await open_file_store(target, disk=FaultyDisk(), policy=BY_HAND)
            for writer in writers:
                durable = max((last for end, last in ends if end <= cut), default=-1)
                if writer.id not in await again.ledgers():
                    assert durable == -1
                    continue
                info = await again.describe(writer.id)
                assert info.last >= durable
                expected = [b"%d/%d" % (writer.id, number // 2) for number in range(info.last + 1)]
                assert await read_all(again, writer.id) == expected
                assert info.properties == {"n": str(writers.index(writer))}
            fresh = await again.create(term=ONE, properties={})
            assert fresh.id not in [info for info in await again.ledgers() if info != fresh.id]
            await append(fresh, [b"goes on"])
            await again.close()
            assert check_ledgers(target) == []
            shutil.rmtree(target)

    asyncio.run(body())


def test_a_torn_tail_is_reported_and_harmless(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path / "live", policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(5))
        await append(writer, numbered(5, start=5))
        root = await abandoned(store, tmp_path / "live", tmp_path / "copy")
        (extent,) = extents(root)
        extent.write_bytes(extent.read_bytes()[:-10])
        (finding,) = check_ledgers(root)
        assert finding.kind is FindingKind.TORN
        assert finding.is_harmless
        assert finding.path == extent
        again = await open_file_store(root, policy=BY_HAND)
        assert await read_all(again, writer.id) == numbered(5)
        await again.close()
        assert extent.stat().st_size == finding.offset

    asyncio.run(body())


def test_a_damaged_body_concerns_its_own_entries_only(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path / "live", policy=BY_HAND)
        hit = await store.create(term=ONE, properties={})
        other = await store.create(term=ONE, properties={})
        for number in range(10):
            await append(hit, [b"hit %d" % number])
            await append(other, [b"other %d" % number])
        root = await abandoned(store, tmp_path / "live", tmp_path / "copy")
        (extent,) = extents(root)
        flip(extent, offset_of(extent, b"hit 4"))
        assert [(finding.kind, finding.ledger) for finding in check_ledgers(root)] == [
            (FindingKind.DAMAGE, hit.id)
        ]
        again = await open_file_store(root, policy=BY_HAND)
        assert len(await read_all(again, other.id)) == 10
        assert (await again.recover(hit.id, term=Term(2))).last == 9
        assert await again.read(hit.id, EntryId(0), entries_max=100, bytes_max=999) == [
            b"hit %d" % number for number in range(4)
        ]
        with pytest.raises(LedgerCorrupt, match=rf"{extent.name} at offset \d+"):
            await again.read(hit.id, EntryId(4), entries_max=1, bytes_max=999)
        assert len(await again.read(hit.id, EntryId(5), entries_max=9, bytes_max=999)) == 5
        await again.settle()
        assert await again.read(hit.id, EntryId(9), entries_max=9, bytes_max=999) == [b"hit 9"]
        await again.close()

    asyncio.run(body())


async def damaged_header(tmp_path: Path) -> tuple[Path, dict[str, LedgerId]]:
    """Ledgers around records that are gone: one lost a middle, one its end, others nothing."""
    store = await open_file_store(tmp_path / "live", policy=BY_HAND)
    names = ("middle", "tail", "whole", "sealed")
    writers = {name: await store.create(term=ONE, properties={}) for name in names}
    for name in names:
        await append(writers[name], [b"%s first" % name.encode()] * 2)
    await writers["sealed"].seal()
    start = store.journal_bytes
    await asyncio.gather(
        append(writers["middle"], [b"middle second"]), append(writers["tail"], [b"tail second"])
    )
    end = store.journal_bytes
    for name in ("middle", "whole"):
        await append(writers[name], [b"%s third" % name.encode()])
    root = await abandoned(store, tmp_path / "live", tmp_path / "copy")
    (extent,) = extents(root)
    data = bytearray(extent.read_bytes())
    data[start:end] = bytes(end - start)
    extent.write_bytes(data)
    return root, {name: writer.id for name, writer in writers.items()}


def test_a_hole_in_the_journal_concerns_the_ledgers_that_may_have_lost_something(
    tmp_path: Path,
) -> None:
    async def body() -> None:
        root, ids = await damaged_header(tmp_path)
        assert {finding.ledger for finding in check_ledgers(root)} == {
            None,
            ids["middle"],
            ids["tail"],
        }
        store = await open_file_store(root, policy=BY_HAND)
        for _ in range(2):  # the second round reads it from the catalogue
            assert await read_all(store, ids["whole"]) == [b"whole first"] * 2 + [b"whole third"]
            assert await read_all(store, ids["sealed"]) == [b"sealed first"] * 2
            for name in ("middle", "tail"):
                found = await store.read(ids[name], EntryId(0), entries_max=9, bytes_max=999)
                assert found == [b"%s first" % name.encode()] * 2
                with pytest.raises(LedgerCorrupt, match=r"\.log at offset \d+"):
                    await store.read(ids[name], EntryId(2), entries_max=9, bytes_max=999)
            with pytest.raises(LedgerCorrupt):
                await store.recover(ids["tail"], term=Term(2))
            assert (await store.recover(ids["whole"], term=Term(2))).last == 2
            assert (await store.recover(ids["middle"], term=Term(2))).last == 3
            await store.settle()
            await store.close()
            store = await open_file_store(root, policy=BY_HAND)
        fresh = await store.create(term=ONE, properties={})
        assert await append(fresh, [b"goes on"]) == 0
        await store.delete(ids["middle"])
        await store.delete(ids["tail"])
        await store.close()

    asyncio.run(body())


def test_blanks_inside_the_last_group_are_a_torn_write(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path / "live", policy=BY_HAND)
        writers = [await store.create(term=ONE, properties={}) for _ in range(3)]
        start = store.journal_bytes
        await asyncio.gather(*(append(writer, [b"entry"]) for writer in writers))
        root = await abandoned(store, tmp_path / "live", tmp_path / "copy")
        (extent,) = extents(root)
        data = bytearray(extent.read_bytes())
        size = HEADER.size + 4 + 5
        data[start + size : start + 2 * size] = bytes(size)
        extent.write_bytes(data)
        (finding,) = check_ledgers(root)
        assert (finding.kind, finding.offset) == (FindingKind.TORN, start + size)
        again = await open_file_store(root, policy=BY_HAND)
        assert [(await again.describe(writer.id)).last for writer in writers] == [0, -1, -1]
        await again.close()

    asyncio.run(body())


def test_a_missing_extent_is_named(tmp_path: Path) -> None:
    async def body() -> None:
        policy = replace(BY_HAND, extent_bytes_max=2000)
        store = await open_file_store(tmp_path / "live", policy=policy)
        writer = await store.create(term=ONE, properties={})
        for entry in numbered(100):
            await append(writer, [entry])
        await writer.seal()
        await store.close()
        clean = shutil.copytree(tmp_path / "live", tmp_path / "clean")
        store = await open_file_store(tmp_path / "live", policy=policy)
        second = await store.create(term=ONE, properties={})
        for entry in numbered(100):
            await append(second, [entry])
        root = await abandoned(store, tmp_path / "live", tmp_path / "copy")
        lost = extents(clean)[2]
        lost.unlink()
        missing = [f for f in check_ledgers(clean) if f.kind is FindingKind.MISSING]
        assert missing[0].path == lost
        again = await open_file_store(clean, policy=policy)
        assert await again.read(writer.id, EntryId(0), entries_max=1, bytes_max=1) == numbered(1)
        with pytest.raises(LedgerCorrupt):
            await again.read(writer.id, EntryId(99), entries_max=1, bytes_max=1)
        await again.close()
        lost = extents(root)[-2]
        lost.unlink()
        assert lost in [f.path for f in check_ledgers(root) if f.kind is FindingKind.MISSING]
        again = await open_file_store(root, policy=policy)
        assert await read_all(again, writer.id) == numbered(100)
        with pytest.raises(LedgerCorrupt):
            await again.read(second.id, EntryId(99), entries_max=1, bytes_max=1)
        await again.close()

    asyncio.run(body())


def test_a_damaged_catalogue_is_refused_by_name(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=BY_HAND)
        await append(await store.create(term=ONE, properties={}), numbered(3))
        await store.close()
        flip(tmp_path / "catalogue", 40)
        with pytest.raises(LedgerCorrupt, match="catalogue"):
            await open_file_store(tmp_path, policy=BY_HAND)
        assert [finding.kind for finding in check_ledgers(tmp_path)] == [FindingKind.DAMAGE]
        (tmp_path / "catalogue").unlink()
        with pytest.raises(LedgerCorrupt, match="catalogue is missing"):
            await open_file_store(tmp_path, policy=BY_HAND)

    asyncio.run(body())


def test_leftovers_of_a_crash_are_removed_and_strangers_are_not(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(3))
        await store.close()
        leftovers = [
            tmp_path / "catalogue.tmp",
            tmp_path / "sealed" / "77.led",
            tmp_path / "sealed" / "77.3.led.tmp",
            tmp_path / "journal" / "00000000000000ff.log",
        ]
        stranger = tmp_path / "sealed" / "notes.txt"
        for path in (*leftovers, stranger):
            path.write_bytes(b"anything")
        findings = check_ledgers(tmp_path)
        assert sorted(finding.path for finding in findings) == sorted(leftovers)
        assert all(finding.is_harmless for finding in findings)
        store = await open_file_store(tmp_path, policy=BY_HAND)
        assert not any(path.exists() for path in leftovers)
        assert stranger.exists()
        assert await read_all(store, writer.id) == numbered(3)
        await store.close()

    asyncio.run(body())


def test_recovery_after_recovery_keeps_everything(tmp_path: Path) -> None:
    async def body() -> None:
        root = tmp_path / "0"
        kept: dict[LedgerId, list[bytes]] = {}
        for generation in range(6):
            store = await open_file_store(root, policy=replace(BY_HAND, extent_bytes_max=1000))
            for ledger, entries in kept.items():
                assert await read_all(store, ledger) == entries
                assert (await store.recover(ledger, term=Term(generation))).last == len(entries) - 1
            writer = await store.create(term=Term(generation), properties={})
            kept[writer.id] = numbered(30, start=generation)
            for entry in kept[writer.id]:
                await append(writer, [entry])
            if generation == 3:
                await store.settle()
            root = await abandoned(store, root, tmp_path / str(generation + 1))
        assert [finding for finding in check_ledgers(root) if not finding.is_harmless] == []

    asyncio.run(body())
