"""How a producer introduces itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final, TypedDict

from magnetar.client.encryption import ProducerEncryption
from magnetar.client.error import ConfigurationError, NotFoundError
from magnetar.client.handle import TransactionHandle, find_enlisting
from magnetar.client.interceptor import ProducerInterceptor
from magnetar.client.keyword import Option, check_kind, check_known, check_text, check_texts
from magnetar.client.outgoing import MessageOptions, Outgoing
from magnetar.client.policy import BatchingPolicy
from magnetar.client.quantity import Duration, parse_duration, to_ms
from magnetar.client.schema.book import SchemaBook
from magnetar.client.schema.schema import Schema
from magnetar.model.name import TopicName
from magnetar.model.schema import SchemaType
from magnetar.runtime.clock import Clock
from magnetar.wire.command import (
    CommandProducer,
    CompressionType,
    KeyValue,
    ProducerAccessMode,
)
from magnetar.wire.command import Schema as WireSchema
from magnetar.wire.schema import encode_schema


class SendOptions(TypedDict, total=False):
    """What may be said about a message besides its value."""

    key: Annotated[str | bytes | None, Option(None, "Messages of one key stay in order.")]
    ordering_key: Annotated[
        bytes | None, Option(None, "The same for the consumers of a key-shared subscription.")
    ]
    properties: Annotated[Mapping[str, str] | None, Option(None, "Text that goes with it.")]
    event_time: Annotated[datetime | None, Option(None, "When it happened, with a time zone.")]
    sequence_id: Annotated[
        int | None, Option(None, "Its number for deduplication; counted without it.")
    ]
    deliver_after: Annotated[Duration | None, Option(None, "Seconds until queue consumers get it.")]
    deliver_at: Annotated[datetime | None, Option(None, "The time from which they get it.")]
    replication_clusters: Annotated[
        Sequence[str], Option((), "Where it is replicated to, instead of to all clusters.")
    ]
    transaction: Annotated[
        TransactionHandle | None,
        Option(None, "What it becomes visible with; kept back if aborted."),
    ]


_KNOWN: Final = frozenset(SendOptions.__annotations__)


NO_OPTIONS: Final = MessageOptions()
_SEQUENCE_ID_END: Final = 2**63


def pack_message(
    settings: ProducerSettings,
    topic: Callable[[], str],
    value: Any,
    options: SendOptions,
    clock: Clock,
) -> tuple[bytes | None, MessageOptions]:
    """Encode the value, count times in ms, and let the interceptors see both; they alone ask for
    the topic.
    """
    data = None if value is None else settings.schema.encode(value)
    kept = None if value is None else settings.schema.encode_key(value)
    if not options and kept is None and not settings.interceptors:
        return data, NO_OPTIONS
    if not options.keys() <= _KNOWN:
        check_known("send", options, _KNOWN)
    transaction = find_enlisting(options.get("transaction"))
    _check(options)
    event_time, deliver_at = options.get("event_time"), options.get("deliver_at")
    deliver_after = options.get("deliver_after")
    deliver_at_ms = None if deliver_at is None else to_ms("deliver_at", deliver_at)
    if deliver_after is not None:
        if deliver_at is not None:
            raise ConfigurationError("Give one of deliver_after and deliver_at")
        deliver_at_ms = clock.now_ms() + int(parse_duration("deliver_after", deliver_after) * 1000)
    packed = MessageOptions(
        key=options.get("key") if kept is None else kept,
        ordering_key=options.get("ordering_key"),
        properties=options.get("properties") or {},
        event_time_ms=None if event_time is None else to_ms("event_time", event_time, least_ms=1),
        deliver_at_ms=deliver_at_ms,
        replicate_to=options.get("replication_clusters", ()),
        sequence_id=options.get("sequence_id"),
    )
    if transaction is not None:
        packed["transaction"] = transaction
    for interceptor in settings.interceptors:
        data, packed = interceptor.before_send(topic(), data, packed)
    return data, packed


def group_values(
    settings: ProducerSettings, values: Iterable[Any]
) -> Iterator[tuple[list[bytes], Any]]:
    """The data of values that become one entry, as many as a batch may have; or nothing, and a
    value that goes alone.
    """
    schema, batching = settings.schema, settings.batching
    goes_alone = batching is None or bool(settings.interceptors)
    messages_max, bytes_max = (batching.max_messages, batching.max_bytes) if batching else (1, 0)
    group: list[bytes] = []
    size = 0
    for value in values:
        data = b"" if goes_alone or value is None else schema.encode(value)
        if (
            goes_alone
            or value is None
            or len(data) > bytes_max
            or schema.encode_key(value) is not None
        ):
            if group:
                yield group, None
                group, size = [], 0
            yield [], value
            continue
        if size + len(data) > bytes_max or len(group) >= messages_max:
            yield group, None
            group, size = [], 0
        group.append(data)
        size += len(data)
    if group:
        yield group, None


def _check(options: SendOptions) -> None:
    """What cannot be written on a message is found here, not among others in a batch."""
    key, ordering_key = options.get("key"), options.get("ordering_key")
    if isinstance(key, str):
        check_text("key", key)
    elif key is not None and not isinstance(key, bytes):
        raise ConfigurationError(f"key is text or bytes, not {key!r}")
    if ordering_key is not None and not isinstance(ordering_key, bytes):
        raise ConfigurationError(f"ordering_key is bytes, not {ordering_key!r}")
    properties = options.get("properties")
    if type(properties) is dict:  # what it is nearly always
        check_texts("properties", properties)
    else:
        check_kind("properties", properties, (Mapping,))
    sequence_id = options.get("sequence_id")
    if sequence_id is not None and not (
        isinstance(sequence_id, int) and 0 <= sequence_id < _SEQUENCE_ID_END
    ):
        raise ConfigurationError(f"sequence_id is a whole number from 0 on, not {sequence_id!r}")
    clusters = options.get("replication_clusters", ())
    if clusters and (isinstance(clusters, str) or not all(isinstance(c, str) for c in clusters)):
        raise ConfigurationError(f"replication_clusters is a list of names, not {clusters!r}")


def measure(data: bytes | None, options: MessageOptions) -> int:
    """Bytes that the message holds while it waits for its receipt."""
    size = 0 if data is None else len(data)
    if not options:
        return size
    size += len(options.get("key") or b"") + len(options.get("ordering_key") or b"")
    properties = options.get("properties")
    if properties:
        size += sum(len(key) + len(text) for key, text in properties.items())
    return size


def follow_send(client: object, message: Outgoing) -> None:
    """Let the transaction that a message is of, if any, wait for its end."""
    transaction = message.transaction
    if transaction is not None:
        assert isinstance(message.sent, asyncio.Future), "threads send within one on the loop"
        transaction.follow(client, message.sent)


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


def is_plain(settings: ProducerSettings) -> bool:
    """Whether messages without options say nothing but their data: no interceptor sees each, and
    none has a key.
    """
    return not settings.interceptors and settings.schema.schema_type is not SchemaType.KEY_VALUE


def may_join(settings: ProducerSettings) -> bool:
    """Whether submitted messages that say nothing but their data may go together as one: they
    expire at nearly the same time.
    """
    batching, timeout = settings.batching, settings.send_timeout
    return (
        batching is not None
        and is_plain(settings)
        and (timeout == 0 or batching.max_delay <= timeout / 10)
    )


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
