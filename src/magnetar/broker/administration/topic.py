"""Topics without partitions, and single partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

from msgspec.structs import replace

from magnetar.broker import log_search
from magnetar.broker.administration.log_info import describe_log
from magnetar.broker.administration.permission import forget_permissions
from magnetar.broker.administration.port import LogOwners, PropertyOwners, TopicOwners, TopicTraces
from magnetar.broker.administration.record import without
from magnetar.broker.administration.registry import carries_out, finds
from magnetar.broker.catalog import AnyTopic
from magnetar.broker.log_search import SeenEntry as SeenEntry
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.resource import Resources
from magnetar.broker.scalable.guard import was_regular
from magnetar.broker.scalable.segment import together
from magnetar.broker.stats import count_stats, topic_internal_stats
from magnetar.errors import (
    Conflict,
    EntryNotFound,
    FeatureNotSupported,
    MethodNotAllowed,
    NamespaceNotFound,
    NotAcceptable,
    NotFound,
    PreconditionFailed,
    TopicNotFound,
)
from magnetar.model.answer.log import JobStatus, LogStats, MessageIdAnswer, StoredTopic
from magnetar.model.answer.topic import TopicStats
from magnetar.model.limit import merge_properties
from magnetar.model.message_id import MessageId, describe_position
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.position import EARLIEST, Position
from magnetar.model.segment import scalable_name
from magnetar.model.tenancy import PartitionedTopicMetadata
from magnetar.rules.system import is_system_topic

Parts: TypeAlias = tuple[PersistentTopic, ...]
"""The topic, or all its partitions."""
NOT_PARTITIONED: Final = "{what} on a partitioned topic is not allowed"


# Finding and checking
@finds(AnyTopic)
async def find_topic(owners: TopicOwners, topic: TopicName) -> AnyTopic:
    """The live topic; a partitioned topic's own name is not one."""
    try:
        return await owners.catalog.load_topic(topic)
    except TopicNotFound as missing:
        successor = await owners.catalog.find_successor(topic)
        if successor is None:
            raise
        if was_regular(await owners.scalable.records.require(successor)):
            await owners.scalable.guard.check_regular_name(topic)
        raise TopicNotFound(f"{missing.sentence}: it is scalable, {successor}") from None


@finds(PersistentTopic)
async def find_persistent(
    owners: TopicOwners, topic: TopicName, what: str, partitioned: str = ""
) -> PersistentTopic:
    """`what` is not done to others, nor to a partitioned topic where that is a refusal."""
    if partitioned and await owners.resources.partitioned.get(topic) is not None:
        raise MethodNotAllowed(partitioned.format(what=what))
    check_stored(topic, what)
    found = await find_topic(owners, topic)
    assert isinstance(found, PersistentTopic), "the domain says so"
    return found


def check_stored(topic: TopicName, what: str) -> None:
    if not topic.is_persistent:
        raise MethodNotAllowed(f"{what} on a non-persistent topic is not allowed")


def check_persistent(topic: TopicName) -> None:
    if not topic.is_persistent:
        raise NotAcceptable("Need to provide a persistent topic name")


def partitions_of(topic: TopicName, metadata: PartitionedTopicMetadata) -> Sequence[TopicName]:
    return [topic.partition(index) for index in range(metadata.partitions)]


async def parts_of(resources: Resources, topic: TopicName) -> Sequence[TopicName]:
    """The topic, or all its partitions."""
    metadata = await resources.partitioned.get(topic)
    return [topic] if metadata is None else partitions_of(topic, metadata)


@finds(Parts)
async def find_parts(owners: TopicOwners, topic: TopicName, what: str) -> Parts:
    names = await parts_of(owners.resources, topic)
    return tuple(await together(find_persistent(owners, name, what) for name in names))


async def existing_parts(owners: TopicOwners, topic: TopicName) -> Sequence[TopicName]:
    """The topic, or those of its partitions that exist."""
    parts = await parts_of(owners.resources, topic)
    return [each for each in parts if each is topic or await owners.catalog.topic_exists(each)]


async def check_namespace(resources: Resources, namespace: NamespaceName) -> None:
    policies = await resources.namespaces.get(namespace)
    if policies is None or policies.deleted:
        raise NamespaceNotFound(f"Namespace not found: {namespace}")


async def check_new(owners: TopicOwners, topic: TopicName) -> None:
    """Neither a topic nor a partitioned or scalable topic of this name may exist."""
    record = await owners.scalable.records.get(topic.base) if topic.is_persistent else None
    if record is not None and not was_regular(record):
        raise Conflict(f"This topic already exists as a scalable topic: {scalable_name(topic)}")
    await owners.scalable.migrations.check_regular(topic)
    is_partitioned = await owners.resources.partitioned.get(topic) is not None
    if is_partitioned or await owners.catalog.topic_exists(topic):
        raise Conflict("This topic already exists")


async def check_exists(owners: TopicOwners, topic: TopicName) -> None:
    if topic.domain is TopicDomain.TOPIC:
        await owners.scalable.records.require(topic)
        return
    if await owners.resources.partitioned.get(topic) is not None:
        return
    if not await owners.catalog.topic_exists(topic):
        raise TopicNotFound(f"Topic {topic} not found")


async def forget_topic(owners: TopicTraces, topic: TopicName) -> None:
    """What outlives a topic's log: its schemas, its policies and the permissions on it."""
    await owners.schemas.delete_storage(topic)
    await owners.policies.delete(topic)
    await forget_permissions(owners.resources, topic)


# Making and removing
@carries_out("topics.create")
async def create_topic(
    owners: TopicOwners, topic: TopicName, properties: dict[str, str | None] | None = None
) -> None:
    await check_namespace(owners.resources, topic.namespace)
    if topic.is_partition:
        await _check_partition(owners.resources, topic)
    await check_new(owners, topic)
    await owners.catalog.load_topic(topic, create=True, properties=_present(properties))


async def _check_partition(resources: Resources, topic: TopicName) -> None:
    metadata = await resources.partitioned.get(topic.base)
    if metadata is None:
        raise PreconditionFailed(
            f'Can\'t create topic {topic.local} with "-partition-" followed by numeric value'
            f" if there isn't a partitioned topic {topic.base.local} created."
        )
    if topic.partition_index >= metadata.partitions:
        raise PreconditionFailed(
            f"Can't create topic {topic.local}: the partitioned topic {topic.base.local} has"
            f" {metadata.partitions} partitions"
        )


@carries_out("topics.delete")
async def delete_topic(owners: TopicTraces, topic: TopicName, force: bool = False) -> None:
    await owners.scalable.migrations.check_regular(topic)
    if await owners.resources.partitioned.get(topic) is not None:
        raise Conflict(
            f"{topic} is a partitioned topic, instead of calling delete topic, please call"
            " delete-partitioned-topic."
        )
    await owners.catalog.delete_topic(topic, force=force)
    if not topic.is_partition:
        await forget_topic(owners, topic)


# Looking
class StatsOptions(NamedTuple):
    precise_backlog: bool
    backlog_size: bool
    earliest_time: bool
    exclude_publishers: bool
    exclude_consumers: bool


finds(StatsOptions)(StatsOptions)


@carries_out("topics.stats")
async def get_stats(live: AnyTopic, options: StatsOptions) -> TopicStats:
    return await count_stats(live, **options._asdict())


@carries_out("topics.internal_stats")
async def get_internal_stats(live: AnyTopic) -> LogStats:
    return topic_internal_stats(live)


@carries_out("topics.internal_info")
async def get_internal_info(owners: LogOwners, topic: TopicName) -> StoredTopic:
    """What the store keeps; for a partitioned topic, of every partition."""
    metadata = await owners.resources.partitioned.get(topic)
    if metadata is None:
        return cast(StoredTopic, await describe_log(owners, topic))
    partitions = {
        each.full: await describe_log(owners, each) for each in partitions_of(topic, metadata)
    }
    return {"version": 0, "partitions": partitions}


# Acting
@carries_out("topics.unload")
async def unload_topic(owners: TopicOwners, topic: TopicName) -> None:
    await together(map(owners.catalog.unload_topic, await parts_of(owners.resources, topic)))


@carries_out("topics.terminate")
async def terminate_topic(owners: TopicOwners, topic: TopicName) -> MessageIdAnswer:
    check_persistent(topic)
    if await owners.resources.partitioned.get(topic) is not None:
        raise MethodNotAllowed("Termination of a partitioned topic is not allowed")
    if is_system_topic(topic):
        raise MethodNotAllowed("Termination of a system topic is not allowed")
    await owners.scalable.migrations.check_regular(topic)
    live = await find_persistent(owners, topic, "Terminate")
    return describe_position(await live.termination.run())


@carries_out("topics.compact", what="Compaction")
async def start_compaction(parts: Parts) -> None:
    await together(part.compactor.start() for part in parts)


@carries_out("topics.compaction_status", what="Compaction")
async def get_compaction(live: PersistentTopic) -> JobStatus:
    return live.compactor.status()


@carries_out("topics.offload", what="Offload")
async def start_offload(live: PersistentTopic, until: MessageId) -> None:
    raise FeatureNotSupported("There is no long-term storage to offload to")


@carries_out("topics.offload_status", what="Offload")
async def get_offload(live: PersistentTopic) -> JobStatus:
    return {"status": "NOT_RUN", "lastError": ""}


@carries_out("topics.trim", what="Trim")
async def trim_topic(parts: Parts) -> None:
    await together(part.log.trim() for part in parts)


@carries_out("topics.truncate")
async def truncate_topic(owners: TopicOwners, topic: TopicName) -> None:
    await owners.scalable.migrations.check_regular(topic)
    if not topic.is_persistent:
        raise PreconditionFailed("unsupport truncate")
    await together(part.truncate() for part in await find_parts(owners, topic, "Truncate"))


# Properties
@carries_out("topics.properties")
async def get_properties(owners: TopicOwners, topic: TopicName) -> Mapping[str, str] | None:
    check_persistent(topic)
    metadata = await owners.resources.partitioned.get(topic)
    if metadata is not None:
        return metadata.properties
    return (await find_topic(owners, topic)).properties


@carries_out("topics.update_properties")
async def update_properties(
    owners: PropertyOwners, topic: TopicName, properties: dict[str, str | None] | None
) -> None:
    more = _present(properties)
    await _change_properties(
        owners, topic, lambda present: merge_properties(owners.limits, present, more)
    )


@carries_out("topics.remove_property")
async def remove_property(owners: TopicOwners, topic: TopicName, key: str | None) -> None:
    await _change_properties(owners, topic, lambda present: without(present, key))


async def _change_properties(
    owners: TopicOwners, topic: TopicName, change: Callable[[Mapping[str, str]], dict[str, str]]
) -> None:
    check_persistent(topic)
    partitioned = owners.resources.partitioned
    if await partitioned.get(topic) is not None:
        await partitioned.update(
            topic, lambda each: replace(each, properties=change(each.properties or {}))
        )
        return
    found = await find_topic(owners, topic)
    await found.set_properties(change(found.properties))


def _present(properties: Mapping[str, str | None] | None) -> dict[str, str]:
    return {key: value for key, value in (properties or {}).items() if value is not None}


# Messages
@carries_out("topics.backlog_size", what="Backlog size")
async def get_backlog_size(live: PersistentTopic, position: MessageId) -> int:
    log = live.log
    after, end = position.position, log.sequence.end_position
    if after == EARLIEST:
        return log.sequence.total_bytes
    return 0 if after >= end else log.sequence.bytes_between(log.sequence.next_position(after), end)


@carries_out("topics.last_message_id", what="GetLastMessageId")
async def get_last_message_id(live: PersistentTopic) -> MessageIdAnswer:
    position, batch_index = await log_search.last_message_id(live.log, live.buffer)
    if position == EARLIEST:
        position = live.log.sequence.last_position
    partition = live.name.partition_index
    return describe_position(position, partition_index=partition, batch_index=batch_index)


@carries_out("topics.message_id_at")
async def get_message_id_at(
    owners: TopicOwners, topic: TopicName, timestamp_ms: int
) -> MessageIdAnswer:
    what = "Get message ID by timestamp"
    check_stored(topic, what)
    live = await find_persistent(owners, topic, what, NOT_PARTITIONED)
    position = EARLIEST
    if live.log.sequence.total_entries:
        position = await log_search.position_at(live.log, timestamp_ms)
    return describe_position(position, partition_index=topic.partition_index)


@carries_out(
    "topics.read_entry",
    what="GetMessageById",
    partitioned="{what} is not allowed on partitioned-topic",
)
async def read_entry(live: PersistentTopic, ledger_id: int, entry_id: int) -> SeenEntry:
    position = Position(ledger_id, entry_id)
    try:
        data = await log_search.read_entry(live.log, position)
        return log_search.see_entry(live.buffer, position, data)
    except EntryNotFound:
        raise NotFound("Message id not found") from None


@carries_out("topics.examine")
async def examine(
    owners: TopicOwners, topic: TopicName, initial_position: str, message_position: int
) -> SeenEntry:
    """The nth entry from the start, or from the end; beyond the other end counts as the end."""
    check_stored(topic, "Examine messages")
    live = await find_persistent(owners, topic, "Examine messages", NOT_PARTITIONED)
    total = live.log.sequence.total_entries
    if total == 0:
        raise PreconditionFailed("Could not examine messages due to the total message is zero")
    if initial_position not in ("earliest", "latest"):
        raise PreconditionFailed(f"initialPosition is earliest or latest, not {initial_position!r}")
    number = min(max(message_position, 1), total)
    return await read_nth(live, number if initial_position == "earliest" else total - number + 1)


async def read_nth(live: PersistentTopic, number: int) -> SeenEntry:
    """From the start of the topic, from 1."""
    position = live.log.sequence.position_after(live.log.sequence.first_position, number - 1)
    data = await log_search.read_entry(live.log, position)
    return log_search.see_entry(live.buffer, position, data)
