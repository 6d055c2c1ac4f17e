"""Ledgers on real bookies that are killed, paused, read-only or too few, and writers that are."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from magnetar.errors import BrokerError, LedgerFenced, NotEnoughBookies
from magnetar.ledger.backends.bookkeeper import BookkeeperLedgerStore
from magnetar.ledger.backends.bookkeeper.writer import BookkeeperWriter
from magnetar.ledger.store import Replication
from magnetar.model.position import EntryId, LedgerId, Term
from magnetar.testing.bookkeeper import Bookie, BookieCluster
from tests.contract.bookkeeper_place import bookkeeper_store
from tests.unit.ledger.file_place import ONE, append, numbered, read_all

TWO = Replication(2, 2, 2)
RUN = 20
PROGRAM = Path(__file__).with_name("ledger_program.py")


@dataclass
class Publisher:
    """Appends numbered entries in runs, a few at a time, until it is stopped or refused."""

    writer: BookkeeperWriter
    window: int = 10
    answers: list[BrokerError | None] = field(default_factory=list)
    sent: int = 0
    is_stopped: bool = False

    async def run(self) -> None:
        while not self.is_stopped and self.error is None:
            if self.sent - len(self.answers) < self.window:
                self.writer.append(numbered(RUN, start=self.sent * RUN), self.answers.append)
                self.sent += 1
            else:
                await asyncio.sleep(0.001)

    @property
    def error(self) -> BrokerError | None:
        return next((each for each in self.answers if each is not None), None)

    @property
    def confirmed(self) -> int:
        return self.answers.count(None) * RUN

    async def confirm(self, runs: int) -> None:
        """Wait until so many more runs are durable."""
        wanted = self.answers.count(None) + runs
        await until(lambda: self.error is not None or self.answers.count(None) >= wanted)
        if self.error is not None:
            raise self.error

    async def stop(self) -> None:
        self.is_stopped = True
        await until(lambda: len(self.answers) == self.sent)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def members(writer: BookkeeperWriter) -> tuple[str, ...]:
    return writer.metadata.segments[-1].bookies


async def check(store: BookkeeperLedgerStore, publisher: Publisher) -> None:
    """Everything that was sent is confirmed, sealed and read back."""
    await publisher.stop()
    assert publisher.error is None
    info = await publisher.writer.seal()
    assert info.last == publisher.sent * RUN - 1
    assert info.length == publisher.sent * RUN * 20
    assert await read_all(store, publisher.writer.id) == numbered(publisher.sent * RUN)


async def create_until_refused(store: BookkeeperLedgerStore) -> None:
    """The watch tells a little later than the tree."""
    async with asyncio.timeout(30):
        while True:
            await store.create(term=ONE, properties={}, replication=TWO)


def restart(bookie: Bookie, *, is_read_only: bool) -> None:
    bookie.kill()
    bookie.await_unlisted()
    bookie.settings["forceReadOnlyBookie"] = is_read_only
    bookie.start()


@pytest.mark.parametrize("harm", ["killed", "paused"])
def test_a_bookie_that_fails_is_replaced_and_nothing_is_refused(
    bookies: BookieCluster, harm: str
) -> None:
    async def body() -> None:
        async with bookkeeper_store(bookies, timeout_s=2.0) as store, asyncio.TaskGroup() as tasks:
            writer = await store.create(term=ONE, properties={}, replication=TWO)
            publisher = Publisher(writer)
            tasks.create_task(publisher.run())
            await publisher.confirm(20)
            victim = members(writer)[0]
            bookie = bookies.bookie_at(victim)
            (bookie.kill if harm == "killed" else bookie.pause)()
            await until(lambda: victim not in members(writer))
            await publisher.confirm(20)
            await check(store, publisher)
            assert len(writer.metadata.segments) > 1
            assert store.counters()[victim]["bookie_add_failures"] > 0
            fresh = await store.create(term=ONE, properties={}, replication=TWO)
            assert victim not in members(fresh)

    asyncio.run(body())


def test_without_a_spare_bookie_writing_goes_on_with_the_ack_quorum_until_one_comes(
    bookies: BookieCluster,
) -> None:
    async def body() -> None:
        async with bookkeeper_store(bookies, timeout_s=2.0) as store, asyncio.TaskGroup() as tasks:
            # One that an earlier test paused may have lost its session, and register again.
            await until(lambda: len(store._around.registry.known.writable) >= 3)
            writer = await store.create(term=ONE, properties={}, replication=Replication(3, 3, 2))
            publisher = Publisher(writer)
            tasks.create_task(publisher.run())
            await publisher.confirm(10)
            victim = bookies.bookie_at(members(writer)[1])
            victim.kill()
            await until(lambda: store.counters()[victim.address]["bookie_add_failures"] > 0)
            await publisher.confirm(20)
            assert len(writer.metadata.segments) == 1
            spare = await asyncio.to_thread(bookies.add_bookie)
            try:
                await until(lambda: spare.address in members(writer))
                await publisher.confirm(20)
                await check(store, publisher)
            finally:
                await asyncio.to_thread(spare.close)
                bookies.bookies.remove(spare)

    asyncio.run(body())


def test_a_read_only_bookie_is_replaced(bookies: BookieCluster) -> None:
    async def body() -> None:
        async with bookkeeper_store(bookies) as store, asyncio.TaskGroup() as tasks:
            writer = await store.create(term=ONE, properties={}, replication=TWO)
            await append(writer, numbered(RUN))
            victim = bookies.bookie_at(members(writer)[0])
            await asyncio.to_thread(restart, victim, is_read_only=True)
            publisher = Publisher(writer, sent=1, answers=[None])
            tasks.create_task(publisher.run())
            await until(lambda: victim.address not in members(writer))
            await publisher.confirm(5)
            await check(store, publisher)
            ensembles = [
                members(await store.create(term=ONE, properties={}, replication=TWO))
                for _ in range(5)
            ]
            assert not any(victim.address in each for each in ensembles)
            await asyncio.to_thread(restart, victim, is_read_only=False)

    asyncio.run(body())


def test_too_few_bookies_are_named_and_all_that_was_granted_stays(
    bookies: BookieCluster,
) -> None:
    async def body() -> None:
        async with bookkeeper_store(bookies) as store, asyncio.TaskGroup() as tasks:
            writer = await store.create(term=ONE, properties={}, replication=TWO)
            publisher = Publisher(writer)
            task = tasks.create_task(publisher.run())
            await publisher.confirm(10)
            gone = [each for each in bookies.bookies if each.address != members(writer)[0]]
            for each in gone:
                each.kill()
            await task
            assert isinstance(publisher.error, NotEnoughBookies)
            granted = publisher.confirmed
            info = await writer.seal()
            assert info.last + 1 >= granted
            for each in gone:
                await asyncio.to_thread(each.await_unlisted)
            with pytest.raises(NotEnoughBookies, match="1 bookies"):
                await create_until_refused(store)
            found = await read_all(store, writer.id)
            assert found == numbered(info.last + 1)

    asyncio.run(body())


def test_entries_are_read_from_another_bookie_when_one_is_killed(bookies: BookieCluster) -> None:
    async def body() -> None:
        async with bookkeeper_store(bookies) as store:
            writer = await store.create(term=ONE, properties={}, replication=TWO)
            await append(writer, numbered(100))
            await writer.seal()
            for address in members(writer):
                bookie = bookies.bookie_at(address)
                bookie.kill()
                assert await read_all(store, writer.id) == numbered(100)
                await asyncio.to_thread(bookie.start)

    asyncio.run(body())


def test_a_second_client_fences_a_busy_writer_and_finds_all_that_it_was_granted(
    bookies: BookieCluster,
) -> None:
    async def body() -> None:
        for ensemble in (TWO, Replication(3, 3, 2), Replication(3, 2, 2), Replication(3, 2, 1)):
            async with (
                bookkeeper_store(bookies) as old,
                bookkeeper_store(bookies) as new,
                asyncio.TaskGroup() as tasks,
            ):
                writer = await old.create(term=Term(9), properties={}, replication=ensemble)
                publisher = Publisher(writer, window=50)
                task = tasks.create_task(publisher.run())
                # Entries tell what was confirmed when they left: those of the first window nothing.
                await publisher.confirm(publisher.window + 20)
                described = await new.describe(writer.id)
                assert not described.sealed and described.last >= 0
                info = await new.recover(writer.id, term=Term(1))
                await task
                assert isinstance(publisher.error, LedgerFenced)
                assert info.sealed and info.last + 1 >= publisher.confirmed
                assert await read_all(new, writer.id) == numbered(info.last + 1)
                assert info.length == 20 * (info.last + 1)
                with pytest.raises(LedgerFenced):
                    await writer.seal()
                assert await old.recover(writer.id, term=ONE) == info

    asyncio.run(body())


def test_two_recoveries_at_once_agree(bookies: BookieCluster) -> None:
    async def body() -> None:
        async with (
            bookkeeper_store(bookies) as old,
            bookkeeper_store(bookies) as one,
            bookkeeper_store(bookies) as two,
            asyncio.TaskGroup() as tasks,
        ):
            writer = await old.create(term=ONE, properties={}, replication=TWO)
            publisher = Publisher(writer, window=50)
            tasks.create_task(publisher.run())
            await publisher.confirm(20)
            recovered = await asyncio.gather(
                *(each.recover(writer.id, term=ONE) for each in (one, two, one))
            )
            assert recovered[0] == recovered[1] == recovered[2]
            assert recovered[0].last + 1 >= publisher.confirmed
            publisher.is_stopped = True

    asyncio.run(body())


@pytest.mark.parametrize("harm", ["none", "a bookie too"])
def test_what_a_killed_process_was_granted_is_recovered(bookies: BookieCluster, harm: str) -> None:
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), bookies.url], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        ledger = LedgerId(int(process.stdout.readline()))
        granted = 0
        while granted < 2000:
            granted = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        granted = max([granted, *(int(each) for each in process.stdout if each.endswith("\n"))])

    async def body() -> None:
        async with bookkeeper_store(bookies, timeout_s=2.0) as store:
            if harm != "none":
                bookies.bookies[0].kill()
            info = await store.recover(ledger, term=ONE)
            assert info.last + 1 >= granted
            assert await read_all(store, ledger) == numbered(info.last + 1)
            again = await store.recover(ledger, term=ONE)
            assert again == info

    asyncio.run(body())


def test_zookeeper_away_leaves_appends_and_reads_alone(bookies: BookieCluster) -> None:
    async def body() -> None:
        async with bookkeeper_store(bookies) as store, asyncio.TaskGroup() as tasks:
            writer = await store.create(term=ONE, properties={}, replication=TWO)
            publisher = Publisher(writer)
            tasks.create_task(publisher.run())
            await publisher.confirm(5)
            bookies.zookeeper.pause()
            await publisher.confirm(20)
            found = await store.read(writer.id, EntryId(0), entries_max=5, bytes_max=1000)
            assert found == numbered(5)
            bookies.zookeeper.resume()
            await check(store, publisher)

    asyncio.run(body())
