"""Which level decides."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.broker.policy_default import plan_defaults
from magnetar.model.choice import BacklogAction, BacklogQuotaType, SubscriptionTypeName
from magnetar.model.policy import (
    AutoSubscriptionCreationOverride,
    AutoTopicCreationOverride,
    BacklogQuota,
    DelayedDeliveryPolicies,
    DispatchRate,
    InactiveTopicPolicies,
    PersistencePolicies,
    Policies,
    PublishRate,
    RateLimit,
    RetentionPolicies,
    SchemaAutoUpdateStrategy,
    SubscribeRate,
    SubscriptionPolicies,
    TopicPolicies,
)
from magnetar.model.schema import CompatibilityStrategy
from magnetar.rules.policy import (
    AutoTopicCreation,
    BacklogLimit,
    decide_auto_topic_creation,
    decide_effective,
    plan_merged,
)
from magnetar.runtime.configuration import Configuration

BROKER = plan_defaults(Configuration({"clusterName": "here"}))


def effective(
    local: TopicPolicies | None = None,
    shared: TopicPolicies | None = None,
    namespace: Policies | None = None,
    **settings: object,
) -> Any:
    broker = plan_defaults(Configuration({"clusterName": "here", **settings}))
    return decide_effective(local, shared, namespace, broker)


def retained(minutes: int, megabytes: int) -> RetentionPolicies:
    return RetentionPolicies(retentionTimeInMinutes=minutes, retentionSizeInMB=megabytes)


# Effective name, topic field, namespace field, broker key.
NUMBERS = [
    (
        "message_ttl_s",
        "messageTTLInSeconds",
        "message_ttl_in_seconds",
        "ttlDurationDefaultInSeconds",
    ),
    ("max_producers", "maxProducerPerTopic", "max_producers_per_topic", "maxProducersPerTopic"),
    ("max_consumers", "maxConsumerPerTopic", "max_consumers_per_topic", "maxConsumersPerTopic"),
    (
        "max_consumers_per_subscription",
        "maxConsumersPerSubscription",
        "max_consumers_per_subscription",
        "maxConsumersPerSubscription",
    ),
    (
        "max_subscriptions",
        "maxSubscriptionsPerTopic",
        "max_subscriptions_per_topic",
        "maxSubscriptionsPerTopic",
    ),
    (
        "max_unacked_per_consumer",
        "maxUnackedMessagesOnConsumer",
        "max_unacked_messages_per_consumer",
        "maxUnackedMessagesPerConsumer",
    ),
    (
        "max_unacked_per_subscription",
        "maxUnackedMessagesOnSubscription",
        "max_unacked_messages_per_subscription",
        "maxUnackedMessagesPerSubscription",
    ),
    (
        "subscription_expiration_min",
        "subscriptionExpirationTimeInMinutes",
        "subscription_expiration_time_minutes",
        "subscriptionExpirationTimeMinutes",
    ),
    (
        "compaction_threshold",
        "compactionThreshold",
        "compaction_threshold",
        "brokerServiceCompactionThresholdInBytes",
    ),
    (
        "dedup_snapshot_interval_s",
        "deduplicationSnapshotIntervalSeconds",
        "deduplicationSnapshotIntervalSeconds",
        "brokerDeduplicationSnapshotIntervalSeconds",
    ),
]


@pytest.mark.parametrize(("name", "of_topic", "of_namespace", "key"), NUMBERS)
def test_a_number_is_the_topics_else_global_else_the_namespaces_else_the_brokers(
    name: str, of_topic: str, of_namespace: str, key: str
) -> None:
    local = TopicPolicies(**{of_topic: 1})
    shared = TopicPolicies(**{of_topic: 2}, isGlobal=True)
    namespace = Policies(**{of_namespace: 3})
    assert getattr(effective(local, shared, namespace, **{key: 4}), name) == 1
    assert getattr(effective(None, shared, namespace, **{key: 4}), name) == 2
    assert getattr(effective(TopicPolicies(), None, namespace, **{key: 4}), name) == 3
    assert getattr(effective(None, None, Policies(), **{key: 4}), name) == 4
    assert getattr(effective(None, None, None, **{key: 4}), name) == 4


def test_zero_is_a_value_and_a_negative_number_is_none() -> None:
    namespace = Policies(max_unacked_messages_per_consumer=5)
    assert (
        effective(
            TopicPolicies(maxUnackedMessagesOnConsumer=0), None, namespace
        ).max_unacked_per_consumer
        == 0
    )
    assert (
        effective(
            TopicPolicies(maxUnackedMessagesOnConsumer=-1), None, namespace
        ).max_unacked_per_consumer
        == 5
    )
    unset = Policies(max_unacked_messages_per_consumer=-1)
    assert (
        effective(None, None, unset, maxUnackedMessagesPerConsumer=7).max_unacked_per_consumer == 7
    )
    assert effective(None, None, None, maxProducersPerTopic=-1).max_producers == 0


def test_retention_is_in_milliseconds_and_bytes_and_may_be_infinite() -> None:
    policy = effective(TopicPolicies(retentionPolicies=retained(2, 3)))
    assert (policy.retention_ms, policy.retention_bytes) == (120_000, 3 << 20)
    policy = effective(None, None, Policies(retention_policies=retained(-1, -1)))
    assert (policy.retention_ms, policy.retention_bytes) == (-1, -1)
    policy = effective(defaultRetentionTimeInMinutes=1, defaultRetentionSizeInMB=1)
    assert (policy.retention_ms, policy.retention_bytes) == (60_000, 1 << 20)


def test_each_kind_of_quota_is_decided_by_itself() -> None:
    hold, fail = BacklogAction.PRODUCER_REQUEST_HOLD, BacklogAction.PRODUCER_EXCEPTION
    local = TopicPolicies(
        backLogQuotaMap={BacklogQuotaType.MESSAGE_AGE: BacklogQuota(limitTime=9, policy=fail)}
    )
    namespace = Policies(
        backlog_quota_map={
            BacklogQuotaType.MESSAGE_AGE: BacklogQuota(limitTime=1, policy=hold),
            BacklogQuotaType.DESTINATION_STORAGE: BacklogQuota(limitSize=5, policy=fail),
        }
    )
    policy = effective(local, None, namespace)
    assert policy.backlog_age == BacklogLimit(9, fail)
    assert policy.backlog_size == BacklogLimit(5, fail)
    broker = effective(
        backlogQuotaDefaultLimitGB=1,
        backlogQuotaDefaultLimitSecond=3,
        backlogQuotaDefaultRetentionPolicy="consumer_backlog_eviction",
    )
    assert broker.backlog_size == BacklogLimit(1 << 30, BacklogAction.CONSUMER_BACKLOG_EVICTION)
    assert broker.backlog_age == BacklogLimit(3, BacklogAction.CONSUMER_BACKLOG_EVICTION)


def test_rates_of_a_namespace_are_those_of_this_cluster() -> None:
    namespace = Policies(
        publishMaxMessageRate={
            "here": PublishRate(publishThrottlingRateInMsg=10),
            "there": PublishRate(publishThrottlingRateInMsg=99),
        },
        topicDispatchRate={"there": DispatchRate(dispatchThrottlingRateInMsg=99)},
        subscriptionDispatchRate={
            "here": DispatchRate(dispatchThrottlingRateInByte=5, ratePeriodInSecond=2)
        },
        clusterSubscribeRate={"here": SubscribeRate(subscribeThrottlingRatePerConsumer=3)},
    )
    policy = effective(None, None, namespace)
    assert policy.publish_rate == RateLimit(10, -1, 1)
    assert policy.dispatch_rate is None
    assert policy.subscription_dispatch_rate == RateLimit(-1, 5, 2)
    assert policy.subscribe_rate == RateLimit(3, 0, 30)


def test_a_topic_cannot_lift_a_rate_by_setting_zero() -> None:
    namespace = Policies(topicDispatchRate={"here": DispatchRate(dispatchThrottlingRateInMsg=5)})
    lifted = TopicPolicies(dispatchRate=DispatchRate(dispatchThrottlingRateInMsg=0))
    assert effective(lifted, None, namespace).dispatch_rate == RateLimit(5, -1, 1)
    raised = TopicPolicies(dispatchRate=DispatchRate(dispatchThrottlingRateInMsg=50))
    assert effective(raised, None, namespace).dispatch_rate == RateLimit(50, -1, 1)


def test_the_older_dispatch_rate_of_a_namespace_still_counts() -> None:
    older = {"here": DispatchRate(dispatchThrottlingRateInMsg=5)}
    assert effective(None, None, Policies(clusterDispatchRate=older)).dispatch_rate == RateLimit(
        5, -1, 1
    )


def test_broker_rates_bound_only_when_positive() -> None:
    assert effective().publish_rate is None
    assert effective().dispatch_rate is None
    assert effective().subscribe_rate is None
    assert effective(maxPublishRatePerTopicInBytes=100).publish_rate == RateLimit(0, 100, 1)
    assert effective(dispatchThrottlingRatePerTopicInMsg=7).dispatch_rate == RateLimit(7, 0, 1)


def test_a_subscription_may_have_a_rate_of_its_own() -> None:
    def own(rate: int) -> SubscriptionPolicies:
        return SubscriptionPolicies(dispatchRate=DispatchRate(dispatchThrottlingRateInMsg=rate))

    local = TopicPolicies(
        subscriptionPolicies={"a": own(1)},
        subscriptionDispatchRate=DispatchRate(dispatchThrottlingRateInMsg=9),
    )
    shared = TopicPolicies(subscriptionPolicies={"a": own(5), "b": own(6)})
    policy = effective(local, shared)
    assert policy.dispatch_rate_of("a") == RateLimit(1, -1, 1)
    assert policy.dispatch_rate_of("b") == RateLimit(6, -1, 1)
    assert policy.dispatch_rate_of("c") == RateLimit(9, -1, 1)


def test_switches_follow_the_levels() -> None:
    namespace = Policies(
        deduplicationEnabled=True,
        delayed_delivery_policies=DelayedDeliveryPolicies(
            active=False, tickTime=5, maxDeliveryDelayInMillis=6
        ),
        autoSubscriptionCreationOverride=AutoSubscriptionCreationOverride(
            allowAutoSubscriptionCreation=False
        ),
        inactive_topic_policies=InactiveTopicPolicies(maxInactiveDurationSeconds=3),
        persistence=PersistencePolicies(bookkeeperEnsemble=3),
        is_allow_auto_update_schema=False,
        encryption_required=True,
        schema_validation_enforced=True,
        subscription_types_enabled=("Shared", "Unheard"),
    )
    policy = effective(None, None, namespace)
    assert policy.dedup_enabled
    assert not policy.delayed_delivery_enabled
    assert policy.delayed_delivery_max_delay_ms == 6
    assert not policy.auto_subscription_creation
    assert policy.inactive_topic.maxInactiveDurationSeconds == 3
    assert policy.persistence.bookkeeperEnsemble == 3
    assert not policy.allow_auto_update_schema
    assert policy.encryption_required
    assert policy.schema_validation_enforced
    assert policy.subscription_types_enabled == ("Shared",)
    local = TopicPolicies(
        deduplicationEnabled=False,
        delayedDeliveryEnabled=True,
        schemaValidationEnforced=False,
        subscriptionTypesEnabled=(SubscriptionTypeName.KEY_SHARED,),
        autoSubscriptionCreationOverride=AutoSubscriptionCreationOverride(
            allowAutoSubscriptionCreation=True
        ),
        maxMessageSize=77,
    )
    policy = effective(local, None, namespace)
    assert not policy.dedup_enabled
    assert policy.delayed_delivery_enabled
    assert policy.delayed_delivery_max_delay_ms == 6
    assert not policy.schema_validation_enforced
    assert policy.subscription_types_enabled == ("Key_Shared",)
    assert policy.auto_subscription_creation
    assert policy.max_message_size == 77
    assert policy.encryption_required


def test_what_nobody_set_is_the_brokers() -> None:
    policy = effective(
        brokerDeduplicationEnabled=True,
        encryptionRequireOnProducer=True,
        isSchemaValidationEnforced=True,
        allowAutoSubscriptionCreation=False,
        maxMessageSize=1000,
        brokerDeleteInactiveTopicsMaxInactiveDurationSeconds=9,
    )
    assert policy.dedup_enabled
    assert policy.encryption_required
    assert policy.schema_validation_enforced
    assert not policy.auto_subscription_creation
    assert policy.max_message_size == 1000
    assert policy.inactive_topic.maxInactiveDurationSeconds == 9
    assert set(policy.subscription_types_enabled) == {
        "Exclusive",
        "Shared",
        "Failover",
        "Key_Shared",
    }
    assert policy.dedup_snapshot_interval == 1000


def test_the_schema_strategy_may_be_undefined_at_any_level() -> None:
    undefined, forward = CompatibilityStrategy.UNDEFINED, CompatibilityStrategy.FORWARD
    assert effective().schema_compatibility is CompatibilityStrategy.FULL
    assert (
        effective(schemaCompatibilityStrategy="UNDEFINED").schema_compatibility
        is CompatibilityStrategy.FULL
    )
    topic = TopicPolicies(schemaCompatibilityStrategy=undefined)
    namespace = Policies(schema_compatibility_strategy=forward)
    assert effective(topic, None, namespace).schema_compatibility is forward
    older = Policies(
        schema_auto_update_compatibility_strategy=SchemaAutoUpdateStrategy.AUTO_UPDATE_DISABLED
    )
    assert (
        effective(None, None, older).schema_compatibility
        is CompatibilityStrategy.ALWAYS_INCOMPATIBLE
    )


def test_a_system_topic_has_no_rates_and_the_brokers_schema_strategy() -> None:
    namespace = Policies(
        topicDispatchRate={"here": DispatchRate(dispatchThrottlingRateInMsg=5)},
        publishMaxMessageRate={"here": PublishRate(publishThrottlingRateInMsg=5)},
        schema_compatibility_strategy=CompatibilityStrategy.FORWARD,
    )
    policy = decide_effective(None, None, namespace, BROKER, is_system=True)
    assert policy.publish_rate is None
    assert policy.dispatch_rate is None
    assert policy.schema_compatibility is BROKER.system_schema_compatibility


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (None, AutoTopicCreation(True, 0)),
        (AutoTopicCreationOverride(), AutoTopicCreation(False, 0)),
        (
            AutoTopicCreationOverride(allowAutoTopicCreation=True, topicType="non-partitioned"),
            AutoTopicCreation(True, 0),
        ),
        (
            AutoTopicCreationOverride(
                allowAutoTopicCreation=True, topicType="partitioned", defaultNumPartitions=4
            ),
            AutoTopicCreation(True, 4),
        ),
        (
            AutoTopicCreationOverride(allowAutoTopicCreation=True, topicType="partitioned"),
            AutoTopicCreation(True, 1),
        ),
    ],
)
def test_a_namespace_may_say_how_topics_come_to_be(
    override: AutoTopicCreationOverride | None, expected: AutoTopicCreation
) -> None:
    namespace = Policies(autoTopicCreationOverride=override)
    assert decide_auto_topic_creation(namespace, BROKER) == expected


def test_the_broker_may_make_partitioned_topics() -> None:
    broker = plan_defaults(
        Configuration({"allowAutoTopicCreationType": "partitioned", "defaultNumPartitions": 3})
    )
    assert decide_auto_topic_creation(None, broker) == AutoTopicCreation(True, 3)


def test_merging_takes_the_first_level_that_has_a_setting() -> None:
    quota = BacklogQuota(limitSize=1, policy=BacklogAction.PRODUCER_EXCEPTION)
    other = BacklogQuota(limitSize=2, policy=BacklogAction.PRODUCER_EXCEPTION)
    local = TopicPolicies(
        maxProducerPerTopic=1, backLogQuotaMap={BacklogQuotaType.MESSAGE_AGE: quota}
    )
    shared = TopicPolicies(
        maxProducerPerTopic=2,
        maxConsumerPerTopic=3,
        isGlobal=True,
        subscriptionTypesEnabled=(SubscriptionTypeName.SHARED,),
        backLogQuotaMap=dict.fromkeys(BacklogQuotaType, other),
    )
    merged = plan_merged(local, None, shared)
    assert merged == TopicPolicies(
        maxProducerPerTopic=1,
        maxConsumerPerTopic=3,
        subscriptionTypesEnabled=(SubscriptionTypeName.SHARED,),
        backLogQuotaMap={
            BacklogQuotaType.MESSAGE_AGE: quota,
            BacklogQuotaType.DESTINATION_STORAGE: other,
        },
    )
    assert plan_merged(None) == TopicPolicies()
    assert plan_merged(None, TopicPolicies(replicationClusters=())) == TopicPolicies()
