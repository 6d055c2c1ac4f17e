"""Topics: their lists, their life and their partitions, properties and stats, and who may do what.

The rows stand in several tables, because the commands of other nouns stand between theirs.
"""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.log import LogStats, PartitionedLogStats, StoredTopic
from magnetar.model.answer.record import PartitionedMetadata
from magnetar.model.answer.topic import PartitionedTopicStats, TopicStats
from magnetar.model.name import TopicDomain
from magnetar.model.permission import NAMESPACE_ADMIN, NAMESPACE_READ, TOPIC_ADMIN, TOPIC_READ
from magnetar.operation.row import (
    DOMAINS,
    FORCE,
    JSON,
    NAMESPACE,
    NDJSON,
    REQUIRED,
    TOPIC,
    Answer,
    Kind,
    Result,
    Table,
    Verb,
    body,
    flag,
    local,
    path,
    query,
)

ROOT: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
LISTS: Final = Table("topics", "/admin/v2", NAMESPACE)
TABLE: Final = Table("topics", ROOT, TOPIC, for_owner=True)
ACCESS: Final = Table("topics", ROOT, TOPIC, for_owner=True, domains=(*DOMAINS, TopicDomain.TOPIC))

_DOMAIN: Final = path("domain")._replace(default=None)
_SYSTEM: Final = flag("include_system", "includeSystemTopic").asked(
    "also the broker's own topics", "-ist", "--include-system-topic"
)
_FORCE: Final = FORCE.asked("even while clients are connected", "-f", "--force")
_DELETE_SCHEMA: Final = local("delete_schema", Kind.FLAG)._replace(is_ignored=True)
_SCHEMA: Final = _DELETE_SCHEMA.asked(
    "accepted; the schema always goes with the topic", "-d", "--deleteSchema"
)
_SCHEMA_TOO: Final = (("deleteSchema", True),)
_METADATA: Final = ("a property; may be given again", "-m", "--metadata")
_PARTITIONS: Final = body("partitions", Kind.NUMBER).asked("how many", "-p", "--partitions")
_COUNT: Final = _PARTITIONS._replace(
    media_types=(JSON, "application/vnd.partitioned-topic-metadata+json")
)
_STATS: Final = (
    flag("precise_backlog", "getPreciseBacklog").asked(
        "count the backlog exactly", "-gpb", "--get-precise-backlog"
    ),
    flag("backlog_size", "subscriptionBacklogSize", default=True).asked(
        "accepted; backlog sizes are always shown", "-sbs", "--get-subscription-backlog-size"
    ),
    flag("earliest_time", "getEarliestTimeInBacklog").asked(
        "show the age of the backlog", "-etb", "--get-earliest-time-in-backlog"
    ),
    flag("exclude_publishers"),
    flag("exclude_consumers"),
)

LISTS.add(
    "list",
    "GET /{domain}/{tenant}/{namespace}",
    NAMESPACE_READ,
    "Topics of a namespace, partitions singly: all, a page after a name, or a line for each.",
    _DOMAIN,
    _SYSTEM._replace(help=""),
    query("bundle"),
    query("limit", Kind.NUMBER),
    query("after"),
    result=Result.NAMES,
    produces=(JSON, NDJSON),
    is_written=True,
)
LISTS.compose(
    "stream",
    "Full names as the broker finds them, never all in memory; at most `limit`.",
    local("domain").asked(
        "which topics (persistent and non-persistent); topic for scalable ones",
        "-td",
        "--topic-domain",
        choices=("persistent", "non-persistent", "topic"),
    ),
    local("bundle").asked("of one bundle only", "-b", "--bundle"),
    _SYSTEM,
    local("limit", Kind.NUMBER).asked("so many at most (all)", "--limit"),
    local("after").asked("go on after this full name, the last of an earlier list", "--after"),
    result=Result.STREAM,
    cli=Verb("list", "list the topics of a namespace, partitions one by one"),
)
LISTS.compose(
    "page",
    "At most `limit` names, in the order of `stream`; the next page is after the last one.",
    local("limit", Kind.NUMBER, REQUIRED),
    local("domain"),
    local("bundle"),
    local("include_system", Kind.FLAG, False),
    local("after"),
    result=Result.NAMES,
)
LISTS.add(
    "count",
    "GET /namespaces/{tenant}/{namespace}/topics/count",
    NAMESPACE_READ,
    "How many topics a namespace has, by domain; partitions and system topics count too.",
    result=Result.COUNTS,
    cli=Verb("count", "count the topics of a namespace, partitions one by one"),
)
LISTS.add(
    "list_partitioned",
    "GET /{domain}/{tenant}/{namespace}/partitioned",
    NAMESPACE_READ,
    "Partitioned topics of a namespace.",
    _DOMAIN,
    _SYSTEM,
    result=Result.NAMES,
    cli=Verb("list-partitioned-topics", "list the partitioned topics of a namespace"),
    is_written=True,
)

TABLE.add(
    "create",
    "PUT",
    NAMESPACE_ADMIN,
    "Create a topic without partitions.",
    body("properties", Kind.PROPERTIES, None).asked(*_METADATA, many=True, variable="KEY=VALUE"),
    cli=Verb("create", "add a topic without partitions"),
)
TABLE.add(
    "delete",
    "DELETE",
    NAMESPACE_ADMIN,
    "Delete a topic without partitions, or one partition.",
    _FORCE,
    _SCHEMA,
    cli=Verb("delete", "delete a topic"),
    sends=_SCHEMA_TOO,
)
TABLE.add(
    "create_partitioned",
    "PUT /partitions",
    NAMESPACE_ADMIN,
    "Create a topic with partitions; the body is their number, or number and properties.",
    _COUNT,
    local("properties", Kind.PROPERTIES).asked(*_METADATA, many=True, variable="KEY=VALUE"),
    cli=Verb("create-partitioned-topic", "add a topic with partitions"),
    is_written=True,
)
TABLE.add(
    "create_missed_partitions",
    "POST /createMissedPartitions",
    NAMESPACE_ADMIN,
    "Create the partitions that do not exist yet.",
    cli=Verb("create-missed-partitions", "add the partitions that are missing"),
)
TABLE.add(
    "update_partitioned",
    "POST /partitions",
    NAMESPACE_ADMIN,
    "Add partitions up to a new number.",
    _COUNT,
    flag("local_only", "updateLocalTopicOnly")
    .asked("not in the other clusters", "-ulo", "--update-local-only")
    ._replace(is_ignored=True),
    FORCE.asked("without checking the partitions that exist", "-f", "--force"),
    cli=Verb("update-partitioned-topic", "add partitions to a topic"),
)
TABLE.add(
    "partitioned_metadata",
    "GET /partitions",
    TOPIC_READ,
    "How many partitions a topic has; 0 for one without.",
    flag("may_create", "checkAllowAutoCreation"),
    result=Answer(PartitionedMetadata),
    cli=Verb("get-partitioned-topic-metadata", "show how many partitions a topic has"),
)
TABLE.add(
    "delete_partitioned",
    "DELETE /partitions",
    NAMESPACE_ADMIN,
    "Delete a topic with all its partitions.",
    _FORCE,
    _SCHEMA,
    cli=Verb("delete-partitioned-topic", "delete a topic with its partitions"),
    sends=_SCHEMA_TOO,
)
TABLE.add(
    "properties",
    "GET /properties",
    TOPIC_READ,
    "A topic's properties.",
    result=Result.PROPERTIES,
    cli=Verb("get-properties", "show the properties of a topic"),
)
TABLE.add(
    "update_properties",
    "PUT /properties",
    TOPIC_ADMIN,
    "Add properties, or replace those of the same name.",
    body("properties", Kind.PROPERTIES).asked(
        "a property; may be given again", "-p", "--property", many=True, variable="KEY=VALUE"
    ),
    cli=Verb("update-properties", "set properties of a topic"),
)
TABLE.add(
    "remove_property",
    "DELETE /properties",
    TOPIC_ADMIN,
    "Remove one property.",
    query("key", default=REQUIRED).asked("name of the property", "-k", "--key"),
    cli=Verb("remove-properties", "remove a property of a topic"),
)
TABLE.add(
    "stats",
    "GET /stats",
    TOPIC_READ,
    "Stats of a topic without partitions, or of one partition.",
    *_STATS,
    result=Answer(TopicStats),
    cli=Verb("stats", "show what a topic does"),
)
TABLE.add(
    "partitioned_stats",
    "GET /partitioned-stats",
    TOPIC_READ,
    "Stats over all partitions.",
    flag("per_partition")
    ._replace(absent=True)
    .asked("also partition by partition", "--per-partition"),
    *_STATS,
    result=Answer(PartitionedTopicStats),
    cli=Verb("partitioned-stats", "show what a topic with partitions does"),
)
TABLE.add(
    "internal_stats",
    "GET /internalStats",
    TOPIC_READ,
    "The log behind a topic: ledgers and cursors.",
    flag("metadata")
    .asked("with the ledgers' metadata", "-m", "--metadata")
    ._replace(is_ignored=True),
    result=Answer(LogStats),
    cli=Verb("stats-internal", "show the ledgers and cursors of a topic"),
)
TABLE.add(
    "partitioned_internal_stats",
    "GET /partitioned-internalStats",
    TOPIC_READ,
    "The logs behind all partitions.",
    result=Answer(PartitionedLogStats),
    cli=Verb("partitioned-stats-internal", "show the ledgers and cursors of every partition"),
)
TABLE.add(
    "internal_info",
    "GET /internal-info",
    TOPIC_READ,
    "What the metadata store keeps of a topic's log.",
    result=Answer(StoredTopic),
    cli=Verb("info-internal", "show the stored description of a topic"),
)

_ROLE: Final = path("role", "name of the role", "-r", "--role")

ACCESS.add(
    "unload",
    "PUT /unload",
    TOPIC_ADMIN,
    "Close a topic, so that its clients connect again.",
    cli=Verb("unload", "let the broker go of a topic"),
    domains=DOMAINS,
)
ACCESS.add(
    "permissions",
    "GET /permissions",
    TOPIC_ADMIN,
    "What roles may do with a topic.",
    result=Result.GRANTS,
    cli=Verb("permissions", "show who may do what"),
)
ACCESS.add(
    "grant",
    "POST /permissions/{role}",
    TOPIC_ADMIN,
    "Let a role do things with a topic.",
    _ROLE,
    body("actions", Kind.NAMES)
    .asked("produce, consume, with commas", "-a", "--actions")
    ._replace(missing="Actions should not be null"),
    cli=Verb("grant-permission", "allow a role something"),
)
ACCESS.add(
    "revoke",
    "DELETE /permissions/{role}",
    TOPIC_ADMIN,
    "Take a role's permissions on a topic away.",
    _ROLE,
    cli=Verb("revoke-permission", "take a role's permissions back"),
)
ACCESS.compose(
    "enable_deduplication",
    "Drop repeated messages of a producer.",
    cli=Verb("enable-deduplication", "drop repeated messages of a producer"),
)
ACCESS.compose(
    "disable_deduplication",
    "Keep repeated messages of a producer.",
    cli=Verb("disable-deduplication", "keep repeated messages of a producer"),
)
