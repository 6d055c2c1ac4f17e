"""Namespaces with `__change_events` stay with it; the others use the configured backend."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from magnetar.broker.topicpolicy.legacy import LegacyAwareTopicPolicies
from magnetar.errors import NotAllowed, PoliciesUnavailable
from magnetar.metadata.backends.memory import MemoryStore
from magnetar.metadata.store import ABSENT, ANY_VERSION
from magnetar.model.document import decode_document
from magnetar.model.name import parse_topic
from magnetar.model.policy import TopicPolicies
from magnetar.rules.system import change_events_of
from tests.contract.metadata_place import PLACES
from tests.contract.policy_place import (
    NAMESPACE,
    OTHER_NAMESPACE,
    TOPIC,
    Ear,
    Shop,
    eventually,
    run,
)

METADATA = "org.apache.pulsar.broker.service.MetadataStoreTopicPoliciesService"
SYSTEM = "org.apache.pulsar.broker.service.SystemTopicBasedTopicPoliciesService"
ROOT = "/admin/topic-policies"
LOCAL = f"{ROOT}/local/shop/eu/persistent/orders+eu"
GLOBAL = f"{ROOT}/global/shop/eu/persistent/orders+eu"
ELSEWHERE = parse_topic("persistent://shop/us/orders")
MARKER = "/managed-ledgers/shop/eu/persistent/__change_events"


async def backend_of(shop: Shop, topic: str = "eu") -> str:
    namespace = NAMESPACE if topic == "eu" else OTHER_NAMESPACE
    return (await shop.backend.describe_backend(namespace))[0]


@pytest.mark.parametrize("store", PLACES)
def test_an_upgrade_moves_no_namespace_and_a_deletion_does(tmp_path: Path, store: str) -> None:
    async def body(shop: Shop) -> None:
        await shop.set(messageTTLInSeconds=10)
        # Without system topics what they hold is not seen, and it is not touched either.
        await shop.restart(topicPoliciesServiceClassName=METADATA, systemTopicEnabled=False)
        assert await shop.ttl() is None
        await shop.restart(systemTopicEnabled=True)
        assert await shop.ttl() == 10
        await shop.set(messageTTLInSeconds=20, is_global=True)
        assert await shop.store.children(ROOT) == ()
        assert await backend_of(shop) == "system-topic"
        # A namespace that comes after the upgrade has the configured backend.
        await shop.set(topic=ELSEWHERE, messageTTLInSeconds=30)
        assert await backend_of(shop, "us") == "metadata-store"
        assert await shop.store.exists(f"{ROOT}/local/shop/us/persistent/orders")
        for _ in range(2):
            await shop.restart()
            assert (await shop.ttl(), await shop.ttl(is_global=True)) == (10, 20)
            assert await shop.ttl(topic=ELSEWHERE) == 30
        # Once its events are deleted, a namespace has the configured backend too.
        await shop.service.catalog.delete_topic(change_events_of(NAMESPACE), force=True)
        assert await backend_of(shop) == "metadata-store"
        assert await shop.ttl() is None
        await shop.set(messageTTLInSeconds=40)
        await shop.restart()
        assert await shop.ttl() == 40
        assert await shop.store.exists(LOCAL)

    run(body, tmp_path, store=store)


@pytest.mark.parametrize("store", PLACES)
def test_a_downgrade_keeps_what_the_system_topic_has(tmp_path: Path, store: str) -> None:
    async def body(shop: Shop) -> None:
        await shop.set(messageTTLInSeconds=10)
        await shop.restart(topicPoliciesServiceClassName=METADATA)
        await shop.set(topic=ELSEWHERE, messageTTLInSeconds=30)
        await shop.restart(topicPoliciesServiceClassName=SYSTEM)
        assert await shop.ttl() == 10
        assert await shop.ttl(topic=ELSEWHERE) is None

    run(body, tmp_path, store=store)


@pytest.mark.parametrize("store", PLACES)
def test_a_new_namespace_uses_the_two_roots_and_no_reader(tmp_path: Path, store: str) -> None:
    async def body(shop: Shop) -> None:
        ear = await Ear.at(shop)
        for number, is_global in enumerate((False, True, False, True), start=1):
            await shop.set(messageTTLInSeconds=number, is_global=is_global)
            record = await shop.store.get(GLOBAL if is_global else LOCAL)
            assert record is not None
            stored = decode_document(record.value, TopicPolicies)
            assert (stored.messageTTLInSeconds, stored.isGlobal) == (number, is_global)
        assert ear.heard == [1, 1, 3, 3]
        await shop.backend.delete(TOPIC)
        assert await shop.store.get(LOCAL) is None
        assert await shop.store.get(GLOBAL) is None
        assert not shop.system.logs
        assert not await shop.store.exists(MARKER)

    run(body, tmp_path, store=store, backend="legacy-aware")


def test_users_cannot_move_a_namespace_by_making_the_topic(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.set(messageTTLInSeconds=10)
        events = change_events_of(NAMESPACE)
        for name in (events, events.partition(0)):
            with pytest.raises(NotAllowed, match="metadata-store"):
                await shop.service.catalog.load_topic(name, create=True)
        assert await shop.ttl() == 10

    run(body, tmp_path, backend="legacy-aware")


@pytest.mark.parametrize("store", PLACES)
def test_a_namespace_that_moves_takes_its_loaded_topics_along(tmp_path: Path, store: str) -> None:
    async def body(shop: Shop) -> None:
        topic = await shop.service.catalog.load_topic(TOPIC, create=True)
        await shop.service.policies.update(TOPIC, lambda each: replace(each, messageTTLInSeconds=9))
        assert topic.policy.message_ttl_s == 9
        # Another broker, one that knows of no other backend, makes the system topic.
        await shop.store.put(MARKER, b"", expect=ABSENT)
        await eventually(lambda: topic.policy.message_ttl_s == 0)
        assert await backend_of(shop) == "system-topic"
        _, reason = await shop.backend.describe_backend(NAMESPACE)
        assert "1 records in the metadata store are not used" in reason
        await shop.service.policies.update(TOPIC, lambda each: replace(each, messageTTLInSeconds=8))
        assert topic.policy.message_ttl_s == 8
        await shop.service.catalog.delete_topic(change_events_of(NAMESPACE), force=True)
        await eventually(lambda: topic.policy.message_ttl_s == 9)
        await shop.service.policies.update(TOPIC, lambda each: replace(each, messageTTLInSeconds=7))
        assert topic.policy.message_ttl_s == 7

    run(body, tmp_path, store=store, backend="legacy-aware")


def test_partition_0_counts_as_the_topic(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        assert await backend_of(shop) == "metadata-store"
        await shop.service.resources.partitioned.create(change_events_of(NAMESPACE), 2)
        assert await backend_of(shop) == "metadata-store"
        await shop.store.put(f"{MARKER}-partition-0", b"", expect=ABSENT)
        assert await backend_of(shop) == "system-topic"
        await shop.store.delete(f"{MARKER}-partition-0", expect=ANY_VERSION)
        assert await backend_of(shop) == "metadata-store"

    run(body, tmp_path, backend="legacy-aware")


def test_a_marker_that_came_while_disconnected_is_seen(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        assert await backend_of(shop) == "metadata-store"
        assert isinstance(shop.store, MemoryStore)
        shop.store.disconnect()
        other = MemoryStore(shop.store._tree)
        await other.put(MARKER, b"", expect=ABSENT)
        shop.store.reconnect()
        assert await backend_of(shop) == "system-topic"

    run(body, tmp_path, backend="legacy-aware")


def test_the_backend_of_a_namespace_has_no_stand_in(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.set(messageTTLInSeconds=10)
        await shop.restart(
            topicPoliciesServiceClassName=METADATA, topicPoliciesCacheInitTimeoutSeconds=1
        )
        shop.ledgers.hold_reads()
        with pytest.raises(PoliciesUnavailable):
            await shop.ttl()
        with pytest.raises(PoliciesUnavailable):
            await shop.set(messageTTLInSeconds=11)
        assert await shop.store.children(ROOT) == ()
        shop.ledgers.release_reads()
        assert await shop.ttl() == 10

    run(body, tmp_path)


def test_a_loaded_topic_is_followed_in_the_namespaces_backend_only(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        ear = await Ear.at(shop)
        assert isinstance(shop.backend, LegacyAwareTopicPolicies)
        await shop.set(messageTTLInSeconds=1)
        assert not shop.system.logs
        assert ear.heard == [1]
        shop.service.policies.in_force.forget(TOPIC)
        await shop.set(messageTTLInSeconds=2)
        assert ear.heard == [1]

    run(body, tmp_path, backend="legacy-aware")
