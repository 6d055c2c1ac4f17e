"""Where the suite of topic policies runs: every backend over every metadata store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from magnetar.broker.resource import Resources
from magnetar.broker.service import Service
from magnetar.broker.topicpolicy.contract import TopicPoliciesService
from magnetar.broker.topicpolicy.legacy import LegacyAwareTopicPolicies
from magnetar.broker.topicpolicy.system import SystemTopicPolicies
from magnetar.metadata.store import MetadataStore
from magnetar.model.name import NamespaceName, TopicName, parse_topic
from magnetar.model.policy import Policies, TopicPolicies
from magnetar.model.tenancy import TenantInfo
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.configuration import Configuration
from magnetar.testing.ledger import FaultyLedgerStore
from magnetar.testing.memory_ledger import MemoryLedgerStore
from tests.contract.metadata_place import PLACES
from tests.unit.broker.broker_place import assemble

NAMESPACE: Final = NamespaceName("shop", "eu")
OTHER_NAMESPACE: Final = NamespaceName("shop", "us")
TOPIC: Final = parse_topic("persistent://shop/eu/orders eu")
OTHER: Final = parse_topic("persistent://shop/eu/other")
PULSAR: Final = "org.apache.pulsar.broker.service"
BACKENDS: Final[dict[str, dict[str, object]]] = {
    "system-topic": {},
    "metadata-store": {
        "topicPoliciesServiceClassName": f"{PULSAR}.MetadataStoreTopicPoliciesService",
        "systemTopicEnabled": False,
    },
    "legacy-aware": {"topicPoliciesServiceClassName": "metadata-store"},
}


@dataclass
class Shop:
    """A broker with two namespaces; it can be stopped and started again on what it stored."""

    store: MetadataStore
    settings: dict[str, object]
    ledgers: FaultyLedgerStore
    service: Service
    starts: int = 1

    @property
    def backend(self) -> TopicPoliciesService:
        return self.service.policies.backend

    @property
    def system(self) -> SystemTopicPolicies:
        backend = self.backend
        if isinstance(backend, LegacyAwareTopicPolicies):
            return backend.system
        assert isinstance(backend, SystemTopicPolicies)
        return backend

    async def set(self, *, is_global: bool = False, topic: Any = TOPIC, **fields: Any) -> None:
        await self.service.policies.update(
            topic, lambda present: replace(present, **fields), is_global=is_global
        )

    async def ttl(self, *, is_global: bool = False, topic: Any = TOPIC) -> int | None:
        found = await self.backend.get(topic, is_global=is_global)
        return None if found is None else found.messageTTLInSeconds

    async def restart(self, **settings: object) -> None:
        await self.stop()
        self.starts += 1
        self.settings.update(settings)
        self.service = _start(self.store, self.settings, self.ledgers, self.starts)

    async def stop(self) -> None:
        await self.service.close()
        await self.service.policies.close()
        self.service.resources.close()


class Ear:
    """Keeps the message TTL that is in force for a topic after each change of its policies."""

    def __init__(self, shop: Shop, topic: TopicName) -> None:
        self._policies = shop.service.policies
        self._topic = topic
        self.heard: list[int] = []
        self._policies.in_force.listen(self._on_change)

    @classmethod
    async def at(cls, shop: Shop, topic: TopicName = TOPIC) -> Ear:
        await shop.service.policies.in_force.load(topic)
        return cls(shop, topic)

    def _on_change(self, namespace: NamespaceName, topic: TopicName | None) -> None:
        if topic == self._topic:
            self.heard.append(self._policies.in_force.get(topic).message_ttl_s)


def _start(
    store: MetadataStore, settings: dict[str, object], ledgers: FaultyLedgerStore, term: int
) -> Service:
    clock = SystemClock()
    resources = Resources(store, store, clock=clock)
    calm = {"scalableTopicAutoScaleEnabled": False}
    return assemble(Configuration({**calm, **settings}), clock, resources, ledgers, term=term)


def run(
    body: Callable[[Shop], Awaitable[None]],
    folder: Path,
    *,
    store: str = "memory",
    backend: str = "system-topic",
    **settings: object,
) -> None:
    async def scoped() -> None:
        async with AsyncExitStack() as stack:
            opened = await PLACES[store](folder).open()
            stack.push_async_callback(opened.close)
            ledgers = FaultyLedgerStore(MemoryLedgerStore())
            chosen = {**BACKENDS[backend], **settings}
            shop = Shop(opened, chosen, ledgers, _start(opened, chosen, ledgers, 1))
            resources = shop.service.resources
            await resources.tenants.create("shop", TenantInfo(allowedClusters=("standalone",)))
            for name in (NAMESPACE, OTHER_NAMESPACE):
                await resources.namespaces.create(
                    name, Policies(replication_clusters=("standalone",))
                )
            try:
                async with asyncio.timeout(30):
                    await body(shop)
            finally:
                await shop.stop()

    asyncio.run(scoped())


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.002)


def ttl_of(policies: TopicPolicies | None) -> int | None:
    return None if policies is None else policies.messageTTLInSeconds
