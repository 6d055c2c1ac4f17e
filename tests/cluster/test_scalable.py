"""Scalable topics over real brokers, bookies and ZooKeeper: keys stay in order and nothing is lost
while segments split and merge and brokers are killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from magnetar import AsyncAdmin, AsyncPulsarClient
from magnetar.client.error import AdminError, PulsarError
from tests.cluster.test_command import Up

KEYS = [f"key-{number}" for number in range(16)]
LIMIT_S = 120.0
SESSION_MS = 4000


class Brokers:
    """A cluster in processes of its own."""

    def __init__(self, up: Up) -> None:
        self._up = up
        self.document = up.document()

    def find(self, broker_id: str) -> str:
        """The name of the process whose admin address is this."""
        brokers = self.document["brokers"]
        return next(str(each["name"]) for each in brokers if each["admin"].endswith(broker_id))

    def pid(self, name: str) -> int:
        status = json.loads(self._up.ask("status", "--json").stdout)
        return next(int(each["pid"]) for each in status["brokers"] if each["name"] == name)

    def start(self, name: str) -> None:
        assert self._up.ask("start", name).returncode == 0

    def admins(self, but: str = "") -> list[str]:
        return [each["admin"] for each in self.document["brokers"] if each["name"] != but]

    @property
    def service(self) -> str:
        addresses = [each["service"].removeprefix("pulsar://") for each in self.document["brokers"]]
        return f"pulsar://{','.join(addresses)}"

    def owner(self, name: str) -> str:
        """The process that owns a topic or a segment: where calls about it are sent on to."""
        domain, _, local = name.partition("://")
        calls = {"segment": f"segments/{local}/subscription/all/backlog"}
        path = f"/admin/v2/{calls.get(domain, f'scalable/{local}/stats')}"
        for admin in self.admins():
            connection = HTTPConnection(urlsplit(admin).netloc, timeout=10)
            try:
                connection.request("GET", path)
                place = connection.getresponse().headers.get("location", admin)
                return self.find(urlsplit(place).netloc)
            except OSError:
                continue
            finally:
                connection.close()
        raise AssertionError(f"no broker knows the owner of {name}")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    up = Up(
        tmp_path / "cluster",
        *("--brokers", "3", "--set", f"metadataStoreSessionTimeoutMillis={SESSION_MS}"),
        *("--set", "scalableTopicAutoScaleEnabled=false"),
    )
    try:
        yield Brokers(up)
    finally:
        if up.process.poll() is None:
            up.end()
        assert up.process.stdout is not None
        up.process.stdout.close()


async def _persist(brokers: Brokers, call: Any) -> Any:
    """Make a call at any broker that answers, until one does it."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            for url in brokers.admins():
                async with AsyncAdmin(url, timeout=10) as admin:
                    try:
                        return await call(admin)
                    except (AdminError, PulsarError):
                        await asyncio.sleep(0.3)


class Traffic:
    """Messages with numbers that rise for each key, and what came of them."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, int] = defaultdict(int)
        """The highest number of each key that was stored."""
        self.received: dict[str, list[int]] = defaultdict(list)
        self.is_ending = False
        self.is_over = False
        """Whether nothing more is sent."""

    async def send(self, client: AsyncPulsarClient, topic: str) -> None:
        async with client.producer(topic) as producer:
            number = 0
            while not self.is_ending:
                number += 1
                for key in KEYS:
                    async with asyncio.timeout(LIMIT_S):
                        await producer.send(str(number).encode(), key=key)
                    self.acknowledged[key] = number
        self.is_over = True

    async def receive(self, client: AsyncPulsarClient, topic: str) -> None:
        async with client.stream_consumer(topic, subscription="all") as consumer:
            while not self.is_complete:
                message = await consumer.receive(timeout=1)
                if message is not None:
                    self.received[message.key].append(int(message.value))
                    await consumer.acknowledge_cumulative(message)

    @property
    def is_complete(self) -> bool:
        return self.is_over and all(
            numbers and max(self.received[key] or [0]) >= numbers
            for key, numbers in self.acknowledged.items()
        )

    def check(self) -> None:
        """First times in order, without a gap; a message may come again after a fault."""
        for key in KEYS:
            seen: list[int] = []
            for number in self.received[key]:
                if not seen or number > seen[-1]:
                    seen.append(number)
            assert seen == list(range(1, self.acknowledged[key] + 1)), key
            firsts = list(dict.fromkeys(self.received[key]))
            assert firsts == sorted(firsts), key


@asynccontextmanager
async def _traffic(brokers: Brokers, topic: str) -> AsyncIterator[Traffic]:
    traffic = Traffic()
    async with AsyncPulsarClient(brokers.service) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(traffic.receive(client, topic))
        tasks.create_task(traffic.send(client, topic))
        yield traffic
        traffic.is_ending = True
    traffic.check()


async def _make(brokers: Brokers, topic: str) -> None:
    await _persist(brokers, lambda admin: admin.scalable_topics.create(topic, segments=4))


async def _active(brokers: Brokers, topic: str) -> list[int]:
    """In the order of their hashes."""
    record = await _persist(brokers, lambda admin: admin.scalable_topics.metadata(topic))
    found = [each for each in record["segments"].values() if each["state"] == "ACTIVE"]
    found.sort(key=lambda each: each["hashRange"]["start"])
    return [each["segmentId"] for each in found]


async def _split(brokers: Brokers, topic: str) -> None:
    """The first segment; a call whose answer was lost may have been done."""
    before = await _active(brokers, topic)

    async def split(admin: AsyncAdmin) -> None:
        if await _active(brokers, topic) == before:
            await admin.scalable_topics.split(topic, before[0])

    await _persist(brokers, split)


async def _merge(brokers: Brokers, topic: str) -> None:
    before = await _active(brokers, topic)

    async def merge(admin: AsyncAdmin) -> None:
        if await _active(brokers, topic) == before:
            await admin.scalable_topics.merge(topic, *before[:2])

    await _persist(brokers, merge)


async def _progress(traffic: Traffic, more: int = 3) -> None:
    """Wait until so many more messages of each key were stored."""
    wanted = min((traffic.acknowledged[key] for key in KEYS), default=0) + more
    async with asyncio.timeout(LIMIT_S):
        while min(traffic.acknowledged[key] for key in KEYS) < wanted:
            await asyncio.sleep(0.05)


def test_keys_stay_in_order_while_segments_of_several_brokers_split_and_merge(
    brokers: Brokers,
) -> None:
    async def body() -> None:
        topic = "topic://public/default/orders"
        await _make(brokers, topic)
        async with _traffic(brokers, topic) as traffic:
            await _progress(traffic)
            for _ in range(3):
                await _split(brokers, topic)
                await _progress(traffic)
                await _merge(brokers, topic)
                await _progress(traffic)
        stats = await _persist(brokers, lambda admin: admin.scalable_topics.stats(topic))
        owners = {brokers.owner(each["name"]) for each in stats["segments"].values()}
        assert len(owners) > 1

    asyncio.run(body())


def test_keys_stay_in_order_when_the_brokers_of_the_controller_and_of_a_segment_are_killed(
    brokers: Brokers,
) -> None:
    async def body() -> None:
        topic = "topic://public/default/orders"
        await _make(brokers, topic)
        async with _traffic(brokers, topic) as traffic:
            await _progress(traffic)
            for victim_of, delay_s in (("controller", 0.03), ("segment", 0.06)):
                if victim_of == "controller":
                    victim = brokers.owner(topic)
                else:
                    number = (await _active(brokers, topic))[0]
                    stats = await _persist(brokers, lambda a: a.scalable_topics.stats(topic))
                    victim = brokers.owner(stats["segments"][str(number)]["name"])
                pid = brokers.pid(victim)
                change = asyncio.create_task(_split(brokers, topic))
                await asyncio.sleep(delay_s)
                os.kill(pid, signal.SIGKILL)
                await change
                await _progress(traffic)
                brokers.start(victim)
                await _merge(brokers, topic)
                await _progress(traffic)

    asyncio.run(body())
