"""What a broker keeps of topics that it does not serve: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from magnetar.broker.ownership import Owner, Ownership
from magnetar.broker.resource import Resources
from magnetar.broker.service import Service
from magnetar.broker.topicpolicy.system import SystemTopicPolicies
from magnetar.errors import ServiceNotReady, TopicNotFound
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.model.name import NamespaceName, TopicName, parse_topic
from magnetar.model.policy import Policies
from magnetar.model.position import Term
from magnetar.model.tenancy import TenantInfo
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.configuration import Configuration
from magnetar.testing.memory_ledger import MemoryLedgerStore
from tests.unit.broker.broker_place import assemble

TOPIC = parse_topic("persistent://shop/eu/orders")
ELSEWHERE = Owner("home:8080", "pulsar://home:6650", "http://home:8080", Term(1), is_self=False)


class Guest:
    """The ownership of a broker that owns nothing."""

    is_shared = True

    async def owner_of(self, topic: TopicName) -> Owner:
        return ELSEWHERE

    def listen(self, listener: Callable[[NamespaceName], None]) -> None:
        """Nothing moves."""


async def make_home() -> tuple[Service, MemoryTree, MemoryLedgerStore]:
    tree, ledgers = MemoryTree(SystemClock()), MemoryLedgerStore()
    home = make_broker(tree, ledgers)
    await home.resources.tenants.create("shop", TenantInfo(allowedClusters=("standalone",)))
    await home.resources.namespaces.create(
        NamespaceName("shop", "eu"), Policies(replication_clusters=("standalone",))
    )
    return home, tree, ledgers


def make_broker(
    tree: MemoryTree, ledgers: MemoryLedgerStore, ownership: Ownership | None = None
) -> Service:
    store = MemoryStore(tree)
    resources = Resources(store, store, clock=SystemClock())
    clock, config = SystemClock(), Configuration({})
    return assemble(config, clock, resources, ledgers, term=1, ownership=ownership)


def backend_of(service: Service) -> SystemTopicPolicies:
    backend = service.policies.backend
    assert isinstance(backend, SystemTopicPolicies)
    return backend


def test_a_broker_does_not_read_the_policies_of_topics_that_another_serves() -> None:
    async def body() -> None:
        home, tree, ledgers = await make_home()
        await home.catalog.load_topic(TOPIC, create=True)
        await home.policies.update(TOPIC, lambda each: replace(each, maxProducerPerTopic=3))
        other = make_broker(tree, ledgers, Guest())
        for name in (TOPIC, parse_topic("non-persistent://shop/eu/news")):
            with pytest.raises(ServiceNotReady, match="is served by pulsar://home:6650"):
                await other.catalog.load_topic(name, create=True)
        assert not backend_of(other).logs
        assert other.policies.in_force.namespaces_in_use() == set()
        assert home.policies.in_force.get(TOPIC).max_producers == 3
        for service in (other, home):
            await service.close()
            await service.policies.close()

    asyncio.run(body())


def test_a_topic_that_did_not_open_leaves_no_policies_behind() -> None:
    async def body() -> None:
        home, _, _ = await make_home()
        for number in range(3):
            with pytest.raises(TopicNotFound):
                await home.catalog.load_topic(parse_topic(f"persistent://shop/eu/missing-{number}"))
        assert home.policies.in_force.namespaces_in_use() == set()
        await home.catalog.load_topic(TOPIC, create=True)
        with pytest.raises(TopicNotFound):
            await home.catalog.load_topic(TOPIC.partition(7))  # its policies are the loaded topic's
        assert home.policies.in_force.namespaces_in_use() == {TOPIC.namespace}
        await home.close()
        await home.policies.close()

    asyncio.run(body())


def test_partitions_keep_the_policies_that_they_share() -> None:
    async def body() -> None:
        home, _, _ = await make_home()
        await home.resources.partitioned.create(TOPIC, 3, {})
        parts = [TOPIC.partition(index) for index in range(3)]
        for name in parts:
            await home.catalog.load_topic(name, create=True)
        with pytest.raises(TopicNotFound):
            await home.catalog.load_topic(TOPIC)  # nobody's log, though its partitions are loaded
        await home.catalog.unload_topic(parts[0])
        await home.policies.update(TOPIC, lambda each: replace(each, maxProducerPerTopic=3))
        assert home.policies.in_force.get(parts[1]).max_producers == 3
        for name in parts[1:]:
            assert home.policies.in_force.namespaces_in_use() == {TOPIC.namespace}
            await home.catalog.unload_topic(name)
        assert home.policies.in_force.namespaces_in_use() == set()
        await home.close()
        await home.policies.close()

    asyncio.run(body())
