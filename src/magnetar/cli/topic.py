"""`magnetar admin topics`."""

from __future__ import annotations

from typing import Any, Final

from magnetar.cli.command import NAMESPACE, TOPIC, Flag, Options, Switch, Verb
from magnetar.cli.value import parse_list, parse_pair

_FORCE: Final = Switch(("-f", "--force"), "even while clients are connected")
_SCHEMA: Final = Switch(("-d", "--deleteSchema"), "accepted; the schema always goes with the topic")
_SYSTEM: Final = Switch(("-ist", "--include-system-topic"), "also the broker's own topics")
_PARTITIONS: Final = Flag(("-p", "--partitions"), "how many", parse=int, required=True)
_METADATA: Final = Flag(
    ("-m", "--metadata"),
    "a property; may be given again",
    parse=parse_pair,
    many=True,
    variable="KEY=VALUE",
)
_ROLE: Final = Flag(("-r", "--role"), "name of the role", required=True)
_STATS: Final = (
    Switch(("-gpb", "--get-precise-backlog"), "count the backlog exactly"),
    Switch(("-sbs", "--get-subscription-backlog-size"), "accepted; backlog sizes are always shown"),
    Switch(("-etb", "--get-earliest-time-in-backlog"), "show the age of the backlog"),
)


def _list(admin: Any, options: Options) -> Any:
    """Names are printed as they come: there may be hundreds of thousands."""
    return admin.topics.stream(
        options.namespace,
        domain=options.topic_domain,
        bundle=options.bundle,
        include_system=options.include_system_topic,
        after=options.after,
        limit=options.limit,
    )


def _stats(admin: Any, options: Options) -> Any:
    return admin.topics.stats(
        options.topic,
        precise_backlog=options.get_precise_backlog,
        earliest_time=options.get_earliest_time_in_backlog,
    )


def _partitioned_stats(admin: Any, options: Options) -> Any:
    return admin.topics.partitioned_stats(
        options.topic,
        per_partition=options.per_partition,
        precise_backlog=options.get_precise_backlog,
        earliest_time=options.get_earliest_time_in_backlog,
    )


def _create_partitioned(admin: Any, options: Options) -> None:
    properties = dict(options.metadata) if options.metadata else None
    admin.topics.create_partitioned(options.topic, options.partitions, properties=properties)


def _update_partitioned(admin: Any, options: Options) -> None:
    admin.topics.update_partitioned(
        options.topic,
        options.partitions,
        local_only=options.update_local_only,
        force=options.force,
    )


VERBS: Final = (
    Verb(
        "list",
        "list the topics of a namespace, partitions one by one",
        (
            NAMESPACE,
            Flag(
                ("-td", "--topic-domain"),
                "which topics (persistent and non-persistent); topic for scalable ones",
                choices=("persistent", "non-persistent", "topic"),
            ),
            Flag(("-b", "--bundle"), "of one bundle only"),
            _SYSTEM,
            Flag(("--limit",), "so many at most (all)", parse=int),
            Flag(("--after",), "go on after this full name, the last of an earlier list"),
        ),
        _list,
    ),
    Verb(
        "count",
        "count the topics of a namespace, partitions one by one",
        (NAMESPACE,),
        lambda a, o: a.topics.count(o.namespace),
    ),
    Verb(
        "list-partitioned-topics",
        "list the partitioned topics of a namespace",
        (NAMESPACE, _SYSTEM),
        lambda a, o: a.topics.list_partitioned(o.namespace, include_system=o.include_system_topic),
    ),
    Verb(
        "create",
        "add a topic without partitions",
        (TOPIC, _METADATA),
        lambda a, o: a.topics.create(o.topic, properties=dict(o.metadata or [])),
        shows=False,
    ),
    Verb(
        "delete",
        "delete a topic",
        (TOPIC, _FORCE, _SCHEMA),
        lambda a, o: a.topics.delete(o.topic, force=o.force),
        shows=False,
    ),
    Verb(
        "create-partitioned-topic",
        "add a topic with partitions",
        (TOPIC, _PARTITIONS, _METADATA),
        _create_partitioned,
        shows=False,
    ),
    Verb(
        "create-missed-partitions",
        "add the partitions that are missing",
        (TOPIC,),
        lambda a, o: a.topics.create_missed_partitions(o.topic),
        shows=False,
    ),
    Verb(
        "update-partitioned-topic",
        "add partitions to a topic",
        (
            TOPIC,
            _PARTITIONS,
            Switch(("-ulo", "--update-local-only"), "not in the other clusters"),
            Switch(("-f", "--force"), "without checking the partitions that exist"),
        ),
        _update_partitioned,
        shows=False,
    ),
    Verb(
        "get-partitioned-topic-metadata",
        "show how many partitions a topic has",
        (TOPIC,),
        lambda a, o: a.topics.partitioned_metadata(o.topic),
    ),
    Verb(
        "delete-partitioned-topic",
        "delete a topic with its partitions",
        (TOPIC, _FORCE, _SCHEMA),
        lambda a, o: a.topics.delete_partitioned(o.topic, force=o.force),
        shows=False,
    ),
    Verb(
        "get-properties",
        "show the properties of a topic",
        (TOPIC,),
        lambda a, o: a.topics.properties(o.topic),
    ),
    Verb(
        "update-properties",
        "set properties of a topic",
        (
            TOPIC,
            Flag(
                ("-p", "--property"),
                "a property; may be given again",
                parse=parse_pair,
                required=True,
                many=True,
                variable="KEY=VALUE",
            ),
        ),
        lambda a, o: a.topics.update_properties(o.topic, dict(o.property)),
        shows=False,
    ),
    Verb(
        "remove-properties",
        "remove a property of a topic",
        (TOPIC, Flag(("-k", "--key"), "name of the property", required=True)),
        lambda a, o: a.topics.remove_property(o.topic, o.key),
        shows=False,
    ),
    Verb("stats", "show what a topic does", (TOPIC, *_STATS), _stats),
    Verb(
        "partitioned-stats",
        "show what a topic with partitions does",
        (TOPIC, Switch(("--per-partition",), "also partition by partition"), *_STATS),
        _partitioned_stats,
    ),
    Verb(
        "stats-internal",
        "show the ledgers and cursors of a topic",
        (TOPIC, Switch(("-m", "--metadata"), "with the ledgers' metadata")),
        lambda a, o: a.topics.internal_stats(o.topic, metadata=o.metadata),
    ),
    Verb(
        "partitioned-stats-internal",
        "show the ledgers and cursors of every partition",
        (TOPIC,),
        lambda a, o: a.topics.partitioned_internal_stats(o.topic),
    ),
    Verb(
        "info-internal",
        "show the stored description of a topic",
        (TOPIC,),
        lambda a, o: a.topics.internal_info(o.topic),
    ),
    Verb(
        "lookup",
        "show which broker serves a topic",
        (TOPIC,),
        lambda a, o: a.topics.lookup(o.topic)["brokerUrl"],
    ),
    Verb(
        "partitioned-lookup",
        "show which broker serves each partition",
        (TOPIC,),
        lambda a, o: a.topics.partitioned_lookup(o.topic),
    ),
    Verb(
        "bundle-range",
        "show the bundle of a topic",
        (TOPIC,),
        lambda a, o: a.topics.bundle_range(o.topic),
    ),
    Verb(
        "unload",
        "let the broker go of a topic",
        (TOPIC,),
        lambda a, o: a.topics.unload(o.topic),
        shows=False,
    ),
    Verb(
        "permissions",
        "show who may do what",
        (TOPIC,),
        lambda a, o: a.topics.permissions(o.topic),
    ),
    Verb(
        "grant-permission",
        "allow a role something",
        (
            TOPIC,
            _ROLE,
            Flag(("-a", "--actions"), "produce, consume, with commas", parse_list, required=True),
        ),
        lambda a, o: a.topics.grant(o.topic, o.role, o.actions),
        shows=False,
    ),
    Verb(
        "revoke-permission",
        "take a role's permissions back",
        (TOPIC, _ROLE),
        lambda a, o: a.topics.revoke(o.topic, o.role),
        shows=False,
    ),
    Verb(
        "enable-deduplication",
        "drop repeated messages of a producer",
        (TOPIC,),
        lambda a, o: a.topic_policies.set(o.topic, "deduplication", True),
        shows=False,
    ),
    Verb(
        "disable-deduplication",
        "keep repeated messages of a producer",
        (TOPIC,),
        lambda a, o: a.topic_policies.set(o.topic, "deduplication", False),
        shows=False,
    ),
)
