"""Admission of clients of regular topics: they are kept away from a topic that is scalable.

They are refused with a sentence that names the scalable topic, and with codes that official clients
take for the end instead of retrying: a producer of a migrated topic gets TopicTerminated, all
others TopicNotFound. A code of its own would be lost: published clients drop the whole command, or
the connection, for an error code that they do not know.

Clients that can follow say so when they attach, or watch the layout over the same connection; those
read on from what was the regular topic. Lookups come first, over any connection, and carry no such
sign: there only those are refused that cannot know scalable topics, and questions that no client of
scalable topics asks. What passes there is decided when it attaches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from magnetar.broker.attachment import AttachmentOwner
from magnetar.broker.consumer import Consumer
from magnetar.broker.producer import Producer
from magnetar.broker.scalable.connection_registry import ConnectionRegistry
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.broker.scalable.refusal import EntryPoint, LegacyRefusals
from magnetar.errors import BrokerError, TopicMigrated, TopicNotFound, TopicTerminated
from magnetar.model.caller import Caller
from magnetar.model.migration import MANAGED, is_reader_name
from magnetar.model.name import TopicDomain, TopicName, parse_topic
from magnetar.model.scalable import ScalableTopicMetadata
from magnetar.model.segment import SegmentId, scalable_name
from magnetar.rules.client_kind import may_be_scalable
from magnetar.wire.command import CommandSubscribe, FeatureFlags


def is_classic_producer(producer: Producer) -> bool:
    """Whether it cannot follow a topic that becomes scalable."""
    return producer.metadata.get(MANAGED) != "true"


class AttachedConnection(AttachmentOwner, Protocol):
    """The connection of a client that attaches to a topic."""

    @property
    def features(self) -> FeatureFlags: ...


class ClientConnection(AttachedConnection, Protocol):
    """The connection of a client that asks for a topic."""

    @property
    def address(self) -> str: ...

    @property
    def client_version(self) -> str: ...

    @property
    def caller(self) -> Caller: ...


class Guard:
    def __init__(
        self,
        records: ScalableRecords,
        refusals: LegacyRefusals,
        *,
        is_assigned: Callable[[TopicName, str | None, str], bool],
        load_groups: Callable[[TopicName], Awaitable[object]],
    ) -> None:
        self._records = records
        self._refusals = refusals
        self._is_assigned = is_assigned
        """Whether a topic's group, or any, has a consumer with a reader of this name."""
        self._load_groups = load_groups
        """Returns when the groups of a scalable topic are known."""

    def is_classic_consumer(
        self,
        connection: AttachedConnection,
        topic: TopicName,
        metadata: Mapping[str, str],
        *,
        name: str,
        subscription: str,
        durable: bool,
    ) -> bool:
        """Whether it cannot follow a topic that becomes scalable.

        Some that can do not say so. Consumers of a group are known by their names. Of readers
        without a cursor the connection watches the layout, unless it is of a client that marks all
        it attaches.
        """
        if metadata.get(MANAGED) == "true":
            return False
        if self._is_assigned(topic, None if not durable else subscription, name):
            return False
        return durable or _announces(connection) or not _watches(connection, topic)

    async def check_producer(self, connection: ClientConnection, name: TopicName) -> None:
        """Before anything is loaded or made: the regular topic may be gone for good."""
        record = await self._find_record(name)
        if record is not None:
            refusal: BrokerError = _claimed(name, record)
            if was_regular(record):
                refusal = _terminated(name, scalable_name(name.base))
            raise self._refused(connection, EntryPoint.PRODUCER, name, refusal)

    async def check_consumer(
        self, connection: ClientConnection, name: TopicName, request: CommandSubscribe
    ) -> None:
        record = await self._find_record(name)
        if record is None:
            return
        successor = scalable_name(name.base)
        if is_reader_name(request.consumer_name) and not record.is_deleting:
            await self._load_groups(successor)
        if self.is_classic_consumer(
            connection,
            successor,
            {each.key: each.value for each in request.metadata},
            name=request.consumer_name,
            subscription=request.subscription,
            durable=request.durable,
        ):
            raise self._refused(connection, EntryPoint.CONSUMER, name, _claimed(name, record))
        if not _is_parent(record, name):
            raise TopicNotFound(f"{name} is not a part of {successor}, or not any more")

    async def check_partitions(self, connection: ClientConnection, name: TopicName) -> None:
        """What clients of regular topics ask first. Others ask it of what a layout names only."""
        record = await self._find_record(name)
        if record is not None and not (_may_follow(connection) and _is_parent(record, name)):
            raise self._refused(connection, EntryPoint.PARTITIONS, name, _claimed(name, record))

    async def check_lookup(self, connection: ClientConnection, name: TopicName) -> None:
        """Clients of scalable topics begin with this, by whatever name they were given.

        Clients whose producers and consumers a migration closed begin with it too: they are refused
        when they attach. Official C++ and Python clients repeat a lookup that failed for ever.
        """
        if name in connection.attached(ConnectionRegistry).migrated:
            return
        record = await self._find_record(name)
        if record is not None and not _may_follow(connection):
            raise self._refused(connection, EntryPoint.LOOKUP, name, _claimed(name, record))

    async def check_regular_name(self, name: TopicName) -> None:
        """Raise TopicMigrated for the name of a regular topic that belongs to a scalable one."""
        record = await self._find_record(name)
        if record is not None:
            raise _claimed(name, record)

    def check_writable(self, topic: TopicName, successor: TopicName) -> None:
        raise _terminated(topic, successor)

    def check_readable(
        self,
        topic: TopicName,
        successor: TopicName,
        consumer: Consumer,
        request: CommandSubscribe,
    ) -> None:
        """Clients of regular topics do not know the names of segments."""
        if parse_topic(request.topic).domain is TopicDomain.SEGMENT:
            return
        if self.is_classic_consumer(
            consumer.connection,
            successor,
            consumer.metadata,
            name=consumer.name,
            subscription=request.subscription,
            durable=request.durable,
        ):
            raise _migrated(topic, successor)

    async def _find_record(self, name: TopicName) -> ScalableTopicMetadata | None:
        if name.domain is not TopicDomain.PERSISTENT:
            return None
        return await self._records.get(name.base)

    def _refused(
        self, connection: ClientConnection, entry: EntryPoint, name: TopicName, refusal: BrokerError
    ) -> BrokerError:
        self._refusals.on_refused(
            entry,
            refusal.sentence,
            topic=name.full,
            address=connection.address,
            version=connection.client_version,
            caller=connection.caller,
        )
        return refusal


def _claimed(name: TopicName, record: ScalableTopicMetadata) -> TopicMigrated:
    successor = scalable_name(name.base)
    if was_regular(record):
        return _migrated(name, successor)
    return TopicMigrated(
        f"{name} is the name of the scalable topic {successor}; only V5 clients can use it"
    )


def _migrated(name: TopicName, successor: TopicName) -> TopicMigrated:
    return TopicMigrated(
        f"{name} was migrated and is the scalable topic {successor} now; only V5 clients can use it"
    )


def _terminated(name: TopicName, successor: TopicName) -> TopicTerminated:
    return TopicTerminated(
        f"Topic {name} was terminated: it was migrated and is {successor} now, for V5 clients only"
    )


def _is_parent(record: ScalableTopicMetadata, name: TopicName) -> bool:
    """Whether the topic is one of the old ones that the layout still names: partition n is, or was,
    segment n.
    """
    segment = record.layout.by_id.get(SegmentId(max(0, name.partition_index)))
    return segment is not None and segment.legacy_topic == name.full


def was_regular(record: ScalableTopicMetadata) -> bool:
    """Apache Pulsar records no origin; the layout names the old topics until they are pruned."""
    return record.migrated_from is not None or any(
        each.is_legacy for each in record.layout.segments
    )


def _may_follow(connection: ClientConnection) -> bool:
    """Whether the client may be one of scalable topics, by what it said over this connection."""
    return bool(connection.attached(ConnectionRegistry).layouts) or may_be_scalable(
        connection.client_version, announces=_announces(connection)
    )


def _announces(connection: AttachedConnection) -> bool:
    """Clients that announce scalable topics mark all that they attach to a regular one."""
    return connection.features.supports_scalable_topics


def _watches(connection: AttachedConnection, topic: TopicName) -> bool:
    layouts = connection.attached(ConnectionRegistry).layouts
    return any(session.subject == topic for session in layouts.values())
