"""How a consumer subscribes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from magnetar.client.dead_letter import DeadLetters
from magnetar.client.encryption import ConsumerEncryption
from magnetar.client.error import ConfigurationError
from magnetar.client.interceptor import ConsumerInterceptor
from magnetar.client.policy import BackoffPolicy
from magnetar.client.progress import Floor
from magnetar.client.schema.schema import Schema
from magnetar.model.name import TopicName
from magnetar.wire.command import (
    CommandSubscribe,
    KeySharedMeta,
    KeyValue,
    message_id,
)


class SubscriptionType(StrEnum):
    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    FAILOVER = "failover"
    KEY_SHARED = "key_shared"

    @property
    def wire(self) -> CommandSubscribe.SubType:
        return _WIRE_TYPES[self]

    @property
    def is_shared(self) -> bool:
        """Whether entries are acknowledged and redelivered one by one."""
        return self in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED)


_WIRE_TYPES = {
    SubscriptionType.EXCLUSIVE: CommandSubscribe.Exclusive,
    SubscriptionType.SHARED: CommandSubscribe.Shared,
    SubscriptionType.FAILOVER: CommandSubscribe.Failover,
    SubscriptionType.KEY_SHARED: CommandSubscribe.Key_Shared,
}


class InitialPosition(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """`start` is given for readers only, whose place no broker remembers."""

    subscription: str
    type: SubscriptionType = SubscriptionType.EXCLUSIVE
    name: str = ""
    initial_position: InitialPosition = InitialPosition.LATEST
    start: Floor | None = None
    receiver_queue_size: int = 1000
    priority: int = 0
    ack_group_time: float = 0.1
    ack_group_size: int = 1000
    ack_receipts: bool = False
    batch_index_acks: bool = True
    nack_delay: float = 60.0
    nack_backoff: BackoffPolicy | None = None
    """By how often the message was delivered before; `nack_delay` counts without it."""
    processing_timeout: float = 0.0
    """Seconds from receiving a message to asking for it again; 0 waits for ever."""
    processing_timeout_backoff: BackoffPolicy | None = None
    """How much longer a message that was delivered before may take."""
    read_compacted: bool = False
    replicate_subscription_state: bool = False
    create_topic: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    subscription_properties: Mapping[str, str] = field(default_factory=dict)
    schema: Schema[Any] = Schema.BYTES
    key_shared: KeySharedMeta | None = None
    encryption: ConsumerEncryption | None = None
    dead_letters: DeadLetters | None = None
    interceptors: tuple[ConsumerInterceptor, ...] = ()
    columns: tuple[str, ...] = ()
    """Which columns a reader reads; without any it gets messages."""

    def __post_init__(self) -> None:
        if self.receiver_queue_size < 1 or self.ack_group_size < 1:
            raise ConfigurationError("receiver_queue_size and ack_group_size must be above 0")
        if min(self.ack_group_time, self.nack_delay, self.processing_timeout) < 0:
            raise ConfigurationError(
                "ack_group_time, nack_delay and processing_timeout must not be below 0"
            )

    @property
    def is_durable(self) -> bool:
        return self.start is None


def encode_subscribe(
    settings: ConsumerSettings,
    topic: TopicName,
    consumer_id: int,
    *,
    floor: Floor | None,
    epoch: int,
) -> CommandSubscribe:
    body = CommandSubscribe(
        topic=topic.full,
        subscription=settings.subscription,
        subType=settings.type.wire,
        consumer_id=consumer_id,
        consumer_name=settings.name,
        priority_level=settings.priority,
        durable=settings.is_durable,
        read_compacted=settings.read_compacted,
        force_topic_creation=settings.create_topic,
        metadata=_pairs(settings.properties.items()),
        subscription_properties=_pairs(settings.subscription_properties.items()),
    )
    if settings.replicate_subscription_state:
        body.replicate_subscription_state = True
    if settings.initial_position is InitialPosition.EARLIEST:
        body.initialPosition = CommandSubscribe.Earliest
    if floor is not None and not settings.is_durable:
        start = message_id(floor.id.position, batch_index=floor.id.batch_index)
        body.start_message_id.CopyFrom(start)
    if not settings.type.is_shared:
        body.consumer_epoch = epoch
    schema = settings.schema.to_wire()
    if schema is not None:
        body.schema.CopyFrom(schema)
    if settings.key_shared is not None:
        body.keySharedMeta.CopyFrom(settings.key_shared)
    return body


def _pairs(items: Iterable[tuple[str, str]]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in items]
