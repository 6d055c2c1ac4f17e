"""Changes of topic policies as Apache Pulsar writes them to a namespace's `__change_events`.

A message's key names the topic, with a prefix for what holds in every cluster. Its value is Avro; a
message without a value says that the policies are gone.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from magnetar.errors import BadRequest, InvalidName, RecordUnreadable
from magnetar.model.document import format_document, parse_document
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, parse_topic
from magnetar.model.policy import TopicPolicies
from magnetar.model.schema import SchemaData, SchemaType

GLOBAL_PREFIX: Final = "__G__"
_DATA: Final = "org.apache.pulsar.common.policies.data"
_IMPL: Final = f"{_DATA}.impl"


class Action(StrEnum):
    INSERT = "INSERT"
    DELETE = "DELETE"
    UPDATE = "UPDATE"
    NONE = "NONE"


@dataclass(frozen=True, slots=True)
class PolicyEvent:
    """`policies` of None: there are none any more in this scope."""

    topic: TopicName
    is_global: bool
    action: Action
    policies: TopicPolicies | None


def _optional(kind: Any) -> dict[str, Any]:
    return {"type": ["null", kind], "default": None}


def _record(name: str, fields: Mapping[str, Any], namespace: str = "") -> dict[str, Any]:
    """What begins with `!` must be there; everything else may be null."""
    described = [
        {"name": field, **({"type": kind[1:]} if kind[:1] == "!" else _optional(kind))}
        if isinstance(kind, str)
        else {"name": field, **_optional(kind)}
        for field, kind in fields.items()
    ]
    where = {"namespace": namespace} if namespace else {}
    return {"type": "record", "name": name, **where, "fields": described}


def _enum(name: str, *symbols: str, namespace: str = "") -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {"type": "enum", "name": name, **where, "symbols": list(symbols)}


def _list(items: Any, kind: str = "java.util.List") -> dict[str, Any]:
    return {"type": "array", "items": items, "java-class": kind}


def _map(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


_RATE: Final = f"{_IMPL}.DispatchRateImpl"
_OFFLOAD: Final = _record(
    "OffloadPoliciesImpl",
    {
        "fileSystemProfilePath": "string",
        "fileSystemURI": "string",
        "gcsManagedLedgerOffloadBucket": "string",
        "gcsManagedLedgerOffloadMaxBlockSizeInBytes": "int",
        "gcsManagedLedgerOffloadReadBufferSizeInBytes": "int",
        "gcsManagedLedgerOffloadRegion": "string",
        "gcsManagedLedgerOffloadServiceAccountKeyFile": "string",
        "managedLedgerExtraConfigurations": _map("string"),
        "managedLedgerOffloadBucket": "string",
        "managedLedgerOffloadDeletionLagInMillis": "long",
        "managedLedgerOffloadDriver": "string",
        "managedLedgerOffloadMaxBlockSizeInBytes": "int",
        "managedLedgerOffloadMaxThreads": "int",
        "managedLedgerOffloadPrefetchRounds": "int",
        "managedLedgerOffloadReadBufferSizeInBytes": "int",
        "managedLedgerOffloadReadThreads": "int",
        "managedLedgerOffloadRegion": "string",
        "managedLedgerOffloadServiceEndpoint": "string",
        "managedLedgerOffloadThresholdInBytes": "long",
        "managedLedgerOffloadThresholdInSeconds": "long",
        "managedLedgerOffloadedReadPriority": _enum(
            "OffloadedReadPriority", "BOOKKEEPER_FIRST", "TIERED_STORAGE_FIRST"
        ),
        "offloadersDirectory": "string",
        "s3ManagedLedgerOffloadBucket": "string",
        "s3ManagedLedgerOffloadCredentialId": "string",
        "s3ManagedLedgerOffloadCredentialSecret": "string",
        "s3ManagedLedgerOffloadMaxBlockSizeInBytes": "int",
        "s3ManagedLedgerOffloadReadBufferSizeInBytes": "int",
        "s3ManagedLedgerOffloadRegion": "string",
        "s3ManagedLedgerOffloadRole": "string",
        "s3ManagedLedgerOffloadRoleSessionName": "string",
        "s3ManagedLedgerOffloadServiceEndpoint": "string",
    },
)
_POLICIES: Final = _record(
    "TopicPolicies",
    {
        "autoSubscriptionCreationOverride": _record(
            "AutoSubscriptionCreationOverrideImpl",
            {"allowAutoSubscriptionCreation": "!boolean"},
            _IMPL,
        ),
        "backLogQuotaMap": _map(
            _record(
                "BacklogQuotaImpl",
                {
                    "limit": "!long",
                    "limitSize": "long",
                    "limitTime": "!int",
                    "policy": _enum(
                        "RetentionPolicy",
                        "producer_request_hold",
                        "producer_exception",
                        "consumer_backlog_eviction",
                        namespace=f"{_DATA}.BacklogQuota",
                    ),
                },
                _IMPL,
            )
        ),
        "compactionThreshold": "long",
        "deduplicationEnabled": "boolean",
        "deduplicationSnapshotIntervalSeconds": "int",
        "delayedDeliveryEnabled": "boolean",
        "delayedDeliveryMaxDelayInMillis": "long",
        "delayedDeliveryTickTimeMillis": "long",
        "dispatchRate": _record(
            "DispatchRateImpl",
            {
                "dispatchThrottlingRateInByte": "!long",
                "dispatchThrottlingRateInMsg": "!int",
                "ratePeriodInSecond": "!int",
                "relativeToPublishRate": "!boolean",
            },
            _IMPL,
        ),
        "dispatcherPauseOnAckStatePersistentEnabled": "boolean",
        "entryFilters": _record("EntryFilters", {"entryFilterNames": "string"}),
        "inactiveTopicPolicies": _record(
            "InactiveTopicPolicies",
            {
                "deleteWhileInactive": "!boolean",
                "inactiveTopicDeleteMode": _enum(
                    "InactiveTopicDeleteMode",
                    "delete_when_no_subscriptions",
                    "delete_when_subscriptions_caught_up",
                ),
                "maxInactiveDurationSeconds": "!int",
            },
        ),
        "isGlobal": "boolean",
        "maxConsumerPerTopic": "int",
        "maxConsumersPerSubscription": "int",
        "maxMessageSize": "int",
        "maxProducerPerTopic": "int",
        "maxSubscriptionsPerTopic": "int",
        "maxUnackedMessagesOnConsumer": "int",
        "maxUnackedMessagesOnSubscription": "int",
        "messageTTLInSeconds": "int",
        "offloadPolicies": _OFFLOAD,
        "persistence": _record(
            "PersistencePolicies",
            {
                "bookkeeperAckQuorum": "!int",
                "bookkeeperEnsemble": "!int",
                "bookkeeperWriteQuorum": "!int",
                "managedLedgerMaxMarkDeleteRate": "!double",
                "managedLedgerStorageClassName": "string",
            },
        ),
        "publishRate": _record(
            "PublishRate",
            {"publishThrottlingRateInByte": "!long", "publishThrottlingRateInMsg": "!int"},
        ),
        "replicationClusters": _list("string"),
        "replicatorDispatchRate": _RATE,
        "retentionPolicies": _record(
            "RetentionPolicies", {"retentionSizeInMB": "!long", "retentionTimeInMinutes": "!int"}
        ),
        "schemaCompatibilityStrategy": _enum(
            "SchemaCompatibilityStrategy",
            "UNDEFINED",
            "ALWAYS_INCOMPATIBLE",
            "ALWAYS_COMPATIBLE",
            "BACKWARD",
            "FORWARD",
            "FULL",
            "BACKWARD_TRANSITIVE",
            "FORWARD_TRANSITIVE",
            "FULL_TRANSITIVE",
        ),
        "schemaValidationEnforced": "boolean",
        "shadowTopics": _list("string"),
        "subscribeRate": _record(
            "SubscribeRate",
            {"ratePeriodInSecond": "!int", "subscribeThrottlingRatePerConsumer": "!int"},
        ),
        "subscriptionDispatchRate": _RATE,
        "subscriptionExpirationTimeInMinutes": "int",
        "subscriptionPolicies": _map(_record("SubscriptionPolicies", {"dispatchRate": _RATE})),
        "subscriptionTypesEnabled": _list(
            _enum(
                "SubType",
                "Exclusive",
                "Shared",
                "Failover",
                "Key_Shared",
                namespace="org.apache.pulsar.common.api.proto.CommandSubscribe",
            )
        ),
    },
    _DATA,
)
_EVENT: Final = _record(
    "PulsarEvent",
    {
        "actionType": _enum("ActionType", *(each.value for each in Action)),
        "eventType": _enum(
            "EventType",
            "TOPIC_POLICY",
            "TRANSACTION_BUFFER_SNAPSHOT",
            "TRANSACTION_BUFFER_SNAPSHOT_SEGMENTS",
            "TRANSACTION_BUFFER_SNAPSHOT_INDEXES",
        ),
        "replicateTo": _list("string", "java.util.HashSet"),
        "topicPoliciesEvent": _record(
            "TopicPoliciesEvent",
            {
                "domain": "string",
                "namespace": "string",
                "policies": _POLICIES,
                "tenant": "string",
                "topic": "string",
            },
        ),
    },
    "org.apache.pulsar.common.events",
)

EVENT_SCHEMA: Final = SchemaData(
    SchemaType.AVRO,
    json.dumps(_EVENT, separators=(",", ":")).encode(),
    {"__alwaysAllowNull": "true", "__jsr310ConversionEnabled": "false"},
)
"""What producers of events register, byte for byte."""


def encode_event_key(topic: TopicName, *, is_global: bool) -> str:
    return f"{GLOBAL_PREFIX}{topic.full}" if is_global else topic.full


def decode_event_key(key: str) -> tuple[TopicName, bool]:
    """Raise InvalidName for what names no topic."""
    is_global = key.startswith(GLOBAL_PREFIX)
    return parse_topic(key.removeprefix(GLOBAL_PREFIX)).base, is_global


def encode_event(topic: TopicName, policies: TopicPolicies, *, cluster: str) -> bytes:
    """The value of the message that sets these policies; local ones stay in their cluster."""
    from fastavro import schemaless_writer

    document = format_document(policies)
    for quota in document.get("backLogQuotaMap", {}).values():
        quota.setdefault("limit", quota.get("limitSize", 0))
    event = {
        "actionType": Action.UPDATE.value,
        "eventType": "TOPIC_POLICY",
        "replicateTo": None if policies.isGlobal else [cluster],
        "topicPoliciesEvent": {
            "domain": topic.domain.value,
            "tenant": topic.namespace.tenant,
            "namespace": topic.namespace.local,
            "topic": topic.local,
            "policies": document,
        },
    }
    buffer = io.BytesIO()
    try:
        schemaless_writer(buffer, _parsed(EVENT_SCHEMA.definition), event)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadRequest(f"Policies that cannot be written as an event: {error}") from None
    return buffer.getvalue()


def decode_event(key: str, value: bytes, definition: bytes) -> PolicyEvent | None:
    """An event written with this schema; None for one that is not about policies.

    Raise RecordUnreadable for a value that does not fit the schema, InvalidName for a key that
    names no topic.
    """
    topic, is_global = decode_event_key(key)
    if not value:
        return PolicyEvent(topic, is_global, Action.DELETE, None)
    event = _read(value, definition)
    inner = event.get("topicPoliciesEvent")
    if event.get("eventType") not in ("TOPIC_POLICY", None) or inner is None:
        return None
    action = Action(event.get("actionType") or Action.UPDATE)
    if action is Action.NONE:
        return None
    topic = _topic_of(inner, topic)
    if action is Action.DELETE or inner.get("policies") is None:
        return PolicyEvent(topic, is_global, Action.DELETE, None)
    try:
        policies = parse_document({**inner["policies"], "isGlobal": is_global}, TopicPolicies)
    except BadRequest as error:
        raise RecordUnreadable(error.sentence) from None
    return PolicyEvent(topic, is_global, action, policies)


def _topic_of(inner: Mapping[str, Any], named: TopicName) -> TopicName:
    try:
        namespace = NamespaceName(inner["tenant"], inner["namespace"])
        return TopicName(TopicDomain(inner["domain"]), namespace, inner["topic"]).base
    except (InvalidName, ValueError, KeyError, TypeError):
        return named


def _read(value: bytes, definition: bytes) -> dict[str, Any]:
    from fastavro import schemaless_reader
    from fastavro.read import SchemaResolutionError

    try:
        event = schemaless_reader(
            io.BytesIO(value), _parsed(definition), _parsed(EVENT_SCHEMA.definition)
        )
    except (ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError) as error:
        raise RecordUnreadable(f"not an event of topic policies: {error!r}") from None
    except (SchemaResolutionError, RecursionError) as error:
        raise RecordUnreadable(f"an event of another schema: {error!r}") from None
    if not isinstance(event, dict):
        raise RecordUnreadable("not an event of topic policies")
    return event


@lru_cache(maxsize=16)
def _parsed(definition: bytes) -> Any:
    from fastavro import parse_schema

    try:
        return parse_schema(json.loads(definition))
    except (ValueError, KeyError, TypeError) as error:
        raise RecordUnreadable(f"a schema of events that cannot be read: {error!r}") from None
