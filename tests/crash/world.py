"""A broker in the loop of the test whose stores outlive it, and that can be told to die at any of
its writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from magnetar.broker.ownership import Owner, SoleOwnership
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.service import Service
from magnetar.errors import BrokerError, StorageFailed, StoreClosed
from magnetar.ledger.cache import EntryCache
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.path import child_of
from magnetar.metadata.store import (
    ANY_VERSION,
    Cancel,
    ChangeListener,
    Record,
    SessionListener,
    Stat,
)
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import Policies
from magnetar.model.position import Position, Term
from magnetar.model.segment import Segment
from magnetar.model.tenancy import TenantInfo
from magnetar.runtime.configuration import Configuration
from magnetar.testing.ledger import FaultyLedgerStore
from magnetar.testing.memory_ledger import MemoryLedgerStore
from magnetar.wire.command import MessageMetadata
from magnetar.wire.entry import decode_entry, encode_entry
from tests.unit.broker.broker_place import NAMESPACE, Place, StillClock

DEATH_S_MAX = 30.0
CLOSED_S_MAX = 5.0


class Doom:
    """The number of the write at which the process dies, before or after it is done, or that is
    refused while the process lives.
    """

    def __init__(self, ledgers: FaultyLedgerStore) -> None:
        self._ledgers = ledgers
        self._number = 0
        self._after = False
        self._is_death = True
        self.writes: list[str] = []
        self.died = asyncio.Event()

    def arm(self, number: int, *, after: bool, is_death: bool = True) -> None:
        """Count from now on."""
        self.writes.clear()
        self._number = number
        self._after = after
        self._is_death = is_death

    async def write(self, what: str, act: Callable[[], Awaitable[Stat | None]]) -> Stat | None:
        """A write that the store refuses does not count when death comes after it."""
        self.check_alive()
        if not self._after:
            self._count(what)
        outcome = await act()
        if self._after:
            self._count(what)
        return outcome

    def _count(self, what: str) -> None:
        self.writes.append(what)
        if len(self.writes) != self._number:
            return
        if not self._is_death:
            raise StorageFailed(f"refused: {what}")
        self.died.set()
        self._ledgers.kill()
        raise StoreClosed(f"the process died at {what}")

    def check_alive(self) -> None:
        if self.died.is_set() or self._ledgers.killed:
            raise StoreClosed("the process is dead")


class MortalStore:
    """A metadata store whose every write is counted; removing a tree is one write per record."""

    def __init__(self, inner: MemoryStore, doom: Doom) -> None:
        self._inner = inner
        self._doom = doom

    async def get(self, path: str) -> Record | None:
        self._doom.check_alive()
        return await self._inner.get(path)

    async def exists(self, path: str) -> bool:
        self._doom.check_alive()
        return await self._inner.exists(path)

    async def children(self, path: str) -> tuple[str, ...]:
        self._doom.check_alive()
        return await self._inner.children(path)

    async def count_children(self, path: str) -> int:
        self._doom.check_alive()
        return await self._inner.count_children(path)

    async def scan_children(self, path: str) -> AsyncIterator[tuple[str, Record]]:
        self._doom.check_alive()
        async for name, record in self._inner.scan_children(path):
            yield name, record

    async def put(self, path: str, value: bytes, *, expect: int, ephemeral: bool = False) -> Stat:
        async def act() -> Stat:
            return await self._inner.put(path, value, expect=expect, ephemeral=ephemeral)

        stat = await self._doom.write(f"put {path}", act)
        assert stat is not None
        return stat

    async def put_sequence(
        self, prefix: str, value: bytes, *, deltas: Sequence[int], ephemeral: bool = False
    ) -> tuple[str, Stat]:
        self._doom.check_alive()
        return await self._inner.put_sequence(prefix, value, deltas=deltas, ephemeral=ephemeral)

    async def delete(self, path: str, *, expect: int) -> None:
        await self._doom.write(f"delete {path}", lambda: self._inner.delete(path, expect=expect))

    async def delete_recursive(self, path: str) -> None:
        for name in await self.children(path):
            await self.delete_recursive(child_of(path, name))
        if await self.get(path) is not None:
            await self.delete(path, expect=ANY_VERSION)

    async def sync(self, path: str) -> None:
        await self._inner.sync(path)

    def watch(self, prefix: str, listener: ChangeListener) -> Cancel:
        return self._inner.watch(prefix, listener)

    @property
    def record_bytes_max(self) -> int:
        return self._inner.record_bytes_max

    @property
    def has_session(self) -> bool:
        return self._inner.has_session

    def watch_session(self, listener: SessionListener) -> Cancel:
        return self._inner.watch_session(listener)

    @property
    def is_connected(self) -> bool:
        return self._inner.is_connected

    async def close(self) -> None:
        await self._inner.close()


class World:
    """What is on disk; brokers come and go."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.tree = MemoryTree(self.clock)
        self._disk = MemoryLedgerStore()
        self._term = 0
        self.service: Service
        self._ledgers: FaultyLedgerStore
        self._store: MemoryStore
        self._policies: PolicyService
        self.doom: Doom

    @property
    def place(self) -> Place:
        """The broker of the moment, for clients."""
        return Place(self.clock, self.service, self._ledgers)

    @classmethod
    async def create(cls, *, buckets: int = 1, **settings: object) -> World:
        world = cls()
        store = MemoryStore(world.tree)
        resources = Resources(store, store, clock=world.clock)
        await resources.tenants.create("shop", TenantInfo(allowedClusters=("standalone",)))
        policies = Policies(replication_clusters=("standalone",), numberOfTopicBuckets=buckets)
        await resources.namespaces.create(NAMESPACE, policies)
        await store.close()
        await world.boot(**settings)
        return world

    async def boot(self, **settings: object) -> None:
        """Start a broker on what is there, and let it go on with what it finds unfinished."""
        self._start(**settings)
        await self.service.scalable.resume()
        if self.service.transactions.is_enabled:
            await self.service.transactions.resume()

    async def boot_doomed(self, number: int, *, after: bool) -> None:
        """As `boot`, but the broker dies at one of its first writes, if it does so many."""
        self._start()
        self.doom.arm(number, after=after)
        await self.until_death(self.service.scalable.resume)

    def _start(self, **settings: object) -> None:
        self._term += 1
        self._store = MemoryStore(self.tree)
        self._ledgers = FaultyLedgerStore(self._disk)
        self.doom = Doom(self._ledgers)
        store = MortalStore(self._store, self.doom)
        calm = {"activeConsumerFailoverDelayTimeMillis": 0, "scalableTopicAutoScaleEnabled": False}
        config = Configuration({**calm, **settings})
        resources = Resources(store, store, clock=self.clock)
        owner = Owner(
            "localhost:8080",
            "pulsar://localhost:6650",
            "http://localhost:8080",
            Term(self._term),
            True,
        )
        self._policies = PolicyService(resources, config, clock=self.clock)
        self.service = Service(
            config,
            self.clock,
            store=store,
            ledgers=self._ledgers,
            resources=resources,
            policies=self._policies,
            schemas=SchemaRegistry(store, self._ledgers, self.clock),
            ownership=SoleOwnership(owner),
            owner=owner,
            cache=EntryCache(1 << 20),
        )

    async def crash(self) -> None:
        """End the process without a word to anybody; its session is not over for the store."""
        self.doom.died.set()
        self._ledgers.kill()
        self.tree.detach(self._store)
        await self.service.scalable.close()
        try:
            async with asyncio.timeout(CLOSED_S_MAX):
                await self.service.transactions.close()
        except TimeoutError:
            pass  # a dead disk answers nothing
        for connection in list(self.service.connections):
            connection.abort()
        await self.service.tasks.close()
        await self._policies.close()

    async def until_death(self, act: Callable[[], Awaitable[object]]) -> bool:
        """Whether the process died before the act was done."""
        doom = self.doom
        acting = asyncio.ensure_future(_quietly(act))
        dying = asyncio.ensure_future(doom.died.wait())
        await asyncio.wait(
            (acting, dying), timeout=DEATH_S_MAX, return_when=asyncio.FIRST_COMPLETED
        )
        assert acting.done() or dying.done(), "neither done nor dead"
        for task in (acting, dying):
            task.cancel()
        await asyncio.gather(acting, dying, return_exceptions=True)
        if not doom.died.is_set():
            doom.arm(0, after=False)
        return doom.died.is_set()

    # What is in the segments

    async def segment(self, topic: TopicName, segment: Segment) -> PersistentTopic:
        live = await self.service.catalog.load_topic(segment.name_in(topic))
        assert isinstance(live, PersistentTopic)
        return live

    async def write(self, topic: TopicName, segment: Segment, payload: str) -> Position:
        entry = encode_entry(
            MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), payload.encode()
        )
        return await (await self.segment(topic, segment)).log.append_entry(entry)

    async def unread(self, topic: TopicName, subscription: str) -> list[str]:
        """What a subscription has not acknowledged, segment by segment, oldest first."""
        record = await self.service.scalable.records.require(topic)
        found: list[str] = []
        for segment in record.layout.segments:
            live = await self.segment(topic, segment)
            cursor = live.subscriptions[subscription].cursor
            position = cursor.first_unacked()
            while (run := await live.log.reader.read(position, 100, 1 << 20)) is not None:
                unacked = cursor.unacked_in(run)
                found += [decode_entry(run.data[index])[1].decode() for index in unacked]
                position = Position(run.ledger_id, run.first + len(run))
        return found

    async def acknowledge(
        self, topic: TopicName, segment: Segment, subscription: str, count: int
    ) -> None:
        """The first so many that are not acknowledged yet."""
        live = await self.segment(topic, segment)
        await live.subscriptions[subscription].skip(count)

    async def stored_segments(self, namespace: NamespaceName, local: str) -> tuple[str, ...]:
        """Descriptors of the segments that the store has a log of."""
        path = f"/managed-ledgers/{namespace}/segment/{local}"
        return await self.service.store.children(path)


async def _quietly(act: Callable[[], Awaitable[object]]) -> None:
    try:
        await act()
    except BrokerError:
        pass  # it is told by what is there afterwards
