"""Two brokers on the same stores change one topic's policies at the same time."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from magnetar.broker.resource import Resources
from magnetar.broker.service import Service
from magnetar.errors import BrokerError
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.model.name import NamespaceName, parse_topic
from magnetar.model.policy import Policies, TopicPolicies
from magnetar.model.tenancy import TenantInfo
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.configuration import Configuration
from magnetar.testing.memory_ledger import MemoryLedgerStore
from tests.unit.broker.broker_place import assemble

TOPIC = parse_topic("persistent://shop/eu/orders")
TRIES = 20


async def pair_of(backend: str) -> tuple[Service, Service]:
    tree, ledgers = MemoryTree(SystemClock()), MemoryLedgerStore()
    made = []
    for term in (1, 2):
        store = MemoryStore(tree)
        resources = Resources(store, store, clock=SystemClock())
        config = Configuration({"topicPoliciesServiceClassName": backend})
        made.append(assemble(config, SystemClock(), resources, ledgers, term=term))
    resources = made[0].resources
    await resources.tenants.create("shop", TenantInfo(allowedClusters=("standalone",)))
    await resources.namespaces.create(
        NamespaceName("shop", "eu"), Policies(replication_clusters=("standalone",))
    )
    return made[0], made[1]


def count(present: TopicPolicies) -> TopicPolicies:
    return replace(present, messageTTLInSeconds=(present.messageTTLInSeconds or 0) + 1)


def test_no_update_is_lost_in_the_metadata_store() -> None:
    async def body() -> None:
        first, second = await pair_of("metadata-store")
        await first.policies.in_force.load(TOPIC)
        await asyncio.gather(
            *(service.policies.update(TOPIC, count) for service in (first, second) * TRIES)
        )
        for service in (first, second):
            found = await service.policies.get(TOPIC)
            assert found is not None
            assert found.messageTTLInSeconds == 2 * TRIES
        await first.policies.in_force.catch_up()
        assert first.policies.in_force.get(TOPIC).message_ttl_s == 2 * TRIES

    asyncio.run(body())


def test_no_update_that_was_confirmed_is_lost_in_the_system_topic() -> None:
    """Only its owner writes to a topic: who believes to own it and does not is refused."""

    async def body() -> None:
        first, second = await pair_of("system-topic")
        confirmed = 0

        async def change(service: Service) -> None:
            nonlocal confirmed
            try:
                await service.policies.update(TOPIC, count)
            except BrokerError:
                return
            confirmed += 1

        for _ in range(TRIES):
            await asyncio.gather(change(first), change(second))
        assert confirmed > 0
        found = await second.policies.get(TOPIC)
        assert found is not None
        assert found.messageTTLInSeconds is not None
        assert found.messageTTLInSeconds >= confirmed

    asyncio.run(body())
