"""A disk that takes its time: who writes waits, who does not is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from magnetar.testing.broker import RunningServer, running_broker
from magnetar.testing.disk import FaultyDisk
from magnetar.wire.command import CommandLookupTopic, CommandSubscribe, message_id
from tests.crash.link import Delivery, Link
from tests.crash.load import Publisher, Reader
from tests.crash.office import Web
from tests.crash.promise import Reading, Sent, Writing

DEADLINE_S = 60
MIB = 1 << 20
UNSYNCED_MIB = 32
"""What one connection may have on its way to the disk."""
SLACK_MIB = 8
"""One more read, and what the kernel keeps between the two ends of a connection."""
KEPT = "persistent://public/default/kept"
SLOW = "persistent://public/default/slow"
PASSING = "non-persistent://public/default/passing"


@asynccontextmanager
async def slow_place(data: Path) -> AsyncIterator[tuple[RunningServer, FaultyDisk]]:
    disk = FaultyDisk()
    async with asyncio.timeout(DEADLINE_S), running_broker(data=data, disk=disk) as server:
        try:
            yield server, disk
        finally:
            disk.release_syncs()


def ignore(kind: str) -> None:
    pass


async def until(reached: Callable[[], bool]) -> None:
    while not reached():
        await asyncio.sleep(0.005)


async def open_publisher(link: Link, number: int, writing: Writing) -> Publisher:
    publisher = Publisher(link, number, writing, ignore)
    await publisher.open()
    return publisher


async def read_all(
    link: Link, number: int, topic: str, end: bytes, *, durable: bool = True
) -> list[Delivery]:
    reading = Reading(topic, f"s{number}", CommandSubscribe.Exclusive)
    reader = Reader(link, number, reading, ignore)
    await reader.open(durable=durable)
    return await reader.read_until(end)


def make_large(writing: Writing) -> Sent:
    sent = writing.make(1)
    sent.payloads = (sent.payloads[0].ljust(MIB, b"."),)
    return sent


def test_a_producer_is_held_back_when_the_disk_does_not_keep_up(tmp_path: Path) -> None:
    writing = Writing(SLOW, "p")
    count = 2 * UNSYNCED_MIB

    async def body() -> None:
        async with slow_place(tmp_path / "data") as (server, disk), Link.open(server.port) as link:
            publisher = await open_publisher(link, 1, writing)
            disk.hold_syncs()
            publisher.send([make_large(writing) for _ in range(count)])

            def taken_mib() -> float:
                return count - link.unsent_bytes / MIB

            await until(lambda: taken_mib() >= UNSYNCED_MIB)
            for _ in range(50):
                assert taken_mib() <= UNSYNCED_MIB + SLACK_MIB
                await asyncio.sleep(0.005)
            assert len(writing.unanswered) == count
            disk.release_syncs()
            await publisher.await_answers()
            assert not publisher.refusals
            end = writing.sent[-1].payloads[0]
            writing.settle(await read_all(link, 2, SLOW, end, durable=False))
            assert len(writing.sent) == count

    asyncio.run(body())


def test_others_are_served_while_a_producer_waits_for_the_disk(tmp_path: Path) -> None:
    stored = Writing(KEPT, "stored")
    waiting = Writing(SLOW, "waiting")
    passing = Writing(PASSING, "passing")

    async def body() -> None:
        async with (
            slow_place(tmp_path / "data") as (server, disk),
            Link.open(server.port) as link,
            Link.open(server.port) as other,
        ):
            first = await open_publisher(link, 1, stored)
            first.send([stored.make(1) for _ in range(100)])
            await first.await_answers()
            held = await open_publisher(link, 2, waiting)
            disk.hold_syncs()
            held.send([make_large(waiting) for _ in range(UNSYNCED_MIB + SLACK_MIB)])

            stored.settle(await read_all(other, 1, KEPT, b"stored/99", durable=False))
            await other.ask(CommandLookupTopic(topic=KEPT))
            web = Web(server.web_port)
            await web("PUT", "persistent/public/default/made")
            assert "persistent://public/default/made" in await web(
                "GET", "persistent/public/default"
            )
            reading = Reading(PASSING, "s", CommandSubscribe.Exclusive)
            reader = Reader(other, 2, reading, ignore)
            await reader.open()
            quick = await open_publisher(other, 3, passing)
            quick.send([passing.make(1) for _ in range(10)])
            await quick.await_answers()
            assert (await reader.read_until(b"passing/9"))[0].payloads[0] == b"passing/0"

            assert all(not sent.is_promised for sent in waiting.sent)
            disk.release_syncs()
            await held.await_answers()
            assert not waiting.unanswered

    asyncio.run(body())


def test_an_acknowledgement_is_confirmed_only_once_it_is_on_the_disk(tmp_path: Path) -> None:
    writing = Writing(KEPT, "p")

    async def body() -> None:
        async with slow_place(tmp_path / "data") as (server, disk), Link.open(server.port) as link:
            reader = Reader(link, 1, Reading(KEPT, "s", CommandSubscribe.Shared), ignore)
            await reader.open()
            publisher = await open_publisher(link, 2, writing)
            publisher.send([writing.make(1)])
            (delivery,) = await reader.read_until(b"p/0")
            disk.hold_syncs()
            async with asyncio.TaskGroup() as tasks:
                confirmed = tasks.create_task(link.acknowledge(1, [message_id(delivery.position)]))
                await Web(server.web_port)("GET", "persistent/public/default")
                await asyncio.sleep(0.1)
                assert not confirmed.done()
                disk.release_syncs()

    asyncio.run(body())


def test_what_a_producer_sent_before_it_left_is_written_all_the_same(tmp_path: Path) -> None:
    writing = Writing(SLOW, "p")

    async def body() -> None:
        async with slow_place(tmp_path / "data") as (server, disk), Link.open(server.port) as link:
            reader = Reader(link, 1, Reading(SLOW, "s", CommandSubscribe.Exclusive), ignore)
            await reader.open()
            async with Link.open(server.port) as leaving:
                publisher = await open_publisher(leaving, 1, writing)
                disk.hold_syncs()
                publisher.send([writing.make(1) for _ in range(20)])
                await leaving.ask(CommandLookupTopic(topic=SLOW))  # the broker has read them all
            disk.release_syncs()
            received = await reader.read_until(b"p/19")
            writing.settle(received)
            assert len(writing.sent) == 20
            again = await open_publisher(link, 2, writing)
            again.send([writing.make(1)])
            await again.await_answers()
            assert not writing.unanswered

    asyncio.run(body())
