"""The asyncio client: one object per application, producers and consumers made by it."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Iterable, Mapping
from typing import Final, Self, TypeVar

from magnetar.client.address import parse_addresses
from magnetar.client.authentication import Authentication, NoAuthentication
from magnetar.client.consumer import AsyncConsumer
from magnetar.client.error import ConfigurationError
from magnetar.client.lookup import Lookup
from magnetar.client.message_id import LATEST, MessageId
from magnetar.client.policy import BatchingPolicy, ConnectionPolicy
from magnetar.client.pool import ConnectionPool
from magnetar.client.producer import AsyncProducer
from magnetar.client.reader import AsyncReader
from magnetar.client.session import Session
from magnetar.client.subscription import (
    ConsumerSettings,
    Floor,
    InitialPosition,
    SubscriptionType,
)
from magnetar.client.topic_producer import ProducerSettings
from magnetar.model.name import parse_namespace, parse_topic
from magnetar.rules.route import KeyHash
from magnetar.runtime.clock import Clock, SystemClock
from magnetar.wire.command import CompressionType, ProducerAccessMode, Schema

_COMPRESSIONS: Final[Mapping[str, CompressionType]] = {
    "none": CompressionType.NONE,
    "lz4": CompressionType.LZ4,
    "zlib": CompressionType.ZLIB,
    "zstd": CompressionType.ZSTD,
    "snappy": CompressionType.SNAPPY,
}
_ACCESS_MODES: Final[Mapping[str, ProducerAccessMode]] = {
    "shared": ProducerAccessMode.Shared,
    "exclusive": ProducerAccessMode.Exclusive,
    "wait_for_exclusive": ProducerAccessMode.WaitForExclusive,
    "exclusive_with_fencing": ProducerAccessMode.ExclusiveWithFencing,
}

T = TypeVar("T")


class AsyncPulsarClient:
    """Connects when first needed. Everything it made is closed with it.

    Belongs to one event loop: create it inside, and close it there.
    """

    def __init__(
        self,
        service_url: str,
        *,
        authentication: Authentication | None = None,
        operation_timeout: float = 30.0,
        connection: ConnectionPolicy | None = None,
        tls: ssl.SSLContext | None = None,
        clock: Clock | None = None,
    ) -> None:
        policy = connection or ConnectionPolicy()
        chosen_clock = clock or SystemClock()
        pool = ConnectionPool(
            parse_addresses(service_url),
            authentication=authentication or NoAuthentication(),
            policy=policy,
            tls=tls,
        )
        lookup = Lookup(pool, clock=chosen_clock, policy=policy, timeout=operation_timeout)
        self._session = Session(pool, lookup, chosen_clock, policy, operation_timeout)

    async def connect(self) -> None:
        """Connect now instead of with the first use; raises at once when nobody answers."""
        await self._session.pool.get_service()

    async def create_producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        access_mode: str = "shared",
        send_timeout: float = 30.0,
        max_pending_messages: int = 1000,
        compression: str = "none",
        batching: BatchingPolicy | bool = True,
        chunking: bool = False,
        initial_sequence_id: int | None = None,
        hashing: KeyHash = KeyHash.JAVA_STRING,
        properties: Mapping[str, str] | None = None,
        schema: Schema | None = None,
    ) -> AsyncProducer:
        """A producer on a topic, which the broker creates if it is missing and may be."""
        if max_pending_messages < 1:
            raise ConfigurationError("max_pending_messages must be above 0")
        settings = ProducerSettings(
            name=name,
            access_mode=_choose("access_mode", access_mode, _ACCESS_MODES),
            send_timeout=send_timeout,
            max_pending_messages=max_pending_messages,
            compression=_choose("compression", compression, _COMPRESSIONS),
            batching=(BatchingPolicy() if batching else None)
            if isinstance(batching, bool)
            else batching,
            chunking=chunking,
            initial_sequence_id=initial_sequence_id,
            properties=properties or {},
            schema=schema,
        )
        producer = AsyncProducer(self._session, parse_topic(topic), settings, hashing)
        await producer.open()
        return producer

    async def subscribe(
        self,
        topic: str | Iterable[str],
        subscription: str,
        *,
        type: SubscriptionType | str = SubscriptionType.EXCLUSIVE,
        initial_position: InitialPosition | str = InitialPosition.LATEST,
        name: str = "",
        receiver_queue_size: int = 1000,
        priority: int = 0,
        ack_group_time: float = 0.1,
        ack_group_size: int = 1000,
        ack_receipts: bool = False,
        batch_index_acks: bool = True,
        nack_delay: float = 60.0,
        read_compacted: bool = False,
        properties: Mapping[str, str] | None = None,
        subscription_properties: Mapping[str, str] | None = None,
        schema: Schema | None = None,
    ) -> AsyncConsumer:
        """A consumer of one topic or several, on a subscription that is made if it is missing."""
        settings = ConsumerSettings(
            subscription,
            type=_choose("type", type, {str(known): known for known in SubscriptionType}),
            initial_position=_choose(
                "initial_position",
                initial_position,
                {str(known): known for known in InitialPosition},
            ),
            name=name or secrets.token_hex(5),
            receiver_queue_size=receiver_queue_size,
            priority=priority,
            ack_group_time=ack_group_time,
            ack_group_size=ack_group_size,
            ack_receipts=ack_receipts,
            batch_index_acks=batch_index_acks,
            nack_delay=nack_delay,
            read_compacted=read_compacted,
            properties=properties or {},
            subscription_properties=subscription_properties or {},
            schema=schema,
        )
        named = [topic] if isinstance(topic, str) else list(topic)
        return await self._open_consumer(named, settings)

    async def reader(
        self,
        topic: str,
        start: MessageId = LATEST,
        *,
        start_included: bool = False,
        name: str = "",
        receiver_queue_size: int = 1000,
        read_compacted: bool = False,
        schema: Schema | None = None,
    ) -> AsyncReader:
        """A reader from a message on; `start` itself comes only with `start_included`."""
        settings = ConsumerSettings(
            f"reader-{secrets.token_hex(5)}",
            name=name or secrets.token_hex(5),
            start=Floor(start, start_included),
            receiver_queue_size=receiver_queue_size,
            read_compacted=read_compacted,
            schema=schema,
        )
        return AsyncReader(await self._open_consumer([topic], settings))

    async def count_partitions(self, topic: str) -> int:
        """0 for a topic without partitions; nothing is created."""
        return await self._session.lookup.count_partitions(parse_topic(topic), create=False)

    async def list_topics(self, namespace: str, *, mode: str = "PERSISTENT") -> list[str]:
        """Full names of a namespace's topics; `mode` is PERSISTENT, NON_PERSISTENT or ALL."""
        return await self._session.lookup.list_topics(parse_namespace(namespace), mode=mode)

    async def close(self) -> None:
        """Close everything that was made here, then the connections."""
        for made in tuple(self._session.made):
            await made.close()
        await self._session.scope.close()
        self._session.pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _open_consumer(self, topics: list[str], settings: ConsumerSettings) -> AsyncConsumer:
        if not topics:
            raise ConfigurationError("A consumer needs a topic")
        consumer = AsyncConsumer(self._session, [parse_topic(topic) for topic in topics], settings)
        await consumer.open()
        return consumer


def _choose(what: str, word: str, known: Mapping[str, T]) -> T:
    found = known.get(word)
    if found is None:
        raise ConfigurationError(f"No {what} is called {word!r}; there are {', '.join(known)}")
    return found
