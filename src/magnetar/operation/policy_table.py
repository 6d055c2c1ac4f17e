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
from magnetar.operation.policy import AnyPolicy, At, Check, Option, Policy, Toggle
from magnetar.operation.row import SUBSCRIPTION, Kind, Reader

if TYPE_CHECKING:
    from magnetar.model.policy import DispatchRate

_CLUSTERS: Final = (Option("-c --clusters", Kind.NAMES, help="names, with commas"),)
_OFF_BY_DEFAULT: Final = Option("-d --disable", Kind.FLAG, help="switch it off (the default)")
_PAUSE: Final = At("dispatcherPauseOnAckStatePersistentEnabled", bodyless=True, unset=False)
_HERE: Final = At()
_QUOTAS: Final = ("get_backlog_quotas", "set_backlog_quota", "remove_backlog_quota")
_RATE: Final = ("get_subscription_rate", "set_subscription_rate", "remove_subscription_rate")


def _limit(
    name: str,
    what: str,
    flags: str,
    broker: str = "",
    topic: At | None = _HERE,
    namespace: At | None = _HERE,
    effective: str = "",
    check: Check[int] = check.check_count,
    aliases: tuple[str, ...] = (),
) -> Policy[int]:
    options = (Option(flags, Kind.NUMBER, broker=broker, variable="N"),)
    return Policy(name, what, topic, namespace, check, options, "count", effective, aliases)


# Rows are laid out by hand, as a table is.
# fmt: off
def _dispatch_rate(name: str, what: str, namespace: At, broker: str = "") -> Policy[DispatchRate]:
    keys = (f"{broker}InMsg", f"{broker}InByte") if broker else ("", "")
    return Policy(name, what, At(), namespace, check.check_rate, (
        Option("-md --msg-dispatch-rate", Kind.NUMBER, "dispatchThrottlingRateInMsg",
            "messages per period, -1 for no limit", keys[0], preset="-1"),
        Option("-bd --byte-dispatch-rate", Kind.NUMBER, "dispatchThrottlingRateInByte",
            "bytes per period, -1 for no limit", keys[1], preset="-1"),
        Option("-dt --dispatch-rate-period", Kind.NUMBER, "ratePeriodInSecond",
            "seconds of a period (1)", preset="1"),
        Option("-rp --relative-to-publish-rate", Kind.FLAG, "relativeToPublishRate",
            "count on top of the publish rate")), "rate")


def _by_cluster(field: str, older: str = "") -> At:
    return At(field, by_cluster=True, older=older, checked="never")


def _threshold(what: str, older: str, path: str = "", remove: str = "", operation: str = "") -> At:
    return At("offload_policies", path, write="PUT", remove=remove, older=older,
        inside=f"managedLedgerOffload{what}", checked="when set", operations=("", "", operation))


def _offload(flags: str, what: str, help: str, read: Kind | Reader = Kind.TEXT,
        choices: tuple[str, ...] = (), is_required: bool = False) -> Option:
    member = f"managedLedgerOffload{what}"
    return Option(flags, read, member, help, choices=choices, is_required=is_required)


def _scale_rates() -> tuple[Option, ...]:
    return tuple(
        Option(f"--{act}-{kind}-rate-{way}", read, f"{act}{kind.title()}Rate{way.title()}Threshold",
            f"{act} {side} so many {'messages' if kind == 'msg' else kind}/s {way}{example}")
        for act, side, size in (("split", "above", "50M"), ("merge", "below", "5M"))
        for kind, read, way, example in (
            ("msg", Reader.FRACTION, "in", ""),
            ("msg", Reader.FRACTION, "out", ""),
            ("bytes", Reader.SIZE, "in", f", such as {size}"),
            ("bytes", Reader.SIZE, "out", "")))


_QUOTA: Final = Option("-t --type", Kind.TEXT, "backlogQuotaType",
    "what the quota limits (destination_storage)", choices=tuple(BacklogQuotaType),
    preset="destination_storage")
AUTO_SCALE: Final[Policy[dict[str, object]]] = Policy("scalable-topic-auto-scale-policy",
    "how scalable topics split and merge by themselves",
    namespace=At("scalableTopicAutoScalePolicy"), options=(
        Option("--file", Reader.FILE, "*", "a JSON object of values, such as what-if recommends"),
        Toggle("enabled", "unset",
            on=Option("-e --enable", Kind.FLAG, help="let topics split and merge by themselves"),
            off=Option("-d --disable", Kind.FLAG, help="let them stay as they are")),
        Option("--max-segments", Kind.NUMBER, "maxSegments", "active segments at most"),
        Option("--min-segments", Kind.NUMBER, "minSegments", "active segments at least"),
        Option("--max-dag-depth", Kind.NUMBER, "maxDagDepth", "merges behind a segment at most"),
        Option("--split-cooldown", Reader.DURATION_S, "splitCooldownSeconds",
            "time between splits, such as 60s"),
        Option("--merge-cooldown", Reader.DURATION_S, "mergeCooldownSeconds",
            "time between merges, such as 5m"),
        Option("--merge-window", Reader.DURATION_S, "mergeWindowSeconds",
            "how long the load must stay low"),
        *_scale_rates(),
        Option("--consumers-per-segment", Kind.NUMBER, "consumersPerSegment",
            "split beyond so many consumers; 0: never")), routed=False)
CLUSTERS: Final = Policy("clusters", "clusters the namespace is replicated to",
    At("replicationClusters", "replication", "replication-clusters",
        "clusters the topic is replicated to"),
    At("replication_clusters", "replication", remove="",
        missing="ClusterIds should not be null or empty", checked="when set"),
    check.check_replication, _CLUSTERS)
SUBSCRIPTION_RATE: Final = _dispatch_rate("subscription-dispatch-rate",
    "how fast one subscription is served", _by_cluster("subscriptionDispatchRate"),
    "dispatchThrottlingRatePerSubscription")
"""The policy of a topic that one subscription may have for itself."""
OWN_RATE: Final[Policy[DispatchRate]] = Policy("own-dispatch-rate",
    "how fast this subscription is served",
    At("subscriptionPolicies", "{subscription}/dispatchRate", older="subscriptionDispatchRate",
        inside="dispatchRate", operations=_RATE), check=check.check_rate, key=SUBSCRIPTION)
"""What a subscription has for itself: a policy of the topic by the subscription's name."""

POLICIES: Final[tuple[AnyPolicy, ...]] = (
    Policy("retention", "how long acknowledged messages are kept", At("retentionPolicies"),
        At("retention_policies"), check.check_retention, (
            Option("-t --time", Reader.DURATION_MIN, "retentionTimeInMinutes",
                "for how long, such as 90s, 3h, 2d; 0 for no retention, -1 for ever",
                "defaultRetentionTimeInMinutes", is_required=True),
            Option("-s --size", Reader.SIZE_MB, "retentionSizeInMB",
                "how much, such as 512M or 16G; 0 for no retention, -1 without limit",
                "defaultRetentionSizeInMB", is_required=True))),
    Policy("message-ttl", "after which time unconsumed messages count as consumed",
        At("messageTTLInSeconds", "messageTTL", in_query=True),
        At("message_ttl_in_seconds", "messageTTL"), check.check_message_ttl, (
            Option("-t -ttl --ttl --messageTTL", Reader.DURATION_S, "",
                "for how long, such as 90s or 3h; 0 for ever", "ttlDurationDefaultInSeconds"),),
        "count", "message_ttl_s"),
    Policy("persistence", "how many copies are written", At(),
        At(missing="persistence policies should not be null"), check.check_persistence, (
            Option("-e --bookkeeper-ensemble", Kind.NUMBER, "bookkeeperEnsemble",
                "storage nodes per ledger (2)", "managedLedgerDefaultEnsembleSize", preset="2"),
            Option("-w --bookkeeper-write-quorum", Kind.NUMBER, "bookkeeperWriteQuorum",
                "copies of an entry (2)", "managedLedgerDefaultWriteQuorum", preset="2"),
            Option("-a --bookkeeper-ack-quorum", Kind.NUMBER, "bookkeeperAckQuorum",
                "copies to wait for (2)", "managedLedgerDefaultAckQuorum", preset="2"),
            Option("-r --ml-mark-delete-max-rate", Reader.FRACTION,
                "managedLedgerMaxMarkDeleteRate",
                "cursor writes per second, -1 for the broker's own", preset="-1"))),
    Policy("delayed-delivery", "whether messages may ask to be delivered later",
        At("delayedDeliveryEnabled", spread=(
            ("active", "delayedDeliveryEnabled"), ("tickTime", "delayedDeliveryTickTimeMillis"),
            ("maxDeliveryDelayInMillis", "delayedDeliveryMaxDelayInMillis"))),
        At("delayed_delivery_policies", checked="never"), check.check_delayed_delivery, (
            Toggle("active", broker="delayedDeliveryEnabled"),
            Option("-t --time", Reader.DURATION_MS, "tickTime", "how exact, such as 1s (1s)",
                "delayedDeliveryTickTimeMillis", preset="1"),
            Option("-md --maxDelay", Reader.DURATION_MS, "maxDeliveryDelayInMillis",
                "longest delay, 0 without limit", "delayedDeliveryMaxDelayInMillis",
                preset="0"))),
    Policy("inactive-topic-policies", "when unused topics are deleted", At(), At(checked="never"),
        check.check_inactive_topic, (
            Toggle("deleteWhileInactive", "refused", "brokerDeleteInactiveTopicsEnabled",
                Option("-e --enable-delete-while-inactive", Kind.FLAG, help="delete unused topics"),
                Option("-d --disable-delete-while-inactive", Kind.FLAG, help="keep unused topics")),
            Option("-t --max-inactive-duration", Reader.DURATION_S, "maxInactiveDurationSeconds",
                "unused for how long, such as 3h",
                "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds"
                " brokerDeleteInactiveTopicsFrequencySeconds", is_required=True),
            Option("-m --delete-mode", Kind.TEXT, "inactiveTopicDeleteMode",
                "what counts as unused", "brokerDeleteInactiveTopicsMode",
                tuple(InactiveTopicDeleteMode), is_required=True)), effective="inactive_topic"),
    Policy("deduplication", "whether repeated messages of a producer are dropped",
        At(path="deduplicationEnabled"), At("deduplicationEnabled"),
        options=(Toggle(broker="brokerDeduplicationEnabled"),), effective="dedup_enabled",
        aliases=("deduplication-enabled",)),
    CLUSTERS,
    Policy("allowed-clusters", "clusters that may serve the namespace", None,
        At(remove="", checked="when set"), check.check_allowed_clusters, _CLUSTERS),
    Policy("auto-topic-creation", "whether producers and consumers create topics", None,
        At("autoTopicCreationOverride"), check.check_auto_topic_creation, (
            Toggle("allowAutoTopicCreation", only_on=True),
            Option("-t --type", Kind.TEXT, "topicType", "kind of created topics (non-partitioned)",
                choices=("partitioned", "non-partitioned"), preset="non-partitioned"),
            Option("-n --num-partitions", Kind.NUMBER, "defaultNumPartitions",
                "partitions of created topics"))),
    Policy("auto-subscription-creation", "whether consumers create subscriptions",
        At("autoSubscriptionCreationOverride"), At("autoSubscriptionCreationOverride"), options=(
            Toggle("allowAutoSubscriptionCreation", "off", "allowAutoSubscriptionCreation",
                off=_OFF_BY_DEFAULT),)),
    Policy("subscription-types-enabled", "which types of subscription are allowed", At(),
        At(checked="when set"), check.check_subscription_types, (
            Option("-t --types", Kind.NAMES, "",
                "Exclusive, Shared, Failover, Key_Shared, with commas",
                "subscriptionTypesEnabled"),)),
    Policy("entry-filters", "which filters see entries before consumers", At(),
        At("entryFilters", checked="when set"), check.check_entry_filters, (
            Option("-efn --entry-filters-name", Kind.TEXT, "entryFilterNames", "names, with commas",
                is_required=True),), aliases=("entry-filters-per-topic",)),
    Policy("dispatcher-pause-on-ack-state-persistent",
        "whether delivery pauses while acknowledgements are being stored", _PAUSE, _PAUSE,
        options=()),
    Policy("subscription-expiration-time", "after which idle time a subscription is deleted",
        At("subscriptionExpirationTimeInMinutes", in_query=True),
        At("subscription_expiration_time_minutes"), check.check_subscription_expiration, (
            Option("-t --time", Kind.NUMBER, "", "minutes, 0 for never",
                "subscriptionExpirationTimeMinutes"),), "count", "subscription_expiration_min"),
    Policy("offload-deletion-lag", "how long moved data stays where it was",
        namespace=_threshold("DeletionLagInMillis", "offload_deletion_lag_ms",
            "offloadDeletionLagMs", "DELETE", "remove_offload_deletion_lag"),
        options=(Option("-l --lag", Reader.DURATION_MS, help="such as 3h or 2d"),)),
    Policy("offload-policies", "where and when old data moves to other storage", At(),
        At(remove_path="removeOffloadPolicies", missing="offloadPolicies must not be null",
            checked="when set", operations=("", "", "remove_offload_policies")),
        check.check_offload, (
            _offload("-d --driver", "Driver", "storage driver", is_required=True),
            _offload("-r --region", "Region", "region of the storage"),
            _offload("-b --bucket", "Bucket", "bucket of the storage"),
            _offload("-e --endpoint", "ServiceEndpoint", "address of the storage"),
            _offload("-oat -t --offloadAfterThreshold --offloadThresholdInBytes",
                "ThresholdInBytes", "size at which to move, such as 10G", Reader.SIZE),
            _offload("-oats -ts --offloadAfterThresholdInSeconds --offloadThresholdInSeconds",
                "ThresholdInSeconds", "age at which to move, such as 3h", Reader.DURATION_S),
            _offload("-oae -dl --offloadAfterElapsed --offloadDeletionLagInMillis",
                "DeletionLagInMillis", "how long moved data stays where it was, such as 3h",
                Reader.DURATION_MS),
            _offload("-orp --offloadedReadPriority", "edReadPriority", "where moved data is read",
                Reader.CONSTANT, ("bookkeeper-first", "tiered-storage-first")))),
    Policy("schema-compatibility-strategy", "which schema changes are allowed", At(write="PUT"),
        At(write="PUT", remove=""), options=(
            Option("-c -s --compatibility --strategy", Kind.TEXT, "", "name of the strategy",
                "schemaCompatibilityStrategy",
                ("ALWAYS_INCOMPATIBLE", "ALWAYS_COMPATIBLE", "BACKWARD", "FORWARD", "FULL",
                    "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE",
                    "UNDEFINED")),), effective="schema_compatibility"),
    Policy("schema-validation-enforce", "whether producers without a schema are refused",
        At(path="schemaValidationEnforced", unset=False),
        At("schema_validation_enforced", "schemaValidationEnforced", remove=""),
        options=(Toggle("", "off", "isSchemaValidationEnforced", off=_OFF_BY_DEFAULT),),
        effective="schema_validation_enforced"),
    Policy("is-allow-auto-update-schema", "whether producers may register new schemas", None,
        At(remove="", unset_by_broker=True),
        options=(Toggle(broker="isAllowAutoUpdateSchemaEnabled"),)),
    Policy("encryption-required", "whether unencrypted messages are refused", None, At(remove=""),
        options=(Toggle(broker="encryptionRequireOnProducer"),)),
    Policy("subscription-auth-mode", "whether subscription names must start with the role", None,
        At(remove=""),
        options=(Option("-m --{name}", help="mode", choices=tuple(SubscriptionAuthMode)),)),
    Policy("backlog-quota", "how large a backlog may grow, and what happens then",
        At("backLogQuotaMap", read_path="backlogQuotaMap", operations=_QUOTAS),
        At("backlog_quota_map", read_path="backlogQuotaMap", operations=_QUOTAS,
            missing="A backlog quota is required"), check.check_backlog_quota, (
            Option("-l --limit", Reader.SIZE, "limitSize",
                "size, such as 10M or 16G; -1 without limit", "backlogQuotaDefaultLimitBytes"),
            Option("-lt --limitTime", Reader.DURATION_S, "limitTime",
                "age, such as 90s or 3h; -1 without limit", "backlogQuotaDefaultLimitSecond"),
            Option("-p --policy", Kind.TEXT, "policy", "what to do at the limit",
                "backlogQuotaDefaultRetentionPolicy", tuple(BacklogAction), is_required=True)),
        aliases=("backlog-quotas",), key=_QUOTA.parameter()),
    _dispatch_rate("dispatch-rate", "how fast messages are handed out",
        _by_cluster("topicDispatchRate", "clusterDispatchRate"), "dispatchThrottlingRatePerTopic"),
    SUBSCRIPTION_RATE,
    _dispatch_rate("replicator-dispatch-rate", "how fast other clusters are served",
        _by_cluster("replicatorDispatchRate")),
    Policy("publish-rate", "how fast messages are taken in", At(),
        _by_cluster("publishMaxMessageRate"), check.check_rate, (
            Option("-m --msg-publish-rate", Kind.NUMBER, "publishThrottlingRateInMsg",
                "messages per second, -1 for no limit", "maxPublishRatePerTopicInMessages",
                preset="-1"),
            Option("-b --byte-publish-rate", Kind.NUMBER, "publishThrottlingRateInByte",
                "bytes per second, -1 for no limit", "maxPublishRatePerTopicInBytes",
                preset="-1")), "rate"),
    Policy("subscribe-rate", "how often one consumer may subscribe", At(),
        _by_cluster("clusterSubscribeRate"), check.check_rate, (
            Option("-sr --subscribe-rate", Kind.NUMBER, "subscribeThrottlingRatePerConsumer",
                "times per period, -1 for no limit", "subscribeThrottlingRatePerConsumer",
                preset="-1"),
            Option("-st --subscribe-rate-period", Kind.NUMBER, "ratePeriodInSecond",
                "seconds of a period (30)", "subscribeRatePeriodPerConsumerInSecond",
                preset="30")), "rate"),
    _limit("deduplication-snapshot-interval",
        "seconds between snapshots of the deduplication state", "-i --interval",
        "brokerDeduplicationSnapshotIntervalSeconds", At("deduplicationSnapshotIntervalSeconds"),
        At("deduplicationSnapshotIntervalSeconds", remove="POST"), "dedup_snapshot_interval_s",
        check.check_snapshot_interval),
    _limit("max-producers", "most producers of the topic", "-p --{name}", "maxProducersPerTopic",
        At("maxProducerPerTopic"),
        At(name="max-producers-per-topic", what="most producers of one topic"),
        aliases=("maxProducers",)),
    _limit("max-consumers", "most consumers of the topic", "-c --{name}", "maxConsumersPerTopic",
        At("maxConsumerPerTopic"),
        At(name="max-consumers-per-topic", what="most consumers of one topic")),
    _limit("max-consumers-per-subscription", "most consumers of one subscription", "-c --{name}",
        "maxConsumersPerSubscription"),
    _limit("max-subscriptions-per-topic", "most subscriptions of one topic", "-m -s --{name}",
        "maxSubscriptionsPerTopic", effective="max_subscriptions", aliases=("max-subscriptions",)),
    _limit("max-unacked-messages-per-consumer", "most unacknowledged messages of one consumer",
        "-c -m --maxNum --max-unacked-messages-per-topic", "maxUnackedMessagesPerConsumer",
        At(path="maxUnackedMessagesOnConsumer", said="maxUnackedNum"),
        effective="max_unacked_per_consumer", aliases=("max-unacked-messages-on-consumer",)),
    _limit("max-unacked-messages-per-subscription",
        "most unacknowledged messages of one subscription",
        "-c -m --maxNum --max-unacked-messages-per-subscription",
        "maxUnackedMessagesPerSubscription",
        At(path="maxUnackedMessagesOnSubscription", said="maxUnackedNum"),
        effective="max_unacked_per_subscription",
        aliases=("max-unacked-messages-on-subscription",)),
    _limit("max-topics-per-namespace", "most topics of the namespace", "-t --{name}", topic=None,
        namespace=At(unset=0)),
    _limit("max-message-size", "most bytes of one message", "-m --{name}", "maxMessageSize",
        namespace=None, check=check.check_max_message_size),
    Policy("compaction-threshold", "backlog at which compaction starts by itself", At(),
        At(write="PUT"), check.check_count, (
            Option("-t --threshold", Reader.SIZE, "", "size, such as 10M; 0 to switch it off",
                "brokerServiceCompactionThresholdInBytes"),)),
    Policy("offload-threshold", "size at which old data moves to other storage",
        namespace=_threshold("ThresholdInBytes", "offload_threshold"),
        options=(Option("-s --size", Reader.SIZE, help="size, such as 10G; -1 for never"),)),
    AUTO_SCALE,
    Policy("offload-threshold-in-seconds", "age at which old data moves to other storage",
        namespace=_threshold("ThresholdInSeconds", "offload_threshold_in_seconds"),
        check=check.check_offload_seconds),
    Policy("schema-auto-update-compatibility-strategy",
        "the older spelling of the schema compatibility strategy",
        namespace=At(write="PUT", remove=""), listed=False),
    Policy("allowed-topic-property-keys-for-metrics",
        "which properties of topics become labels of metrics", namespace=At(), listed=False),
)
# fmt: on
