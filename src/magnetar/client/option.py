"""The keywords of all producers, consumers and readers, each declared once, and their settings."""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, TypedDict

from magnetar.client.encryption import ConsumerEncryption, ProducerEncryption
from magnetar.client.error import ConfigurationError
from magnetar.client.interceptor import ConsumerInterceptor, ProducerInterceptor
from magnetar.client.keyword import ACCESS_MODES, COMPRESSIONS, Option, one_of, resolve
from magnetar.client.layout import parse_regular, parse_scalable
from magnetar.client.message_id import EARLIEST_ID
from magnetar.client.pattern import NamespaceWatch, PatternWatch, parse_pattern
from magnetar.client.policy import (
    BackoffPolicy,
    BatchingPolicy,
    DeadLetterPolicy,
)
from magnetar.client.producer_set import Routing
from magnetar.client.progress import Floor
from magnetar.client.publication import ProducerSettings
from magnetar.client.quantity import Duration, Size, parse_duration, parse_size
from magnetar.client.schema.schema import Schema, check_schema
from magnetar.client.session import Session
from magnetar.client.subscription import ConsumerSettings, InitialPosition, SubscriptionType
from magnetar.client.topic_set import ConsumerTarget
from magnetar.errors import InvalidName
from magnetar.model.name import TopicName, parse_namespace
from magnetar.rules.route import KeyHash, SegmentHash
from magnetar.runtime.clock import make_token

Topics = str | Iterable[str] | None
"""One topic, several, or none where a namespace or a pattern is given."""

_SEND: Final = ProducerSettings()
_RECEIVE: Final = ConsumerSettings("")
"""Where the defaults stand."""
_TYPES: Final = {str(each): each for each in SubscriptionType}
_POSITIONS: Final = {str(each): each for each in InitialPosition}
_HASHES: Final = {str(each): each for each in KeyHash}
_HALVES: Final = {str(each): each for each in SegmentHash}


def _interceptors(name: str, given: Iterable[Any]) -> tuple[Any, ...]:
    if not isinstance(given, Iterable):
        raise ConfigurationError(f"{name} is a list of interceptors, not {given!r}")
    return tuple(given)


def _columns(name: str, given: Iterable[str]) -> tuple[str, ...]:
    if not isinstance(given, Iterable):
        raise ConfigurationError(f"{name} is a list of the names of columns, not {given!r}")
    return tuple(given)


def parse_positive(name: str, given: Duration) -> float:
    return parse_duration(name, given, least=0.001)


def as_given(name: str, given: Any) -> Any:
    return given


class ProducerOptions(TypedDict, total=False):
    """Keywords of `client.producer`."""

    name: Annotated[
        str | None, Option(None, "Made up; the producer of a segment adds the segment's number.")
    ]
    access_mode: Annotated[
        str,
        Option(
            "shared",
            "shared, exclusive, wait_for_exclusive or exclusive_with_fencing.",
            one_of(ACCESS_MODES),
        ),
    ]
    send_timeout: Annotated[
        Duration,
        Option(
            _SEND.send_timeout,
            "Seconds until a message without a receipt fails; 0 waits for ever.",
            parse_duration,
        ),
    ]
    max_pending_messages: Annotated[
        int,
        Option(
            _SEND.max_pending_messages,
            "How many may wait for their receipts, on all segments or partitions together.",
        ),
    ]
    compression: Annotated[
        str, Option("none", "none, lz4, zlib, zstd or snappy.", one_of(COMPRESSIONS))
    ]
    batching: Annotated[
        BatchingPolicy | bool,
        Option(True, "Whether messages are sent together, or how many and for how long they wait."),
    ]
    chunking: Annotated[
        Size | bool,
        Option(
            False,
            "True cuts messages larger than the broker takes, a size cuts earlier.",
            as_given,
        ),
    ]
    initial_sequence_id: Annotated[
        int | None, Option(None, "The one before the first; else what the broker has stored.")
    ]
    properties: Annotated[
        Mapping[str, str] | None, Option(None, "What administrators see of the producer.")
    ]
    encryption: Annotated[
        ProducerEncryption | None, Option(None, "For whom messages are encrypted.")
    ]
    interceptors: Annotated[
        Iterable[ProducerInterceptor],
        Option((), "Objects that see every message on its way out.", _interceptors),
    ]
    initial_subscription: Annotated[
        str | None,
        Option(None, "Made with the topic, or with the first message on a segment."),
    ]
    block_if_queue_full: Annotated[
        bool, Option(True, "True waits for room, False raises QueueFullError.")
    ]
    segment_hash: Annotated[
        str,
        Option(
            "auto",
            "auto, low or high: which half of a key's hash places it; auto does as the broker.",
            lambda name, word: None if word == "auto" else one_of(_HALVES)(name, word),
        ),
    ]
    partition_hash: Annotated[
        KeyHash | str,
        Option(
            "auto",
            "auto, java-string, murmur3 or boost: how partitions are chosen; auto does as others.",
            lambda name, word: None if word == "auto" else one_of(_HASHES)(name, word),
        ),
    ]


class _AnyConsumerOptions(TypedDict, total=False):
    name: Annotated[str | None, Option(None, "Made up.")]
    receiver_queue_size: Annotated[
        int,
        Option(
            _RECEIVE.receiver_queue_size,
            "How many messages are asked for ahead, of each segment or partition.",
        ),
    ]
    encryption: Annotated[
        ConsumerEncryption | None, Option(None, "With which keys messages are decrypted.")
    ]


class _MemberOptions(_AnyConsumerOptions, total=False):
    properties: Annotated[
        Mapping[str, str] | None, Option(None, "What administrators see of the consumer.")
    ]
    interceptors: Annotated[
        Iterable[ConsumerInterceptor],
        Option((), "Objects that see every message on its way in.", _interceptors),
    ]


class _SubscriptionOptions(_MemberOptions, total=False):
    initial_position: Annotated[
        InitialPosition | str,
        Option(
            "latest", "latest or earliest: where a new subscription begins.", one_of(_POSITIONS)
        ),
    ]
    ack_group_time: Annotated[
        Duration,
        Option(
            _RECEIVE.ack_group_time,
            "Seconds that an acknowledgement waits for others.",
            parse_duration,
        ),
    ]
    ack_receipts: Annotated[
        bool, Option(False, "True waits until the broker has stored an acknowledgement.")
    ]
    replicate_subscription_state: Annotated[
        bool, Option(False, "True lets geo-replication carry the subscription along.")
    ]
    subscription_properties: Annotated[
        Mapping[str, str] | None, Option(None, "Stored with a subscription that is made.")
    ]


class _NamespaceOptions(_SubscriptionOptions, total=False):
    namespace: Annotated[
        str | None, Option(None, "Instead of topics: all scalable ones of a namespace.")
    ]
    property_filters: Annotated[
        Mapping[str, str] | None, Option(None, "Which of them: those with these properties.")
    ]


class StreamOptions(_NamespaceOptions, total=False):
    """Keywords of `client.stream_consumer`."""

    read_compacted: Annotated[bool, Option(False, "True reads the last message of each key.")]
    release_timeout: Annotated[
        Duration | None,
        Option(
            None,
            "How long a segment that moves away waits for its last acknowledgement; None waits.",
            parse_duration,
        ),
    ]


class _IndividualOptions(_SubscriptionOptions, total=False):
    priority: Annotated[int, Option(0, "Consumers with a lower number are served first.")]
    ack_group_size: Annotated[
        int, Option(_RECEIVE.ack_group_size, "So many acknowledgements do not wait for others.")
    ]
    nack_delay: Annotated[
        Duration,
        Option(
            _RECEIVE.nack_delay,
            "Seconds until a message is redelivered that was refused.",
            parse_duration,
        ),
    ]
    nack_backoff: Annotated[
        BackoffPolicy | None,
        Option(None, "The same by how often the message was delivered before."),
    ]
    processing_timeout: Annotated[
        Duration,
        Option(
            _RECEIVE.processing_timeout,
            "Seconds from receiving a message to asking for it again; 0 waits for ever.",
            parse_duration,
        ),
    ]
    processing_timeout_backoff: Annotated[
        BackoffPolicy | None,
        Option(None, "How much longer a message that was delivered before may take."),
    ]
    dead_letter: Annotated[
        DeadLetterPolicy | None, Option(None, "What happens to a message that always fails.")
    ]


class QueueOptions(_NamespaceOptions, _IndividualOptions, total=False):
    """Keywords of `client.queue_consumer`."""


class ConsumerOptions(_IndividualOptions, total=False):
    """Keywords of `client.consumer`."""

    type: Annotated[
        SubscriptionType | str,
        Option("exclusive", "exclusive, shared, failover or key_shared.", one_of(_TYPES)),
    ]
    batch_index_acks: Annotated[
        bool, Option(True, "Whether single messages of a batch are acknowledged.")
    ]
    read_compacted: Annotated[bool, Option(False, "True reads the last message of each key.")]
    pattern: Annotated[
        str | None,
        Option(None, "Instead of topics: all of a namespace whose names match the expression."),
    ]
    pattern_interval: Annotated[
        Duration, Option(60.0, "Seconds between two looks for new topics.", parse_positive)
    ]


class CheckpointOptions(_MemberOptions, total=False):
    """Keywords of `client.checkpoint_consumer`."""

    columns: Annotated[
        Iterable[str] | None,
        Option(None, "Names of columns: `receive_arrow` gives them instead of messages.", _columns),
    ]


class ReaderOptions(_AnyConsumerOptions, total=False):
    """Keywords of `client.reader`."""

    start_included: Annotated[bool, Option(False, "Whether the message to start at is read too.")]
    read_compacted: Annotated[bool, Option(False, "True reads the last message of each key.")]


def build_producer(
    schema: Schema[Any], options: ProducerOptions, chance: random.Random
) -> tuple[ProducerSettings, Routing, bool]:
    """Settings, how to route, and whether to wait for room."""
    values = resolve("producer", ProducerOptions, options)
    routing = Routing(values.pop("segment_hash"), values.pop("partition_hash"))
    waits_for_room = values.pop("block_if_queue_full")
    values["name"] = values["name"] or f"magnetar-{make_token(chance, 5)}"
    return _producer_settings(schema, values), routing, waits_for_room


def _producer_settings(schema: Schema[Any], values: dict[str, Any]) -> ProducerSettings:
    check_schema(schema)
    if values["max_pending_messages"] < 1:
        raise ConfigurationError("max_pending_messages must be above 0")
    chunking, batching = values["chunking"], values["batching"]
    values["chunk_bytes_max"] = choose_chunk(chunking)
    values["chunking"] = chunking is not False
    if isinstance(batching, bool):
        values["batching"] = BatchingPolicy() if batching else None
    values["properties"] = values["properties"] or {}
    return ProducerSettings(schema=schema, **values)


def build_stream(
    topic: Topics,
    subscription: str,
    schema: Schema[Any],
    options: StreamOptions,
    chance: random.Random,
) -> tuple[ConsumerSettings, ConsumerTarget, float | None]:
    """Settings, of what, and how long to wait for acknowledgements when a segment moves away."""
    values = resolve("stream_consumer", StreamOptions, options)
    release_timeout: float | None = values.pop("release_timeout")
    target = _choose_scalable(topic, values)
    settings = _consumer_settings(subscription, "v5-stream", schema, values, chance)
    return settings, target, release_timeout


def build_queue(
    topic: Topics,
    subscription: str,
    schema: Schema[Any],
    options: QueueOptions,
    chance: random.Random,
) -> tuple[ConsumerSettings, ConsumerTarget, DeadLetterPolicy | None]:
    """Settings, of what, and what happens to messages that always fail."""
    values = resolve("queue_consumer", QueueOptions, options)
    policy: DeadLetterPolicy | None = values.pop("dead_letter")
    target = _choose_scalable(topic, values)
    settings = _consumer_settings(subscription, "v5-queue", schema, values, chance)
    return replace(settings, type=SubscriptionType.SHARED), target, policy


def build_consumer(
    topic: Topics,
    subscription: str,
    schema: Schema[Any],
    options: ConsumerOptions,
    chance: random.Random,
) -> tuple[ConsumerSettings, ConsumerTarget, DeadLetterPolicy | None]:
    """Settings, of what, and what happens to messages that always fail."""
    values = resolve("consumer", ConsumerOptions, options)
    policy: DeadLetterPolicy | None = values.pop("dead_letter")
    interval: float = values.pop("pattern_interval")
    pattern: str | None = values.pop("pattern")
    settings = _consumer_settings(subscription, "", schema, values, chance)
    if policy is not None and not settings.type.is_shared:
        raise ConfigurationError("dead_letter needs type='shared' or 'key_shared'")
    if (topic is None) == (pattern is None):
        raise ConfigurationError("Give one of topic and pattern; for a pattern, topic is None")
    if pattern is None:
        return settings, ConsumerTarget(_choose_topics(topic, parse_regular)), policy
    chosen = parse_pattern(pattern, interval=interval)

    def watch(session: Session, on_change: Callable[[], None]) -> PatternWatch:
        return PatternWatch(session, chosen, on_change)

    settings = replace(settings, create_topic=False)  # one that is deleted stays so
    return settings, ConsumerTarget((), pattern, watch), policy


def _choose_scalable(topic: Topics, values: dict[str, Any]) -> ConsumerTarget:
    namespace, filters = values.pop("namespace"), values.pop("property_filters") or {}
    if (topic is None) == (namespace is None):
        raise ConfigurationError("Give one of topic and namespace")
    if namespace is None:
        return ConsumerTarget(_choose_topics(topic, parse_scalable))
    try:
        name = parse_namespace(namespace)
    except InvalidName as error:
        raise ConfigurationError(error.sentence) from None

    def watch(session: Session, on_change: Callable[[], None]) -> NamespaceWatch:
        return NamespaceWatch(session, name, filters, on_change)

    return ConsumerTarget((), f"namespace://{name}", watch)


def _choose_topics(topic: Topics, parse: Callable[[str], TopicName]) -> tuple[TopicName, ...]:
    named = [topic] if isinstance(topic, str) else list(topic or ())
    topics = tuple(dict.fromkeys(parse(each) for each in named))
    if not topics:
        raise ConfigurationError("A consumer needs a topic")
    return topics


def build_checkpoint(
    schema: Schema[Any], options: CheckpointOptions, chance: random.Random
) -> ConsumerSettings:
    values = resolve("checkpoint_consumer", CheckpointOptions, options)
    values["columns"] = values["columns"] or ()
    if values["columns"] and values["encryption"] is not None:
        raise ConfigurationError("Columns are read as they are stored: leave out encryption")
    name = f"reader-{make_token(chance, 5)}"
    settings = _consumer_settings(name, "v5-checkpoint", schema, values, chance)
    return replace(settings, start=Floor(EARLIEST_ID, is_included=True))


def build_reader(
    start: Any, schema: Schema[Any], options: ReaderOptions, chance: random.Random
) -> ConsumerSettings:
    values = resolve("reader", ReaderOptions, options)
    floor = Floor(start, values.pop("start_included"))
    name = f"reader-{make_token(chance, 5)}"
    return replace(_consumer_settings(name, "", schema, values, chance), start=floor)


def _consumer_settings(
    subscription: str, kind: str, schema: Schema[Any], values: dict[str, Any], chance: random.Random
) -> ConsumerSettings:
    check_schema(schema)
    if not subscription or not isinstance(subscription, str):
        raise ConfigurationError("A consumer needs the name of its subscription: subscription='…'")
    made_up = f"{kind}-{make_token(chance, 4)}" if kind else make_token(chance, 5)
    values["name"] = values["name"] or made_up
    for each in ("properties", "subscription_properties"):
        if each in values:
            values[each] = values[each] or {}
    return ConsumerSettings(subscription, schema=schema, **values)


def choose_chunk(chunking: Size | bool) -> int | None:
    """The size of a chunk; None leaves it to the broker's limit."""
    if isinstance(chunking, bool):
        return None
    size = parse_size("chunking", chunking)
    if size < 1:
        raise ConfigurationError("chunking is True, or the size of a chunk above 0")
    return size
