"""How a producer introduces itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from magnetar.client.encryption import ProducerEncryption
from magnetar.client.error import NotFoundError
from magnetar.client.interceptor import ProducerInterceptor
from magnetar.client.policy import BatchingPolicy
from magnetar.client.schema.book import SchemaBook
from magnetar.client.schema.schema import Schema
from magnetar.model.name import TopicName
from magnetar.model.schema import SchemaType
from magnetar.wire.command import (
    CommandProducer,
    CompressionType,
    KeyValue,
    ProducerAccessMode,
)
from magnetar.wire.command import Schema as WireSchema
from magnetar.wire.schema import encode_schema


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    name: str | None = None
    access_mode: ProducerAccessMode = ProducerAccessMode.Shared
    send_timeout: float = 30.0
    """Seconds until a send without receipt fails; 0 waits for ever."""
    max_pending_messages: int = 1000
    compression: CompressionType = CompressionType.NONE
    batching: BatchingPolicy | None = field(default_factory=BatchingPolicy)
    chunking: bool = False
    chunk_bytes_max: int | None = None
    """Cut larger messages into pieces of this size; the broker's limit without it."""
    initial_sequence_id: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    schema: Schema[Any] = Schema.BYTES
    encryption: ProducerEncryption | None = None
    interceptors: tuple[ProducerInterceptor, ...] = ()
    bucket_splits: tuple[int, ...] = ()
    """Where the entry buckets 1 and up of the segment begin: no batch is of two buckets."""
    keeps_sequence: bool = False
    """No entry has a sequence id below those of an earlier one, whatever buckets there are: what
    was stored up to some id is all there is up to it."""
    initial_subscription: str | None = None
    """Made with the topic, so that the first message has a reader."""


async def choose_schema(
    settings: ProducerSettings, topic: TopicName, book: SchemaBook
) -> WireSchema | None:
    """What to register: the producer's own schema, or the topic's newest one for encoded bytes."""
    if settings.schema.schema_type is not SchemaType.AUTO_PUBLISH:
        return settings.schema.to_wire()
    try:
        return encode_schema(await book.fetch(topic), "")
    except NotFoundError:
        return None


def encode_producer(
    settings: ProducerSettings,
    topic: TopicName,
    producer_id: int,
    *,
    name: str,
    epoch: int,
    topic_epoch: int | None,
    schema: WireSchema | None,
) -> CommandProducer:
    body = CommandProducer(
        topic=topic.full,
        producer_id=producer_id,
        epoch=epoch,
        user_provided_producer_name=settings.name is not None,
        encrypted=settings.encryption is not None,
        metadata=[KeyValue(key=key, value=value) for key, value in settings.properties.items()],
    )
    body.producer_access_mode = settings.access_mode
    if name:
        body.producer_name = name
    if schema is not None:
        body.schema.CopyFrom(schema)
    if topic_epoch is not None:
        body.topic_epoch = topic_epoch
    if settings.initial_subscription is not None:
        body.initial_subscription_name = settings.initial_subscription
    return body
