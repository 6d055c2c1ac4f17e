"""A disk that is full or fails under a running broker, and its way back."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from magnetar.app.doctor import examine_directory
from magnetar.errors import WireCode
from magnetar.testing.broker import MagnetarBroker, running_broker
from magnetar.testing.disk import FaultyDisk
from magnetar.wire.command import CommandSubscribe, message_id
from tests.crash.link import Delivery, Link, Refused
from tests.crash.load import Publisher, Reader
from tests.crash.office import Web, WebRefused
from tests.crash.promise import Reading, Writing, keys_of

TOPIC = "persistent://public/default/kept"
FAULTS: dict[str, Callable[[FaultyDisk], None]] = {
    "full": FaultyDisk.fill,
    "full in mid-write": lambda disk: disk.fill(10),
    "failing writes": FaultyDisk.fail_writes,
    "failing syncs": FaultyDisk.fail_syncs,
}
DEADLINE_S = 20
DEDUPLICATION = {"brokerDeduplicationEnabled": True}


def ignore(kind: str) -> None:
    pass


class Place:
    """One broker on a disk of the test's own, and one connection to it."""

    def __init__(self, disk: FaultyDisk, link: Link, web: Web) -> None:
        self.disk = disk
        self.link = link
        self.web = web
        self.closed: list[int] = []
        self._next_id = 0

    async def attach(self, writing: Writing) -> Publisher:
        self._next_id += 1
        number = self._next_id
        self.link.on_producer_closed[number] = lambda: self.closed.append(number)
        publisher = Publisher(self.link, number, writing, ignore)
        self.known_sequence = await publisher.open()
        return publisher

    async def send(self, publisher: Publisher, writing: Writing, count: int) -> None:
        publisher.send([writing.make(1) for _ in range(count)])
        await publisher.await_answers()

    async def subscribe(self, reading: Reading) -> tuple[int, Reader]:
        self._next_id += 1
        reader = Reader(self.link, self._next_id, reading, ignore)
        await reader.open()
        return self._next_id, reader

    async def read_log(self, end: bytes) -> list[Delivery]:
        self._next_id += 1
        reading = Reading(TOPIC, f"log-{self._next_id}", CommandSubscribe.Exclusive)
        reader = Reader(self.link, self._next_id, reading, ignore)
        await reader.open(durable=False)
        return await reader.read_until(end)


@asynccontextmanager
async def place(data: Path, settings: Mapping[str, bool] | None = None) -> AsyncIterator[Place]:
    disk = FaultyDisk()
    async with (
        asyncio.timeout(DEADLINE_S),
        running_broker(data=data, disk=disk, set=settings) as server,
        Link.open(server.port) as link,
    ):
        yield Place(disk, link, Web(server.web_port))


@pytest.mark.parametrize("fault", FAULTS)
def test_publishers_are_refused_until_there_is_room_and_nothing_acknowledged_is_lost(
    tmp_path: Path, fault: str
) -> None:
    writing = Writing(TOPIC, "p")
    data = tmp_path / "data"

    async def fail_and_heal() -> None:
        async with place(data) as here:
            await here.subscribe(Reading(TOPIC, "keeper", CommandSubscribe.Exclusive))
            publisher = await here.attach(writing)
            await here.send(publisher, writing, 20)
            FAULTS[fault](here.disk)
            await here.send(publisher, writing, 20)
            assert set(publisher.refusals) == {WireCode.PERSISTENCE}
            assert here.closed
            again = await here.attach(writing)
            again.send(writing.unanswered)
            await again.await_answers()
            assert set(again.refusals) == {WireCode.PERSISTENCE}
            stats = await here.web("GET", "persistent/public/default/kept/stats")
            assert stats["msgInCounter"] >= 20
            here.disk.heal()
            healed = await here.attach(writing)
            healed.send(writing.unanswered)
            await healed.await_answers()
            await here.send(healed, writing, 5)
            assert not healed.refusals
            writing.settle(await here.read_log(b"p/44"))

    async def look_again() -> None:
        async with place(data) as here:
            writing.settle(await here.read_log(b"p/44"))

    asyncio.run(fail_and_heal())
    assert not examine_directory(data).faults
    asyncio.run(look_again())


@pytest.mark.parametrize("settings", [{}, DEDUPLICATION], ids=["plain", "deduplicating"])
def test_what_follows_a_refused_message_is_not_taken_before_it(
    tmp_path: Path, settings: dict[str, bool]
) -> None:
    """Else the resend would come out of order, or be taken for a duplicate and lost."""
    writing = Writing(TOPIC, "p", once=True)

    async def body() -> None:
        async with place(tmp_path / "data", settings) as here:
            publisher = await here.attach(writing)
            await here.send(publisher, writing, 10)
            here.disk.fail_syncs()
            await here.send(publisher, writing, 1)
            here.disk.heal()
            publisher.send([writing.make(1)])  # it was on the wire when the refusal came
            again = await here.attach(writing)
            assert here.known_sequence == (9 if settings else -1)
            again.send(writing.unanswered)
            await again.await_answers()
            assert not again.refusals
            writing.settle(await here.read_log(b"p/11"))
            assert len(writing.sent) == 12

    asyncio.run(body())


@pytest.mark.parametrize("fault", FAULTS)
def test_an_acknowledgement_that_could_not_be_written_is_refused_and_can_be_repeated(
    tmp_path: Path, fault: str
) -> None:
    writing = Writing(TOPIC, "p")
    reading = Reading(TOPIC, "s", CommandSubscribe.Shared)
    data = tmp_path / "data"

    async def fail_and_heal() -> None:
        async with place(data) as here:
            consumer, reader = await here.subscribe(reading)
            await here.send(await here.attach(writing), writing, 10)
            received = await reader.read_until(b"p/9")
            ids = [message_id(each.position) for each in received]
            await here.link.acknowledge(consumer, ids[:2])
            FAULTS[fault](here.disk)
            with pytest.raises(Refused) as refusal:
                await here.link.acknowledge(consumer, ids[5:7])
            assert refusal.value.code == WireCode.PERSISTENCE
            here.disk.heal()
            await here.link.acknowledge(consumer, ids[5:7])
            reading.promised |= {key for index in (0, 1, 5, 6) for key in keys_of(received[index])}

    async def look_again() -> None:
        async with place(data) as here:
            _, reader = await here.subscribe(reading)
            received = await reader.read_until(b"p/9")
            keys = [key for each in received for key in keys_of(each)]
            durable = {(*sent.position, 0) for sent in writing.sent if sent.position is not None}
            reading.settle(keys, durable)
            assert len(keys) == 6

    asyncio.run(fail_and_heal())
    asyncio.run(look_again())


def test_what_is_stored_can_be_read_while_the_disk_is_full(tmp_path: Path) -> None:
    writing = Writing(TOPIC, "p")

    async def body() -> None:
        async with place(tmp_path / "data") as here:
            await here.subscribe(Reading(TOPIC, "keeper", CommandSubscribe.Exclusive))
            await here.send(await here.attach(writing), writing, 50)
            here.disk.fill()
            writing.settle(await here.read_log(b"p/49"))

    asyncio.run(body())


def test_the_whole_process_outlives_a_time_in_which_no_file_may_grow() -> None:
    """The kernel refuses: the journal and the metadata alike."""
    writing = Writing(TOPIC, "p")

    async def body(broker: MagnetarBroker) -> None:
        web = Web(broker.web_port)
        async with asyncio.timeout(DEADLINE_S), Link.open(broker.port) as link:
            here = Place(FaultyDisk(), link, web)
            await here.subscribe(Reading(TOPIC, "keeper", CommandSubscribe.Exclusive))
            publisher = await here.attach(writing)
            await here.send(publisher, writing, 20)
            _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (1, hard))
            await here.send(publisher, writing, 20)
            assert set(publisher.refusals) == {WireCode.PERSISTENCE}
            with pytest.raises(WebRefused) as refusal:
                await web("PUT", "persistent/public/default/refused")
            assert refusal.value.status >= 500
            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (hard, hard))
            await web("PUT", "persistent/public/default/taken")
            healed = await here.attach(writing)
            healed.send(writing.unanswered)
            await healed.await_answers()
            assert not healed.refusals
            writing.settle(await here.read_log(b"p/39"))
            listed = await web("GET", "persistent/public/default")
            assert "persistent://public/default/taken" in listed
            assert "persistent://public/default/refused" not in listed

    with MagnetarBroker() as broker:
        asyncio.run(body(broker))
        assert broker.stop() == 0
        assert not examine_directory(broker.data).faults
        broker.start()
