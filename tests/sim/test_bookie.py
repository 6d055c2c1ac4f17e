"""Simulated bookies keep what they promise, and brokers on them survive their faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from magnetar.broker.administration.scalable import create_topic
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.policy import BackoffPolicy, ConnectionPolicy
from magnetar.errors import BrokerError, LedgerFenced, LedgerSealed, NoOwner, NotEnoughBookies
from magnetar.ledger.backends.bookkeeper import BookkeeperLedgerStore, BookkeeperPolicy
from magnetar.ledger.store import LedgerWriter, Replication
from magnetar.model.name import parse_topic
from magnetar.model.position import EntryId, Term
from magnetar.testing.simulation.cluster import Cluster
from magnetar.testing.simulation.history import History
from magnetar.testing.simulation.loop import Process, VirtualClock, VirtualLoop
from tests.sim.play import PATIENCE_S, TOPIC

POLICY = BookkeeperPolicy(replication=Replication(3, 2, 2), timeout_s=2.0, quarantine_s=5.0)
TERM = Term(1)
SEGMENT = parse_topic("segment://public/default/orders/0000-ffff-0")


def play(body: Callable[[Cluster, Process], Awaitable[None]], *, brokers: int) -> None:
    random = Random(0)
    loop = VirtualLoop(random)
    settings = ("defaultRetentionTimeInMinutes=-1", "defaultRetentionSizeInMB=-1")
    cluster = Cluster(
        loop, random, History(loop.time), brokers=brokers, settings=settings, bookies=4
    )
    process = Process("client")

    async def inside() -> None:
        cluster.start()
        await cluster.wait_ready()
        await asyncio.sleep(0.1)
        await body(cluster, process)

    try:
        loop.run_until_complete(loop.spawn(process, inside(), "client"))
    finally:
        for each in cluster.servers:
            each.kill(power=False)
        loop.kill(process)
        loop.bury((*cluster.graves, process))
        loop.close()


async def open_ledgers(cluster: Cluster, process: Process) -> BookkeeperLedgerStore:
    store = cluster.metadata.open(process)
    clock = VirtualClock(cluster.loop, process)
    ledgers = BookkeeperLedgerStore(store, store.take_number, clock=clock, policy=POLICY)
    await ledgers.open()
    return ledgers


async def append(writer: LedgerWriter, *entries: bytes) -> None:
    answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_done(error: BrokerError | None) -> None:
        if error is None:
            answered.set_result(None)
        else:
            answered.set_exception(error)

    writer.append(entries, on_done)
    await answered


def test_what_two_bookies_have_acknowledged_survives_the_loss_of_power_of_any() -> None:
    async def body(cluster: Cluster, process: Process) -> None:
        ledgers = await open_ledgers(cluster, process)
        writer = await ledgers.create(term=TERM, properties={})
        entries = [b"%d" % number for number in range(30)]
        for number, entry in enumerate(entries):
            if number % 10 == 5:
                victim = cluster.bookies[number // 10]
                victim.kill(power=True)
                victim.start()
            await append(writer, entry)
        for bookie in cluster.bookies:
            bookie.kill(power=True)
            bookie.start()
        await asyncio.sleep(1)
        other = await open_ledgers(cluster, process)
        info = await other.recover(writer.id, term=TERM)
        assert info.last == len(entries) - 1
        found: list[bytes] = []
        while len(found) < len(entries):
            first = EntryId(len(found))
            found += await other.read(writer.id, first, entries_max=7, bytes_max=1 << 20)
        assert found == entries
        await asyncio.gather(ledgers.close(), other.close())

    play(body, brokers=0)


def test_a_writer_that_is_fenced_by_a_recovery_gets_nothing_acknowledged() -> None:
    async def body(cluster: Cluster, process: Process) -> None:
        ledgers = await open_ledgers(cluster, process)
        writer = await ledgers.create(term=TERM, properties={})
        await append(writer, b"before")
        other = await open_ledgers(cluster, process)
        assert (await other.recover(writer.id, term=TERM)).last == 0
        with pytest.raises((LedgerFenced, LedgerSealed)):
            await append(writer, b"after")
        await asyncio.gather(ledgers.close(), other.close())

    play(body, brokers=0)


def test_a_ledger_ends_before_a_run_that_is_refused_though_a_part_of_it_is_durable() -> None:
    """Its producer sends the whole run again: what was kept of it would be stored twice."""

    async def body(cluster: Cluster, process: Process) -> None:
        ledgers = await open_ledgers(cluster, process)
        writer = await ledgers.create(term=TERM, properties={})
        await append(writer, b"before")
        ensemble = writer.metadata.segments[0].bookies
        # Entries 1 and 2 have the second and third bookie, entries 2 and 3 the third and first.
        for bookie in cluster.bookies:
            if bookie.id not in ensemble[1:]:
                bookie.kill(power=True)
        run = asyncio.ensure_future(append(writer, b"1", b"2", b"3"))
        await asyncio.sleep(1)
        assert writer.last_confirmed == 1
        with pytest.raises(NotEnoughBookies):
            await run
        for bookie in cluster.bookies:
            bookie.start()
        assert (await writer.seal()).last == 0
        await ledgers.close()

    play(body, brokers=0)


@pytest.mark.parametrize("power", [False, True])
def test_another_broker_serves_what_a_killed_one_had_acknowledged(power: bool) -> None:
    """The owner of the segment is not started again: its session ends, and another takes over."""

    async def body(cluster: Cluster, process: Process) -> None:
        for broker in cluster.brokers:
            try:
                await broker.call(lambda service: create_topic(service.scalable, TOPIC, 1, None))
                break
            except NoOwner:
                pass
        connection = ConnectionPolicy(
            keep_alive=2.0, backoff=BackoffPolicy(initial=0.1, maximum=1.0)
        )
        async with AsyncPulsarClient(
            cluster.service_url, clock=VirtualClock(cluster.loop, process), connection=connection
        ) as client:
            producer = await client.producer(TOPIC.full, send_timeout=0.0)
            consumer = await client.stream_consumer(
                TOPIC.full, subscription="s", initial_position="earliest"
            )
            for number in range(10):
                await producer.send(str(number).encode(), key="k")
            first = cluster.brokers[0]
            assert first.service is not None
            owner = await first.service.ownership.owner_of(SEGMENT)
            (victim,) = [each for each in cluster.brokers if each.url == owner.service_url]
            victim.kill(power=power)
            for number in range(10, 20):
                await producer.send(str(number).encode(), key="k")
            received = []
            while len(received) < 20:
                message = await consumer.receive(timeout=PATIENCE_S)
                assert message is not None, received
                if message.data.decode() not in received:
                    received.append(message.data.decode())
            assert received == [str(number) for number in range(20)]

    play(body, brokers=3)
