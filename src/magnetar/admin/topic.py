"""/admin/v2/persistent and /admin/v2/non-persistent: topics as a whole, and their entries."""

from __future__ import annotations

from magnetar.admin.entry import entry_response
from magnetar.admin.listing import PAGE, answer_names
from magnetar.admin.request import Call
from magnetar.admin.response import BYTES, JSON, NDJSON
from magnetar.admin.route import Body, Priority, Query, Table
from magnetar.broker.administration import permission
from magnetar.broker.api import BrokerApi
from magnetar.broker.api.message_id import MessageId
from magnetar.broker.api.partition import PartitionCount
from magnetar.broker.api.topic import StatsOptions
from magnetar.model.name import TopicDomain
from magnetar.model.permission import (
    NAMESPACE_ADMIN,
    NAMESPACE_READ,
    TOPIC_ADMIN,
    TOPIC_CONSUME,
    TOPIC_READ,
    AuthAction,
)
from magnetar.model.position import Position

LIST_TABLE = Table("topics", "/admin/v2/{domain}/{tenant}/{namespace}")
TABLE = Table("topics", "/admin/v2/{domain}/{tenant}/{namespace}/{topic}")
PERMISSION_TABLE = Table(
    "topics",
    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/permissions",
    domains=(TopicDomain.PERSISTENT, TopicDomain.NON_PERSISTENT, TopicDomain.TOPIC),
)

_FORCE = (Query("force", default=False),)
_STATS = (
    Query("getPreciseBacklog", default=False),
    Query("subscriptionBacklogSize", default=True),
    Query("getEarliestTimeInBacklog", default=False),
    Query("excludePublishers", default=False),
    Query("excludeConsumers", default=False),
)
_PROPERTIES = Body(dict[str, str | None])
_COUNT = Body(
    int | PartitionCount,
    required=True,
    media_types=(JSON, "application/vnd.partitioned-topic-metadata+json"),
)
_ACTIONS = Body(list[AuthAction], required=True, missing="Actions should not be null")


# Lists
async def list_topics(api: BrokerApi, call: Call) -> object:
    """Topics of a namespace, partitions singly: all, a page after a name, or a line for each."""
    return await answer_names(api, call, (call.domain,), bundle=call.query("bundle"))


async def list_partitioned_topics(api: BrokerApi, call: Call) -> object:
    """Partitioned topics of a namespace."""
    return await api.partitions.list(
        call.namespace, call.domain, include_system=call.flag("includeSystemTopic")
    )


# Making and removing
async def create_topic(api: BrokerApi, call: Call) -> object:
    """Create a topic without partitions."""
    await api.topics.create(call.topic, _present(call.payload))
    return None


async def delete_topic(api: BrokerApi, call: Call) -> object:
    """Delete a topic without partitions, or one partition."""
    await api.topics.delete(call.topic, force=call.flag("force"))
    return None


async def create_partitioned_topic(api: BrokerApi, call: Call) -> object:
    """Create a topic with partitions; the body is their number, or number and properties."""
    await api.partitions.create(call.topic, PartitionCount.read(call.payload))
    return None


async def grow_partitioned_topic(api: BrokerApi, call: Call) -> object:
    """Add partitions up to a new number."""
    count = PartitionCount.read(call.payload).partitions
    await api.partitions.grow(call.topic, count, force=call.flag("force"))
    return None


async def get_partitions(api: BrokerApi, call: Call) -> object:
    """How many partitions a topic has; 0 for one without."""
    may_create = call.flag("checkAllowAutoCreation")
    return await api.partitions.get(call.topic, may_create=may_create)


async def delete_partitioned_topic(api: BrokerApi, call: Call) -> object:
    """Delete a topic with all its partitions."""
    await api.partitions.delete(call.topic, force=call.flag("force"))
    return None


async def create_missed_partitions(api: BrokerApi, call: Call) -> object:
    """Create the partitions that do not exist yet."""
    await api.partitions.create_missed(call.topic)
    return None


# Looking
async def get_stats(api: BrokerApi, call: Call) -> object:
    """Stats of a topic without partitions, or of one partition."""
    return await api.topics.stats(call.topic, _stats_options(call))


async def get_partitioned_stats(api: BrokerApi, call: Call) -> object:
    """Stats over all partitions."""
    per_partition = call.flag("perPartition", default=True)
    return await api.partitions.stats(call.topic, _stats_options(call), per_partition=per_partition)


async def get_internal_stats(api: BrokerApi, call: Call) -> object:
    """The log behind a topic: ledgers and cursors."""
    return await api.topics.internal_stats(call.topic)


async def get_partitioned_internal_stats(api: BrokerApi, call: Call) -> object:
    """The logs behind all partitions."""
    return await api.partitions.internal_stats(call.topic)


async def get_internal_info(api: BrokerApi, call: Call) -> object:
    """What the metadata store keeps of a topic's log."""
    return await api.topics.internal_info(call.topic)


async def get_backlog_size(api: BrokerApi, call: Call) -> object:
    """How many bytes were published after a message id."""
    return await api.topics.backlog_size(call.topic, call.payload.position)


# Acting
async def unload_topic(api: BrokerApi, call: Call) -> object:
    """Close a topic, so that its clients connect again."""
    await api.topics.unload(call.topic)
    return None


async def terminate_topic(api: BrokerApi, call: Call) -> object:
    """Let nothing more be published; the answer is the last message id."""
    return await api.topics.terminate(call.topic)


async def terminate_partitioned_topic(api: BrokerApi, call: Call) -> object:
    """Let nothing more be published to any partition."""
    return await api.partitions.terminate(call.topic)


async def start_compaction(api: BrokerApi, call: Call) -> object:
    """Start to compact a topic."""
    await api.topics.start_compaction(call.topic)
    return None


async def get_compaction(api: BrokerApi, call: Call) -> object:
    """How the last compaction went."""
    return await api.topics.compaction_status(call.topic)


async def start_offload(api: BrokerApi, call: Call) -> object:
    """Move old data to long-term storage; there is none yet."""
    await api.topics.start_offload(call.topic)
    return None


async def get_offload(api: BrokerApi, call: Call) -> object:
    """How the last offload went."""
    return await api.topics.offload_status(call.topic)


async def trim_topic(api: BrokerApi, call: Call) -> object:
    """Remove what nobody needs any more."""
    await api.topics.trim(call.topic)
    return None


async def truncate_topic(api: BrokerApi, call: Call) -> object:
    """Acknowledge and remove everything."""
    await api.topics.truncate(call.topic)
    return None


# Entries
async def get_last_message_id(api: BrokerApi, call: Call) -> object:
    """The id of the last message."""
    return await api.topics.last_message_id(call.topic)


async def get_message_id_at(api: BrokerApi, call: Call) -> object:
    """The id of the first message published at or after a time."""
    return await api.topics.message_id_at(call.topic, call.integer("timestamp"))


async def get_message(api: BrokerApi, call: Call) -> object:
    """One entry."""
    position = Position(call.integer("ledger"), call.integer("entry"))
    return entry_response(*await api.topics.read_entry(call.topic, position))


async def examine_message(api: BrokerApi, call: Call) -> object:
    """The nth entry from the start or the end."""
    initial = call.query("initialPosition") or "latest"
    number = call.number("messagePosition")
    number = 1 if number is None else number
    return entry_response(*await api.topics.examine(call.topic, initial, number))


# Properties and permissions
async def get_properties(api: BrokerApi, call: Call) -> object:
    """A topic's properties."""
    return await api.topics.properties(call.topic)


async def update_properties(api: BrokerApi, call: Call) -> object:
    """Add properties, or replace those of the same name."""
    await api.topics.update_properties(call.topic, _present(call.payload))
    return None


async def delete_property(api: BrokerApi, call: Call) -> object:
    """Remove one property."""
    await api.topics.delete_property(call.topic, call.query("key"))
    return None


async def get_permissions(api: BrokerApi, call: Call) -> object:
    """What roles may do with a topic."""
    return await permission.topic_permissions(api.service, call.topic)


async def grant_permission(api: BrokerApi, call: Call) -> object:
    """Let a role do things with a topic."""
    await permission.grant_on_topic(api.service, call.topic, call.text("role"), call.payload)
    return None


async def revoke_permission(api: BrokerApi, call: Call) -> object:
    """Take a role's permissions on a topic away."""
    await permission.revoke_on_topic(api.service, call.topic, call.text("role"))
    return None


def _present(properties: dict[str, str | None] | None) -> dict[str, str]:
    return {key: value for key, value in (properties or {}).items() if value is not None}


def _stats_options(call: Call) -> StatsOptions:
    return StatsOptions(
        precise_backlog=call.flag("getPreciseBacklog"),
        subscription_backlog_size=call.flag("subscriptionBacklogSize", default=True),
        earliest_in_backlog=call.flag("getEarliestTimeInBacklog"),
        exclude_publishers=call.flag("excludePublishers"),
        exclude_consumers=call.flag("excludeConsumers"),
    )


P0 = Priority.P0
_SYSTEM = (Query("includeSystemTopic", default=False),)
_EXAMINE = (Query("initialPosition", str, "latest"), Query("messagePosition", int, 1))

LIST_TABLE.add(
    "GET",
    "",
    list_topics,
    NAMESPACE_READ,
    priority=P0,
    query=(*_SYSTEM, Query("bundle", str), *PAGE),
    or_produces=(NDJSON,),
)
LIST_TABLE.add(
    "GET", "/partitioned", list_partitioned_topics, NAMESPACE_READ, priority=P0, query=_SYSTEM
)
TABLE.add("PUT", "", create_topic, NAMESPACE_ADMIN, priority=P0, body=_PROPERTIES)
TABLE.add("DELETE", "", delete_topic, NAMESPACE_ADMIN, priority=P0, query=_FORCE)
TABLE.add("PUT", "/partitions", create_partitioned_topic, NAMESPACE_ADMIN, priority=P0, body=_COUNT)
TABLE.add(
    "POST",
    "/partitions",
    grow_partitioned_topic,
    NAMESPACE_ADMIN,
    priority=P0,
    body=_COUNT,
    query=_FORCE,
)
TABLE.add(
    "GET",
    "/partitions",
    get_partitions,
    TOPIC_READ,
    priority=P0,
    query=(Query("checkAllowAutoCreation", default=False),),
)
TABLE.add(
    "DELETE", "/partitions", delete_partitioned_topic, NAMESPACE_ADMIN, priority=P0, query=_FORCE
)
TABLE.add("POST", "/createMissedPartitions", create_missed_partitions, NAMESPACE_ADMIN)
TABLE.add("GET", "/stats", get_stats, TOPIC_READ, priority=P0, query=_STATS)
TABLE.add(
    "GET",
    "/partitioned-stats",
    get_partitioned_stats,
    TOPIC_READ,
    priority=P0,
    query=(Query("perPartition", default=True), *_STATS),
)
TABLE.add("GET", "/internalStats", get_internal_stats, TOPIC_READ)
TABLE.add("GET", "/partitioned-internalStats", get_partitioned_internal_stats, TOPIC_READ)
TABLE.add("GET", "/internal-info", get_internal_info, TOPIC_READ)
TABLE.add(
    "PUT",
    "/backlogSize",
    get_backlog_size,
    TOPIC_CONSUME,
    priority=Priority.P2,
    status=200,
    body=Body(MessageId, required=True),
)
TABLE.add("PUT", "/unload", unload_topic, TOPIC_ADMIN, priority=P0)
TABLE.add("POST", "/terminate", terminate_topic, TOPIC_ADMIN, priority=P0, status=200)
TABLE.add("POST", "/terminate/partitions", terminate_partitioned_topic, TOPIC_ADMIN, status=200)
TABLE.add("PUT", "/compaction", start_compaction, TOPIC_ADMIN, priority=P0)
TABLE.add("GET", "/compaction", get_compaction, TOPIC_ADMIN, priority=P0)
TABLE.add(
    "PUT",
    "/offload",
    start_offload,
    TOPIC_ADMIN,
    body=Body(MessageId, required=True, missing="messageId is null"),
)
TABLE.add("GET", "/offload", get_offload, TOPIC_ADMIN)
TABLE.add("POST", "/trim", trim_topic, TOPIC_ADMIN)
TABLE.add("DELETE", "/truncate", truncate_topic, TOPIC_ADMIN)
TABLE.add("GET", "/lastMessageId", get_last_message_id, TOPIC_CONSUME)
TABLE.add("GET", "/messageid/{timestamp}", get_message_id_at, TOPIC_CONSUME)
TABLE.add("GET", "/ledger/{ledger}/entry/{entry}", get_message, TOPIC_CONSUME, produces=BYTES)
TABLE.add("GET", "/examinemessage", examine_message, TOPIC_CONSUME, produces=BYTES, query=_EXAMINE)
TABLE.add("GET", "/properties", get_properties, TOPIC_READ)
TABLE.add("PUT", "/properties", update_properties, TOPIC_ADMIN, body=_PROPERTIES)
TABLE.add("DELETE", "/properties", delete_property, TOPIC_ADMIN, query=(Query("key", str),))
PERMISSION_TABLE.add("GET", "", get_permissions, TOPIC_ADMIN)
PERMISSION_TABLE.add("POST", "/{role}", grant_permission, TOPIC_ADMIN, body=_ACTIONS)
PERMISSION_TABLE.add("DELETE", "/{role}", revoke_permission, TOPIC_ADMIN)
