"""Topics without partitions, and single partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from magnetar.broker.administration.permission import forget_permissions
from magnetar.broker.api.chain_info import describe_chain
from magnetar.broker.api.message_id import describe_position
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.guard import (
    check_regular,
    check_regular_name,
    find_successor,
    was_regular,
)
from magnetar.errors import (
    BrokerError,
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
from magnetar.model.limit import merge_properties
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.policy import PartitionedTopicMetadata
from magnetar.model.position import EARLIEST, Position
from magnetar.model.segment import scalable_name
from magnetar.rules.system import is_system_topic

if TYPE_CHECKING:
    from magnetar.broker.service import AnyTopic, Service

_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class StatsOptions:
    precise_backlog: bool = False
    subscription_backlog_size: bool = True
    earliest_in_backlog: bool = False
    exclude_publishers: bool = False
    exclude_consumers: bool = False


class TopicApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    # Making and removing
    async def create(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        await check_namespace(self._service, topic.namespace)
        if topic.is_partition:
            await self._check_partition(topic)
        await check_new(self._service, topic)
        await self._service.load_topic(topic, create=True, properties=properties)

    async def _check_partition(self, topic: TopicName) -> None:
        metadata = await self._service.resources.partitioned.get(topic.base)
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

    async def delete(self, topic: TopicName, *, force: bool) -> None:
        await check_regular(self._service, topic)
        if await self._service.resources.partitioned.get(topic) is not None:
            raise Conflict(
                f"{topic} is a partitioned topic, instead of calling delete topic, please call"
                " delete-partitioned-topic."
            )
        await self._service.delete_topic(topic, force=force)
        if not topic.is_partition:
            await forget_topic(self._service, topic)

    # Looking
    async def find(self, topic: TopicName) -> AnyTopic:
        """The live topic; a partitioned topic's own name is not one."""
        try:
            return await self._service.load_topic(topic)
        except TopicNotFound as missing:
            successor = await find_successor(self._service, topic)
            if successor is None:
                raise
            if was_regular(await self._service.scalable.metadata(successor)):
                await check_regular_name(self._service, topic)
            raise TopicNotFound(f"{missing.sentence}: it is scalable, {successor}") from None

    async def find_persistent(self, topic: TopicName, refusal: BrokerError) -> PersistentTopic:
        if not topic.is_persistent:
            raise refusal
        found = await self.find(topic)
        assert isinstance(found, PersistentTopic), "the domain says so"
        return found

    async def stats(self, topic: TopicName, options: StatsOptions) -> Mapping[str, Any]:
        return (await self.find(topic)).stats(**asdict(options))

    async def internal_stats(self, topic: TopicName) -> Mapping[str, Any]:
        return (await self.find(topic)).internal_stats()

    async def internal_info(self, topic: TopicName) -> Mapping[str, Any]:
        """What the store keeps; for a partitioned topic, of every partition."""
        metadata = await self._service.resources.partitioned.get(topic)
        if metadata is None:
            return await describe_chain(self._service, topic)
        partitions = {
            each.full: await describe_chain(self._service, each)
            for each in partitions_of(topic, metadata)
        }
        return {"version": 0, "partitions": partitions}

    async def backlog_size(self, topic: TopicName, position: Position) -> int:
        chain = (await self.find_persistent(topic, _not_allowed("Backlog size"))).chain
        end = chain.next_position(chain.last_position)
        if position == EARLIEST:
            return chain.total_bytes
        return 0 if position >= end else chain.bytes_between(chain.next_position(position), end)

    # Acting
    async def each(self, topic: TopicName, act: Callable[[TopicName], Awaitable[None]]) -> None:
        """Do it to the topic, or to each of its partitions."""
        metadata = await self._service.resources.partitioned.get(topic)
        if metadata is None:
            await act(topic)
            return
        await for_each(partitions_of(topic, metadata), act)

    async def unload(self, topic: TopicName) -> None:
        await self.each(topic, self._service.unload_topic)

    async def terminate(self, topic: TopicName) -> Mapping[str, Any]:
        refusal = NotAcceptable("Need to provide a persistent topic name")
        if not topic.is_persistent:
            raise refusal
        if await self._service.resources.partitioned.get(topic) is not None:
            raise MethodNotAllowed("Termination of a partitioned topic is not allowed")
        if is_system_topic(topic):
            raise MethodNotAllowed("Termination of a system topic is not allowed")
        await check_regular(self._service, topic)
        return describe_position(await (await self.find_persistent(topic, refusal)).terminate())

    async def start_compaction(self, topic: TopicName) -> None:
        async def start(name: TopicName) -> None:
            await (await self.find_persistent(name, _not_allowed("Compaction"))).start_compaction()

        await self.each(topic, start)

    async def compaction_status(self, topic: TopicName) -> Mapping[str, Any]:
        found = await self.find_persistent(topic, _not_allowed("Compaction"))
        return found.compaction_status()

    async def start_offload(self, topic: TopicName) -> None:
        await self.find_persistent(topic, _not_allowed("Offload"))
        raise FeatureNotSupported("There is no long-term storage to offload to")

    async def offload_status(self, topic: TopicName) -> Mapping[str, Any]:
        await self.find_persistent(topic, _not_allowed("Offload"))
        return {"status": "NOT_RUN", "lastError": ""}

    async def trim(self, topic: TopicName) -> None:
        async def trim(name: TopicName) -> None:
            await (await self.find_persistent(name, _not_allowed("Trim"))).trim()

        await self.each(topic, trim)

    async def truncate(self, topic: TopicName) -> None:
        await check_regular(self._service, topic)

        async def truncate(name: TopicName) -> None:
            refusal = PreconditionFailed("unsupport truncate")
            await (await self.find_persistent(name, refusal)).truncate()

        await self.each(topic, truncate)

    # Entries
    async def last_message_id(self, topic: TopicName) -> Mapping[str, Any]:
        found = await self.find_persistent(topic, _not_allowed("GetLastMessageId"))
        position, batch_index = await found.last_message_id()
        if position == EARLIEST:
            position = found.chain.last_position
        return describe_position(
            position, partition_index=topic.partition_index, batch_index=batch_index
        )

    async def message_id_at(self, topic: TopicName, timestamp_ms: int) -> Mapping[str, Any]:
        what = "Get message ID by timestamp"
        if topic.is_persistent:
            await self._check_not_partitioned(
                topic, f"{what} on a partitioned topic is not allowed"
            )
        found = await self.find_persistent(topic, _not_allowed(what))
        position = EARLIEST
        if found.chain.total_entries:
            position = await found.position_at(timestamp_ms)
        return describe_position(position, partition_index=topic.partition_index)

    async def read_entry(self, topic: TopicName, position: Position) -> tuple[Position, bytes]:
        what = "GetMessageById"
        await self._check_not_partitioned(topic, f"{what} is not allowed on partitioned-topic")
        found = await self.find_persistent(topic, _not_allowed(what))
        try:
            return position, await found.read_entry(position)
        except EntryNotFound:
            raise NotFound("Message id not found") from None

    async def examine(self, topic: TopicName, initial: str, number: int) -> tuple[Position, bytes]:
        """The nth entry from the start, or from the end; beyond the other end counts as the end."""
        what = "Examine messages"
        if topic.is_persistent:
            await self._check_not_partitioned(
                topic, f"{what} on a partitioned topic is not allowed"
            )
        found = await self.find_persistent(topic, _not_allowed(what))
        total = found.chain.total_entries
        if total == 0:
            raise PreconditionFailed("Could not examine messages due to the total message is zero")
        if initial not in ("earliest", "latest"):
            raise PreconditionFailed(f"initialPosition is earliest or latest, not {initial!r}")
        number = min(max(number, 1), total)
        ordinal = number - 1 if initial == "earliest" else total - number
        position = found.chain.position_after(found.chain.first_position, ordinal)
        return position, await found.read_entry(position)

    async def _check_not_partitioned(self, topic: TopicName, sentence: str) -> None:
        if await self._service.resources.partitioned.get(topic) is not None:
            raise MethodNotAllowed(sentence)

    # Properties
    async def properties(self, topic: TopicName) -> Mapping[str, str] | None:
        _check_has_properties(topic)
        metadata = await self._service.resources.partitioned.get(topic)
        if metadata is not None:
            return metadata.properties
        return (await self.find(topic)).properties

    async def update_properties(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        limits = self._service.limits
        await self._change_properties(
            topic, lambda present: merge_properties(limits, present, properties)
        )

    async def delete_property(self, topic: TopicName, key: str | None) -> None:
        await self._change_properties(
            topic, lambda present: {name: each for name, each in present.items() if name != key}
        )

    async def _change_properties(
        self, topic: TopicName, change: Callable[[Mapping[str, str]], dict[str, str]]
    ) -> None:
        _check_has_properties(topic)
        partitioned = self._service.resources.partitioned
        if await partitioned.get(topic) is not None:
            await partitioned.update(
                topic, lambda each: replace(each, properties=change(each.properties or {}))
            )
            return
        found = await self.find(topic)
        await found.set_properties(change(found.properties))


def partitions_of(topic: TopicName, metadata: PartitionedTopicMetadata) -> Sequence[TopicName]:
    return [topic.partition(index) for index in range(metadata.partitions)]


async def for_each(
    topics: Sequence[TopicName], act: Callable[[TopicName], Awaitable[None]]
) -> None:
    """Several at once, but not all of a large topic."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def act_on(topic: TopicName) -> None:
        async with gate:
            await act(topic)

    await asyncio.gather(*(act_on(topic) for topic in topics))


async def check_namespace(service: Service, namespace: NamespaceName) -> None:
    policies = await service.resources.namespaces.get(namespace)
    if policies is None or policies.deleted:
        raise NamespaceNotFound(f"Namespace not found: {namespace}")


async def check_new(service: Service, topic: TopicName) -> None:
    """Neither a topic nor a partitioned or scalable topic of this name may exist."""
    record = await service.scalable.records.get(topic.base) if topic.is_persistent else None
    if record is not None and not was_regular(record):
        raise Conflict(f"This topic already exists as a scalable topic: {scalable_name(topic)}")
    await check_regular(service, topic)
    if await service.resources.partitioned.get(topic) is not None:
        raise Conflict("This topic already exists")
    if await service.topic_exists(topic):
        raise Conflict("This topic already exists")


async def check_exists(service: Service, topic: TopicName) -> None:
    if topic.domain is TopicDomain.TOPIC:
        await service.scalable.metadata(topic)
        return
    if await service.resources.partitioned.get(topic) is not None:
        return
    if not await service.topic_exists(topic):
        raise TopicNotFound(f"Topic {topic} not found")


async def forget_topic(service: Service, topic: TopicName) -> None:
    """What outlives a topic's log: its schemas, its policies and the permissions on it."""
    await service.schemas.delete_storage(topic)
    await service.policies.delete(topic)
    await forget_permissions(service, topic)


def _not_allowed(what: str) -> MethodNotAllowed:
    return MethodNotAllowed(f"{what} on a non-persistent topic is not allowed")


def _check_has_properties(topic: TopicName) -> None:
    if not topic.is_persistent:
        raise NotAcceptable("Need to provide a persistent topic name")
