"""Partitioned topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from magnetar.broker.administration.record import load_policies
from magnetar.broker.api.message_id import describe_position
from magnetar.broker.api.stats import merge_topic_stats
from magnetar.broker.api.topic import (
    StatsOptions,
    TopicApi,
    check_namespace,
    check_new,
    for_each,
    forget_topic,
    partitions_of,
)
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.room import check_room
from magnetar.broker.scalable.guard import check_regular, check_regular_name
from magnetar.errors import (
    BadRequest,
    Conflict,
    InvalidName,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    TopicNotFound,
    Unprocessable,
)
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.policy import Int32, PartitionedTopicMetadata
from magnetar.model.position import EARLIEST, Position
from magnetar.model.validation import check_partitions
from magnetar.rules.system import is_system_topic

if TYPE_CHECKING:
    from magnetar.broker.service import AnyTopic, Service

# Without a configured limit, a slip of the keyboard must not make a million topics.
PARTITIONS_MAX: Final = 10_000


class PartitionCount(Struct, frozen=True, kw_only=True):
    """How many partitions, and the topic's properties."""

    partitions: Int32 = 0
    properties: dict[str, str] | None = None

    @classmethod
    def read(cls, body: int | PartitionCount) -> PartitionCount:
        return body if isinstance(body, PartitionCount) else cls(partitions=body)


class PartitionApi:
    def __init__(self, service: Service, topics: TopicApi) -> None:
        self._service = service
        self._topics = topics
        self._partitioned = service.resources.partitioned

    async def list(
        self, namespace: NamespaceName, domain: TopicDomain, *, include_system: bool = False
    ) -> Sequence[str]:
        await load_policies(self._service, namespace)
        names = await self._partitioned.list(namespace, domain)
        return [name.full for name in names if include_system or not is_system_topic(name)]

    # Making and removing
    async def create(self, topic: TopicName, asked: PartitionCount) -> None:
        _check_base(topic)
        if is_system_topic(topic):
            raise BadRequest(f"Create topic {topic} is not allowed: the name is the system's")
        await check_namespace(self._service, topic.namespace)
        check_partitions(asked.partitions, partitions_max=self._limit())
        await check_new(self._service, topic)
        await self._check_room(topic, asked.partitions)
        await self._partitioned.create(topic, asked.partitions, asked.properties)
        await self._create_missing([topic.partition(index) for index in range(asked.partitions)])

    def _limit(self) -> int:
        return self._service.config.maxNumPartitionsPerPartitionedTopic or PARTITIONS_MAX

    async def _check_room(self, topic: TopicName, count: int) -> None:
        policies = await load_policies(self._service, topic.namespace)
        await check_room(self._service, topic.namespace, policies, more=count)

    async def _create_missing(self, partitions: Sequence[TopicName]) -> None:
        """Persistent ones exist from the start; the others come to be with their clients."""

        async def create_one(name: TopicName) -> None:
            await self._service.load_topic(name, create=True)

        await for_each([name for name in partitions if name.is_persistent], create_one)

    async def create_missed(self, topic: TopicName) -> None:
        await check_regular(self._service, topic)
        metadata = await self._partitioned.get(topic)
        if metadata is None:
            raise TopicNotFound(f"Topic {topic} does not exist")
        await self._create_missing(partitions_of(topic, metadata))

    async def grow(self, topic: TopicName, count: int, *, force: bool) -> None:
        """New partitions get every durable subscription of the first one, from the start.

        The partitions are made before their number is told, so nobody writes to one that lacks a
        subscription.
        """
        _check_base(topic)
        await check_regular(self._service, topic)
        metadata = await self._partitioned.get(topic)
        if metadata is None:
            raise Conflict(f"Topic {topic} is not the partitioned topic.")
        if count < metadata.partitions:
            raise Unprocessable(
                f"Desired partitions {count} can't be less than the current partitions"
                f" {metadata.partitions}."
            )
        if count > self._limit():
            raise Unprocessable(f"Desired partitions {count} can't be above {self._limit()}.")
        if count == metadata.partitions:
            return
        await self._check_room(topic, count - metadata.partitions)
        new = [topic.partition(index) for index in range(metadata.partitions, count)]
        if topic.is_persistent:
            await self._make_new(topic, new, force=force)
        await self._partitioned.update(
            topic, lambda each: replace(each, partitions=max(each.partitions, count))
        )

    async def _make_new(self, topic: TopicName, new: Sequence[TopicName], *, force: bool) -> None:
        stray = [name.full for name in new if await self._service.topic_exists(name)]
        if stray and not force:
            raise Conflict(f"Already have non partition topic {stray[0]} which contains partition")
        first = await self._service.load_topic(topic.partition(0), create=True)
        assert isinstance(first, PersistentTopic)
        copied = {
            name: dict(subscription.properties)
            for name, subscription in first.subscriptions.items()
            if subscription.durable
        }

        async def make(name: TopicName) -> None:
            partition = await self._service.load_topic(name, create=True)
            assert isinstance(partition, PersistentTopic)
            for subscription, properties in copied.items():
                if subscription not in partition.subscriptions:
                    await partition.create_subscription(
                        subscription, position=EARLIEST, properties=properties
                    )

        await for_each(new, make)

    async def get(self, topic: TopicName, *, may_create: bool) -> PartitionedTopicMetadata:
        await check_regular_name(self._service, topic)
        metadata = await self._partitioned.get(topic)
        if metadata is not None:
            return metadata
        count = await self._service.partitions_of(topic, may_create=may_create)
        return PartitionedTopicMetadata(partitions=count)

    async def delete(self, topic: TopicName, *, force: bool) -> None:
        _check_base(topic)
        await check_regular(self._service, topic)
        metadata = await self._partitioned.get(topic)
        if metadata is None:
            if await self._service.topic_exists(topic):
                raise Conflict(
                    f"{topic} is a non-partitioned topic. Instead of calling"
                    " delete-partitioned-topic please call delete."
                )
            raise TopicNotFound(f"Topic {topic} not found.")
        names = await self._existing(topic, metadata)
        if not force:
            for name in names:
                (await self._service.load_topic(name)).check_unused()

        async def delete_one(name: TopicName) -> None:
            try:
                await self._service.delete_topic(name, force=force)
            except TopicNotFound:
                return

        await for_each(names, delete_one)
        await self._partitioned.delete(topic)
        await forget_topic(self._service, topic)

    async def _existing(
        self, topic: TopicName, metadata: PartitionedTopicMetadata
    ) -> Sequence[TopicName]:
        names = partitions_of(topic, metadata)
        return [name for name in names if await self._service.topic_exists(name)]

    # Looking
    async def stats(
        self, topic: TopicName, options: StatsOptions, *, per_partition: bool
    ) -> Mapping[str, Any]:
        metadata = await self._require(topic)
        partitions = await self._live(topic, metadata)
        if not partitions and topic.is_persistent:
            raise NotFound("Internal topics have not been generated yet")
        each = {name: live.stats(**asdict(options)) for name, live in partitions.items()}
        merged = merge_topic_stats(list(each.values()))
        merged["metadata"] = metadata
        merged["partitions"] = each if per_partition else {}
        return merged

    async def internal_stats(self, topic: TopicName) -> Mapping[str, Any]:
        metadata = await self._require(topic)
        partitions = await self._live(topic, metadata)
        each = {name: live.internal_stats() for name, live in partitions.items()}
        return {"metadata": metadata, "partitions": each}

    async def _live(
        self, topic: TopicName, metadata: PartitionedTopicMetadata
    ) -> Mapping[str, AnyTopic]:
        names = await self._existing(topic, metadata)
        return {name.full: await self._service.load_topic(name) for name in names}

    async def _require(self, topic: TopicName) -> PartitionedTopicMetadata:
        metadata = await self._partitioned.get(topic)
        if metadata is None:
            raise TopicNotFound(f"Partitioned Topic {topic} not found")
        return metadata

    # Acting
    async def terminate(self, topic: TopicName) -> Mapping[str, Any]:
        if not topic.is_persistent:
            raise NotAcceptable("Need to provide a persistent topic name")
        metadata = await self._partitioned.get(topic)
        if metadata is None:
            raise MethodNotAllowed(
                "Termination of a non-partitioned topic is not allowed using"
                " partitioned-terminate, please use terminate commands"
            )
        await check_regular(self._service, topic)
        last: dict[str, Position] = {}

        async def terminate_one(name: TopicName) -> None:
            partition = await self._service.load_topic(name)
            assert isinstance(partition, PersistentTopic)
            last[str(name.partition_index)] = await partition.terminate()

        await for_each(await self._existing(topic, metadata), terminate_one)
        return {index: describe_position(last[index]) for index in sorted(last, key=int)}


def _check_base(topic: TopicName) -> None:
    if topic.is_partition:
        raise InvalidName("Partitioned Topic Name should not contain '-partition-'")
