"""Partitioned topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from magnetar.broker.administration.port import TopicOwners, TopicSettings, TopicTraces
from magnetar.broker.administration.record import load_policies
from magnetar.broker.administration.registry import carries_out
from magnetar.broker.administration.topic import (
    StatsOptions,
    check_namespace,
    check_new,
    check_persistent,
    existing_parts,
    forget_topic,
    partitions_of,
)
from magnetar.broker.administration.topic_list import find_successors
from magnetar.broker.administration.topic_part import TopicParts
from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.resource import Resources
from magnetar.broker.scalable.segment import together
from magnetar.errors import (
    BadRequest,
    BrokerError,
    Conflict,
    InvalidName,
    MethodNotAllowed,
    NotFound,
    TopicNotFound,
    Unprocessable,
)
from magnetar.metadata.store import MetadataStore
from magnetar.model.answer.log import MessageIdAnswer, PartitionedLogStats
from magnetar.model.answer.topic import PartitionedTopicStats
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.policy import Int32
from magnetar.model.tenancy import PartitionedTopicMetadata
from magnetar.model.validation import check_partitions
from magnetar.rules.partition_stats import merge_topic_stats
from magnetar.rules.system import is_system_topic
from magnetar.runtime.configuration import Configuration

# Without a configured limit, a slip of the keyboard must not make a million topics.
PARTITIONS_MAX: Final = 10_000


class PartitionCount(Struct, frozen=True, kw_only=True):
    """How many partitions, and the topic's properties."""

    partitions: Int32 = 0
    properties: dict[str, str] | None = None


@carries_out("topics.list_partitioned")
async def list_partitioned(
    resources: Resources,
    store: MetadataStore,
    namespace: NamespaceName,
    domain: TopicDomain,
    include_system: bool,
) -> Sequence[str]:
    await load_policies(resources, namespace)
    names = await resources.partitioned.list(namespace, domain)
    became = await find_successors(store, namespace, domain)
    return [
        name.full
        for name in names
        if name.encoded_local not in became and (include_system or not is_system_topic(name))
    ]


# Making and removing
@carries_out("topics.create_partitioned")
async def create_partitioned(
    owners: TopicSettings, parts: TopicParts, topic: TopicName, partitions: int | PartitionCount
) -> None:
    _check_base(topic)
    if is_system_topic(topic):
        raise BadRequest(f"Create topic {topic} is not allowed: the name is the system's")
    await check_namespace(owners.resources, topic.namespace)
    asked = _read_count(partitions)
    count = asked.partitions
    check_partitions(count, partitions_max=_limit(owners.config))
    await check_new(owners, topic)
    await _check_limit(owners, topic, count)
    await owners.resources.partitioned.create(topic, count, asked.properties)
    await _create_missing(parts, [topic.partition(index) for index in range(count)])


def _read_count(body: int | PartitionCount) -> PartitionCount:
    return PartitionCount(partitions=body) if isinstance(body, int) else body


def _limit(config: Configuration) -> int:
    return config.maxNumPartitionsPerPartitionedTopic or PARTITIONS_MAX


async def _check_limit(owners: TopicOwners, topic: TopicName, count: int) -> None:
    policies = await load_policies(owners.resources, topic.namespace)
    await owners.catalog.limit.check(topic.namespace, policies, more=count)


async def _create_missing(parts: TopicParts, partitions: Sequence[TopicName]) -> None:
    """Persistent ones exist from the start; the others come to be with their clients."""
    persistent = [name for name in partitions if name.is_persistent]
    await together(parts.at(name).create() for name in persistent)


@carries_out("topics.create_missed_partitions")
async def create_missed_partitions(
    owners: TopicOwners, parts: TopicParts, topic: TopicName
) -> None:
    await owners.scalable.migrations.check_regular(topic)
    metadata = await _require(
        owners.resources, topic, TopicNotFound(f"Topic {topic} does not exist")
    )
    await _create_missing(parts, partitions_of(topic, metadata))


@carries_out("topics.update_partitioned")
async def update_partitioned(
    owners: TopicSettings,
    parts: TopicParts,
    topic: TopicName,
    partitions: int | PartitionCount,
    force: bool = False,
) -> None:
    """New partitions get every durable subscription of the first one, from the start.

    They are made before their number is published, so that no client writes to one that lacks a
    subscription.
    """
    _check_base(topic)
    await owners.scalable.migrations.check_regular(topic)
    count = _read_count(partitions).partitions
    refusal = Conflict(f"Topic {topic} is not the partitioned topic.")
    metadata = await _require(owners.resources, topic, refusal)
    if count < metadata.partitions:
        raise Unprocessable(
            f"Desired partitions {count} can't be less than the current partitions"
            f" {metadata.partitions}."
        )
    if count > _limit(owners.config):
        raise Unprocessable(f"Desired partitions {count} can't be above {_limit(owners.config)}.")
    if count == metadata.partitions:
        return
    await _check_limit(owners, topic, count - metadata.partitions)
    new = [topic.partition(index) for index in range(metadata.partitions, count)]
    if topic.is_persistent:
        await _make_new(owners.catalog, parts, topic, new, force=force)
    await owners.resources.partitioned.update(
        topic, lambda each: replace(each, partitions=max(each.partitions, count))
    )


async def _make_new(
    catalog: TopicCatalog,
    parts: TopicParts,
    topic: TopicName,
    new: Sequence[TopicName],
    *,
    force: bool,
) -> None:
    stray = [name.full for name in new if await catalog.topic_exists(name)]
    if stray and not force:
        raise Conflict(f"Already have non partition topic {stray[0]} which contains partition")
    copied = await parts.at(topic.partition(0)).list_subscriptions()
    await together(parts.at(name).copy_subscriptions(copied) for name in new)


@carries_out("topics.partitioned_metadata")
async def get_partitioned_metadata(
    owners: TopicOwners, topic: TopicName, may_create: bool
) -> PartitionedTopicMetadata:
    await owners.scalable.guard.check_regular_name(topic)
    metadata = await owners.resources.partitioned.get(topic)
    if metadata is not None:
        return metadata
    count = await owners.catalog.partitions_of(topic, may_create=may_create)
    return PartitionedTopicMetadata(partitions=count)


@carries_out("topics.delete_partitioned")
async def delete_partitioned(
    owners: TopicTraces, parts: TopicParts, topic: TopicName, force: bool = False
) -> None:
    _check_base(topic)
    await owners.scalable.migrations.check_regular(topic)
    if await owners.resources.partitioned.get(topic) is None:
        if await owners.catalog.topic_exists(topic):
            raise Conflict(
                f"{topic} is a non-partitioned topic. Instead of calling"
                " delete-partitioned-topic please call delete."
            )
        raise TopicNotFound(f"Topic {topic} not found.")
    names = await existing_parts(owners, topic)
    if not force:
        for name in names:
            await parts.at(name).check_unused()

    async def delete_one(name: TopicName) -> None:
        with suppress(TopicNotFound):
            await parts.at(name).delete(force)

    await together(map(delete_one, names))
    await owners.resources.partitioned.delete(topic)
    await forget_topic(owners, topic)


# Looking
@carries_out("topics.partitioned_stats")
async def get_partitioned_stats(
    owners: TopicOwners,
    parts: TopicParts,
    topic: TopicName,
    per_partition: bool,
    options: StatsOptions,
) -> PartitionedTopicStats:
    metadata = await _require(
        owners.resources, topic, TopicNotFound(f"Partitioned Topic {topic} not found")
    )
    names = await existing_parts(owners, topic)
    if not names and topic.is_persistent:
        raise NotFound("Internal topics have not been generated yet")
    each = {name.full: await parts.at(name).stats(options._asdict()) for name in names}
    merged = merge_topic_stats(list(each.values()))
    known = {"metadata": metadata, "partitions": each if per_partition else {}}
    return cast(PartitionedTopicStats, merged | known)


@carries_out("topics.partitioned_internal_stats")
async def get_partitioned_internal_stats(
    owners: TopicOwners, parts: TopicParts, topic: TopicName
) -> PartitionedLogStats:
    metadata = await _require(
        owners.resources, topic, TopicNotFound(f"Partitioned Topic {topic} not found")
    )
    names = await existing_parts(owners, topic)
    each = {name.full: await parts.at(name).internal_stats() for name in names}
    return {"metadata": to_builtins(metadata), "partitions": each}


# Acting
@carries_out("topics.terminate_partitioned")
async def terminate_partitioned(
    owners: TopicOwners, parts: TopicParts, topic: TopicName
) -> Mapping[str, MessageIdAnswer]:
    check_persistent(topic)
    refusal = MethodNotAllowed(
        "Termination of a non-partitioned topic is not allowed using"
        " partitioned-terminate, please use terminate commands"
    )
    await _require(owners.resources, topic, refusal)
    await owners.scalable.migrations.check_regular(topic)
    names = await existing_parts(owners, topic)
    last = await together(parts.at(name).terminate() for name in names)
    return {str(name.partition_index): each for name, each in zip(names, last, strict=True)}


async def _require(
    resources: Resources, topic: TopicName, refusal: BrokerError
) -> PartitionedTopicMetadata:
    metadata = await resources.partitioned.get(topic)
    if metadata is None:
        raise refusal
    return metadata


def _check_base(topic: TopicName) -> None:
    if topic.is_partition:
        raise InvalidName("Partitioned Topic Name should not contain '-partition-'")
