"""What keeps topic policies does so in the same way, whichever it is and whatever is below it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from magnetar.errors import NotAllowed
from magnetar.model.choice import (
    BacklogAction,
    BacklogQuotaType,
    InactiveTopicDeleteMode,
    SubscriptionTypeName,
)
from magnetar.model.name import NamespaceName, TopicName, parse_topic
from magnetar.model.policy import (
    AutoSubscriptionCreationOverride,
    BacklogQuota,
    DispatchRate,
    EntryFilters,
    InactiveTopicPolicies,
    PersistencePolicies,
    PublishRate,
    RetentionPolicies,
    SubscribeRate,
    SubscriptionPolicies,
    TopicPolicies,
)
from magnetar.model.schema import CompatibilityStrategy
from tests.contract.metadata_place import PLACES
from tests.contract.policy_place import (
    BACKENDS,
    OTHER,
    OTHER_NAMESPACE,
    TOPIC,
    Ear,
    Shop,
    run,
    ttl_of,
)

Run = Callable[[Callable[[Shop], Awaitable[None]]], None]
RATE = DispatchRate(
    dispatchThrottlingRateInMsg=1,
    dispatchThrottlingRateInByte=2,
    relativeToPublishRate=True,
    ratePeriodInSecond=3,
)
EVERYTHING = TopicPolicies(
    backLogQuotaMap={
        BacklogQuotaType.DESTINATION_STORAGE: BacklogQuota(
            limit=5, limitSize=5, limitTime=6, policy=BacklogAction.PRODUCER_EXCEPTION
        ),
        BacklogQuotaType.MESSAGE_AGE: BacklogQuota(
            limit=0, limitSize=0, limitTime=7, policy=BacklogAction.CONSUMER_BACKLOG_EVICTION
        ),
    },
    subscriptionTypesEnabled=(SubscriptionTypeName.SHARED, SubscriptionTypeName.KEY_SHARED),
    replicationClusters=("standalone",),
    shadowTopics=("persistent://shop/eu/shadow",),
    persistence=PersistencePolicies(
        bookkeeperEnsemble=3,
        bookkeeperWriteQuorum=2,
        bookkeeperAckQuorum=1,
        managedLedgerMaxMarkDeleteRate=0.5,
        managedLedgerStorageClassName="x",
    ),
    retentionPolicies=RetentionPolicies(retentionTimeInMinutes=10, retentionSizeInMB=2**40),
    deduplicationEnabled=False,
    messageTTLInSeconds=0,
    subscriptionExpirationTimeInMinutes=11,
    maxProducerPerTopic=12,
    maxConsumerPerTopic=13,
    maxConsumersPerSubscription=14,
    maxSubscriptionsPerTopic=15,
    maxUnackedMessagesOnConsumer=16,
    maxUnackedMessagesOnSubscription=17,
    delayedDeliveryEnabled=True,
    delayedDeliveryTickTimeMillis=18,
    delayedDeliveryMaxDelayInMillis=19,
    dispatcherPauseOnAckStatePersistentEnabled=True,
    offloadPolicies={"managedLedgerOffloadDriver": "s3", "managedLedgerOffloadMaxThreads": 2},
    inactiveTopicPolicies=InactiveTopicPolicies(
        inactiveTopicDeleteMode=InactiveTopicDeleteMode.SUBSCRIPTIONS_CAUGHT_UP,
        maxInactiveDurationSeconds=20,
        deleteWhileInactive=True,
    ),
    dispatchRate=RATE,
    subscriptionDispatchRate=RATE,
    replicatorDispatchRate=RATE,
    publishRate=PublishRate(publishThrottlingRateInMsg=21, publishThrottlingRateInByte=22),
    subscribeRate=SubscribeRate(subscribeThrottlingRatePerConsumer=23, ratePeriodInSecond=24),
    compactionThreshold=25,
    deduplicationSnapshotIntervalSeconds=26,
    maxMessageSize=27,
    schemaCompatibilityStrategy=CompatibilityStrategy.FORWARD_TRANSITIVE,
    schemaValidationEnforced=True,
    entryFilters=EntryFilters(entryFilterNames="a,b"),
    autoSubscriptionCreationOverride=AutoSubscriptionCreationOverride(
        allowAutoSubscriptionCreation=True
    ),
    subscriptionPolicies={"sub one": SubscriptionPolicies(dispatchRate=RATE)},
)


@pytest.fixture(params=PLACES)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=BACKENDS)
def in_shop(request: pytest.FixtureRequest, store: str, tmp_path: Path) -> Run:
    return lambda body: run(body, tmp_path, store=store, backend=str(request.param))


def test_the_scopes_know_nothing_of_each_other(in_shop: Run) -> None:
    async def body(shop: Shop) -> None:
        assert await shop.backend.get(TOPIC, is_global=False) is None
        await shop.set(messageTTLInSeconds=10, maxProducerPerTopic=1)
        assert await shop.backend.get(TOPIC, is_global=True) is None
        await shop.set(messageTTLInSeconds=20, maxConsumerPerTopic=2, is_global=True)
        local = await shop.backend.get(TOPIC, is_global=False)
        shared = await shop.backend.get(TOPIC, is_global=True)
        assert local == TopicPolicies(messageTTLInSeconds=10, maxProducerPerTopic=1)
        assert shared == TopicPolicies(messageTTLInSeconds=20, maxConsumerPerTopic=2, isGlobal=True)
        assert await shop.service.policies.get_merged(TOPIC) == TopicPolicies(
            messageTTLInSeconds=10, maxProducerPerTopic=1, maxConsumerPerTopic=2
        )
        assert await shop.backend.get(OTHER, is_global=False) is None

    in_shop(body)


def test_every_field_comes_back_also_after_a_restart(in_shop: Run) -> None:
    async def body(shop: Shop) -> None:
        await shop.service.policies.update(TOPIC, lambda _: EVERYTHING)
        await shop.service.policies.update(TOPIC, lambda _: EVERYTHING, is_global=True)
        for _ in range(2):
            assert await shop.backend.get(TOPIC, is_global=False) == EVERYTHING
            shared = await shop.backend.get(TOPIC, is_global=True)
            assert shared == replace(EVERYTHING, isGlobal=True)
            await shop.restart()

    in_shop(body)


def test_listeners_hear_of_each_scope_before_the_writer_goes_on(in_shop: Run) -> None:
    async def body(shop: Shop) -> None:
        policies = shop.service.policies

        def fail(namespace: NamespaceName, topic: TopicName | None) -> None:
            raise RuntimeError("a listener's own trouble")

        policies.in_force.listen(fail)
        ear, deaf = await Ear.at(shop), await Ear.at(shop, OTHER)
        await shop.set(messageTTLInSeconds=20, is_global=True)
        assert ear.heard == [20]
        await shop.set(messageTTLInSeconds=10)
        await shop.set(messageTTLInSeconds=21, is_global=True)
        await shop.set(messageTTLInSeconds=11)
        assert ear.heard == [20, 10, 10, 11]
        await policies.delete(TOPIC, keep_global=True)
        await policies.delete(TOPIC)
        assert ear.heard[4:] == [21, 0]
        assert deaf.heard == []
        for _ in range(2):
            policies.in_force.forget(TOPIC)
        await shop.set(messageTTLInSeconds=12)
        assert len(ear.heard) == 6

    in_shop(body)


def test_a_deletion_may_keep_the_global_scope(in_shop: Run) -> None:
    async def body(shop: Shop) -> None:
        await shop.backend.delete(TOPIC)
        await shop.set(messageTTLInSeconds=10)
        await shop.set(messageTTLInSeconds=20, is_global=True)
        await shop.backend.delete(TOPIC, keep_global=True)
        assert (await shop.ttl(), await shop.ttl(is_global=True)) == (None, 20)
        await shop.backend.delete(TOPIC)
        await shop.restart()
        assert (await shop.ttl(), await shop.ttl(is_global=True)) == (None, None)

    in_shop(body)


def test_a_removal_makes_no_policies(in_shop: Run) -> None:
    async def body(shop: Shop) -> None:
        def remove(present: TopicPolicies) -> TopicPolicies:
            return replace(present, messageTTLInSeconds=None)

        await shop.service.policies.update(TOPIC, remove, skip_if_absent=True)
        assert await shop.backend.get(TOPIC, is_global=False) is None
        await shop.set(messageTTLInSeconds=10, maxProducerPerTopic=1)
        await shop.service.policies.update(TOPIC, remove, skip_if_absent=True)
        found = await shop.backend.get(TOPIC, is_global=False)
        assert found == TopicPolicies(maxProducerPerTopic=1)

    in_shop(body)


def test_no_update_of_many_at_once_is_lost(in_shop: Run) -> None:
    async def body(shop: Shop) -> None:
        def count(present: TopicPolicies) -> TopicPolicies:
            return replace(present, messageTTLInSeconds=(present.messageTTLInSeconds or 0) + 1)

        await asyncio.gather(*(shop.service.policies.update(TOPIC, count) for _ in range(20)))
        assert await shop.ttl() == 20

    in_shop(body)


def test_partitions_and_segments_have_the_policies_of_their_topic(in_shop: Run) -> None:
    async def body(shop: Shop) -> None:
        await shop.set(messageTTLInSeconds=10)
        policies = shop.service.policies
        assert ttl_of(await policies.get(TOPIC.partition(7))) == 10
        scalable = parse_topic("topic://shop/eu/sales")
        await shop.set(topic=scalable, messageTTLInSeconds=30)
        segment = parse_topic("segment://shop/eu/sales/0000-ffff-0")
        assert ttl_of(await policies.get(segment)) == 30
        assert await shop.ttl(topic=parse_topic("persistent://shop/eu/sales")) is None

    in_shop(body)


@pytest.mark.parametrize(
    "name", ["persistent://shop/us/café $0 +~", "non-persistent://shop/us/x", "topic://shop/us/a/b"]
)
def test_any_topic_may_have_policies(in_shop: Run, name: str) -> None:
    async def body(shop: Shop) -> None:
        topic = parse_topic(name)
        await shop.set(topic=topic, messageTTLInSeconds=10)
        await shop.restart()
        assert await shop.ttl(topic=topic) == 10

    in_shop(body)


def test_the_brokers_own_topics_take_no_policies(in_shop: Run) -> None:
    async def body(shop: Shop) -> None:
        own = parse_topic("persistent://shop/us/__change_events")
        policies = shop.service.policies
        with pytest.raises(NotAllowed):
            await policies.update(own, lambda _: EVERYTHING)
        await policies.delete(own)
        await policies.in_force.load(own)
        assert policies.in_force.get(own).max_producers == 0
        assert not await shop.store.exists(f"/managed-ledgers/{OTHER_NAMESPACE}")

    in_shop(body)


def test_policies_are_in_force_when_a_topic_is_loaded_and_change_while_it_is(in_shop: Run) -> None:
    async def body(shop: Shop) -> None:
        await shop.set(messageTTLInSeconds=10)
        await shop.set(messageTTLInSeconds=20, maxConsumerPerTopic=2, is_global=True)
        await shop.restart()
        topic = await shop.service.catalog.load_topic(TOPIC, create=True)
        assert (topic.policy.message_ttl_s, topic.policy.max_consumers) == (10, 2)
        policies = shop.service.policies
        await policies.update(TOPIC, lambda each: replace(each, messageTTLInSeconds=None))
        assert topic.policy.message_ttl_s == 20
        await policies.delete(TOPIC)
        assert (topic.policy.message_ttl_s, topic.policy.max_consumers) == (0, 0)

    in_shop(body)
