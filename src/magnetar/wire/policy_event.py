"""Changes of topic policies as Apache Pulsar writes them to a namespace's `__change_events`.

A message's key names the topic, with a prefix for what holds in every cluster. Its value is Avro; a
message without a value says that the policies are gone.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import lru_cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from msgspec import Struct, convert, to_builtins
from msgspec.structs import FieldInfo, fields

from magnetar.errors import BadRequest, InvalidName, RecordUnreadable
from magnetar.model.choice import BacklogAction, SubscriptionTypeName
from magnetar.model.document import format_document, parse_document
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, parse_topic
from magnetar.model.policy import (
    AutoSubscriptionCreationOverride,
    BacklogQuota,
    DispatchRate,
    OffloadPolicies,
    TopicPolicies,
)
from magnetar.model.schema import CompatibilityStrategy, SchemaData, SchemaType

GLOBAL_PREFIX: Final = "__G__"
_DATA: Final = "org.apache.pulsar.common.policies.data"


class Action(StrEnum):
    INSERT = "INSERT"
    DELETE = "DELETE"
    UPDATE = "UPDATE"
    NONE = "NONE"


class _EventType(StrEnum):
    POLICY = "TOPIC_POLICY"
    SNAPSHOT = "TRANSACTION_BUFFER_SNAPSHOT"
    SEGMENTS = "TRANSACTION_BUFFER_SNAPSHOT_SEGMENTS"
    INDEXES = "TRANSACTION_BUFFER_SNAPSHOT_INDEXES"


class _Change(Struct, kw_only=True):
    """The policies are read when it is known that they count."""

    domain: str | None = None
    tenant: str | None = None
    namespace: str | None = None
    topic: str | None = None
    policies: Annotated[dict[str, Any], TopicPolicies] | None = None


class _Event(Struct, kw_only=True):
    actionType: Action | None = None
    eventType: _EventType | None = None
    replicateTo: frozenset[str] | None = None
    topicPoliciesEvent: _Change | None = None


@dataclass(frozen=True, slots=True)
class PolicyEvent:
    """`policies` of None: there are none any more in this scope."""

    topic: TopicName
    is_global: bool
    action: Action
    policies: TopicPolicies | None


_NAMES: Final[Mapping[type, str]] = {
    Action: "ActionType",
    AutoSubscriptionCreationOverride: f"{_DATA}.impl.AutoSubscriptionCreationOverrideImpl",
    BacklogAction: f"{_DATA}.BacklogQuota.RetentionPolicy",
    BacklogQuota: f"{_DATA}.impl.BacklogQuotaImpl",
    CompatibilityStrategy: "SchemaCompatibilityStrategy",
    DispatchRate: f"{_DATA}.impl.DispatchRateImpl",
    OffloadPolicies: "OffloadPoliciesImpl",
    SubscriptionTypeName: "org.apache.pulsar.common.api.proto.CommandSubscribe.SubType",
    TopicPolicies: f"{_DATA}.TopicPolicies",
    _Change: "TopicPoliciesEvent",
    _Event: "org.apache.pulsar.common.events.PulsarEvent",
    _EventType: "EventType",
}
"""What Pulsar calls a type, where that is not its name here."""
_SCALARS: Final[Mapping[type, str]] = {bool: "boolean", str: "string", float: "double"}
_LISTS: Final = {tuple: "java.util.List", frozenset: "java.util.HashSet"}
_NEVER_NULL: Final = (BacklogQuota, "limit")


def _named(kind: str, name: str, **content: Any) -> dict[str, Any]:
    namespace, _, local = name.rpartition(".")
    where = {"namespace": namespace} if namespace else {}
    return {"type": kind, "name": local, **where, **content}


class _Describer:
    """The Avro schema of our types; a record is spelled out once and named from then on."""

    def __init__(self) -> None:
        self._known: set[type] = set()

    def describe(self, kind: Any) -> Any:
        found, arguments = get_origin(kind), get_args(kind)
        if found is Annotated:
            base, about = arguments
            if base is not int:
                return self.describe(about)
            return "int" if about.le < 2**31 else "long"
        if found is dict:
            return {"type": "map", "values": self.describe(arguments[1])}
        if found in _LISTS:
            return {
                "type": "array",
                "items": self.describe(arguments[0]),
                "java-class": _LISTS[found],
            }
        if issubclass(kind, Enum):
            symbols = [each.value for each in kind]
            return _named("enum", _NAMES.get(kind, kind.__name__), symbols=symbols)
        return self._record(kind) if issubclass(kind, Struct) else _SCALARS[kind]

    def _record(self, kind: type[Struct]) -> Any:
        name = _NAMES.get(kind, kind.__name__)
        if kind in self._known:
            return name
        self._known.add(kind)
        members = [
            self._member(kind, each) for each in sorted(fields(kind), key=attrgetter("name"))
        ]
        return _named("record", name, fields=members)

    def _member(self, owner: type[Struct], member: FieldInfo) -> dict[str, Any]:
        """What Java keeps in an object may be null, all that a topic has and what is so here."""
        parts = [each for each in get_args(member.type) if each is not NoneType]
        is_optional = get_origin(member.type) in (Union, UnionType)
        described = self.describe(parts[0] if is_optional else member.type)
        if owner is TopicPolicies or (is_optional and (owner, member.name) != _NEVER_NULL):
            return {"name": member.name, "type": ["null", described], "default": None}
        return {"name": member.name, "type": described}


EVENT_SCHEMA: Final = SchemaData(
    SchemaType.AVRO,
    json.dumps(_Describer().describe(_Event), separators=(",", ":")).encode(),
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
    change = _Change(
        domain=topic.domain.value,
        tenant=topic.namespace.tenant,
        namespace=topic.namespace.local,
        topic=topic.local,
        policies=document,
    )
    event = _Event(
        actionType=Action.UPDATE,
        eventType=_EventType.POLICY,
        replicateTo=None if policies.isGlobal else frozenset({cluster}),
        topicPoliciesEvent=change,
    )
    buffer = io.BytesIO()
    try:
        schemaless_writer(buffer, _parsed(EVENT_SCHEMA.definition), to_builtins(event))
    except (ValueError, TypeError, OverflowError) as error:
        raise BadRequest(f"Policies do not fit the schema of events: {error}") from None
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
    change, action = event.topicPoliciesEvent, event.actionType or Action.UPDATE
    if event.eventType not in (_EventType.POLICY, None) or change is None or action is Action.NONE:
        return None
    topic = _topic_of(change, topic)
    if action is Action.DELETE or change.policies is None:
        return PolicyEvent(topic, is_global, Action.DELETE, None)
    try:
        policies = parse_document({**change.policies, "isGlobal": is_global}, TopicPolicies)
    except BadRequest as error:
        raise RecordUnreadable(error.sentence) from None
    return PolicyEvent(topic, is_global, action, policies)


def _topic_of(change: _Change, named: TopicName) -> TopicName:
    """The topic that the event names, as its key does unless another program wrote it."""
    if (change.domain, change.tenant, change.namespace, change.topic) == (
        named.domain.value,
        named.namespace.tenant,
        named.namespace.local,
        named.local,
    ):
        return named
    try:
        namespace = NamespaceName(change.tenant or "", change.namespace or "")
        return TopicName(TopicDomain(change.domain or ""), namespace, change.topic or "").base
    except (InvalidName, ValueError):
        return named


def _read(value: bytes, definition: bytes) -> _Event:
    from fastavro import schemaless_reader
    from fastavro.read import SchemaResolutionError

    ours = _parsed(EVENT_SCHEMA.definition)
    try:
        return convert(schemaless_reader(io.BytesIO(value), _parsed(definition), ours), _Event)
    except (SchemaResolutionError, RecursionError) as error:
        raise RecordUnreadable(f"an event of another schema: {error!r}") from None
    except (ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError) as error:
        raise RecordUnreadable(f"not an event of topic policies: {error!r}") from None


@lru_cache(maxsize=16)
def _parsed(definition: bytes) -> Any:
    from fastavro import parse_schema

    try:
        return parse_schema(json.loads(definition))
    except (ValueError, KeyError, TypeError) as error:
        raise RecordUnreadable(f"an unreadable schema of events: {error!r}") from None
