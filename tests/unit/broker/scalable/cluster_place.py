"""Several brokers in the loop of a test, on the same stores, that call each other over HTTP.

Topics are shared out among them by their names, so that the segments of one topic, its controller
and the events of its namespace are at different brokers.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from magnetar.admin.server import serving as serving_http
from magnetar.admin.table import make_application
from magnetar.app.broker_link import HttpBrokerLink
from magnetar.broker.administration.web import Administration
from magnetar.broker.ownership import Location, Owner, require_self
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.service import Service
from magnetar.errors import BrokerError
from magnetar.ledger.cache import EntryCache
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.store import Change, ChangeKind
from magnetar.model.layout import Layout
from magnetar.model.name import NamespaceName, TopicName, parse_topic
from magnetar.model.policy import Policies
from magnetar.model.position import Term
from magnetar.model.segment import Segment
from magnetar.model.tenancy import TenantInfo
from magnetar.rules.bundle import Bundle, full_bundle
from magnetar.runtime.accept import bind_socket
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.configuration import Configuration
from magnetar.testing.memory_ledger import MemoryLedgerStore
from tests.unit.broker.broker_place import NAMESPACE, Peer


@dataclass
class Shares:
    """Which broker has which topic: by a hash of both, so that only the topics of a broker that
    goes get another one.
    """

    owners: dict[str, Owner] = field(default_factory=dict)
    """The brokers that are there, by id."""
    placed: dict[str, str] = field(default_factory=dict)
    """Topics that were put somewhere by hand."""
    terms: count[int] = field(default_factory=lambda: count(1))

    def find(self, topic: TopicName) -> Owner:
        placed = self.placed.get(topic.full)
        if placed in self.owners:
            return self.owners[placed]
        return max(
            self.owners.values(),
            key=lambda each: zlib.crc32(f"{each.broker_id}{topic.full}".encode()),
        )


class SharedOwnership:
    is_shared = True

    def __init__(self, shares: Shares, broker_id: str) -> None:
        self._shares = shares
        self._id = broker_id
        self._held: dict[str, Owner] = {}
        self._listeners: list[Callable[[Bundle], None]] = []

    async def owner_of(self, topic: TopicName) -> Owner:
        owner = self._shares.find(topic)
        if owner.broker_id != self._id:
            self._held.pop(topic.full, None)
            return replace(owner, is_self=False)
        if topic.full not in self._held:
            self._held[topic.full] = replace(owner, term=Term(next(self._shares.terms)))
        return self._held[topic.full]

    async def require(self, topic: TopicName) -> Owner:
        return require_self(await self.owner_of(topic), topic)

    async def locate(self, topic: TopicName, *, is_authoritative: bool) -> Location:
        return Location(await self.owner_of(topic), is_redirect=False)

    def listen(self, listener: Callable[[Bundle], None]) -> None:
        self._listeners.append(listener)

    def lose(self, namespace: NamespaceName) -> None:
        for listener in self._listeners:
            listener(full_bundle(namespace))


@dataclass
class Broker:
    service: Service
    store: MemoryStore
    ownership: SharedOwnership
    is_dead: bool = False

    @property
    def id(self) -> str:
        return self.service.broker_id

    def connect(self) -> Peer:
        return Peer(self.service)


class Cluster:
    def __init__(self, brokers: list[Broker], shares: Shares) -> None:
        self.brokers = brokers
        self.shares = shares

    @property
    def alive(self) -> list[Broker]:
        return [each for each in self.brokers if not each.is_dead]

    def owner(self, topic: TopicName | str) -> Broker:
        name = parse_topic(topic) if isinstance(topic, str) else topic
        found = self.shares.find(name).broker_id
        return next(each for each in self.brokers if each.id == found)

    def place(self, topic: TopicName | str, broker: Broker) -> None:
        """Before it is used."""
        self.shares.placed[str(topic)] = broker.id

    async def layout(self, topic: TopicName) -> Layout:
        held = await self.alive[0].service.scalable.records.load(topic, refresh=True)
        assert held is not None
        return held.value.layout

    async def live(self, topic: TopicName, segment: Segment) -> PersistentTopic:
        name = segment.name_in(topic)
        found = await self.owner(name).service.catalog.load_topic(name)
        assert isinstance(found, PersistentTopic)
        return found

    def hide(self, broker: Broker) -> None:
        """Others do not reach it, though it owns what it owned."""
        owner = self.shares.owners[broker.id]
        self.shares.owners[broker.id] = replace(owner, web_url="http://127.0.0.1:1")

    def show(self, broker: Broker) -> None:
        self.shares.owners[broker.id] = broker.service.owner

    async def write_count(self, count: int) -> asyncio.Event:
        """Set when so many records were written or removed, from now on."""
        reached, left = asyncio.Event(), iter(range(count - 1))

        def on_change(change: Change) -> None:
            if change.kind is not ChangeKind.CHILDREN_CHANGED and next(left, None) is None:
                reached.set()

        self.alive[-1].store.watch("/", on_change)
        return reached

    async def kill(self, broker: Broker) -> None:
        """Its session ends, and with it what it may write; what it had is for the others. As a
        process that was paused it still tries to go on with what it was doing.
        """
        broker.is_dead = True
        del self.shares.owners[broker.id]
        await broker.store.close()


async def _open(
    stack: AsyncExitStack,
    shares: Shares,
    trees: tuple[MemoryTree, MemoryTree],
    ledgers: MemoryLedgerStore,
    settings: dict[str, Any],
) -> Broker:
    clock, config = SystemClock(), Configuration(settings)
    store, configuration = (MemoryStore(tree) for tree in trees)
    listener = bind_socket("127.0.0.1", 0)
    port = listener.getsockname()[1]
    broker_id = f"127.0.0.1:{port}"
    owner = Owner(broker_id, f"pulsar://broker-{port}:6650", f"http://{broker_id}", Term(1), True)
    resources = Resources(store, configuration, clock=clock)
    link = HttpBrokerLink(config, clock)
    stack.push_async_callback(link.close)
    ownership = SharedOwnership(shares, broker_id)
    service = Service(
        config,
        clock,
        store=store,
        ledgers=ledgers,
        resources=resources,
        policies=PolicyService(resources, config, clock=clock),
        schemas=SchemaRegistry(store, ledgers, clock),
        ownership=ownership,
        owner=owner,
        cache=EntryCache(1 << 20),
        link=link,
    )
    api = Administration(service)
    await stack.enter_async_context(serving_http(make_application(api), listener, limit=api.web))
    shares.owners[broker_id] = owner
    return Broker(service, store, ownership)


@asynccontextmanager
async def open_cluster(brokers: int = 3, **settings: Any) -> AsyncIterator[Cluster]:
    clock = SystemClock()
    trees = MemoryTree(clock), MemoryTree(clock)
    calm = {"activeConsumerFailoverDelayTimeMillis": 0, "scalableTopicAutoScaleEnabled": False}
    shares, ledgers = Shares(), MemoryLedgerStore()
    async with AsyncExitStack() as stack:
        found = [
            await _open(stack, shares, trees, ledgers, {**calm, **settings}) for _ in range(brokers)
        ]
        resources = found[0].service.resources
        await resources.tenants.create("shop", TenantInfo(allowedClusters=("standalone",)))
        await resources.namespaces.create(NAMESPACE, Policies(replication_clusters=("standalone",)))
        cluster = Cluster(found, shares)
        try:
            yield cluster
        finally:
            for each in reversed(cluster.alive):
                await each.service.close()
            for each in cluster.brokers:
                if each.is_dead:
                    with suppress(BrokerError):
                        await each.service.close()


def run_cluster(body: Callable[[Cluster], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def inside() -> None:
        async with open_cluster(**settings) as cluster:
            await body(cluster)

    asyncio.run(inside())


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what other brokers bring about."""
    async with asyncio.timeout(30):
        while not await holds():
            await asyncio.sleep(0.02)
