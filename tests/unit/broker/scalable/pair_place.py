"""Two brokers over the same stores, each of which could control a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from magnetar.broker.ownership import Owner, SoleOwnership
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.service import Service
from magnetar.ledger.cache import EntryCache
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.model.policy import Policies
from magnetar.model.position import Term
from magnetar.model.tenancy import TenantInfo
from magnetar.runtime.configuration import Configuration
from magnetar.testing.memory_ledger import MemoryLedgerStore
from tests.unit.broker.broker_place import NAMESPACE, StillClock


class Pair:
    """`first` and `second` know nothing of each other but what the stores say."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.tree = MemoryTree(self.clock)
        self._configuration = MemoryTree(self.clock)
        self._ledgers = MemoryLedgerStore()
        self.stores = (MemoryStore(self.tree), MemoryStore(self.tree))
        self.first, self.second = (
            self._make(store, f"broker-{number}:8080", number)
            for number, store in enumerate(self.stores, start=1)
        )

    def _make(self, store: MemoryStore, broker_id: str, number: int) -> Service:
        config = Configuration({})
        resources = Resources(store, MemoryStore(self._configuration), clock=self.clock)
        url = f"pulsar://broker-{number}:6650"
        owner = Owner(broker_id, url, f"http://{broker_id}", Term(number), True)
        return Service(
            config,
            self.clock,
            store=store,
            ledgers=self._ledgers,
            resources=resources,
            policies=PolicyService(resources, config, clock=self.clock),
            schemas=SchemaRegistry(store, self._ledgers, self.clock),
            ownership=SoleOwnership(owner),
            owner=owner,
            cache=EntryCache(1 << 20),
        )


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait for what a timer brings about."""
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


def run_pair(body: Callable[[Pair], Coroutine[Any, Any, None]]) -> None:
    async def inside() -> None:
        pair = Pair()
        resources = pair.first.resources
        await resources.tenants.create("shop", TenantInfo(allowedClusters=("standalone",)))
        await resources.namespaces.create(NAMESPACE, Policies(replication_clusters=("standalone",)))
        try:
            await body(pair)
        finally:
            await pair.second.close()
            await pair.first.close()

    asyncio.run(inside())
