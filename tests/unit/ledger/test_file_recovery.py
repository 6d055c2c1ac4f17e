"""Recovery of the file store: torn tails are cut, damage is named and concerns those it hit."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from magnetar.errors import DataDirectoryRefused, LedgerCorrupt
from magnetar.ledger.backends.file import (
    FileLedgerStore,
    FindingKind,
    MetadataWitness,
    check_ledgers,
    open_file_store,
    parse_witness,
)
from magnetar.ledger.backends.file.rebuild import rebuild_catalogue
from magnetar.ledger.backends.file.record import HEADER
from magnetar.ledger.backends.file.witness import LedgerWitness
from magnetar.model.position import EntryId, LedgerId, Term
from magnetar.testing.disk import FaultyDisk
from tests.unit.ledger.file_place import (
    BY_HAND,
    ONE,
    append,
    extents,
    numbered,
    read_all,
    written,
)


async def abandoned(store: FileLedgerStore, root: Path, target: Path) -> Path:
    """What a process that dies now leaves behind; the store itself is closed all the same."""
    shutil.copytree(root, target)
    await store.close()
    return target


async def outcome_of(
    store: FileLedgerStore, ledger: LedgerId, entry: int
) -> bytes | type[LedgerCorrupt]:
    try:
        (found,) = await store.read(ledger, EntryId(entry), entries_max=1, bytes_max=1)
    except LedgerCorrupt:
        return LedgerCorrupt
    return found


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
        data = written(extent)
        for cut in range(len(data)):
            target = tmp_path / "cut"
            shutil.copytree(whole, target)
            (target / "journal" / extent.name).write_bytes(data[:cut] + bytes(100 * (cut % 2)))
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


def test_zeros_laid_for_later_groups_are_no_torn_write_and_go_with_the_next_start(
    tmp_path: Path,
) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path / "live", policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, [bytes(20)] * 5)
        root = await abandoned(store, tmp_path / "live", tmp_path / "copy")
        (live,), (extent,) = extents(tmp_path / "live"), extents(root)
        assert extent.stat().st_size > store.journal_bytes
        assert check_ledgers(root) == []
        again = await open_file_store(root, policy=BY_HAND)
        assert await read_all(again, writer.id) == [bytes(20)] * 5
        await again.close()
        assert extent.read_bytes() == live.read_bytes()[: extent.stat().st_size]

    asyncio.run(body())


def test_a_torn_tail_is_reported_and_harmless(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path / "live", policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(5))
        await append(writer, numbered(5, start=5))
        root = await abandoned(store, tmp_path / "live", tmp_path / "copy")
        (extent,) = extents(root)
        extent.write_bytes(written(extent)[:-10])
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
            found = await store.read(ids["middle"], EntryId(3), entries_max=9, bytes_max=999)
            assert found == [b"middle third"]
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
        outcomes = [await outcome_of(again, writer.id, entry) for entry in range(100)]
        assert LedgerCorrupt in outcomes
        assert outcomes[99] == numbered(100)[99]
        await again.close()
        lost = extents(root)[-2]
        lost.unlink()
        assert lost in [f.path for f in check_ledgers(root) if f.kind is FindingKind.MISSING]
        again = await open_file_store(root, policy=policy)
        assert await read_all(again, writer.id) == numbered(100)
        outcomes = [await outcome_of(again, second.id, entry) for entry in range(100)]
        assert LedgerCorrupt in outcomes
        assert set(outcomes) <= {LedgerCorrupt, *numbered(100)}
        await again.close()

    asyncio.run(body())


def test_a_damaged_catalogue_is_replaced_by_its_copy(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(3))
        await store.close()
        for name in ("catalogue", "catalogue.1"):
            flip(tmp_path / name, 40)
            (finding,) = check_ledgers(tmp_path)
            assert (finding.kind, finding.path) == (FindingKind.MENDED, tmp_path / name)
            store = await open_file_store(tmp_path, policy=BY_HAND)
            assert await read_all(store, writer.id) == numbered(3)
            await store.close()
            assert check_ledgers(tmp_path) == []

    asyncio.run(body())


def test_a_catalogue_damaged_twice_is_refused_by_name_and_rebuilt_on_demand(tmp_path: Path) -> None:
    async def body() -> None:
        policy = replace(BY_HAND, extent_bytes_max=2000)
        store = await open_file_store(tmp_path, policy=policy)
        settled = await store.create(term=ONE, properties={"chain": "settled"})
        await append(settled, numbered(100))
        await settled.seal()
        gone = await store.create(term=ONE, properties={"chain": "gone"})
        await append(gone, numbered(5))
        await store.settle()
        await store.delete(gone.id)
        parted = await store.create(term=ONE, properties={"chain": "parted"})
        for entry in numbered(100):
            await append(parted, [entry])
        await store.close()
        for name in ("catalogue", "catalogue.1"):
            flip(tmp_path / name, 40)
        with pytest.raises(LedgerCorrupt, match=r"catalogue.*doctor --repair"):
            await open_file_store(tmp_path, policy=policy)
        assert [finding.kind for finding in check_ledgers(tmp_path)] == [FindingKind.DAMAGE]
        done = rebuild_catalogue(tmp_path, None)
        assert len(done) == 3
        assert (tmp_path / "catalogue.damaged-1").exists()
        store = await open_file_store(tmp_path, policy=policy)
        assert await store.ledgers() == (settled.id, parted.id)
        assert await read_all(store, settled.id) == numbered(100)
        assert await read_all(store, parted.id) == numbered(100)
        assert (await store.describe(settled.id)).properties == {"chain": "settled"}
        fresh = await store.create(term=ONE, properties={})
        assert fresh.id > parted.id
        await store.close()
        assert rebuild_catalogue(tmp_path, None) == []
        for name in ("catalogue", "catalogue.1"):
            (tmp_path / name).unlink()
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


def test_one_flipped_bit_in_a_header_loses_nothing(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path / "live", policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        places = []
        for entry in numbered(6):
            places.append(store.journal_bytes)
            await append(writer, [entry])
        root = await abandoned(store, tmp_path / "live", tmp_path / "copy")
        (extent,) = extents(root)
        for offset in range(places[2], places[2] + HEADER.size):
            flip(extent, offset)
            assert [each.kind for each in check_ledgers(root)] == [FindingKind.MENDED]
            flip(extent, offset)
        flip(extent, places[2] + 9)
        again = await open_file_store(root, policy=BY_HAND)
        assert await read_all(again, writer.id) == numbered(6)
        assert (await again.recover(writer.id, term=Term(2))).last == 5
        await again.settle()
        assert await read_all(again, writer.id) == numbered(6)
        await again.close()
        assert check_ledgers(root) == []

    asyncio.run(body())


def test_a_lost_header_costs_its_own_entries_only(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path / "live", policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        for entry in numbered(30):
            place = store.journal_bytes
            await append(writer, [entry])
            if entry == numbered(30)[10]:
                lost = place
        await writer.seal()
        await store.close()
        (extent,) = extents(tmp_path / "live")
        data = bytearray(extent.read_bytes())
        data[lost : lost + HEADER.size] = bytes(HEADER.size)
        extent.write_bytes(data)
        for _ in range(2):
            again = await open_file_store(tmp_path / "live", policy=BY_HAND)
            outcomes = [await outcome_of(again, writer.id, entry) for entry in range(30)]
            expected: list[object] = list(numbered(30))
            expected[10] = LedgerCorrupt
            assert outcomes == expected
            assert not (await again.describe(writer.id)).is_whole
            await again.settle()
            await again.close()

    asyncio.run(body())


@pytest.mark.parametrize("from_end", [1, 20, 40])
def test_a_damaged_index_of_a_settled_part_is_made_anew_from_its_runs(
    tmp_path: Path, from_end: int
) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(2000, size=500))
        await writer.seal()
        await store.settle()
        await store.close()
        (part,) = (tmp_path / "sealed").iterdir()
        flip(part, part.stat().st_size - from_end)
        assert [each.kind for each in check_ledgers(tmp_path)] == [FindingKind.MENDED]
        again = await open_file_store(tmp_path, policy=BY_HAND)
        assert await read_all(again, writer.id) == numbered(2000, size=500)
        found = await again.read(writer.id, EntryId(1500), entries_max=1, bytes_max=1)
        assert found == numbered(1, start=1500, size=500)
        await again.close()

    asyncio.run(body())


async def witnessed(tmp_path: Path) -> tuple[Path, LedgerId, LedgerWitness, int]:
    """A store that died: the metadata has seen all of its journal, the last group too."""
    store = await open_file_store(tmp_path / "live", policy=BY_HAND)
    writer = await store.create(term=ONE, properties={})
    await append(writer, numbered(3))
    last = store.journal_bytes
    await append(writer, numbered(3, start=3))
    seen = parse_witness(store.witness())
    assert seen is not None
    root = await abandoned(store, tmp_path / "live", tmp_path / "copy")
    return root, writer.id, seen, last


def test_a_damaged_last_group_that_the_metadata_has_seen_is_no_torn_write(tmp_path: Path) -> None:
    async def body() -> None:
        root, ledger, seen, last = await witnessed(tmp_path)
        (extent,) = extents(root)
        flip(extent, last + HEADER.size + 15)
        assert [each.kind for each in check_ledgers(root)] == [FindingKind.TORN]
        assert FindingKind.DAMAGE in [each.kind for each in check_ledgers(root, seen)]
        again = await open_file_store(root, policy=BY_HAND, seen=seen)
        assert await again.read(ledger, EntryId(0), entries_max=9, bytes_max=999) == numbered(3)
        with pytest.raises(LedgerCorrupt):
            await again.read(ledger, EntryId(3), entries_max=9, bytes_max=999)
        await again.close()

    asyncio.run(body())


@pytest.mark.parametrize("zeros", [b"", bytes(4096)], ids=["cut off", "zeros behind it"])
def test_a_journal_that_lost_what_the_metadata_has_seen_is_refused_until_that_is_accepted(
    tmp_path: Path, zeros: bytes
) -> None:
    async def body() -> None:
        root, ledger, seen, last = await witnessed(tmp_path)
        (extent,) = extents(root)
        extent.write_bytes(extent.read_bytes()[:last] + zeros)
        before = extent.read_bytes()
        with pytest.raises(DataDirectoryRefused, match=f"{extent}.*doctor --repair"):
            await open_file_store(root, policy=BY_HAND, seen=seen)
        assert extent.read_bytes() == before
        (done,) = rebuild_catalogue(root, seen)
        assert "accepted" in done
        again = await open_file_store(root, policy=BY_HAND, seen=seen)
        assert await again.read(ledger, EntryId(0), entries_max=9, bytes_max=999) == numbered(3)
        with pytest.raises(LedgerCorrupt):
            await again.read(ledger, EntryId(3), entries_max=9, bytes_max=999)
        fresh = await again.create(term=ONE, properties={})
        await append(fresh, numbered(2))
        await again.close()
        again = await open_file_store(root, policy=BY_HAND, seen=seen)
        assert await read_all(again, fresh.id) == numbered(2)
        await again.close()

    asyncio.run(body())


def test_what_the_journal_has_seen_of_the_metadata_survives(tmp_path: Path) -> None:
    heard: list[MetadataWitness | None] = []

    async def body() -> None:
        policy = replace(BY_HAND, extent_bytes_max=500)
        store = await open_file_store(tmp_path / "live", policy=policy)
        store.note_metadata("me", 7)
        writer = await store.create(term=ONE, properties={})
        store.note_metadata("me", 8)
        root = await abandoned(store, tmp_path / "live", tmp_path / "crashed")
        for place in (root, tmp_path / "live"):  # the second was closed: by then it knew of both
            again = await open_file_store(place, policy=policy, check_metadata=heard.append)
            for entry in numbered(20):
                await append(await again.create(term=ONE, properties={}), [entry])
            assert (await again.describe(writer.id)).last == -1
            await again.close()
            await (await open_file_store(place, check_metadata=heard.append)).close()

    asyncio.run(body())
    assert heard == [("me", 7), ("me", 7), ("me", 8), ("me", 8)]


def test_where_anything_is_damaged_nothing_is_removed(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_file_store(tmp_path, policy=BY_HAND)
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(3))
        await writer.seal()
        await store.settle()
        await store.close()
        leftover = tmp_path / "sealed" / "77.led"
        leftover.write_bytes(b"all that is left of something")
        (tmp_path / "sealed" / f"{writer.id}.led").unlink()
        await (await open_file_store(tmp_path, policy=BY_HAND)).close()
        assert leftover.exists()

    asyncio.run(body())
