"""The keywords of producers and consumers of scalable topics, and the settings made of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from magnetar.client.choice import check_options, choose
from magnetar.client.encryption import ConsumerEncryption, ProducerEncryption
from magnetar.client.error import ConfigurationError
from magnetar.client.interceptor import ConsumerInterceptor, ProducerInterceptor
from magnetar.client.message_id import EARLIEST
from magnetar.client.option import (
    ConsumerOptions,
    ProducerOptions,
    build_consumer,
    build_producer,
)
from magnetar.client.policy import BackoffPolicy, BatchingPolicy, DeadLetterPolicy
from magnetar.client.publication import ProducerSettings
from magnetar.client.quantity import Duration, Size, parse_duration
from magnetar.client.scalable.layout import parse_scalable
from magnetar.client.scalable.producer import Routing
from magnetar.client.schema.schema import Schema, check_schema
from magnetar.client.subscription import (
    ConsumerSettings,
    Floor,
    InitialPosition,
    SubscriptionType,
)
from magnetar.errors import InvalidName
from magnetar.model.name import NamespaceName, TopicName, parse_namespace
from magnetar.rules.route import KeyHash, SegmentHash
from magnetar.runtime.clock import make_token

Topics = str | Iterable[str] | None
"""One topic, several, or none where a namespace is given."""


class ScalableProducerOptions(TypedDict, total=False):
    """Keywords of `client.producer`, with their defaults."""

    name: str | None
    """Made up; each segment's producer adds its own ending."""
    access_mode: str
    """shared, exclusive, wait_for_exclusive, exclusive_with_fencing"""
    send_timeout: Duration
    """30 seconds; 0 waits for ever."""
    block_if_queue_full: bool
    """True waits for room, False raises QueueFullError."""
    max_pending_messages: int
    """1000, all segments together."""
    compression: str
    """none, lz4, zlib, zstd, snappy"""
    batching: BatchingPolicy | bool
    """True"""
    chunking: Size | bool
    """False; True cuts messages larger than the broker takes, a size cuts earlier."""
    initial_sequence_id: int | None
    properties: Mapping[str, str] | None
    encryption: ProducerEncryption | None
    interceptors: Iterable[ProducerInterceptor]
    initial_subscription: str | None
    """Made with the first message on each segment, so that nothing there is lost."""
    segment_hash: str
    """auto, low, high: which half of a key's hash places it; auto does as the broker's release."""
    legacy_hash: KeyHash | str
    """auto, java-string, murmur3, boost: how partitions are chosen; auto does as v4 producers."""


class StreamOptions(TypedDict, total=False):
    """Keywords of `client.stream_consumer`, with their defaults."""

    initial_position: InitialPosition | str
    """latest, earliest"""
    name: str
    receiver_queue_size: int
    """1000 for each segment"""
    ack_group_time: Duration
    """0.1 seconds"""
    ack_receipts: bool
    """False; True waits until the broker has stored an acknowledgement."""
    read_compacted: bool
    replicate_subscription_state: bool
    """False; True lets geo-replication carry the subscription along."""
    release_timeout: Duration | None
    """None; how long a segment that moves away waits for its last acknowledgement."""
    properties: Mapping[str, str] | None
    subscription_properties: Mapping[str, str] | None
    encryption: ConsumerEncryption | None
    interceptors: Iterable[ConsumerInterceptor]


class QueueOptions(TypedDict, total=False):
    """Keywords of `client.queue_consumer`, with their defaults."""

    initial_position: InitialPosition | str
    """latest, earliest"""
    name: str
    receiver_queue_size: int
    """1000 for each segment"""
    priority: int
    """0 comes first."""
    ack_group_time: Duration
    """0.1 seconds"""
    ack_group_size: int
    """1000"""
    ack_receipts: bool
    """False; True waits until the broker has stored an acknowledgement."""
    nack_delay: Duration
    """60 seconds"""
    nack_backoff: BackoffPolicy | None
    processing_timeout: Duration
    """0 never asks again by itself."""
    processing_timeout_backoff: BackoffPolicy | None
    replicate_subscription_state: bool
    """False; True lets geo-replication carry the subscription along."""
    dead_letter: DeadLetterPolicy | None
    properties: Mapping[str, str] | None
    subscription_properties: Mapping[str, str] | None
    encryption: ConsumerEncryption | None
    interceptors: Iterable[ConsumerInterceptor]


class CheckpointOptions(TypedDict, total=False):
    """Keywords of `client.checkpoint_consumer`, with their defaults."""

    name: str
    receiver_queue_size: int
    """1000 for each segment"""
    columns: Iterable[str] | None
    """None gives messages; names of columns give Arrow batches by `receive_arrow` instead."""
    properties: Mapping[str, str] | None
    encryption: ConsumerEncryption | None
    interceptors: Iterable[ConsumerInterceptor]


def build_scalable_producer(
    schema: Schema[Any], options: ScalableProducerOptions, chance: random.Random
) -> tuple[ProducerSettings, Routing, bool]:
    """Settings, how to route, and whether to wait for room."""
    check_options("producer", options, ScalableProducerOptions.__annotations__)
    shared = {
        key: value for key, value in options.items() if key in ProducerOptions.__annotations__
    }
    shared["name"] = options.get("name") or f"magnetar-{make_token(chance, 5)}"
    settings = build_producer(schema, ProducerOptions(**shared))  # type: ignore[typeddict-item]
    halves = {str(half): half for half in SegmentHash}
    half = options.get("segment_hash", "auto")
    hashes = {str(known): known for known in KeyHash}
    legacy = options.get("legacy_hash", "auto")
    routing = Routing(
        None if half == "auto" else choose("segment_hash", half, halves),
        None if legacy == "auto" else choose("legacy_hash", legacy, hashes),
    )
    return settings, routing, options.get("block_if_queue_full", True)


def build_stream(
    subscription: str, schema: Schema[Any], options: StreamOptions, chance: random.Random
) -> tuple[ConsumerSettings, float | None]:
    """Settings, and how long to wait for acknowledgements when a segment moves away."""
    check_options("stream_consumer", options, StreamOptions.__annotations__)
    given = options.get("release_timeout")
    release_timeout = None if given is None else parse_duration("release_timeout", given)
    return _build("v5-stream", subscription, schema, options, chance), release_timeout


def build_queue(
    subscription: str, schema: Schema[Any], options: QueueOptions, chance: random.Random
) -> ConsumerSettings:
    check_options("queue_consumer", options, QueueOptions.__annotations__)
    return _build("v5-queue", subscription, schema, options, chance, type=SubscriptionType.SHARED)


def build_checkpoint(
    schema: Schema[Any], options: CheckpointOptions, chance: random.Random
) -> ConsumerSettings:
    check_options("checkpoint_consumer", options, CheckpointOptions.__annotations__)
    check_schema(schema)
    columns = tuple(options.get("columns") or ())
    if columns and options.get("encryption") is not None:
        raise ConfigurationError("Columns are read as they are stored: leave out encryption")
    return ConsumerSettings(
        f"reader-{make_token(chance, 5)}",
        name=options.get("name") or f"v5-checkpoint-{make_token(chance, 4)}",
        start=Floor(EARLIEST, is_included=True),
        receiver_queue_size=options.get("receiver_queue_size", 1000),
        properties=options.get("properties") or {},
        schema=schema,
        encryption=options.get("encryption"),
        columns=columns,
        interceptors=tuple(options.get("interceptors", ())),
    )


def _build(
    kind: str,
    subscription: str,
    schema: Schema[Any],
    options: StreamOptions | QueueOptions,
    chance: random.Random,
    **fixed: Any,
) -> ConsumerSettings:
    if not subscription or not isinstance(subscription, str):
        raise ConfigurationError("A consumer needs the name of its subscription: subscription='…'")
    shared: dict[str, Any] = {
        key: value for key, value in options.items() if key in ConsumerOptions.__annotations__
    }
    shared["name"] = options.get("name") or f"{kind}-{make_token(chance, 4)}"
    given = ConsumerOptions(**shared, **fixed)  # type: ignore[typeddict-item]
    return build_consumer(subscription, schema, given, None, chance)


def choose_target(
    topic: Topics, namespace: str | None
) -> tuple[tuple[TopicName, ...], NamespaceName | None]:
    if (topic is None) == (namespace is None):
        raise ConfigurationError("Give one of topic and namespace")
    if namespace is not None:
        try:
            return (), parse_namespace(namespace)
        except InvalidName as error:
            raise ConfigurationError(error.sentence) from None
    named = [topic] if isinstance(topic, str) else list(topic or ())
    topics = tuple(dict.fromkeys(parse_scalable(each) for each in named))
    if not topics:
        raise ConfigurationError("A consumer needs a topic")
    return topics, None
