from __future__ import annotations

import asyncio
import io
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from magnetar.app.directory import holding, widen_spread
from magnetar.app.doctor import check_bytes, examine_directory, run
from magnetar.broker.log_record import MetadataLogRecords
from magnetar.broker.ownership import take_term
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.topic_tree import BucketCount
from magnetar.ledger.backends.file.store import open_file_store
from magnetar.ledger.backends.joint import make_ledger_id, number_above
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.metadata.store import ABSENT, ANY_VERSION
from magnetar.model.document import encode_document
from magnetar.model.log_path import LOGS, log_path
from magnetar.model.name import parse_topic
from magnetar.model.position import LedgerId, Position, Term
from magnetar.model.schema import CompatibilityStrategy, SchemaData, SchemaType
from magnetar.model.stored_log import CursorInfo, LedgerPart, LogInfo
from magnetar.runtime.clock import SystemClock

TOPIC = parse_topic("persistent://shop/eu/orders")
SEGMENT = parse_topic("segment://shop/eu/orders/0000-ffff-1")
CLOCK = SystemClock()


async def fill(
    path: Path, *, lose: bool = False, stray: bool = False, buckets: int = 1, stored_in: int = 0
) -> dict[str, int]:
    """A topic with a cursor, a compacted ledger and a schema, and a segment; return ledger ids."""
    ids: dict[str, int] = {}
    with holding(path, CLOCK) as directory:
        store = await SqliteStore.open(directory.metadata_file, clock=CLOCK)
        ledgers = await open_file_store(directory.ledger_folder)
        await take_term(store)

        async def ledger(name: str, **properties: str) -> int:
            writer = await ledgers.create(term=Term(1), properties=properties)
            done = asyncio.get_running_loop().create_future()
            writer.append([name.encode()] * 3, lambda error: done.set_result(error))
            assert await done is None
            await writer.seal()
            ids[name] = writer.id
            return writer.id

        if buckets > 1:
            kept = encode_document(BucketCount(numberOfTopicBuckets=buckets))
            await store.put(f"{LOGS}/{TOPIC.namespace}", kept, expect=ABSENT)
        for topic in (TOPIC, SEGMENT):
            records = MetadataLogRecords(store, log_path(topic, stored_in or buckets))
            part = LedgerPart(await ledger(topic.domain.value, chain=topic.full), 3, 30, 1)
            await records.store(LogInfo((part,), None, {}), expect=ABSENT)
            cursor = CursorInfo(await ledger("cursor"), Position(0, 0), (), {}, {}, {})
            await records.store_cursor("sub", cursor, expect=ABSENT)
        await ledger("compacted", kind="compacted", topic=TOPIC.full)
        if stray:
            await ledger("stray", chain="persistent://shop/eu/gone")
            await ledger("stray-compacted", kind="compacted", topic="persistent://shop/eu/gone")
            await ledger("intended", chain="persistent://shop/eu/gone")
            await ledgers.intend_deletion([LedgerId(ids["intended"])])
        registry = SchemaRegistry(store, ledgers, CLOCK)
        await registry.put_if_absent(
            TOPIC, SchemaData(SchemaType.STRING), CompatibilityStrategy.FULL
        )
        if lose:
            for name in ("persistent", "cursor"):
                await ledgers.delete(LedgerId(ids[name]))
            (schema,) = await registry.storage.ledgers_of(TOPIC)
            await ledgers.delete(schema)
        await ledgers.close()
        await store.close()
    return ids


async def fill_stores(path: Path) -> None:
    """A topic of two workers: a ledger in the store of each."""
    with holding(path, CLOCK) as directory:
        store = await SqliteStore.open(directory.metadata_file, clock=CLOCK)
        await take_term(store)
        parts = []
        for number in range(widen_spread(directory, 2).count):

            async def take_id(above: int, number: int = number) -> LedgerId:
                return make_ledger_id(number_above(above) + number, number)

            ledgers = await open_file_store(directory.folder_of(number), take_id=take_id)
            writer = await ledgers.create(term=Term(1), properties={"chain": TOPIC.full})
            for _ in range(3):
                done = asyncio.get_running_loop().create_future()
                writer.append([b"entry" * 200], lambda error, done=done: done.set_result(error))
                assert await done is None
            await writer.seal()
            parts.append(LedgerPart(writer.id, 3, 3_000, 1))
            await ledgers.close()
        records = MetadataLogRecords(store, log_path(TOPIC, 1))
        await records.store(LogInfo(tuple(parts), None, {}), expect=ABSENT)
        await store.close()


@pytest.mark.parametrize("buckets", [1, 7])
def test_a_healthy_directory_has_no_faults_and_no_notes(tmp_path: Path, buckets: int) -> None:
    asyncio.run(fill(tmp_path, buckets=buckets))
    diagnosis = examine_directory(tmp_path)
    assert diagnosis.faults == []
    assert diagnosis.notes == []
    assert diagnosis.seen == [
        f"{tmp_path} is not in use",
        "the format is 2",
        "the metadata is whole; it names 5 ledgers",
        "6 ledgers are whole",
    ]


def test_looking_changes_nothing(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path, stray=True))
    first = examine_directory(tmp_path)
    assert examine_directory(tmp_path) == first


def test_missing_ledgers_are_faults_named_by_who_counts_on_them(tmp_path: Path) -> None:
    ids = asyncio.run(fill(tmp_path, lose=True))
    faults = examine_directory(tmp_path).faults
    assert f"{log_path(TOPIC, 1)}: ledger {ids['persistent']} is missing" in faults
    assert f"{log_path(SEGMENT, 1)}/sub: ledger {ids['cursor']} is missing" in faults
    assert any(fault.startswith("/schemas/shop/eu/orders: ledger ") for fault in faults)
    assert len(faults) == 3


def test_ledgers_with_entries_that_no_record_names_are_faults(tmp_path: Path) -> None:
    ids = asyncio.run(fill(tmp_path, stray=True))
    diagnosis = examine_directory(tmp_path)
    assert diagnosis.notes == [
        f"ledger {ids['intended']}, made for persistent://shop/eu/gone, is named by no record and"
        " will be removed"
    ]
    reason = "metadata was lost, or a broker before this version left it behind"
    assert diagnosis.faults == [
        f"ledger {ids[name]}, made for persistent://shop/eu/gone, holds 3 entries and is named by"
        f" no record: {reason}"
        for name in ("stray", "stray-compacted")
    ]


def test_a_ledger_of_another_topic_is_a_fault(tmp_path: Path) -> None:
    ids = asyncio.run(fill(tmp_path))

    async def swap() -> None:
        with holding(tmp_path, CLOCK) as directory:
            store = await SqliteStore.open(directory.metadata_file, clock=CLOCK)
            records = MetadataLogRecords(store, log_path(TOPIC, 1))
            part = LedgerPart(ids["segment"], 3, 30, 1)
            await records.store(LogInfo((part,), None, {}), expect=0)
            await store.close()

    asyncio.run(swap())
    faults = examine_directory(tmp_path).faults
    path = log_path(TOPIC, 1)
    assert f"{path}: ledger {ids['segment']} was made for {SEGMENT.full}" in faults
    lost = f"ledger {ids['persistent']}, made for {TOPIC.full}, holds 3 entries"
    assert any(fault.startswith(lost) for fault in faults)


@pytest.mark.parametrize("path", ["/admin/policies/shop", "/admin/policies/shop/eu"])
def test_policies_that_cannot_be_read_are_faults(tmp_path: Path, path: str) -> None:
    async def spoil() -> None:
        await fill(tmp_path)
        with holding(tmp_path, CLOCK) as directory:
            store = await SqliteStore.open(directory.metadata_file, clock=CLOCK)
            await store.put(path, b"{", expect=ABSENT)
            await store.close()

    asyncio.run(spoil())
    (fault,) = examine_directory(tmp_path).faults
    assert fault.startswith(f"{path}: ")


def test_unreadable_records_are_faults(tmp_path: Path) -> None:
    async def spoil() -> None:
        await fill(tmp_path)
        with holding(tmp_path, CLOCK) as directory:
            store = await SqliteStore.open(directory.metadata_file, clock=CLOCK)
            await store.put(log_path(TOPIC, 1), b"\xff", expect=ANY_VERSION)
            await store.put("/schemas/shop/eu/orders", b"\xff", expect=ANY_VERSION)
            await store.close()

    asyncio.run(spoil())
    faults = examine_directory(tmp_path).faults
    assert [fault.partition(": ")[0] for fault in faults[:2]] == [
        log_path(TOPIC, 1),
        "/schemas/shop/eu/orders",
    ]
    assert all("named by no record" in fault for fault in faults[2:])


def test_damaged_metadata_is_a_fault(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    file = tmp_path / "metadata.db"
    file.write_bytes(b"not a database" * 500)
    (fault,) = examine_directory(tmp_path).faults
    assert fault == f"{file}: file is not a database"


def test_damaged_ledgers_are_faults(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    journals = [file for file in (tmp_path / "ledgers").rglob("*") if file.is_file()]
    largest = max(journals, key=lambda file: file.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    largest.write_bytes(content)
    assert examine_directory(tmp_path).faults


@pytest.mark.parametrize("missing", ["metadata.db", "ledgers"])
def test_half_a_directory_is_a_fault(tmp_path: Path, missing: str) -> None:
    asyncio.run(fill(tmp_path))
    target = tmp_path / missing
    target.rename(tmp_path.parent / f"{tmp_path.name}-{missing}")
    assert examine_directory(tmp_path).faults == [f"{target} is missing"]


def test_an_unused_directory_is_healthy(tmp_path: Path) -> None:
    with holding(tmp_path, CLOCK):
        pass
    diagnosis = examine_directory(tmp_path)
    assert diagnosis.faults == []
    assert diagnosis.seen[-1] == "nothing was ever stored here"


def test_a_directory_in_use_is_a_note_and_its_metadata_is_checked(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))

    async def body() -> None:
        with holding(tmp_path, CLOCK) as directory:
            store = await SqliteStore.open(directory.metadata_file, clock=CLOCK)
            diagnosis = examine_directory(tmp_path)
            await store.close()
        assert diagnosis.faults == []
        (note,) = diagnosis.notes
        assert "is in use by process" in note
        assert diagnosis.seen[-1] == "the metadata is whole; it names 5 ledgers"

    asyncio.run(body())


def test_a_directory_in_use_is_not_repaired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with holding(tmp_path, CLOCK):
        assert run(tmp_path, repair=True) == 1
    assert "is in use by process" in capsys.readouterr().out


def test_a_damaged_catalogue_is_built_anew_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(fill(tmp_path))
    for name in ("catalogue", "catalogue.1"):
        file = tmp_path / "ledgers" / name
        file.write_bytes(file.read_bytes()[:-1])
    assert run(tmp_path) == 1
    assert "doctor --repair" in capsys.readouterr().out
    assert run(tmp_path, repair=True) == 0
    assert "kept" in capsys.readouterr().out
    assert (tmp_path / "ledgers" / "catalogue.damaged-1").exists()
    diagnosis = examine_directory(tmp_path)
    assert diagnosis.faults == []
    assert "6 ledgers are whole" in diagnosis.seen


def test_a_damaged_extent_of_a_second_worker_is_named(tmp_path: Path) -> None:
    asyncio.run(fill_stores(tmp_path))
    diagnosis = examine_directory(tmp_path)
    assert diagnosis.faults == [] and diagnosis.notes == []
    assert "2 workers have written here, a store each" in diagnosis.seen
    assert diagnosis.seen[-2:] == ["1 ledgers are whole", "1 ledgers are whole"]
    (extent,) = (tmp_path / "ledgers-1" / "journal").iterdir()
    content = bytearray(extent.read_bytes())
    content[content.index(b"entry")] ^= 0xFF
    extent.write_bytes(content)
    (fault,) = examine_directory(tmp_path).faults
    assert fault.startswith(f"damage: {extent} at offset ")


def test_a_damaged_catalogue_of_a_second_worker_is_built_anew_and_the_first_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(fill_stores(tmp_path))
    first, second = (tmp_path / name for name in ("ledgers", "ledgers-1"))
    before = {file.name: file.read_bytes() for file in first.glob("catalogue*")}
    for name in ("catalogue", "catalogue.1"):
        (second / name).write_bytes((second / name).read_bytes()[:-1])
    assert run(tmp_path) == 1
    printed = capsys.readouterr().out
    assert f"{second}" in printed and "doctor --repair" in printed
    assert run(tmp_path, repair=True) == 0
    assert (second / "catalogue.damaged-1").exists()
    assert {file.name: file.read_bytes() for file in first.glob("catalogue*")} == before
    diagnosis = examine_directory(tmp_path)
    assert diagnosis.faults == []
    assert diagnosis.seen[-2:] == ["1 ledgers are whole", "1 ledgers are whole"]


def test_a_directory_of_another_format_is_a_fault(tmp_path: Path) -> None:
    with holding(tmp_path, CLOCK):
        pass
    (tmp_path / "FORMAT").write_text("magnetar 9\n")
    assert examine_directory(tmp_path).faults == [f"{tmp_path} has format 9, not format 2"]
    (tmp_path / "FORMAT").unlink()
    assert examine_directory(tmp_path).faults == [f"{tmp_path} has no format, not format 2"]


def test_the_exit_code_tells_faults_from_health(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(fill(tmp_path))
    assert run(tmp_path) == 0
    assert "\nok     6 ledgers are whole" in capsys.readouterr().out
    assert run(tmp_path / "nowhere") == 1
    assert capsys.readouterr().out == f"FAULT  {tmp_path / 'nowhere'} is not a directory\n"


@pytest.mark.parametrize(("buckets", "stored_in"), [(7, 1), (7, 5), (1, 5)])
def test_topics_outside_their_bucket_are_a_fault(
    tmp_path: Path, buckets: int, stored_in: int
) -> None:
    asyncio.run(fill(tmp_path, buckets=buckets, stored_in=stored_in))
    told = f"not in the bucket of its name, of {buckets}"
    assert examine_directory(tmp_path).faults == [
        f"{path}: {told}"
        for topic in (TOPIC, SEGMENT)
        for path in (log_path(topic, stored_in), f"{log_path(topic, stored_in)}/sub")
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_bar_shows_how_far_the_check_has_come(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    steps: list[int] = []
    assert not examine_directory(tmp_path, steps.append).faults
    assert len(steps) > 1 and sum(steps) >= check_bytes(tmp_path)
    screen, pipe = Terminal(), io.StringIO()
    for stream in (screen, pipe):
        with redirect_stderr(stream):
            assert run(tmp_path) == 0
    assert "bytes checked" in screen.getvalue() and pipe.getvalue() == ""
