"""Brokers in the loop of a test that share metadata and ledgers in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from magnetar.broker.broker_call import Reply, Request
from magnetar.broker.bundle_mover import BundleMover
from magnetar.broker.bundle_ownership import BundleOwnership
from magnetar.broker.node import open_node
from magnetar.broker.ownership import Owner
from magnetar.broker.service import Service
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.model.name import TopicName
from magnetar.model.position import Term
from magnetar.rules.bundle import Bundle
from magnetar.runtime.clock import SYSTEM
from magnetar.runtime.configuration import Configuration
from magnetar.testing.memory_ledger import MemoryLedgerStore
from tests.unit.broker.broker_place import Peer

SETTINGS = {"clusterName": "c1", "scalableTopicAutoScaleEnabled": False}


class Node:
    """One broker, which may stop as if it were told to, or die."""

    def __init__(self, place: Cluster, name: str) -> None:
        self._place = place
        self.name = name
        self.store = MemoryStore(place.tree)
        self._stack = AsyncExitStack()
        self._service: Service | None = None

    @property
    def service(self) -> Service:
        assert self._service is not None, f"{self.name} was not started"
        return self._service

    @property
    def ownership(self) -> BundleOwnership:
        ownership = self.service.ownership
        assert isinstance(ownership, BundleOwnership)
        return ownership

    @property
    def bundles(self) -> BundleMover:
        assert self.service.bundles is not None
        return self.service.bundles

    async def start(self) -> None:
        self._service = await open_node(
            self._stack,
            Configuration({**SETTINGS, **self._place.settings}),
            SYSTEM,
            store=self.store,
            shared=self.store,
            ledgers=self._place.ledgers,
            home=None,
            make_owner=self._make_owner,
            link=self._place,
        )

    async def stop(self) -> None:
        await self._stack.aclose()
        await self.store.close()

    def connect(self) -> Peer:
        return Peer(self.service)

    def _make_owner(self, term: Term) -> Owner:
        name = self.name
        return Owner(f"{name}:8080", f"pulsar://{name}:6650", f"http://{name}:8080", term, True)


class Cluster:
    def __init__(self, settings: dict[str, object]) -> None:
        self.settings = settings
        self.tree = MemoryTree(SYSTEM)
        self.ledgers = MemoryLedgerStore(is_shared=True)
        self.nodes: dict[str, Node] = {}

    async def send(self, owner: Owner, call: str, request: Request) -> Reply:
        """A call of one broker to another."""
        node = self.nodes[owner.broker_id.partition(":")[0]]
        return await node.service.calls.answer(call, request)

    async def start(self, *names: str) -> tuple[Node, ...]:
        started = tuple(Node(self, name) for name in names)
        for node in started:
            await node.start()
            self.nodes[node.name] = node
        return started

    async def owner_of(self, topic: TopicName, *, asked: Node) -> Node:
        owner = await asked.service.ownership.owner_of(topic)
        return self.nodes[owner.broker_id.partition(":")[0]]

    async def bundle_of(self, topic: TopicName) -> Bundle:
        bundle = await next(iter(self.nodes.values())).ownership.bundle_of(topic)
        assert bundle is not None
        return bundle


@asynccontextmanager
async def open_cluster(settings: dict[str, object]) -> AsyncIterator[Cluster]:
    cluster = Cluster(settings)
    try:
        yield cluster
    finally:
        for node in cluster.nodes.values():
            await node.stop()


def run_cluster(body: Callable[[Cluster], Coroutine[Any, Any, None]], **settings: object) -> None:
    async def inside() -> None:
        async with asyncio.timeout(60), open_cluster(settings) as cluster:
            await body(cluster)

    asyncio.run(inside())
