"""What the metadata store knows about a scalable topic, and where.

A topic's record holds its layout, its properties, and at most one *intent*: a change that was begun
and must be finished by any controller that finds it. `wire.scalable` spells the records.

The record path ignores the domain: a topic has one record, whatever its spelling. Names of
subscriptions and consumers stand in paths as they are, save a slash and a percent sign, which would
otherwise make another path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias

from magnetar.model.layout import Layout
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, decode_local
from magnetar.model.segment import HashRange, SegmentId, SegmentRef, scalable_name

TOPICS: Final = "/topics"
CONTROLLER: Final = "controller"
HISTORY_MAX: Final = 100
"""How many past changes a record keeps."""


def namespace_path(namespace: NamespaceName) -> str:
    return f"{TOPICS}/{namespace}"


def topic_path(name: TopicName) -> str:
    topic = scalable_name(name)
    return f"{TOPICS}/{topic.namespace}/{topic.encoded_local}"


def controller_path(name: TopicName) -> str:
    return f"{topic_path(name)}/{CONTROLLER}"


def subscriptions_path(name: TopicName) -> str:
    return f"{topic_path(name)}/subscriptions"


def subscription_path(name: TopicName, subscription: str) -> str:
    return f"{subscriptions_path(name)}/{escape_component(subscription)}"


def consumers_path(name: TopicName, subscription: str) -> str:
    return f"{subscription_path(name, subscription)}/consumers"


def consumer_path(name: TopicName, subscription: str, consumer: str) -> str:
    return f"{consumers_path(name, subscription)}/{escape_component(consumer)}"


def segments_path(name: TopicName) -> str:
    return f"{topic_path(name)}/segments"


def scaling_path(name: TopicName) -> str:
    return f"{topic_path(name)}/scaling"


def load_path(name: TopicName, segment: SegmentId) -> str:
    return f"{segments_path(name)}/{segment}/load"


def parse_load_path(path: str) -> tuple[str, SegmentId] | None:
    """The path of the topic and the segment whose load stands there; None for any other path."""
    parts = path.split("/")
    if len(parts) != 8 or parts[5] != "segments" or parts[7] != "load" or not parts[6].isdecimal():
        return None
    return "/".join(parts[:5]), SegmentId(int(parts[6]))


def parse_topic_path(path: str) -> TopicName | None:
    """The topic whose record stands there; None for every other path."""
    parts = path.split("/")
    if len(parts) != 5 or f"/{parts[1]}" != TOPICS:
        return None
    try:
        local = decode_local(parts[4])
    except UnicodeDecodeError:
        return None
    return TopicName(TopicDomain.TOPIC, NamespaceName(parts[2], parts[3]), local)


def escape_component(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")


def unescape_component(component: str) -> str:
    return component.replace("%2F", "/").replace("%25", "%")


@dataclass(frozen=True, slots=True)
class SplitIntent:
    segment: SegmentId
    children: tuple[SegmentRef, SegmentRef]
    epoch: int
    """Of the layout it was planned on."""
    started_at_ms: int
    reason: str = ""

    @property
    def parents(self) -> tuple[SegmentId, ...]:
        return (self.segment,)


@dataclass(frozen=True, slots=True)
class MergeIntent:
    parents: tuple[SegmentId, SegmentId]
    child: SegmentRef
    epoch: int
    started_at_ms: int
    reason: str = ""

    @property
    def children(self) -> tuple[SegmentRef, ...]:
        return (self.child,)


@dataclass(frozen=True, slots=True)
class PruneIntent:
    """Segments the layout has forgotten and whose data is still to be removed."""

    segments: tuple[SegmentRef, ...]
    started_at_ms: int


@dataclass(frozen=True, slots=True)
class DeleteIntent:
    """The topic is gone for its clients; this much of it is still to be removed."""

    segments: tuple[SegmentRef, ...]
    started_at_ms: int


@dataclass(frozen=True, slots=True)
class WipeIntent:
    """Segments that stay in the layout and whose data is to be removed, read or not."""

    segments: tuple[SegmentRef, ...]
    started_at_ms: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HealIntent:
    """Active segments that have no topic: they are made, empty, with every subscription."""

    segments: tuple[SegmentRef, ...]
    started_at_ms: int


@dataclass(frozen=True, slots=True)
class MigrateIntent:
    """The topic has become a scalable one; the regular topics it was are still to be sealed."""

    parents: tuple[SegmentRef, ...]
    started_at_ms: int


Intent: TypeAlias = (
    SplitIntent | MergeIntent | PruneIntent | DeleteIntent | WipeIntent | HealIntent | MigrateIntent
)


class ChangeKind(StrEnum):
    SPLIT = "SPLIT"
    MERGE = "MERGE"
    PRUNE = "PRUNE"
    DELETE = "DELETE"
    WIPE = "WIPE"
    HEAL = "HEAL"
    MIGRATE = "MIGRATE"


@dataclass(frozen=True, slots=True)
class LayoutEvent:
    """One line of a topic's history."""

    epoch: int
    """That it led to."""
    kind: ChangeKind
    segments: tuple[SegmentId, ...]
    children: tuple[SegmentId, ...]
    at_ms: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MigrationOrigin:
    """The regular topic that this one was; `partitions` is 0 for one without partitions."""

    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class ScaleHold:
    """An operator asked for so many segments ahead of a peak: till then there are no fewer."""

    segments: int
    until_ms: int

    def segments_at(self, now_ms: int) -> int:
        return self.segments if now_ms < self.until_ms else 0


@dataclass(frozen=True, slots=True)
class ScalableTopicMetadata:
    layout: Layout
    properties: Mapping[str, str] = field(default_factory=dict)
    auto_scale_policy: Mapping[str, Any] | None = None
    """The topic's override as it was set; null fields fall through to the namespace."""
    migrated_from: MigrationOrigin | None = None
    intent: Intent | None = None
    history: tuple[LayoutEvent, ...] = ()
    """The latest changes, oldest first."""
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """Fields that other programs wrote; they survive a rewrite."""
    unknown_of: Mapping[SegmentId, Mapping[str, Any]] = field(default_factory=dict)
    scale_hold: ScaleHold | None = None

    @property
    def is_deleting(self) -> bool:
        return isinstance(self.intent, DeleteIntent)

    def with_change(self, layout: Layout, event: LayoutEvent) -> ScalableTopicMetadata:
        """The record after a change; the caller says what becomes of the intent."""
        return replace(
            self,
            layout=layout,
            history=(*self.history, event)[-HISTORY_MAX:],
            unknown_of={
                number: fields
                for number, fields in self.unknown_of.items()
                if number in layout.by_id
            },
        )


class SubscriptionKind(StrEnum):
    STREAM = "STREAM"
    QUEUE = "QUEUE"


class SubscriptionState(StrEnum):
    """Cursors on many segments are not made or removed in one step; the record says so."""

    CREATING = "CREATING"
    READY = "READY"
    DELETING = "DELETING"


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    kind: SubscriptionKind
    state: SubscriptionState = SubscriptionState.READY
    unknown: Mapping[str, Any] = field(default_factory=dict)


class ConsumerKind(StrEnum):
    """Who registers with a controller; queue consumers do not."""

    STREAM = "STREAM"
    CHECKPOINT = "CHECKPOINT"


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A registration; the segments it had let a new controller assign the same ones."""

    kind: ConsumerKind = ConsumerKind.STREAM
    segments: tuple[SegmentId, ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SegmentLoad:
    rate_in_per_s: float = 0.0
    bytes_in_per_s: float = 0.0
    rate_out_per_s: float = 0.0
    bytes_out_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a broker serves; at least one of the two."""

    url: str = ""
    url_tls: str = ""


@dataclass(frozen=True, slots=True)
class LayoutView:
    """A layout as clients see it: with who serves the segments and who controls the topic."""

    layout: Layout
    brokers: Mapping[SegmentId, BrokerAddress] = field(default_factory=dict)
    controller: BrokerAddress | None = None
    key_hash: str = ""
    """How producers of a regular topic place keys on its partitions, if the broker knows."""


@dataclass(frozen=True, slots=True)
class AssignedSegment:
    id: SegmentId
    range: HashRange
    topic: str
    buckets: tuple[HashRange, ...] = ()
    """Every bucket of a segment that several consumers share; nothing when it is read by one."""


@dataclass(frozen=True, slots=True)
class ConsumerAssignment:
    epoch: int
    segments: tuple[AssignedSegment, ...] = ()
