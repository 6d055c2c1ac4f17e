"""Damage to any file of a data directory: the start is refused and names the file, or everything
that is served is right and what cannot be served says so.

A case is a number: the snapshot, the file and the damage are drawn from it. `MAGNETAR_EXPLORE=900`
goes on with new numbers for that many seconds; `MAGNETAR_DAMAGE_SEED=123` runs one case alone.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from magnetar.app.doctor import examine_directory
from magnetar.broker.ledger_sweep import NamedLedgers
from magnetar.broker.service import Service
from magnetar.errors import BrokerError, MagnetarError, TopicNotFound
from magnetar.ledger.backends.file import FilePolicy
from magnetar.ledger.flight import PlainRun
from magnetar.ledger.log import Log
from magnetar.model.name import parse_namespace, parse_topic
from magnetar.model.policy import RetentionPolicies
from magnetar.model.position import EARLIEST, Position
from magnetar.model.schema import CompatibilityStrategy, SchemaData, SchemaType
from magnetar.testing.broker import running_broker

FILES = FilePolicy(settle_after_s=0.0, extent_bytes_max=3_000, run_bytes_max=400)
NAMESPACE = parse_namespace("public/default")
TOPICS = [f"persistent://public/default/t{number}" for number in range(4)]
CASES = 300
CHUNKS = 4
TOGETHER = 8
"""Cases run beside each other: most of their time is spent waiting for the disk."""
CASE_S_MAX = 60


@dataclass
class Truth:
    """What was acknowledged."""

    entries: dict[str, list[bytes]] = field(default_factory=dict)
    marks: dict[str, Position] = field(default_factory=dict)
    retention_mib: int = 0


@dataclass
class Shelf:
    """One history of a broker, copied at two moments while it ran, and once it had stopped."""

    early: Path
    crashed: Path
    stopped: Path
    truth: Truth


async def append(log: Log, entries: Sequence[bytes]) -> Position:
    done: asyncio.Future[Position] = asyncio.get_running_loop().create_future()

    def answer(first: Position | None, error: BrokerError | None) -> None:
        if first is not None:
            done.set_result(first)
        else:
            done.set_exception(error or AssertionError("neither a place nor an error"))

    log.flights.append(PlainRun(entries, [1] * len(entries), answer))
    return await done


async def fill(service: Service, truth: Truth, topics: Iterable[str], *, runs: int) -> None:
    for name in topics:
        topic: Any = await service.catalog.load_topic(parse_topic(name), create=True)
        if name not in truth.entries:
            await topic.log.cursors.open("keeper", start=EARLIEST)
            await topic.log.cursors.open("mover", start=EARLIEST)
        known = truth.entries.setdefault(name, [])
        for _ in range(runs):
            run = [f"{name} {len(known) + index:04d}".encode() for index in range(5)]
            first = await append(topic.log, run)
            known += run
        mover = topic.log.cursors["mover"]
        mover.acknowledge_through(first)
        await mover.flush()
        truth.marks[name] = mover.mark_delete


async def set_retention(service: Service, truth: Truth, mib: int) -> None:
    truth.retention_mib = mib
    retention = RetentionPolicies(retentionTimeInMinutes=60, retentionSizeInMB=mib)
    await service.resources.namespaces.update(
        NAMESPACE, lambda policies: replace(policies, retention_policies=retention)
    )


async def make_history(home: Path) -> Shelf:
    """Two brokers, one after the other; what the first one wrote is settled, or in the journal."""
    data, truth = home / "data", Truth()
    async with running_broker(data=data, files=FILES) as server:
        service: Service = server.service  # type: ignore[attr-defined]
        await fill(service, truth, TOPICS[:3], runs=4)
        await service.schemas.put_if_absent(
            parse_topic(TOPICS[0]), SchemaData(SchemaType.STRING), CompatibilityStrategy.FULL
        )
        await set_retention(service, truth, 20)
        for name in TOPICS[:2]:
            await service.catalog.unload_topic(parse_topic(name))
        while len(list((data / "ledgers" / "sealed").glob("*.led"))) < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)  # what one store knows of the other is written by then
        shutil.copytree(data, home / "early")
    async with running_broker(data=data, files=FILES) as server:
        service = server.service  # type: ignore[attr-defined]
        await fill(service, truth, TOPICS, runs=3)
        await set_retention(service, truth, 60)
        await service.catalog.load_topic(parse_topic(TOPICS[1]))
        await asyncio.sleep(0.3)
        shutil.copytree(data, home / "crashed")
    shutil.copytree(data, home / "stopped")
    return Shelf(home / "early", home / "crashed", home / "stopped", truth)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return asyncio.run(make_history(tmp_path_factory.mktemp("history")))


def files_of(data: Path) -> list[Path]:
    return sorted(path.relative_to(data) for path in data.rglob("*") if path.is_file())


def damage(random: Random, shelf: Shelf, data: Path) -> tuple[str, list[Path]]:
    """Do one thing to the copy in `data`; what was done, and the files it concerns."""
    files = files_of(data)
    # Every kind of file equally often, however many there are of it.
    kinds = sorted({path.parent / path.suffix if path.suffix else path for path in files})
    kind = random.choice(kinds)
    name = random.choice(
        [path for path in files if (path.parent / path.suffix if path.suffix else path) == kind]
    )
    file = data / name
    content = bytearray(file.read_bytes())
    choice = random.choice(["flip"] * 5 + ["burst", "cut", "remove", "swap", "stale", "grow"])
    if choice == "flip" and content:
        place, bit = random.randrange(len(content)), random.randrange(8)
        content[place] ^= 1 << bit
        file.write_bytes(content)
        return f"flipped bit {bit} of byte {place} of {name}", [name]
    if choice == "burst" and content:
        place = random.randrange(len(content))
        size = min(random.randint(2, 64), len(content) - place)
        content[place : place + size] = random.randbytes(size)
        file.write_bytes(content)
        return f"overwrote {size} bytes at {place} of {name}", [name]
    if choice == "cut" and content:
        size = random.randrange(len(content))
        file.write_bytes(content[:size])
        return f"cut {name} to {size} bytes", [name]
    if choice == "swap":
        other = random.choice([path for path in files if path.parent == name.parent])
        there = (data / other).read_bytes()
        (data / other).write_bytes(bytes(content))
        file.write_bytes(there)
        return f"swapped {name} and {other}", [name, other]
    if choice == "stale" and (shelf.early / name).exists():
        shutil.copy(shelf.early / name, file)
        return f"brought an old {name} back", [name]
    if choice == "grow":
        file.write_bytes(bytes(content) + random.randbytes(random.randint(1, 200)))
        return f"added bytes to {name}", [name]
    file.unlink()
    return f"removed {name}", [name]


def is_named(refusal: str, data: Path, names: Sequence[Path]) -> bool:
    """Whether a refusal tells which file to look at; SQLite's are one to everybody."""
    wanted = {str(data / name).removesuffix("-wal").removesuffix("-shm") for name in names}
    return any(each in refusal for each in wanted)


async def read_entries(log: Log, known: Sequence[bytes]) -> tuple[list[bytes], int]:
    """Everything that can be read, and how often a read was refused on the way."""
    found: list[bytes] = []
    refusals = 0
    start = EARLIEST
    while True:
        try:
            run = await log.reader.read(start, 7, 1 << 20)
        except BrokerError:
            refusals += 1
            if start == EARLIEST:
                start = log.sequence.first_position
            start = log.sequence.next_position(start)
            if not log.reader.is_readable(start):
                return found, refusals
            continue
        if run is None:
            return found, refusals
        found += run.data
        start = run.next_position


async def check_topic(service: Service, name: str, truth: Truth) -> None:
    known = truth.entries[name]
    try:
        topic: Any = await service.catalog.load_topic(parse_topic(name))
    except BrokerError as refusal:
        if isinstance(refusal, TopicNotFound):
            raise AssertionError(f"{name} is forgotten: {refusal.sentence}") from None
        return
    found, refusals = await read_entries(topic.log, known)
    assert set(found) <= set(known), f"{name} serves what is not its own: {set(found) - set(known)}"
    assert found == sorted(found), f"{name} is out of order"
    assert refusals or found == known, f"{name} lost {len(known) - len(found)} messages silently"
    for cursor in ("keeper", "mover"):
        assert cursor in topic.log.cursors, f"{name} forgot {cursor}"
    mark = topic.log.cursors["mover"].mark_delete
    assert mark <= truth.marks[name], f"{name}: {mark} is acknowledged, {truth.marks[name]} was"


async def check_service(service: Service, truth: Truth) -> None:
    for name in truth.entries:
        await check_topic(service, name, truth)
    try:
        policies = await service.resources.namespaces.get(NAMESPACE)
        assert policies is not None, "the namespace is forgotten"
        retention = policies.retention_policies
        assert retention is not None and retention.retentionSizeInMB == truth.retention_mib
    except BrokerError:
        pass
    try:
        (stored,) = await service.schemas.get_all(parse_topic(TOPICS[0]))
        assert stored.schema.type is SchemaType.STRING
    except BrokerError:
        pass


async def run_case(seed: int, shelf: Shelf) -> str | None:
    """What is wrong after the damage; None when nothing is."""
    while True:
        try:
            return await try_case(seed, shelf)
        except OSError as clash:  # a free port that another case was quicker to take
            if clash.errno != errno.EADDRINUSE:
                raise


async def try_case(seed: int, shelf: Shelf) -> str | None:
    random = Random(seed)
    source = random.choice([shelf.crashed, shelf.stopped])
    with tempfile.TemporaryDirectory(prefix="magnetar-damage-") as home:
        data = Path(home) / "data"
        shutil.copytree(source, data)
        what, names = damage(random, shelf, data)
        what = f"case {seed}: {source.name}: {what}"
        try:
            async with (
                asyncio.timeout(CASE_S_MAX),
                running_broker(data=data, files=FILES) as server,
            ):
                service: Service = server.service  # type: ignore[attr-defined]
                found = await service.ledgers.ledgers()
                await check_service(service, shelf.truth)
                named = NamedLedgers(service.tree, service.schemas.storage, service.ledgers)
                await named.sweep(found, term=service.owner.term)
                await check_service(service, shelf.truth)
        except MagnetarError as refusal:
            if not is_named(refusal.sentence, data, names):
                return f"{what}: refused without the name of the file: {refusal.sentence}"
        except AssertionError as wrong:
            return f"{what}: {str(wrong).splitlines()[0]}"
        except Exception as crash:  # whatever it is, the case is to be told
            if isinstance(crash, OSError) and crash.errno == errno.EADDRINUSE:
                raise
            return f"{what}: {crash!r}"
    return None


async def run_cases(seeds: Iterable[int], shelf: Shelf) -> list[str]:
    wrong: list[str] = []
    remaining: Iterator[int] = iter(seeds)

    async def work() -> None:
        for seed in remaining:
            complaint = await run_case(seed, shelf)
            if complaint is not None:
                wrong.append(complaint)

    await asyncio.gather(*(work() for _ in range(TOGETHER)))
    return wrong


def until(deadline_s: float, seeds: Iterable[int]) -> Iterator[int]:
    for seed in seeds:
        if time.monotonic() >= deadline_s:
            return
        yield seed


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_is_damaged_nothing_wrong_is_served_and_nothing_is_lost_silently(
    shelf: Shelf, chunk: int
) -> None:
    chosen = os.environ.get("MAGNETAR_DAMAGE_SEED")
    seeds: Iterable[int] = range(chunk, CASES, CHUNKS)
    if chosen is not None:
        seeds = [int(chosen)] if int(chosen) % CHUNKS == chunk else []
    wrong = asyncio.run(run_cases(seeds, shelf))
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif("MAGNETAR_EXPLORE" not in os.environ, reason="explores for a given time only")
def test_no_other_damage_does_harm_either(shelf: Shelf) -> None:
    first = Random().randrange(CASES, 2**40)
    deadline_s = time.monotonic() + float(os.environ["MAGNETAR_EXPLORE"])
    wrong = asyncio.run(run_cases(until(deadline_s, count(first)), shelf))
    assert not wrong, "\n".join(islice(wrong, 20))


def start_refused(data: Path) -> str:
    """The sentence of a refused start; fails when the broker starts."""

    async def body() -> None:
        async with running_broker(data=data, files=FILES):
            pass

    ledgers = data / "ledgers"
    before = {name: (ledgers / name).read_bytes() for name in files_of(ledgers)}
    with pytest.raises(MagnetarError) as refusal:
        asyncio.run(body())
    assert {name: (ledgers / name).read_bytes() for name in files_of(ledgers)} == before
    return refusal.value.sentence


def test_a_flipped_bit_in_the_log_of_the_metadata_is_refused_and_nothing_is_deleted(
    shelf: Shelf, tmp_path: Path
) -> None:
    data = shutil.copytree(shelf.crashed, tmp_path / "data")
    log = data / "metadata.db-wal"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    assert str(data / "metadata.db") in start_refused(data)
    assert any("older than the ledgers" in fault for fault in examine_directory(data).faults)


def flip_record(data: Path, name: str, old: bytes, new: bytes) -> None:
    """Change bytes of the stored record whose key ends with `name`, as a flipped bit would."""
    with closing(sqlite3.connect(data / "metadata.db")) as connection:
        (value,) = connection.execute("SELECT value FROM node WHERE name = ?", (name,)).fetchone()
    file = data / "metadata.db"
    content = file.read_bytes()
    assert content.count(value) == 1
    assert value.count(old) == 1
    file.write_bytes(content.replace(value, value.replace(old, new)))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        pytest.param("t0", b"\x08\x01\x10", b"\x08\x03\x10", id="the ledger of a topic"),
        pytest.param("default", b'InMB":60', b'InMB":20', id="a policy"),
        pytest.param("default", b'InMB":60', b'InMB":6x', id="a policy that is no JSON any more"),
    ],
)
def test_a_changed_record_of_the_metadata_is_refused_and_is_a_fault(
    shelf: Shelf, tmp_path: Path, name: str, old: bytes, new: bytes
) -> None:
    data = shutil.copytree(shelf.stopped, tmp_path / "data")
    flip_record(data, name, old, new)
    assert str(data / "metadata.db") in start_refused(data)
    assert any(
        "does not match its checksum" in fault and name in fault
        for fault in examine_directory(data).faults
    )


@pytest.mark.parametrize("old", ["metadata", "ledgers"])
@pytest.mark.parametrize("present", ["crashed", "stopped"])
def test_an_old_copy_of_one_store_is_refused_by_name(
    shelf: Shelf, tmp_path: Path, old: str, present: str
) -> None:
    source = shelf.crashed if present == "crashed" else shelf.stopped
    data = shutil.copytree(source, tmp_path / "data")
    if old == "ledgers":
        shutil.rmtree(data / "ledgers")
        shutil.copytree(shelf.early / "ledgers", data / "ledgers")
    else:
        for file in data.glob("metadata.db*"):
            file.unlink()
        for file in shelf.early.glob("metadata.db*"):
            shutil.copy(file, data)
    refusal = start_refused(data)
    assert str(data / ("ledgers/journal" if old == "ledgers" else "metadata.db")) in refusal
    assert "Bring back" in refusal
    assert examine_directory(data).faults


def test_what_is_not_damaged_is_served_whole(shelf: Shelf) -> None:
    async def body(source: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="magnetar-damage-") as home:
            data = Path(home) / "data"
            shutil.copytree(source, data)
            async with running_broker(data=data, files=FILES) as server:
                service: Service = server.service  # type: ignore[attr-defined]
                for name, known in shelf.truth.entries.items():
                    topic: Any = await service.catalog.load_topic(parse_topic(name))
                    assert await read_entries(topic.log, known) == (known, 0)

    for source in (shelf.crashed, shelf.stopped):
        asyncio.run(body(source))
