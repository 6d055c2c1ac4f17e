"""The policies that the verbs `get-`, `set-` and `remove-` know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from magnetar.cli.autoscale import AUTO_SCALE
from magnetar.cli.command import Flag, Options, Switch, UsageError
from magnetar.cli.form import DISABLE, ENABLE, Form, choose_enabled
from magnetar.cli.limit import LIMITS
from magnetar.cli.value import parse_duration_ms, parse_duration_s, parse_list, parse_size

_MEGABYTE: Final = 2**20


def _build_retention(options: Options) -> dict[str, int]:
    minutes = options.time if options.time < 0 else options.time // 60
    megabytes = options.size if options.size < 0 else options.size // _MEGABYTE
    return {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}


def _build_inactive(options: Options) -> dict[str, Any]:
    if options.enable_delete_while_inactive == options.disable_delete_while_inactive:
        raise UsageError(
            "magnetar: give one of --enable-delete-while-inactive and"
            " --disable-delete-while-inactive"
        )
    return {
        "inactiveTopicDeleteMode": options.delete_mode,
        "maxInactiveDurationSeconds": options.max_inactive_duration,
        "deleteWhileInactive": options.enable_delete_while_inactive,
    }


def _build_auto_topic(options: Options) -> dict[str, Any]:
    allowed = choose_enabled(options)
    value: dict[str, Any] = {"allowAutoTopicCreation": allowed}
    if allowed:
        value["topicType"] = options.type
        if options.num_partitions is not None:
            value["defaultNumPartitions"] = options.num_partitions
    return value


def _build_offload(options: Options) -> dict[str, Any]:
    value = {
        "managedLedgerOffloadDriver": options.driver,
        "managedLedgerOffloadRegion": options.region,
        "managedLedgerOffloadBucket": options.bucket,
        "managedLedgerOffloadServiceEndpoint": options.endpoint,
        "managedLedgerOffloadThresholdInBytes": options.offloadAfterThreshold,
        "managedLedgerOffloadThresholdInSeconds": options.offloadAfterThresholdInSeconds,
        "managedLedgerOffloadDeletionLagInMillis": options.offloadAfterElapsed,
    }
    if options.offloadedReadPriority is not None:
        priority = options.offloadedReadPriority.upper().replace("-", "_")
        value["managedLedgerOffloadedReadPriority"] = priority
    return {key: item for key, item in value.items() if item is not None}


_FORMS: Final[tuple[Form, ...]] = (
    Form(
        "retention",
        "how long acknowledged messages are kept",
        (
            Flag(
                ("-t", "--time"),
                "for how long, such as 90s, 3h, 2d; 0 for no retention, -1 for ever",
                parse=parse_duration_s,
                required=True,
            ),
            Flag(
                ("-s", "--size"),
                "how much, such as 512M or 16G; 0 for no retention, -1 without limit",
                parse=parse_size,
                required=True,
            ),
        ),
        _build_retention,
    ),
    Form(
        "message-ttl",
        "after which time unconsumed messages count as consumed",
        (
            Flag(
                ("-t", "-ttl", "--ttl", "--messageTTL"),
                "for how long, such as 90s or 3h; 0 for ever",
                parse=parse_duration_s,
                required=True,
            ),
        ),
        lambda o: o.ttl,
    ),
    Form(
        "persistence",
        "how many copies are written",
        (
            Flag(("-e", "--bookkeeper-ensemble"), "storage nodes per ledger (2)", int, default=2),
            Flag(("-w", "--bookkeeper-write-quorum"), "copies of an entry (2)", int, default=2),
            Flag(("-a", "--bookkeeper-ack-quorum"), "copies to wait for (2)", int, default=2),
            Flag(
                ("-r", "--ml-mark-delete-max-rate"),
                "cursor writes per second, -1 for the broker's own",
                parse=float,
                default=-1.0,
            ),
        ),
        lambda o: {
            "bookkeeperEnsemble": o.bookkeeper_ensemble,
            "bookkeeperWriteQuorum": o.bookkeeper_write_quorum,
            "bookkeeperAckQuorum": o.bookkeeper_ack_quorum,
            "managedLedgerMaxMarkDeleteRate": o.ml_mark_delete_max_rate,
        },
    ),
    Form(
        "delayed-delivery",
        "whether messages may ask to be delivered later",
        (
            ENABLE,
            DISABLE,
            Flag(("-t", "--time"), "how exact, such as 1s (1s)", parse_duration_ms, default=1000),
            Flag(
                ("-md", "--maxDelay"),
                "longest delay, 0 without limit",
                parse_duration_ms,
                default=0,
            ),
        ),
        lambda o: {
            "active": choose_enabled(o),
            "tickTime": o.time,
            "maxDeliveryDelayInMillis": o.maxDelay,
        },
    ),
    Form(
        "inactive-topic-policies",
        "when unused topics are deleted",
        (
            Switch(("-e", "--enable-delete-while-inactive"), "delete unused topics"),
            Switch(("-d", "--disable-delete-while-inactive"), "keep unused topics"),
            Flag(
                ("-t", "--max-inactive-duration"),
                "unused for how long, such as 3h",
                parse=parse_duration_s,
                required=True,
            ),
            Flag(
                ("-m", "--delete-mode"),
                "what counts as unused",
                required=True,
                choices=("delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"),
            ),
        ),
        _build_inactive,
    ),
    Form(
        "deduplication",
        "whether repeated messages of a producer are dropped",
        (ENABLE, DISABLE),
        choose_enabled,
        aliases=("deduplication-enabled",),
    ),
    Form(
        "clusters",
        "clusters the namespace is replicated to",
        (Flag(("-c", "--clusters"), "names, with commas", parse=parse_list, required=True),),
        lambda o: o.clusters,
    ),
    Form(
        "replication-clusters",
        "clusters the topic is replicated to",
        (Flag(("-c", "--clusters"), "names, with commas", parse=parse_list, required=True),),
        lambda o: o.clusters,
    ),
    Form(
        "allowed-clusters",
        "clusters that may serve the namespace",
        (Flag(("-c", "--clusters"), "names, with commas", parse=parse_list, required=True),),
        lambda o: o.clusters,
    ),
    Form(
        "auto-topic-creation",
        "whether producers and consumers create topics",
        (
            ENABLE,
            DISABLE,
            Flag(
                ("-t", "--type"),
                "kind of created topics (non-partitioned)",
                choices=("partitioned", "non-partitioned"),
                default="non-partitioned",
            ),
            Flag(("-n", "--num-partitions"), "partitions of created topics", parse=int),
        ),
        _build_auto_topic,
    ),
    Form(
        "auto-subscription-creation",
        "whether consumers create subscriptions",
        (ENABLE, Switch(("-d", "--disable"), "switch it off (the default)")),
        lambda o: {"allowAutoSubscriptionCreation": bool(o.enable)},
    ),
    Form(
        "subscription-types-enabled",
        "which types of subscription are allowed",
        (
            Flag(
                ("-t", "--types"),
                "Exclusive, Shared, Failover, Key_Shared, with commas",
                parse=parse_list,
                required=True,
            ),
        ),
        lambda o: o.types,
    ),
    Form(
        "entry-filters",
        "which filters see entries before consumers",
        (Flag(("-efn", "--entry-filters-name"), "names, with commas", required=True),),
        lambda o: {"entryFilterNames": o.entry_filters_name},
        aliases=("entry-filters-per-topic",),
    ),
    Form(
        "dispatcher-pause-on-ack-state-persistent",
        "whether delivery pauses while acknowledgements are being stored",
        (),
        lambda o: True,
    ),
    Form(
        "subscription-expiration-time",
        "after which idle time a subscription is deleted",
        (Flag(("-t", "--time"), "minutes, 0 for never", parse=int, required=True),),
        lambda o: o.time,
    ),
    Form(
        "offload-deletion-lag",
        "how long moved data stays where it was",
        (Flag(("-l", "--lag"), "such as 3h or 2d", parse=parse_duration_ms, required=True),),
        lambda o: o.lag,
    ),
    Form(
        "offload-policies",
        "where and when old data moves to other storage",
        (
            Flag(("-d", "--driver"), "storage driver", required=True),
            Flag(("-r", "--region"), "region of the storage"),
            Flag(("-b", "--bucket"), "bucket of the storage"),
            Flag(("-e", "--endpoint"), "address of the storage"),
            Flag(
                ("-oat", "-t", "--offloadAfterThreshold", "--offloadThresholdInBytes"),
                "size at which to move, such as 10G",
                parse=parse_size,
            ),
            Flag(
                ("-oats", "-ts", "--offloadAfterThresholdInSeconds", "--offloadThresholdInSeconds"),
                "age at which to move, such as 3h",
                parse=parse_duration_s,
            ),
            Flag(
                ("-oae", "-dl", "--offloadAfterElapsed", "--offloadDeletionLagInMillis"),
                "how long moved data stays where it was, such as 3h",
                parse=parse_duration_ms,
            ),
            Flag(
                ("-orp", "--offloadedReadPriority"),
                "where moved data is read",
                choices=("bookkeeper-first", "tiered-storage-first"),
            ),
        ),
        _build_offload,
    ),
    Form(
        "schema-compatibility-strategy",
        "which schema changes are allowed",
        (
            Flag(
                ("-c", "-s", "--compatibility", "--strategy"),
                "name of the strategy",
                required=True,
                choices=(
                    "ALWAYS_INCOMPATIBLE",
                    "ALWAYS_COMPATIBLE",
                    "BACKWARD",
                    "FORWARD",
                    "FULL",
                    "BACKWARD_TRANSITIVE",
                    "FORWARD_TRANSITIVE",
                    "FULL_TRANSITIVE",
                    "UNDEFINED",
                ),
            ),
        ),
        lambda o: o.compatibility,
    ),
    Form(
        "schema-validation-enforce",
        "whether producers without a schema are refused",
        (ENABLE, Switch(("-d", "--disable"), "switch it off (the default)")),
        lambda o: bool(o.enable),
    ),
    Form(
        "is-allow-auto-update-schema",
        "whether producers may register new schemas",
        (ENABLE, DISABLE),
        choose_enabled,
    ),
    Form(
        "encryption-required",
        "whether unencrypted messages are refused",
        (ENABLE, DISABLE),
        choose_enabled,
    ),
    Form(
        "subscription-auth-mode",
        "whether subscription names must start with the role",
        (
            Flag(
                ("-m", "--subscription-auth-mode"),
                "mode",
                required=True,
                choices=("None", "Prefix"),
            ),
        ),
        lambda o: o.subscription_auth_mode,
    ),
)


def forms_of(keys: Iterable[str]) -> tuple[Form, ...]:
    """The forms of these policies, in the order of the table."""
    wanted = set(keys)
    return tuple(form for form in (*_FORMS, *LIMITS, AUTO_SCALE) if form.key in wanted)
