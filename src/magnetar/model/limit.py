"""The table of limits: one row for each thing that a client, a peer or a caller of REST chooses.

A row is a field of `Limits`: its default, its unit, the configuration key that sets it, the refusal
that more gets, and what is counted. `docs/limits.md` is written from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, TypeAlias

from magnetar.errors import (
    BadRequest,
    IncompatibleSchema,
    InvalidName,
    InvalidSchema,
    MagnetarError,
    NotAllowed,
    PreconditionFailed,
    ProtocolViolation,
    ServiceNotReady,
    TooManyRequests,
    Unauthenticated,
    shorten,
)

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_ROW: Final = "limit"


class Unit(StrEnum):
    BYTES = "bytes"
    COUNT = "count"
    STEPS = "steps"
    SECONDS = "s"
    MILLISECONDS = "ms"


Refusal: TypeAlias = type[MagnetarError] | int | str
"""A typed refusal, an HTTP status that the edge answers by itself, or what happens instead."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    default: int
    unit: Unit
    key: str
    refusal: Refusal
    meaning: str


def _limit(default: int, unit: Unit, key: str, refusal: Refusal, meaning: str) -> int:
    row = (unit, key, refusal, meaning)
    number: int = field(default=default, metadata={_ROW: row})
    return number


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits in force; `Limits()` has the defaults."""

    # Names, in bytes of UTF-8
    tenant_name_bytes: int = _limit(
        255, Unit.BYTES, "maxTenantNameLength", InvalidName, "Name of a tenant or a cluster."
    )
    namespace_name_bytes: int = _limit(
        255,
        Unit.BYTES,
        "maxNamespaceNameLength",
        InvalidName,
        "Name of a namespace, without its tenant.",
    )
    topic_name_bytes: int = _limit(
        1 * _KIB,
        Unit.BYTES,
        "maxTopicNameLength",
        InvalidName,
        "Name of a topic without tenant, namespace, `-partition-` suffix and segment.",
    )
    subscription_name_bytes: int = _limit(
        512, Unit.BYTES, "maxSubscriptionNameLength", PreconditionFailed, "Name of a subscription."
    )
    consumer_name_bytes: int = _limit(
        512, Unit.BYTES, "maxConsumerNameLength", PreconditionFailed, "Name of a consumer."
    )
    producer_name_bytes: int = _limit(
        512, Unit.BYTES, "maxProducerNameLength", PreconditionFailed, "Name of a producer."
    )
    text_bytes: int = _limit(
        4 * _KIB,
        Unit.BYTES,
        "maxTextLength",
        PreconditionFailed,
        "Any other text of a command or a path: a role, a listener, a version, a pattern, a hash.",
    )
    pattern_length: int = _limit(
        50,
        Unit.COUNT,
        "subscriptionPatternMaxLength",
        NotAllowed,
        "Characters of a topic pattern that the broker matches; a client matches a longer one.",
    )
    # What is kept beside a name
    property_count: int = _limit(
        1000, Unit.COUNT, "maxProperties", BadRequest, "Properties in one set of them."
    )
    property_key_bytes: int = _limit(
        1 * _KIB, Unit.BYTES, "maxPropertyKeyLength", BadRequest, "Key of a property."
    )
    property_value_bytes: int = _limit(
        16 * _KIB,
        Unit.BYTES,
        "maxPropertyValueLength",
        BadRequest,
        "Value of a property, or another text in the body of a REST call.",
    )
    properties_bytes: int = _limit(
        64 * _KIB,
        Unit.BYTES,
        "maxPropertiesSize",
        BadRequest,
        "Keys and values of one set of properties: of a topic, a namespace, a subscription.",
    )
    consumer_metadata_bytes: int = _limit(
        1 * _KIB,
        Unit.BYTES,
        "maxConsumerMetadataSize",
        BadRequest,
        "Keys and values of a consumer's metadata.",
    )
    producer_metadata_bytes: int = _limit(
        16 * _KIB,
        Unit.BYTES,
        "maxProducerMetadataSize",
        BadRequest,
        "Keys and values of a producer's metadata.",
    )
    # Schemas
    schema_bytes: int = _limit(
        1 * _MIB,
        Unit.BYTES,
        "maxSchemaSize",
        InvalidSchema,
        "Definition of a schema, with its properties.",
    )
    schema_check_steps: int = _limit(
        1_000_000,
        Unit.STEPS,
        "maxSchemaCheckSteps",
        IncompatibleSchema,
        "Types and fields compared to find out whether a new schema may follow those before it.",
    )
    # Messages and acknowledgements
    message_bytes: int = _limit(
        5 * _MIB,
        Unit.BYTES,
        "maxMessageSize",
        ProtocolViolation,
        "Metadata and payload of one entry.",
    )
    command_bytes: int = _limit(
        2 * _MIB,
        Unit.BYTES,
        "maxCommandSize",
        ProtocolViolation,
        "Command of a frame, without the payload that follows it.",
    )
    connect_frame_bytes: int = _limit(
        64 * _KIB,
        Unit.BYTES,
        "maxConnectFrameSize",
        ProtocolViolation,
        "Frame of a client that is not authenticated yet.",
    )
    batch_messages: int = _limit(
        100_000,
        Unit.COUNT,
        "maxMessagesPerBatch",
        NotAllowed,
        "Messages in one batch, and so the bits of an ack set.",
    )
    message_ids: int = _limit(
        50_000,
        Unit.COUNT,
        "maxMessageIdsPerCommand",
        PreconditionFailed,
        "Message ids in one acknowledgement or one request for redelivery.",
    )
    hash_ranges: int = _limit(
        1000,
        Unit.COUNT,
        "maxHashRangesPerConsumer",
        PreconditionFailed,
        "Hash ranges that a consumer of a Key_Shared subscription chooses.",
    )
    # Transactions
    transactions_per_caller: int = _limit(
        10_000,
        Unit.COUNT,
        "maxActiveTransactionsPerCaller",
        TooManyRequests,
        "Transactions of one role that have not ended, at one coordinator.",
    )
    transaction_participants: int = _limit(
        10_000,
        Unit.COUNT,
        "maxParticipantsPerTransaction",
        TooManyRequests,
        "Topics and subscriptions that one transaction spans.",
    )
    transaction_bytes: int = _limit(
        10 << 30,
        Unit.BYTES,
        "maxTransactionBytesPerTopic",
        NotAllowed,
        "What one transaction writes to one topic, partition or segment.",
    )
    transaction_bytes_per_caller: int = _limit(
        50 << 30,
        Unit.BYTES,
        "maxTransactionBytesPerCaller",
        NotAllowed,
        "What open transactions of one role have written to the topics of one broker.",
    )
    transaction_acknowledgements: int = _limit(
        1_000_000,
        Unit.COUNT,
        "maxTransactionAcknowledgementsPerSubscription",
        TooManyRequests,
        "Entries that one transaction acknowledges on one subscription of a topic.",
    )
    transaction_timeout_ms: int = _limit(
        24 * 60 * 60 * 1000,
        Unit.MILLISECONDS,
        "maxTransactionTimeoutMillis",
        NotAllowed,
        "Time-out that a client may ask for; readers wait for an open transaction.",
    )
    # What one connection has open
    topic_list_watchers: int = _limit(
        1000,
        Unit.COUNT,
        "maxTopicListWatchersPerConnection",
        TooManyRequests,
        "Topic lists that one connection watches.",
    )
    scalable_watches: int = _limit(
        10_000,
        Unit.COUNT,
        "maxScalableTopicWatchesPerConnection",
        TooManyRequests,
        "Layouts, namespaces and groups of scalable topics that one connection watches.",
    )
    requests_pending: int = _limit(
        1000,
        Unit.COUNT,
        "maxPendingRequestsPerConnection",
        "not read until half of them are answered",
        "Requests of one connection that are not answered yet.",
    )
    unread_answer_bytes: int = _limit(
        32 * _MIB,
        Unit.BYTES,
        "maxUnreadAnswerSizePerConnection",
        "the connection is closed",
        "Answers to one connection that its peer does not read.",
    )
    unread_answer_total_bytes: int = _limit(
        1024 * _MIB,
        Unit.BYTES,
        "maxUnreadAnswerSize",
        "the connections that did not read for longest are closed",
        "Answers and messages to all connections that their peers do not read.",
    )
    # Connections
    connections: int = _limit(
        0,
        Unit.COUNT,
        "brokerMaxConnections",
        NotAllowed,
        "Connections in all, TLS handshakes included; 0: by file descriptors.",
    )
    connections_per_host: int = _limit(
        0,
        Unit.COUNT,
        "brokerMaxConnectionsPerIp",
        NotAllowed,
        "Connections from one address; 0: no limit.",
    )
    handshake_s: int = _limit(
        30,
        Unit.SECONDS,
        "keepAliveIntervalSeconds",
        "the connection is closed",
        "Time until a connection is authenticated.",
    )
    password_bytes: int = _limit(
        255, Unit.BYTES, "maxPasswordLength", Unauthenticated, "Password of a user."
    )
    lookups: int = _limit(
        50_000,
        Unit.COUNT,
        "maxConcurrentLookupRequest",
        TooManyRequests,
        "Lookups at the same time; 0: no limit.",
    )
    topic_loads: int = _limit(
        5000,
        Unit.COUNT,
        "maxConcurrentTopicLoadRequest",
        ServiceNotReady,
        "Topics being loaded at the same time; 0: no limit.",
    )
    loop_held_ms: int = _limit(
        100,
        Unit.MILLISECONDS,
        "eventLoopHeldWarningMillis",
        "named in the log",
        "Time for which one command or route keeps the broker from all others; 0: not watched.",
    )
    # HTTP
    http_head_bytes: int = _limit(
        8 * _KIB,
        Unit.BYTES,
        "httpMaxRequestHeaderSize",
        431,
        "Request line and headers of one request.",
    )
    http_body_bytes: int = _limit(
        -1, Unit.BYTES, "httpMaxRequestSize", 413, "Body of one request; -1: 8 MiB."
    )
    http_idle_ms: int = _limit(
        30_000,
        Unit.MILLISECONDS,
        "httpServerIdleTimeout",
        408,
        "Time for the head of a request, for its body, and for taking a part of an answer.",
    )
    http_requests: int = _limit(
        1024,
        Unit.COUNT,
        "maxConcurrentHttpRequests",
        503,
        "Requests at the same time.",
    )
    http_connections: int = _limit(
        2048,
        Unit.COUNT,
        "maxHttpServerConnections",
        "the one that has been without a request for longest is closed",
        "HTTP connections, TLS handshakes included; never more than file descriptors allow.",
    )


def rows() -> Iterator[Row]:
    """The table, in its order."""
    for each in fields(Limits):
        unit, key, refusal, meaning = each.metadata[_ROW]
        assert isinstance(each.default, int)
        yield Row(each.name, each.default, unit, key, refusal, meaning)


def make_limits(value_of: Callable[[str], Any]) -> Limits:
    """The limits that a configuration sets: `value_of` answers a key's value."""
    return Limits(**{row.name: value_of(row.key) for row in rows()})


_ROWS: Final = {row.name: row for row in rows()}


def check_size(limits: Limits, name: str, size: int, shown: str = "") -> None:
    """Raise the refusal of the row `name` when `size` is more than it allows."""
    most: int = getattr(limits, name)
    if size <= most:
        return
    row = _ROWS[name]
    assert isinstance(row.refusal, type)
    unit = "" if row.unit is Unit.COUNT else f" {row.unit}"
    raise row.refusal(
        f"{row.meaning.rstrip('.')}: {size}{unit}, and at most {most}{unit} are allowed"
        f" ({row.key})" + (f": {shorten(shown)}" if shown else "")
    )


def check_text(limits: Limits, name: str, text: str) -> None:
    check_size(limits, name, count_bytes(text), text)


def count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


_DERIVED: Final = re.compile(
    r"-partition-[0-9]{1,10}\Z|/[0-9a-fA-F]{1,8}-[0-9a-fA-F]{1,8}-[0-9]{1,20}\Z"
)
"""What the broker itself puts behind the name of a topic: a partition, a segment."""


def check_topic(limits: Limits, text: str) -> None:
    """The name of a topic in any spelling: whole or short, a partition, a segment."""
    size, name = count_bytes(text), text.partition("://")[2] or text
    if size <= min(limits.tenant_name_bytes, limits.namespace_name_bytes, limits.topic_name_bytes):
        return
    parts = name.split("/", 2)
    if len(parts) == 3:
        check_text(limits, "tenant_name_bytes", parts[0])
        check_text(limits, "namespace_name_bytes", parts[1])
    check_local(limits, parts[2] if len(parts) == 3 else text)


def check_local(limits: Limits, local: str) -> None:
    """The last part of a topic's name."""
    check_text(limits, "topic_name_bytes", _DERIVED.sub("", local))


def check_namespace(limits: Limits, text: str) -> None:
    """The name of a namespace; a tenant stands before it."""
    tenant, _, local = text.partition("/")
    check_text(limits, "tenant_name_bytes", tenant)
    check_text(limits, "namespace_name_bytes", local)


def check_properties(
    limits: Limits, pairs: Iterable[tuple[str, str]], whole: str = "properties_bytes"
) -> None:
    """A set of properties, or what else is keys and values; `whole` is the row of their sum."""
    total = count = 0
    for key, value in pairs:
        count += 1
        check_text(limits, "property_key_bytes", key)
        check_text(limits, "property_value_bytes", value)
        total += count_bytes(key) + count_bytes(value)
    check_size(limits, "property_count", count)
    check_size(limits, whole, total)


def merge_properties(
    limits: Limits, present: Mapping[str, str], more: Mapping[str, str]
) -> dict[str, str]:
    """What is there with what is added to it, which keeps to the limits as a whole."""
    merged = {**present, **more}
    check_properties(limits, merged.items())
    return merged
