"""Damage done to a stopped data directory: put right, or told clearly; never passed over."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from magnetar.app.doctor import Diagnosis, examine_directory, run
from magnetar.ledger.backends.file import FilePolicy
from magnetar.testing.broker import BrokerFailed, MagnetarBroker, running_broker
from magnetar.wire.command import CommandSubscribe
from tests.crash.link import Link
from tests.crash.load import Publisher, Reader
from tests.crash.office import Web, path_of
from tests.crash.promise import Reading, Writing

DEADLINE_S = 20
COUNT = 30
SETTLED_AT_ONCE = FilePolicy(settle_after_s=0.0)
NEVER_SETTLED = FilePolicy(settle_after_s=3600.0)


class Place:
    """Topics of a running broker, each with a subscription that keeps what is in it."""

    def __init__(self, link: Link, web: Web) -> None:
        self._link = link
        self.web = web
        self._next_id = 0

    async def fill(self, name: str) -> None:
        await self.open_reader(name, "keeper", durable=True)
        await self._publish(make_writing(name), COUNT)

    async def check(self, name: str) -> None:
        """Everything of the topic is there, and it takes more."""
        writing = make_writing(name)
        for _ in range(COUNT):
            writing.make(1).is_promised = True
        reader = await self.open_reader(name, f"log-{self._next_id}", durable=False)
        writing.settle(await reader.read_until(writing.sent[-1].payloads[0]))
        await self.publish_more(name)

    async def publish_more(self, name: str) -> None:
        await self._publish(Writing(full_name(name), "more"), 1)

    async def open_reader(self, topic: str, name: str, *, durable: bool) -> Reader:
        self._next_id += 1
        reading = Reading(full_name(topic), name, CommandSubscribe.Exclusive)
        reader = Reader(self._link, self._next_id, reading, ignore)
        await reader.open(durable=durable)
        return reader

    async def _publish(self, writing: Writing, count: int) -> None:
        self._next_id += 1
        publisher = Publisher(self._link, self._next_id, writing, ignore)
        await publisher.open()
        publisher.send([writing.make(1) for _ in range(count)])
        await publisher.await_answers()
        assert not publisher.refusals


def ignore(kind: str) -> None:
    pass


def full_name(name: str) -> str:
    return f"persistent://public/default/{name}"


def make_writing(name: str) -> Writing:
    return Writing(full_name(name), name)


@asynccontextmanager
async def place(data: Path, files: FilePolicy = NEVER_SETTLED) -> AsyncIterator[Place]:
    async with (
        asyncio.timeout(DEADLINE_S),
        running_broker(data=data, files=files) as server,
        Link.open(server.port) as link,
    ):
        yield Place(link, Web(server.web_port))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped directory: one topic whose ledger has a file of its own, one in the journal."""
    data = tmp_path_factory.mktemp("filled") / "data"

    async def fill_settled() -> None:
        async with place(data, SETTLED_AT_ONCE) as here:
            await here.fill("settled")
            await here.web("PUT", f"{path_of('settled')}/unload")
            while not list((data / "ledgers" / "sealed").glob("*.led")):
                await asyncio.sleep(0.01)

    async def fill_journal() -> None:
        async with place(data) as here:
            await here.fill("first")
            await here.fill("second")

    asyncio.run(fill_settled())
    asyncio.run(fill_journal())
    return data


@pytest.fixture
def data(filled: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "data"
    shutil.copytree(filled, copy)
    return copy


def journal(data: Path) -> Path:
    (extent,) = (data / "ledgers" / "journal").iterdir()
    return extent


def sealed(data: Path) -> Path:
    (part,) = (data / "ledgers" / "sealed").iterdir()
    return part


def catalogue(data: Path) -> Path:
    return data / "ledgers" / "catalogue"


def metadata(data: Path) -> Path:
    return data / "metadata.db"


def flip_middle(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def cut_in_half(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def blank_first_page(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(bytes(4096) + content[4096:])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def names(diagnosis: Diagnosis, file: Path) -> bool:
    return any(str(file) in sentence for sentence in diagnosis.faults)


def check_topics(data: Path, *whole: str) -> None:
    async def body() -> None:
        async with place(data) as here:
            for name in whole:
                await here.check(name)

    asyncio.run(body())


def test_an_interrupted_write_at_the_end_of_the_journal_is_cut_off(data: Path) -> None:
    extent = journal(data)
    size = extent.stat().st_size
    with extent.open("ab") as file:
        file.write(extent.read_bytes()[40:200])
    before = examine_directory(data)
    assert not before.faults
    assert any("torn tail" in note and str(extent) in note for note in before.notes)
    check_topics(data, "settled", "first", "second")
    after = examine_directory(data)
    assert not after.faults
    assert not after.notes
    assert extent.stat().st_size == size


@pytest.mark.parametrize("damage", [flip_middle, cut_in_half, Path.unlink])
def test_a_damaged_ledger_file_concerns_its_own_topic_only(
    data: Path, damage: Callable[[Path], None]
) -> None:
    part = sealed(data)
    damage(part)
    assert names(examine_directory(data), part)
    check_topics(data, "first", "second")
    assert names(examine_directory(data), part)


@pytest.mark.parametrize(
    ("share", "whole"), [(0.25, ("settled", "second")), (0.75, ("settled", "first"))]
)
def test_a_flipped_bit_in_the_journal_concerns_one_topic_only(
    data: Path, share: float, whole: tuple[str, ...]
) -> None:
    extent = journal(data)
    content = bytearray(extent.read_bytes())
    content[int(len(content) * share)] ^= 1
    extent.write_bytes(content)
    assert names(examine_directory(data), extent)
    check_topics(data, *whole)
    assert names(examine_directory(data), extent)


@pytest.mark.parametrize(
    ("damage", "whole"), [(cut_in_half, ("settled", "first")), (Path.unlink, ("settled",))]
)
def test_a_journal_cut_short_concerns_only_what_stood_behind(
    data: Path, damage: Callable[[Path], None], whole: tuple[str, ...]
) -> None:
    extent = journal(data)
    damage(extent)
    assert names(examine_directory(data), extent)
    check_topics(data, *whole)
    assert names(examine_directory(data), extent)


def test_a_damaged_topic_says_so_and_takes_new_messages(data: Path) -> None:
    part = sealed(data)
    flip_middle(part)
    with MagnetarBroker(data=data) as broker:

        async def body() -> None:
            async with asyncio.timeout(DEADLINE_S), Link.open(broker.port) as link:
                here = Place(link, Web(broker.web_port))
                await here.open_reader("settled", "keeper", durable=True)
                await here.publish_more("settled")
                while f"{part} at offset" not in broker.read_log():
                    await asyncio.sleep(0.01)

        asyncio.run(body())


@pytest.mark.parametrize(
    ("choose", "damage"),
    [
        (metadata, blank_first_page),
        (metadata, cut_in_half),
    ],
)
def test_a_start_that_cannot_understand_a_file_names_it_and_changes_nothing(
    data: Path, choose: Callable[[Path], Path], damage: Callable[[Path], None]
) -> None:
    file = choose(data)
    damage(file)
    assert names(examine_directory(data), file)
    before = snapshot(data)
    with pytest.raises(BrokerFailed, match=f"magnetar: .*{file}"):
        MagnetarBroker(data=data).start()
    assert snapshot(data) == before


@pytest.mark.parametrize("damage", [flip_middle, cut_in_half, empty, Path.unlink])
def test_a_damaged_catalogue_is_replaced_by_its_copy(
    data: Path, damage: Callable[[Path], None]
) -> None:
    damage(catalogue(data))
    assert examine_directory(data).faults == []
    check_topics(data, "settled", "first", "second")
    diagnosis = examine_directory(data)
    assert diagnosis.faults == diagnosis.notes == []


@pytest.mark.parametrize("damage", [flip_middle, Path.unlink])
def test_a_catalogue_damaged_twice_is_refused_by_name_and_built_anew_on_demand(
    data: Path, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for copy in (catalogue(data), catalogue(data).with_name("catalogue.1")):
        damage(copy)
    assert names(examine_directory(data), catalogue(data))
    before = snapshot(data)
    with pytest.raises(BrokerFailed, match=f"magnetar: .*{catalogue(data)}.*doctor --repair"):
        MagnetarBroker(data=data).start()
    assert snapshot(data) == before
    assert run(data, repair=True) == 0, capsys.readouterr().out
    assert "from the journal and the settled ledgers" in capsys.readouterr().out
    check_topics(data, "settled", "first", "second")


@pytest.mark.parametrize("damage", [empty, Path.unlink])
def test_ledgers_whose_metadata_is_lost_are_kept_for_its_return(
    data: Path, damage: Callable[[Path], None]
) -> None:
    kept = metadata(data).read_bytes()
    damage(metadata(data))
    assert names(examine_directory(data), metadata(data))
    for _ in range(4):  # more often than the ledgers have seen a start
        with pytest.raises(BrokerFailed, match="the metadata is older than the ledgers"):
            MagnetarBroker(data=data).start()
    assert any("the metadata is older" in fault for fault in examine_directory(data).faults)
    metadata(data).write_bytes(kept)
    check_topics(data, "settled", "first", "second")


def snapshot(data: Path) -> dict[str, bytes]:
    """Every file of the data, without the marks of whoever is inside."""
    return {
        path.relative_to(data).as_posix(): path.read_bytes()
        for path in sorted(data.rglob("*"))
        if path.is_file() and path.name not in ("LOCK", "metadata.db-shm", "metadata.db-wal")
    }
