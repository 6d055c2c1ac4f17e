"""A broker under all kinds of work at once, killed again and again, and looked over each time."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from random import Random
from typing import Any

from magnetar.app.doctor import examine_directory
from magnetar.testing.broker import BrokerFailed, MagnetarBroker
from magnetar.wire.command import CommandSubscribe
from tests.crash.link import Delivery, Link, LinkLost
from tests.crash.load import Note, Publisher, Reader
from tests.crash.mortal import Doom, MortalBroker
from tests.crash.office import Office, Web
from tests.crash.promise import Key, Reading, Writing, keys_of

SETTINGS = {
    "managedLedgerMaxEntriesPerLedger": 60,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "acknowledgmentAtBatchIndexLevelEnabled": True,
    "brokerDeduplicationEntriesInterval": 50,
    "brokerDeleteInactiveTopicsEnabled": False,
    "retentionCheckIntervalInSeconds": 1,
    "activeConsumerFailoverDelayTimeMillis": 0,
}
PLAIN = "persistent://public/default/plain"
ONCE = "persistent://public/once/once"
BATCH = "persistent://public/default/batch"
TRIMMED = "persistent://public/default/trimmed"
TOPICS = (PLAIN, ONCE, BATCH, TRIMMED)
KEPT = (PLAIN, ONCE, BATCH)
"""Topics with a subscription that never acknowledges, so that their whole log stays."""
AUDIT = "audit"
LOAD_S_MAX = 1.5
# Every operation of the ledgers on the disk that a crash may part from the next one.
DOOMS = (
    ("write", "journal"),
    ("sync", "journal"),
    ("create", "journal"),
    ("remove", "journal"),
    ("create", "sealed"),
    ("write", "sealed"),
    ("sync", "sealed"),
    ("rename", "sealed"),
    ("sync_directory", "sealed"),
    ("remove", "sealed"),
    ("write", "catalogue"),
    ("sync", "catalogue"),
    ("rename", "catalogue"),
)


def make_writings() -> list[Writing]:
    return [
        Writing(PLAIN, "plain-a"),
        Writing(PLAIN, "plain-b"),
        Writing(ONCE, "once-a", once=True),
        Writing(ONCE, "once-b", once=True, batch=True),
        Writing(BATCH, "batch-a", batch=True),
        Writing(BATCH, "batch-b"),
        Writing(TRIMMED, "trimmed-a"),
    ]


def make_readings() -> list[Reading]:
    return [
        Reading(PLAIN, "cumulative", CommandSubscribe.Exclusive, cumulative=True),
        Reading(PLAIN, "individual", CommandSubscribe.Shared),
        Reading(ONCE, "keyed", CommandSubscribe.Key_Shared),
        Reading(ONCE, "failover", CommandSubscribe.Failover, cumulative=True),
        Reading(BATCH, "indexes", CommandSubscribe.Shared),
        Reading(BATCH, "through", CommandSubscribe.Exclusive, cumulative=True),
        Reading(TRIMMED, "mover", CommandSubscribe.Exclusive, cumulative=True),
    ]


class Trigger:
    """Kills soon after so many events of one kind, whichever the dice chose."""

    def __init__(self, random: Random, kill: Callable[[], None]) -> None:
        self._kind = random.choice(("receipt", "ack", "admin"))
        self._left = random.randint(1, {"receipt": 1500, "ack": 60, "admin": 12}[self._kind])
        self._delay_s = random.choice((0, random.uniform(0, 0.004)))
        self._kill = kill

    def note(self, kind: str) -> None:
        if kind == self._kind:
            self._left -= 1
            if self._left == 0:
                asyncio.get_running_loop().call_later(self._delay_s, self._kill)


class Scenario:
    """All promises of one broker, from its first start to its end."""

    def __init__(self, seed: int, broker: MagnetarBroker) -> None:
        self._random = Random(seed)
        self._broker = broker
        self._web = Web(broker.web_port)
        self._office = Office(self._web, TRIMMED.rpartition("/")[2])
        self._writings = make_writings()
        self._sentinels = {topic: Writing(topic, "sentinel") for topic in TOPICS}
        self._readings = make_readings()
        self._ids = count(1)

    async def run(self, rounds: int) -> None:
        problems: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(context))
        self._broker.start()
        await self._prepare()
        for _ in range(rounds):
            await self._work_until_killed()
            self._diagnose()
            self._restart()
            await self._resend()
            await self._check()
            assert not problems, problems
        assert self._broker.stop() == 0
        self._diagnose()

    async def _prepare(self) -> None:
        await self._web("PUT", "namespaces/public/once", {})
        await self._web("POST", "namespaces/public/once/deduplication", True)
        async with Link.open(self._broker.port) as link:
            for reading in self._readings:
                await self._make_subscription(link, reading)
            for topic in KEPT:
                await self._make_subscription(link, Reading(topic, AUDIT, CommandSubscribe.Shared))

    async def _make_subscription(self, link: Link, reading: Reading) -> None:
        await link.subscribe(next(self._ids), reading.topic, reading.name, reading.kind)

    # ------------------------------------------------------------------ working

    async def _work_until_killed(self) -> None:
        note = ignore
        if isinstance(self._broker, MortalBroker):
            operation, place = self._random.choice(DOOMS)
            number = self._random.randint(1, 6 if place != "journal" else 40)
            self._broker.doom(Doom(operation, place, number, self._random.random()))
        else:
            note = Trigger(self._random, self._broker.crash).note
        try:
            await self._work(note)
        except LinkLost:
            pass  # it died before the work began
        self._broker.crash()

    async def _work(self, note: Note) -> None:
        async with Link.open(self._broker.port) as link:
            publishers = [
                Publisher(link, next(self._ids), writing, note) for writing in self._writings
            ]
            readers = [Reader(link, next(self._ids), reading, note) for reading in self._readings]
            workers = [self._office.run(link, self._dice(), note)]
            workers += [publisher.run(self._dice()) for publisher in publishers]
            workers += [reader.run(self._dice()) for reader in readers]
            await self._run_until_lost(link, workers)
            assert not [publisher.refusals for publisher in publishers if publisher.refusals]

    async def _run_until_lost(self, link: Link, workers: Sequence[Awaitable[None]]) -> None:
        tasks = [asyncio.ensure_future(worker) for worker in workers]
        lost = asyncio.ensure_future(link.lost.wait())
        await asyncio.wait((lost, *tasks), timeout=LOAD_S_MAX, return_when=asyncio.FIRST_COMPLETED)
        self._broker.crash()
        lost.cancel()
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if outcome is not None and not is_loss(outcome):
                raise outcome

    def _dice(self) -> Random:
        """A source of chance for one worker: how they interleave does not change their dice."""
        return Random(self._random.random())

    # ------------------------------------------------------------------ looking over

    def _diagnose(self) -> None:
        faults = examine_directory(self._broker.data).faults
        assert not faults, faults

    def _restart(self) -> None:
        broker = self._broker
        if isinstance(broker, MortalBroker):
            if self._random.random() < 0.4:
                broker.doom(Doom(*self._random.choice(DOOMS), 1, self._random.random()))
                try:
                    broker.start()
                except BrokerFailed:
                    pass  # it died again while it put things right
                broker.crash()
                self._diagnose()
            broker.spare()
        elif self._random.random() < 0.3:
            interrupt_start(broker, self._random.uniform(0.2, 0.7))
            self._diagnose()
        broker.start()

    async def _resend(self) -> None:
        """What had no receipt is sent again where the broker tells duplicates apart."""
        async with self._link() as link:
            for writing in self._writings:
                if writing.once:
                    publisher = Publisher(link, next(self._ids), writing, ignore)
                    known = await publisher.open()
                    assert known >= writing.promised_sequence, (writing.name, known)
                    publisher.send(writing.unanswered)
                    await publisher.await_answers()
                    assert not publisher.refusals
                    assert not writing.unanswered

    async def _check(self) -> None:
        await self._office.check()
        async with self._link() as link:
            ends = {topic: await self._publish_sentinel(link, topic) for topic in TOPICS}
            durable: dict[str, set[Key]] = {}
            for topic in KEPT:
                log = await self._read_log(link, topic, ends[topic])
                for writing in (*self._writings, self._sentinels[topic]):
                    if writing.topic == topic:
                        writing.settle(log)
                durable[topic] = {key for entry in log for key in keys_of(entry)}
            durable[TRIMMED] = self._promised_keys(TRIMMED)
            for reading in self._readings:
                reader = Reader(link, next(self._ids), reading, ignore)
                await reader.open()
                delivered = await reader.read_until(ends[reading.topic])
                reading.settle(
                    [key for each in delivered for key in keys_of(each)], durable[reading.topic]
                )
                await reader.acknowledge_all(delivered[-1:])

    async def _publish_sentinel(self, link: Link, topic: str) -> bytes:
        """The last message of a topic: whoever has received it has received everything."""
        writing = self._sentinels[topic]
        publisher = Publisher(link, next(self._ids), writing, ignore)
        await publisher.open()
        sent = writing.make(1)
        publisher.send([sent])
        await publisher.await_answers()
        assert sent.is_promised, publisher.refusals
        return sent.payloads[0]

    async def _read_log(self, link: Link, topic: str, end: bytes) -> list[Delivery]:
        reading = Reading(topic, f"log-{next(self._ids)}", CommandSubscribe.Exclusive)
        reader = Reader(link, next(self._ids), reading, ignore)
        await reader.open(durable=False)
        return await reader.read_until(end)

    def _promised_keys(self, topic: str) -> set[Key]:
        """Of a log that nobody keeps, only what had a receipt is known to have been there."""
        keys: set[Key] = set()
        for writing in (*self._writings, self._sentinels[topic]):
            if writing.topic == topic:
                writing.sent = [sent for sent in writing.sent if sent.is_promised]
                keys |= {(*sent.position, 0) for sent in writing.sent if sent.position is not None}
        return keys

    @asynccontextmanager
    async def _link(self) -> AsyncIterator[Link]:
        async with asyncio.timeout(60), Link.open(self._broker.port) as link:
            yield link


def ignore(kind: str) -> None:
    """What comes while the promises are looked over kills nobody."""


def interrupt_start(broker: MagnetarBroker, after_s: float) -> None:
    """Start a process and kill it on its way."""
    process = subprocess.Popen(
        broker.command(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        pass
    process.kill()
    process.wait()


def is_loss(outcome: BaseException) -> bool:
    """Whether a worker ended because the broker did."""
    if isinstance(outcome, BaseExceptionGroup):
        return all(is_loss(each) for each in outcome.exceptions)
    return isinstance(outcome, LinkLost | asyncio.CancelledError)
