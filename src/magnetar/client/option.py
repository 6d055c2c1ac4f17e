"""The keywords of classic producers, consumers and readers, and the settings made of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from magnetar.client.choice import ACCESS_MODES, COMPRESSIONS, check_options, choose
from magnetar.client.dead_letter import DeadLetters
from magnetar.client.encryption import ConsumerEncryption, ProducerEncryption
from magnetar.client.error import ConfigurationError
from magnetar.client.interceptor import ConsumerInterceptor, ProducerInterceptor
from magnetar.client.policy import BackoffPolicy, BatchingPolicy, DeadLetterPolicy
from magnetar.client.publication import ProducerSettings
from magnetar.client.quantity import Duration, Size, parse_duration, parse_size
from magnetar.client.schema.schema import Schema, check_schema
from magnetar.client.subscription import (
    ConsumerSettings,
    Floor,
    InitialPosition,
    SubscriptionType,
)
from magnetar.rules.route import KeyHash
from magnetar.runtime.clock import make_token


class ProducerOptions(TypedDict, total=False):
    """Keywords of `create_producer`, with their defaults."""

    name: str | None
    """The broker makes one up."""
    access_mode: str
    """shared, exclusive, wait_for_exclusive, exclusive_with_fencing"""
    send_timeout: Duration
    """30 seconds; 0 waits for ever."""
    max_pending_messages: int
    """1000 for each partition."""
    compression: str
    """none, lz4, zlib, zstd, snappy"""
    batching: BatchingPolicy | bool
    """True"""
    chunking: Size | bool
    """False; True cuts messages larger than the broker takes, a size cuts earlier."""
    initial_sequence_id: int | None
    hashing: KeyHash | str
    """java-string, as other clients do; murmur3"""
    properties: Mapping[str, str] | None
    encryption: ProducerEncryption | None
    interceptors: Iterable[ProducerInterceptor]
    initial_subscription: str | None
    """Made with the topic."""


class ConsumerOptions(TypedDict, total=False):
    """Keywords of `subscribe`, with their defaults."""

    type: SubscriptionType | str
    """exclusive, shared, failover, key_shared"""
    initial_position: InitialPosition | str
    """latest, earliest"""
    name: str
    receiver_queue_size: int
    """1000"""
    priority: int
    """0 comes first."""
    ack_group_time: Duration
    """0.1 seconds"""
    ack_group_size: int
    """1000"""
    ack_receipts: bool
    """False; True waits until the broker has stored an acknowledgement."""
    batch_index_acks: bool
    """True"""
    nack_delay: Duration
    """60 seconds"""
    nack_backoff: BackoffPolicy | None
    processing_timeout: Duration
    """0 never asks again by itself."""
    processing_timeout_backoff: BackoffPolicy | None
    dead_letter: DeadLetterPolicy | None
    read_compacted: bool
    replicate_subscription_state: bool
    """False; True lets geo-replication carry the subscription along."""
    properties: Mapping[str, str] | None
    subscription_properties: Mapping[str, str] | None
    encryption: ConsumerEncryption | None
    interceptors: Iterable[ConsumerInterceptor]
    pattern_interval: Duration
    """60 seconds between two looks for new topics."""


class ReaderOptions(TypedDict, total=False):
    """Keywords of `reader`, with their defaults."""

    start_included: bool
    """False"""
    name: str
    receiver_queue_size: int
    """1000"""
    read_compacted: bool
    """False"""
    encryption: ConsumerEncryption | None


def build_producer(schema: Schema[Any], options: ProducerOptions) -> ProducerSettings:
    check_options("create_producer", options, ProducerOptions.__annotations__)
    check_schema(schema)
    max_pending_messages = options.get("max_pending_messages", 1000)
    if max_pending_messages < 1:
        raise ConfigurationError("max_pending_messages must be above 0")
    chunking = options.get("chunking", False)
    return ProducerSettings(
        name=options.get("name"),
        access_mode=choose("access_mode", options.get("access_mode", "shared"), ACCESS_MODES),
        send_timeout=parse_duration("send_timeout", options.get("send_timeout", 30.0)),
        max_pending_messages=max_pending_messages,
        compression=choose("compression", options.get("compression", "none"), COMPRESSIONS),
        batching=choose_batching(options.get("batching", True)),
        chunking=chunking is not False,
        chunk_bytes_max=choose_chunk(chunking),
        initial_sequence_id=options.get("initial_sequence_id"),
        properties=options.get("properties") or {},
        schema=schema,
        encryption=options.get("encryption"),
        interceptors=tuple(options.get("interceptors", ())),
        initial_subscription=options.get("initial_subscription"),
    )


def build_consumer(
    subscription: str,
    schema: Schema[Any],
    options: ConsumerOptions,
    dead_letters: DeadLetters | None,
    chance: random.Random,
) -> ConsumerSettings:
    check_schema(schema)
    return ConsumerSettings(
        subscription,
        type=choose_type(options),
        initial_position=choose(
            "initial_position",
            options.get("initial_position", "latest"),
            {str(known): known for known in InitialPosition},
        ),
        name=options.get("name") or make_token(chance, 5),
        receiver_queue_size=options.get("receiver_queue_size", 1000),
        priority=options.get("priority", 0),
        ack_group_time=parse_duration("ack_group_time", options.get("ack_group_time", 0.1)),
        ack_group_size=options.get("ack_group_size", 1000),
        ack_receipts=options.get("ack_receipts", False),
        batch_index_acks=options.get("batch_index_acks", True),
        nack_delay=parse_duration("nack_delay", options.get("nack_delay", 60.0)),
        nack_backoff=options.get("nack_backoff"),
        processing_timeout=parse_duration(
            "processing_timeout", options.get("processing_timeout", 0.0)
        ),
        processing_timeout_backoff=options.get("processing_timeout_backoff"),
        read_compacted=options.get("read_compacted", False),
        replicate_subscription_state=options.get("replicate_subscription_state", False),
        properties=options.get("properties") or {},
        subscription_properties=options.get("subscription_properties") or {},
        schema=schema,
        encryption=options.get("encryption"),
        interceptors=tuple(options.get("interceptors", ())),
        dead_letters=dead_letters,
    )


def build_reader(
    start: Floor, schema: Schema[Any], options: ReaderOptions, chance: random.Random
) -> ConsumerSettings:
    check_schema(schema)
    return ConsumerSettings(
        f"reader-{make_token(chance, 5)}",
        name=options.get("name") or make_token(chance, 5),
        start=start,
        receiver_queue_size=options.get("receiver_queue_size", 1000),
        read_compacted=options.get("read_compacted", False),
        schema=schema,
        encryption=options.get("encryption"),
    )


def choose_type(options: ConsumerOptions) -> SubscriptionType:
    word = options.get("type", SubscriptionType.EXCLUSIVE)
    return choose("type", word, {str(known): known for known in SubscriptionType})


def choose_batching(batching: BatchingPolicy | bool) -> BatchingPolicy | None:
    if isinstance(batching, bool):
        return BatchingPolicy() if batching else None
    return batching


def choose_chunk(chunking: Size | bool) -> int | None:
    """The size of a chunk; None leaves it to the broker's limit."""
    if isinstance(chunking, bool):
        return None
    size = parse_size("chunking", chunking)
    if size < 1:
        raise ConfigurationError("chunking is True, or the size of a chunk above 0")
    return size
