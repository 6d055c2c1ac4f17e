"""Regular topics with clients of both kinds, in a broker in the loop of the test."""

from __future__ import annotations

import asyncio
from typing import Any

from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.service import Service
from magnetar.model.migration import MANAGED, lock_path, preparation_path
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.segment import scalable_name
from magnetar.wire.command import (
    BaseCommand,
    CommandLookupTopic,
    CommandPartitionedTopicMetadata,
    CommandProducer,
    CommandSubscribe,
    KeyValue,
)
from tests.unit.broker.broker_place import Place
from tests.unit.broker.scalable.group_place import Client

REGULAR = "persistent://shop/eu/orders"
NAME = parse_topic(REGULAR)
TOPIC = scalable_name(NAME)
MARK = [KeyValue(key=MANAGED, value="true")]


class Follower(Client):
    """A V5 client: says so when it attaches to a regular topic."""

    async def attach_producer(self, topic: str, *, producer_id: int = 1) -> BaseCommand:
        request = CommandProducer(topic=topic, producer_id=producer_id, metadata=MARK)
        return await self.ask(request, BaseCommand.PRODUCER_SUCCESS)

    async def attach_consumer(
        self, topic: str, *, consumer_id: int = 1, name: str = "s", mark: bool = True, **more: Any
    ) -> BaseCommand:
        more = {"subType": CommandSubscribe.Shared} | more
        request = CommandSubscribe(
            topic=topic,
            subscription=name,
            consumer_id=consumer_id,
            consumer_name=f"{name}-{consumer_id}",
            initialPosition=CommandSubscribe.Earliest,
            metadata=MARK if mark else [],
            **more,
        )
        return await self.ask(request, BaseCommand.SUCCESS)


async def ask_partitions(client: Client, topic: str = REGULAR) -> Any:
    request = CommandPartitionedTopicMetadata(topic=topic, metadata_auto_creation_enabled=True)
    answer = await client.ask(request, BaseCommand.PARTITIONED_METADATA_RESPONSE)
    return answer.partitionMetadataResponse


async def ask_owner(client: Client, topic: str = REGULAR) -> Any:
    request = CommandLookupTopic(topic=topic)
    answer = await client.ask(request, BaseCommand.LOOKUP_RESPONSE)
    return answer.lookupTopicResponse


async def make_regular(place: Place, partitions: int = 0, full: str = REGULAR) -> TopicName:
    name = parse_topic(full)
    if partitions:
        await place.service.resources.partitioned.create(name, partitions, None)
    for part in parts(full, partitions):
        await place.topic(part)
    return name


def parts(full: str = REGULAR, partitions: int = 0) -> list[str]:
    return [f"{full}-partition-{index}" for index in range(partitions)] or [full]


async def migrate(place: Place, name: TopicName = NAME, *, force: bool = False) -> None:
    """Return when all is done that follows the migration."""
    await place.service.scalable.migrations.run(name, force=force)
    await settle(place.service, scalable_name(name))


async def settle(service: Service, topic: TopicName) -> None:
    """Until the regular topics are sealed and nothing tells of the migration but the record."""
    await service.scalable.controller(topic)
    async with asyncio.timeout(10):
        while any([await service.store.exists(p(topic)) for p in (preparation_path, lock_path)]):
            await asyncio.sleep(0)


async def live(place: Place, full: str) -> PersistentTopic:
    topic = await place.service.catalog.load_topic(parse_topic(full))
    assert isinstance(topic, PersistentTopic)
    return topic
