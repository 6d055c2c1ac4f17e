"""Every policy, in the order in which the command line lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.model.choice import (
    BacklogAction,
    BacklogQuotaType,
    InactiveTopicDeleteMode,
    SubscriptionAuthMode,
)
from magnetar.operation import policy_check as check
from magnetar.operation.policy import AnyPolicy, At, Check, Combine, Policy, Toggle, option
from magnetar.operation.row import Parameter

if TYPE_CHECKING:
    from magnetar.model.policy import DispatchRate

_CLUSTERS: Final = (option("-c --clusters names!: names, with commas"),)
_OFF_BY_DEFAULT: Final = option("-d --disable switch: switch it off (the default)")
_PAUSE: Final = At(
    "dispatcherPauseOnAckStatePersistentEnabled",
    "dispatcherPauseOnAckStatePersistent",
    bodyless=True,
    unset=False,
)
_QUOTAS: Final = ("get_backlog_quotas", "set_backlog_quota", "remove_backlog_quota")


def _limit(
    name: str,
    what: str,
    topic: At | None,
    namespace: At | None,
    flags: str,
    broker: str = "",
    effective: str = "",
    check: Check[int] = check.check_count,
    aliases: tuple[str, ...] = (),
) -> Policy[int]:
    options = (option(f"{flags} count!")._replace(variable="N"),)
    how: Combine = "count"
    return Policy(name, what, topic, namespace, broker, effective, how, check, options, aliases)


def _dispatch_rate(
    name: str, what: str, topic: At, namespace: At, broker: str = "", effective: str = ""
) -> Policy[DispatchRate]:
    if broker:
        broker = (
            f"dispatchThrottlingRateInMsg={broker}InMsg dispatchThrottlingRateInByte={broker}InByte"
        )
    options = (
        option(
            "-md --msg-dispatch-rate count=-1 .dispatchThrottlingRateInMsg:"
            " messages per period, -1 for no limit"
        ),
        option(
            "-bd --byte-dispatch-rate count=-1 .dispatchThrottlingRateInByte:"
            " bytes per period, -1 for no limit"
        ),
        option("-dt --dispatch-rate-period count=1 .ratePeriodInSecond: seconds of a period (1)"),
        option(
            "-rp --relative-to-publish-rate switch .relativeToPublishRate:"
            " count on top of the publish rate"
        ),
    )
    how: Combine = "rate"
    checked = check.check_dispatch_rate
    return Policy(name, what, topic, namespace, broker, effective, how, checked, options)


def _by_cluster(field: str, path: str = "", older: str = "") -> At:
    return At(field, path, by_cluster=True, older=older, checked="never")


def _threshold(path: str, inside: str, older: str, *, remove: str = "", operation: str = "") -> At:
    return At(
        "offload_policies",
        path,
        write="PUT",
        remove=remove,
        older=older,
        inside=f"managedLedgerOffload{inside}",
        checked="when set",
        operations=("", "", operation),
    )


def _scale_rates() -> tuple[Parameter, ...]:
    return tuple(
        option(
            f"--{act}-{kind}-rate-{way} {unit} .{act}{kind.title()}Rate{way.title()}Threshold:"
            f" {act} {side} so many {'messages' if kind == 'msg' else kind}/s {way}{example}"
        )
        for act, side, size in (("split", "above", "50M"), ("merge", "below", "5M"))
        for kind, unit, way, example in (
            ("msg", "number", "in", ""),
            ("msg", "number", "out", ""),
            ("bytes", "bytes", "in", f", such as {size}"),
            ("bytes", "bytes", "out", ""),
        )
    )


AUTO_SCALE: Final[Policy[dict[str, object]]] = Policy(
    "scalable-topic-auto-scale-policy",
    "how scalable topics split and merge by themselves",
    namespace=At("scalableTopicAutoScalePolicy"),
    options=(
        option("--file file: a JSON object of values, such as what-if recommends"),
        Toggle(
            "enabled",
            "unset",
            option("-e --enable switch: let topics split and merge by themselves"),
            option("-d --disable switch: let them stay as they are"),
        ),
        option("--max-segments count .maxSegments: active segments at most"),
        option("--min-segments count .minSegments: active segments at least"),
        option("--max-dag-depth count .maxDagDepth: merges behind a segment at most"),
        option("--split-cooldown s .splitCooldownSeconds: time between splits, such as 60s"),
        option("--merge-cooldown s .mergeCooldownSeconds: time between merges, such as 5m"),
        option("--merge-window s .mergeWindowSeconds: how long the load must stay low"),
        *_scale_rates(),
        option(
            "--consumers-per-segment count .consumersPerSegment:"
            " split beyond so many consumers; 0: never"
        ),
    ),
    routed=False,
)
CLUSTERS: Final = Policy(
    "clusters",
    "clusters the namespace is replicated to",
    At(
        "replicationClusters",
        "replication",
        "replication-clusters",
        "clusters the topic is replicated to",
    ),
    At(
        "replication_clusters",
        "replication",
        remove="",
        missing="ClusterIds should not be null or empty",
        checked="when set",
    ),
    check=check.check_replication,
    options=_CLUSTERS,
)
SUBSCRIPTION_RATE: Final = _dispatch_rate(
    "subscription-dispatch-rate",
    "how fast one subscription is served",
    At("subscriptionDispatchRate"),
    _by_cluster("subscriptionDispatchRate"),
    "dispatchThrottlingRatePerSubscription",
    "subscription_dispatch_rate",
)
"""The policy of a topic that one subscription may have for itself."""

# Laid out by hand, as a table is.
# fmt: off
POLICIES: Final[tuple[AnyPolicy, ...]] = (
    Policy("retention", "how long acknowledged messages are kept",
        At("retentionPolicies", "retention"), At("retention_policies", "retention"),
        "retentionTimeInMinutes=defaultRetentionTimeInMinutes"
        " retentionSizeInMB=defaultRetentionSizeInMB", check=check.check_retention,
        options=(
            option("-t --time min! .retentionTimeInMinutes: for how long, such as 90s, 3h, 2d; 0"
                " for no retention, -1 for ever"),
            option("-s --size MB! .retentionSizeInMB: how much, such as 512M or 16G; 0 for no"
                " retention, -1 without limit"),
        )),
    Policy("message-ttl", "after which time unconsumed messages count as consumed",
        At("messageTTLInSeconds", "messageTTL", in_query=True),
        At("message_ttl_in_seconds", "messageTTL"), "ttlDurationDefaultInSeconds", "message_ttl_s",
        "count", check.check_message_ttl,
        (option("-t -ttl --ttl --messageTTL s!: for how long, such as 90s or 3h; 0 for ever"),)),
    Policy("persistence", "how many copies are written", At("persistence"),
        At("persistence", missing="persistence policies should not be null"),
        "bookkeeperEnsemble=managedLedgerDefaultEnsembleSize"
        " bookkeeperWriteQuorum=managedLedgerDefaultWriteQuorum"
        " bookkeeperAckQuorum=managedLedgerDefaultAckQuorum", "persistence",
        check=check.check_persistence,
        options=(
            option("-e --bookkeeper-ensemble count=2 .bookkeeperEnsemble: storage nodes per ledger"
                " (2)"),
            option("-w --bookkeeper-write-quorum count=2 .bookkeeperWriteQuorum: copies of an"
                " entry (2)"),
            option("-a --bookkeeper-ack-quorum count=2 .bookkeeperAckQuorum: copies to wait for"
                " (2)"),
            option("-r --ml-mark-delete-max-rate number=-1 .managedLedgerMaxMarkDeleteRate: cursor"
                " writes per second, -1 for the broker's own"),
        )),
    Policy("delayed-delivery", "whether messages may ask to be delivered later",
        At("delayedDeliveryEnabled", "delayedDelivery",
            spread=(("active", "delayedDeliveryEnabled"),
                ("tickTime", "delayedDeliveryTickTimeMillis"),
                ("maxDeliveryDelayInMillis", "delayedDeliveryMaxDelayInMillis"))),
        At("delayed_delivery_policies", "delayedDelivery", checked="never"),
        "active=delayedDeliveryEnabled tickTime=delayedDeliveryTickTimeMillis"
        " maxDeliveryDelayInMillis=delayedDeliveryMaxDelayInMillis",
        check=check.check_delayed_delivery,
        options=(
            Toggle("active"),
            option("-t --time ms=1 .tickTime: how exact, such as 1s (1s)"),
            option("-md --maxDelay ms=0 .maxDeliveryDelayInMillis: longest delay, 0 without limit"),
        )),
    Policy("inactive-topic-policies", "when unused topics are deleted", At("inactiveTopicPolicies"),
        At("inactive_topic_policies", "inactiveTopicPolicies", checked="never"),
        "inactiveTopicDeleteMode=brokerDeleteInactiveTopicsMode"
        " maxInactiveDurationSeconds=brokerDeleteInactiveTopicsMaxInactiveDurationSeconds"
        "|brokerDeleteInactiveTopicsFrequencySeconds"
        " deleteWhileInactive=brokerDeleteInactiveTopicsEnabled", "inactive_topic",
        check=check.check_inactive_topic,
        options=(
            Toggle("deleteWhileInactive", "refused",
                option("-e --enable-delete-while-inactive switch: delete unused topics"),
                option("-d --disable-delete-while-inactive switch: keep unused topics")),
            option("-t --max-inactive-duration s! .maxInactiveDurationSeconds: unused for how"
                " long, such as 3h"),
            option("-m --delete-mode text! .inactiveTopicDeleteMode: what counts as unused",
                *(each.value for each in InactiveTopicDeleteMode)),
        )),
    Policy("deduplication", "whether repeated messages of a producer are dropped",
        At("deduplicationEnabled"), At("deduplicationEnabled", "deduplication"),
        "brokerDeduplicationEnabled", "dedup_enabled", options=(Toggle(),),
        aliases=("deduplication-enabled",)),
    CLUSTERS,
    Policy("allowed-clusters", "clusters that may serve the namespace",
        namespace=At("allowed_clusters", "allowedClusters", remove="", checked="when set"),
        check=check.check_allowed_clusters, options=_CLUSTERS),
    Policy("auto-topic-creation", "whether producers and consumers create topics",
        namespace=At("autoTopicCreationOverride", "autoTopicCreation"),
        check=check.check_auto_topic_creation,
        options=(
            Toggle("allowAutoTopicCreation", only_on=True),
            option("-t --type text=non-partitioned .topicType: kind of created topics"
                " (non-partitioned)", "partitioned", "non-partitioned"),
            option("-n --num-partitions count .defaultNumPartitions: partitions of created topics"),
        )),
    Policy("auto-subscription-creation", "whether consumers create subscriptions",
        At("autoSubscriptionCreationOverride", "autoSubscriptionCreation"),
        At("autoSubscriptionCreationOverride", "autoSubscriptionCreation"),
        "allowAutoSubscriptionCreation=allowAutoSubscriptionCreation",
        options=(Toggle("allowAutoSubscriptionCreation", "off", off=_OFF_BY_DEFAULT),)),
    Policy("subscription-types-enabled", "which types of subscription are allowed",
        At("subscriptionTypesEnabled"),
        At("subscription_types_enabled", "subscriptionTypesEnabled", checked="when set"),
        "subscriptionTypesEnabled", check=check.check_subscription_types,
        options=(
            option("-t --types names!: Exclusive, Shared, Failover, Key_Shared, with commas"),
        )),
    Policy("entry-filters", "which filters see entries before consumers", At("entryFilters"),
        At("entryFilters", checked="when set"), check=check.check_entry_filters,
        options=(option("-efn --entry-filters-name text! .entryFilterNames: names, with commas"),),
        aliases=("entry-filters-per-topic",)),
    Policy("dispatcher-pause-on-ack-state-persistent",
        "whether delivery pauses while acknowledgements are being stored", _PAUSE, _PAUSE,
        options=()),
    Policy("subscription-expiration-time", "after which idle time a subscription is deleted",
        At("subscriptionExpirationTimeInMinutes", "subscriptionExpirationTime", in_query=True),
        At("subscription_expiration_time_minutes", "subscriptionExpirationTime"),
        "subscriptionExpirationTimeMinutes", "subscription_expiration_min", "count",
        check.check_subscription_expiration, (option("-t --time count!: minutes, 0 for never"),)),
    Policy("offload-deletion-lag", "how long moved data stays where it was",
        namespace=_threshold("offloadDeletionLagMs", "DeletionLagInMillis",
            "offload_deletion_lag_ms", remove="DELETE", operation="remove_offload_deletion_lag"),
        options=(option("-l --lag ms!: such as 3h or 2d"),)),
    Policy("offload-policies", "where and when old data moves to other storage",
        At("offloadPolicies"),
        At("offload_policies", "offloadPolicies", remove_path="removeOffloadPolicies",
            missing="offloadPolicies must not be null", checked="when set",
            operations=("", "", "remove_offload_policies")), check=check.check_offload,
        options=(
            option("-d --driver text! .managedLedgerOffloadDriver: storage driver"),
            option("-r --region .managedLedgerOffloadRegion: region of the storage"),
            option("-b --bucket .managedLedgerOffloadBucket: bucket of the storage"),
            option("-e --endpoint .managedLedgerOffloadServiceEndpoint: address of the storage"),
            option("-oat -t --offloadAfterThreshold --offloadThresholdInBytes bytes"
                " .managedLedgerOffloadThresholdInBytes: size at which to move, such as 10G"),
            option("-oats -ts --offloadAfterThresholdInSeconds --offloadThresholdInSeconds s"
                " .managedLedgerOffloadThresholdInSeconds: age at which to move, such as 3h"),
            option("-oae -dl --offloadAfterElapsed --offloadDeletionLagInMillis ms"
                " .managedLedgerOffloadDeletionLagInMillis: how long moved data stays where it"
                " was, such as 3h"),
            option("-orp --offloadedReadPriority constant .managedLedgerOffloadedReadPriority:"
                " where moved data is read", "bookkeeper-first", "tiered-storage-first"),
        )),
    Policy("schema-compatibility-strategy", "which schema changes are allowed",
        At("schemaCompatibilityStrategy", write="PUT"),
        At("schema_compatibility_strategy", "schemaCompatibilityStrategy", write="PUT", remove=""),
        "schemaCompatibilityStrategy", "schema_compatibility",
        options=(
            option("-c -s --compatibility --strategy text!: name of the strategy",
                "ALWAYS_INCOMPATIBLE", "ALWAYS_COMPATIBLE", "BACKWARD", "FORWARD", "FULL",
                "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE", "UNDEFINED"),
        )),
    Policy("schema-validation-enforce", "whether producers without a schema are refused",
        At("schemaValidationEnforced", unset=False),
        At("schema_validation_enforced", "schemaValidationEnforced", remove=""),
        "isSchemaValidationEnforced", "schema_validation_enforced",
        options=(Toggle("", "off", off=_OFF_BY_DEFAULT),)),
    Policy("is-allow-auto-update-schema", "whether producers may register new schemas", None,
        At("is_allow_auto_update_schema", "isAllowAutoUpdateSchema", remove="",
            unset_by_broker=True), "isAllowAutoUpdateSchemaEnabled", options=(Toggle(),)),
    Policy("encryption-required", "whether unencrypted messages are refused", None,
        At("encryption_required", "encryptionRequired", remove=""), "encryptionRequireOnProducer",
        options=(Toggle(),)),
    Policy("subscription-auth-mode", "whether subscription names must start with the role",
        namespace=At("subscription_auth_mode", "subscriptionAuthMode", remove=""),
        options=(
            option("-m --{name} text!: mode", *(each.value for each in SubscriptionAuthMode)),
        )),
    Policy("backlog-quota", "how large a backlog may grow, and what happens then",
        At("backLogQuotaMap", "backlogQuota", read_path="backlogQuotaMap", operations=_QUOTAS),
        At("backlog_quota_map", "backlogQuota", read_path="backlogQuotaMap",
            missing="A backlog quota is required", operations=_QUOTAS),
        "limitSize=backlogQuotaDefaultLimitBytes limitTime=backlogQuotaDefaultLimitSecond"
        " policy=backlogQuotaDefaultRetentionPolicy", check=check.check_backlog_quota,
        options=(
            option("-l --limit bytes .limitSize: size, such as 10M or 16G; -1 without limit"),
            option("-lt --limitTime s .limitTime: age, such as 90s or 3h; -1 without limit"),
            option("-p --policy text! .policy: what to do at the limit",
                *(each.value for each in BacklogAction)),
        ), aliases=("backlog-quotas",),
        key=option("-t --type text=destination_storage .backlogQuotaType: what the quota limits"
            " (destination_storage)", *(each.value for each in BacklogQuotaType))),
    _dispatch_rate("dispatch-rate", "how fast messages are handed out", At("dispatchRate"),
        _by_cluster("topicDispatchRate", "dispatchRate", "clusterDispatchRate"),
        "dispatchThrottlingRatePerTopic", "dispatch_rate"),
    SUBSCRIPTION_RATE,
    _dispatch_rate("replicator-dispatch-rate", "how fast other clusters are served",
        At("replicatorDispatchRate"), _by_cluster("replicatorDispatchRate")),
    Policy("publish-rate", "how fast messages are taken in", At("publishRate"),
        _by_cluster("publishMaxMessageRate", "publishRate"),
        "publishThrottlingRateInMsg=maxPublishRatePerTopicInMessages"
        " publishThrottlingRateInByte=maxPublishRatePerTopicInBytes", "publish_rate", "rate",
        check.check_publish_rate,
        (
            option("-m --msg-publish-rate count=-1 .publishThrottlingRateInMsg: messages per"
                " second, -1 for no limit"),
            option("-b --byte-publish-rate count=-1 .publishThrottlingRateInByte: bytes per"
                " second, -1 for no limit"),
        )),
    Policy("subscribe-rate", "how often one consumer may subscribe", At("subscribeRate"),
        _by_cluster("clusterSubscribeRate", "subscribeRate"),
        "subscribeThrottlingRatePerConsumer=subscribeThrottlingRatePerConsumer"
        " ratePeriodInSecond=subscribeRatePeriodPerConsumerInSecond", "subscribe_rate",
        "rate", check.check_subscribe_rate,
        (
            option("-sr --subscribe-rate count=-1 .subscribeThrottlingRatePerConsumer: times per"
                " period, -1 for no limit"),
            option("-st --subscribe-rate-period count=30 .ratePeriodInSecond: seconds of a period"
                " (30)"),
        )),
    _limit("deduplication-snapshot-interval",
        "seconds between snapshots of the deduplication state",
        At("deduplicationSnapshotIntervalSeconds", "deduplicationSnapshotInterval"),
        At("deduplicationSnapshotIntervalSeconds", "deduplicationSnapshotInterval", remove="POST"),
        "-i --interval", "brokerDeduplicationSnapshotIntervalSeconds", "dedup_snapshot_interval_s",
        check.check_snapshot_interval),
    _limit("max-producers", "most producers of the topic",
        At("maxProducerPerTopic", "maxProducers"),
        At("max_producers_per_topic", "maxProducersPerTopic", "max-producers-per-topic",
            "most producers of one topic"), "-p --{name}", "maxProducersPerTopic", "max_producers",
        aliases=("maxProducers",)),
    _limit("max-consumers", "most consumers of the topic",
        At("maxConsumerPerTopic", "maxConsumers"),
        At("max_consumers_per_topic", "maxConsumersPerTopic", "max-consumers-per-topic",
            "most consumers of one topic"), "-c --{name}", "maxConsumersPerTopic", "max_consumers"),
    _limit("max-consumers-per-subscription", "most consumers of one subscription",
        At("maxConsumersPerSubscription"),
        At("max_consumers_per_subscription", "maxConsumersPerSubscription"), "-c --{name}",
        "maxConsumersPerSubscription", "max_consumers_per_subscription"),
    _limit("max-subscriptions-per-topic", "most subscriptions of one topic",
        At("maxSubscriptionsPerTopic"),
        At("max_subscriptions_per_topic", "maxSubscriptionsPerTopic"), "-m -s --{name}",
        "maxSubscriptionsPerTopic", "max_subscriptions", aliases=("max-subscriptions",)),
    _limit("max-unacked-messages-per-consumer", "most unacknowledged messages of one consumer",
        At("maxUnackedMessagesOnConsumer", said="maxUnackedNum"),
        At("max_unacked_messages_per_consumer", "maxUnackedMessagesPerConsumer"),
        "-c -m --maxNum --max-unacked-messages-per-topic", "maxUnackedMessagesPerConsumer",
        "max_unacked_per_consumer", aliases=("max-unacked-messages-on-consumer",)),
    _limit("max-unacked-messages-per-subscription",
        "most unacknowledged messages of one subscription",
        At("maxUnackedMessagesOnSubscription", said="maxUnackedNum"),
        At("max_unacked_messages_per_subscription", "maxUnackedMessagesPerSubscription"),
        "-c -m --maxNum --max-unacked-messages-per-subscription",
        "maxUnackedMessagesPerSubscription", "max_unacked_per_subscription",
        aliases=("max-unacked-messages-on-subscription",)),
    _limit("max-topics-per-namespace", "most topics of the namespace", None,
        At("max_topics_per_namespace", "maxTopicsPerNamespace", unset=0), "-t --{name}"),
    _limit("max-message-size", "most bytes of one message", At("maxMessageSize"), None,
        "-m --{name}", "maxMessageSize", "max_message_size", check.check_max_message_size),
    Policy("compaction-threshold", "backlog at which compaction starts by itself",
        At("compactionThreshold"), At("compaction_threshold", "compactionThreshold", write="PUT"),
        "brokerServiceCompactionThresholdInBytes", "compaction_threshold", check=check.check_count,
        options=(option("-t --threshold bytes!: size, such as 10M; 0 to switch it off"),)),
    Policy("offload-threshold", "size at which old data moves to other storage",
        namespace=_threshold("offloadThreshold", "ThresholdInBytes", "offload_threshold"),
        options=(option("-s --size bytes!: size, such as 10G; -1 for never"),)),
    AUTO_SCALE,
    Policy("offload-threshold-in-seconds", "age at which old data moves to other storage",
        namespace=_threshold("offloadThresholdInSeconds", "ThresholdInSeconds",
            "offload_threshold_in_seconds"), check=check.check_offload_seconds),
    Policy("schema-auto-update-compatibility-strategy",
        "the older spelling of the schema compatibility strategy",
        namespace=At("schema_auto_update_compatibility_strategy",
            "schemaAutoUpdateCompatibilityStrategy", write="PUT", remove=""), listed=False),
    Policy("allowed-topic-property-keys-for-metrics",
        "which properties of topics become labels of metrics",
        namespace=At("allowed_topic_property_keys_for_metrics",
            "allowedTopicPropertyKeysForMetrics"), listed=False),
)
# fmt: on
