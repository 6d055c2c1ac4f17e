"""How a regular topic becomes a scalable one, as far as that is kept or shown.

Before the record of the scalable topic is written nothing has changed for anybody, but segments
without a topic may lie about. A *preparation* in the metadata store names them for the
cleaning up after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from magnetar.model.name import NamespaceName, TopicDomain, TopicName, decode_local
from magnetar.model.segment import SegmentRef, scalable_name

PREPARATIONS: Final = "/magnetar/migrations"
LOCKS: Final = "/magnetar/migration-locks"

MANAGED: Final = "__pulsar.v5.managed"
"""What clients that will follow a migration say of themselves when they attach to the regular
topic."""


READER_INFIX: Final = "-seg-"
"""Stands between the name of a group's consumer and the segment that it reads."""


def is_reader_name(name: str) -> bool:
    """Whether a consumer is called as one of a group is on a segment."""
    return READER_INFIX in name


def preparation_path(topic: TopicName) -> str:
    name = scalable_name(topic)
    return f"{PREPARATIONS}/{name.namespace}/{name.encoded_local}"


def lock_path(topic: TopicName) -> str:
    name = scalable_name(topic)
    return f"{LOCKS}/{name.namespace}/{name.encoded_local}"


def parse_lock_path(path: str) -> TopicName | None:
    """The topic whose lock stands there; None for every other path."""
    if not path.startswith(f"{LOCKS}/"):
        return None  # the directory of all locks goes with the last of them
    parts = path.removeprefix(f"{LOCKS}/").split("/")
    if len(parts) != 3:
        return None
    return TopicName(TopicDomain.TOPIC, NamespaceName(*parts[:2]), decode_local(parts[2]))


def preparations_path(namespace: NamespaceName) -> str:
    return f"{PREPARATIONS}/{namespace}"


def regular_name(topic: TopicName) -> TopicName:
    """The regular topic that a scalable one was, or would be, called the same."""
    return TopicName(TopicDomain.PERSISTENT, topic.namespace, topic.local)


def legacy_names(topic: TopicName, partitions: int) -> tuple[TopicName, ...]:
    """The topics that hold the messages of a regular one; it has 0 partitions or some."""
    return tuple(topic.partition(index) for index in range(partitions)) or (topic,)


@dataclass(frozen=True, slots=True)
class Preparation:
    """Segments that were made, or may have been, for a topic that is not scalable yet."""

    children: tuple[SegmentRef, ...]
    started_at_ms: int


class ClientKind(StrEnum):
    PRODUCER = "producer"
    CONSUMER = "consumer"
    READER = "reader"


@dataclass(frozen=True, slots=True)
class ClassicClient:
    """A producer, consumer or reader that cannot follow its topic when it becomes scalable."""

    kind: ClientKind
    name: str
    topic: str
    address: str
    version: str
    subscription: str = ""

    def __str__(self) -> str:
        of = f" of {self.subscription}" if self.subscription else ""
        return f"{self.kind} {self.name}{of} from {self.address} ({self.version or 'unknown'})"


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a subscription must read of the regular topic before it reads on."""

    entries: int
    size_bytes: int
    rate_out_per_s: float
    """In messages."""
    drain_s: float | None
    """At the present rate; None when nothing is being read."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a migration would find and do."""

    topic: TopicName
    scalable: TopicName
    partitions: int
    checks: Mapping[str, str]
    """Every precondition, with why it is not met; empty where it is."""
    clients: tuple[ClassicClient, ...]
    new_segments: int
    """How many segments there would be for new messages."""
    notes: tuple[str, ...]
    """What is not in the way, but should be known."""
    segments: Mapping[str, str]
    """State and place of each segment that there would be, by its topic."""
    backlogs: Mapping[str, Backlog]
    """Of each durable subscription."""

    @property
    def refusals(self) -> tuple[str, ...]:
        return tuple(sentence for sentence in self.checks.values() if sentence)
