"""What a client may put into the fields of a command: one table, by command and field.

Every text, every bytes and every repeated field has a check, of its own or of the message it is in;
a test walks the descriptors. A command is checked once, before anybody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from google.protobuf.message import Message

from magnetar.model.limit import (
    Limits,
    check_namespace,
    check_properties,
    check_size,
    check_text,
    check_topic,
    count_bytes,
)
from magnetar.wire.command import (
    AuthData,
    BaseCommand,
    KeySharedMeta,
    KeyValue,
    MessageIdData,
    Schema,
    Subscription,
    body_of,
)

Check: TypeAlias = Callable[[Limits, Any], None]
_WORD_BITS: Final = 64


def _text(name: str) -> Check:
    def check(limits: Limits, value: str) -> None:
        check_text(limits, name, value)

    return check


def _pairs(values: Iterable[KeyValue]) -> Iterable[tuple[str, str]]:
    return ((each.key, each.value) for each in values)


def _metadata(name: str) -> Check:
    def check(limits: Limits, values: Sequence[KeyValue]) -> None:
        check_properties(limits, _pairs(values), name)

    return check


def _credential(limits: Limits, value: bytes | str) -> None:
    size = len(value if isinstance(value, bytes) else value.encode())
    check_size(limits, "connect_frame_bytes", size)


def _auth_data(limits: Limits, value: AuthData) -> None:
    check_text(limits, "text_bytes", value.auth_method_name)
    _credential(limits, value.auth_data)


def _schema(limits: Limits, value: Schema) -> None:
    properties = (count_bytes(each.key) + count_bytes(each.value) for each in value.properties)
    size = count_bytes(value.name) + len(value.schema_data) + sum(properties)
    check_size(limits, "property_count", len(value.properties))
    check_size(limits, "schema_bytes", size)


def _version(limits: Limits, value: bytes) -> None:
    check_size(limits, "text_bytes", len(value))


def _message_id(limits: Limits, value: MessageIdData) -> None:
    check_size(limits, "batch_messages", _WORD_BITS * len(value.ack_set) - _WORD_BITS + 1)
    if value.HasField("first_chunk_message_id"):
        _message_id(limits, value.first_chunk_message_id)


def _message_ids(limits: Limits, values: Sequence[MessageIdData]) -> None:
    check_size(limits, "message_ids", len(values))
    for each in values:
        _message_id(limits, each)


def _message_id_count(limits: Limits, values: Sequence[MessageIdData]) -> None:
    check_size(limits, "message_ids", len(values))


def _key_shared(limits: Limits, value: KeySharedMeta) -> None:
    check_size(limits, "hash_ranges", len(value.hashRanges))


def _counters(limits: Limits, values: Sequence[Any]) -> None:
    check_properties(limits, ((each.key, "") for each in values))


def _topics(limits: Limits, values: Sequence[str]) -> None:
    check_size(limits, "message_ids", len(values))
    for each in values:
        check_topic(limits, each)


def _subscription(limits: Limits, value: Subscription) -> None:
    check_topic(limits, value.topic)
    check_text(limits, "subscription_name_bytes", value.subscription)


def _subscriptions(limits: Limits, values: Sequence[Subscription]) -> None:
    check_size(limits, "message_ids", len(values))
    for each in values:
        _subscription(limits, each)


_SUBSCRIPTION_NAME: Final = _text("subscription_name_bytes")
_CONSUMER_NAME: Final = _text("consumer_name_bytes")
_PRODUCER_NAME: Final = _text("producer_name_bytes")
_TEXT: Final = _text("text_bytes")
_PROPERTIES: Final = _metadata("properties_bytes")
_PROXY: Final[Mapping[str, Check]] = {
    "original_principal": _TEXT,
    "original_auth_data": _credential,
    "original_auth_method": _TEXT,
}
_MOVED: Final[Mapping[str, Check]] = {
    "assignedBrokerServiceUrl": _TEXT,
    "assignedBrokerServiceUrlTls": _TEXT,
}

CHECKS: Final[Mapping[str, Mapping[str, Check]]] = {
    "CommandConnect": {
        "client_version": _TEXT,
        "auth_method_name": _TEXT,
        "auth_data": _credential,
        "proxy_to_broker_url": _TEXT,
        "proxy_version": _TEXT,
        **_PROXY,
    },
    "CommandAuthResponse": {"client_version": _TEXT, "response": _auth_data},
    "CommandProducer": {
        "topic": check_topic,
        "producer_name": _PRODUCER_NAME,
        "metadata": _metadata("producer_metadata_bytes"),
        "schema": _schema,
        "initial_subscription_name": _SUBSCRIPTION_NAME,
    },
    "CommandCloseProducer": _MOVED,
    "CommandSubscribe": {
        "topic": check_topic,
        "subscription": _SUBSCRIPTION_NAME,
        "consumer_name": _CONSUMER_NAME,
        "start_message_id": _message_id,
        "metadata": _metadata("consumer_metadata_bytes"),
        "schema": _schema,
        "keySharedMeta": _key_shared,
        "subscription_properties": _PROPERTIES,
    },
    "CommandCloseConsumer": _MOVED,
    "CommandAck": {"message_id": _message_ids, "properties": _counters},
    "CommandRedeliverUnacknowledgedMessages": {"message_ids": _message_ids},
    "CommandSeek": {"message_id": _message_id},
    "CommandLookupTopic": {
        "topic": check_topic,
        "advertised_listener_name": _TEXT,
        "properties": _PROPERTIES,
        **_PROXY,
    },
    "CommandPartitionedTopicMetadata": {"topic": check_topic, **_PROXY},
    "CommandGetTopicsOfNamespace": {
        "namespace": check_namespace,
        "topics_pattern": _TEXT,
        "topics_hash": _TEXT,
        "properties": _PROPERTIES,
    },
    "CommandWatchTopicList": {
        "namespace": check_namespace,
        "topics_pattern": _TEXT,
        "topics_hash": _TEXT,
    },
    "CommandGetSchema": {"topic": check_topic, "schema_version": _version},
    "CommandGetOrCreateSchema": {
        "topic": check_topic,
        "schema": _schema,
        "producerName": _PRODUCER_NAME,
    },
    "CommandAddPartitionToTxn": {"partitions": _topics},
    "CommandAddSubscriptionToTxn": {"subscription": _subscriptions},
    "CommandEndTxnOnPartition": {"topic": check_topic},
    "CommandEndTxnOnSubscription": {"subscription": _subscription},
    "CommandScalableTopicLookup": {"topic": check_topic},
    "CommandScalableTopicSubscribe": {
        "topic": check_topic,
        "subscription": _SUBSCRIPTION_NAME,
        "consumer_name": _CONSUMER_NAME,
    },
    "CommandWatchScalableTopics": {
        "namespace": check_namespace,
        "property_filters": _PROPERTIES,
        "current_hash": _TEXT,
    },
}


def unchecked_bytes(limits: Limits) -> int:
    """How long a command may be that needs no check: nothing in it can exceed a limit."""
    return min(
        limits.tenant_name_bytes,
        limits.namespace_name_bytes,
        limits.topic_name_bytes,
        limits.subscription_name_bytes,
        limits.consumer_name_bytes,
        limits.producer_name_bytes,
        limits.text_bytes,
        limits.property_count,
        limits.property_key_bytes,
        limits.property_value_bytes,
        limits.properties_bytes,
        limits.consumer_metadata_bytes,
        limits.producer_metadata_bytes,
        limits.schema_bytes,
        limits.message_ids,
        limits.hash_ranges,
        limits.batch_messages // _WORD_BITS,
    )


def check_command(limits: Limits, command: BaseCommand, data: bytes) -> None:
    """Raise the refusal of the first field that exceeds its limit. `data` is the command as it
    came.
    """
    body: Message = body_of(command)
    for name, check in CHECKS.get(body.DESCRIPTOR.name, {}).items():
        if check is _message_ids and not _may_hold_long_ack_set(limits, data):
            check = _message_id_count  # acknowledgements come by the hundreds: do not look at each
        check(limits, getattr(body, name))


_WORD_TAG: Final = b"\x28"
_PACKED_TAG: Final = b"\x2a"


def _may_hold_long_ack_set(limits: Limits, data: bytes) -> bool:
    """Whether an ack set of more bits than a batch may have could be in there: each word has a tag
    of its own, or all are packed behind one. Bytes of other fields may look like tags, so that the
    answer may be a needless yes, never a wrong no.
    """
    words = limits.batch_messages // _WORD_BITS
    return len(data) > words and (data.count(_WORD_TAG) > words or _PACKED_TAG in data)
