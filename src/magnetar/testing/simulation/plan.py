"""What a seed decides before a run: the cluster, its topics, and who uses them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from magnetar.model.name import TopicName, parse_topic

UNKEYED: Final = ".unkeyed"
"""How what messages without a key are counted by ends: they go anywhere, in no order."""


class Kind(StrEnum):
    SCALABLE = "scalable"
    MIGRATING = "migrating"
    """Regular at first; its clients are ready for it to become scalable."""
    CLASSIC = "classic"


class Reading(StrEnum):
    STREAM = "stream"
    QUEUE = "queue"
    CHECKPOINT = "checkpoint"
    EXCLUSIVE = "exclusive"
    FAILOVER = "failover"
    SHARED = "shared"
    KEY_SHARED = "key_shared"

    @property
    def keeps_order(self) -> bool:
        """Whether the messages of a key come in the order they were sent."""
        return self not in (Reading.QUEUE, Reading.SHARED)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    topic: TopicName
    kind: Kind
    parts: int
    """Segments of a scalable topic, partitions of a regular one; 0: not partitioned."""
    has_deduplication: bool
    readings: tuple[tuple[Reading, int], ...]
    """Each is a subscription, with so many consumers."""
    producers: tuple[ProducerPlan, ...]

    @property
    def name(self) -> str:
        return self.topic.full


@dataclass(frozen=True, slots=True)
class ProducerPlan:
    name: str
    keys: tuple[str, ...]
    """What its messages are counted by; they are sent as keys unless the producer has none."""
    is_keyed: bool
    messages: int
    pause_s: float
    is_batching: bool


@dataclass(frozen=True, slots=True)
class Plan:
    brokers: int
    has_faults: bool
    has_auto_scale: bool
    busy_s: float
    topics: tuple[TopicPlan, ...]
    bookies: int = 0
    """That the brokers share; 0: each has files of its own."""
    copies: tuple[int, int, int] = (2, 2, 2)
    """Ensemble, write quorum and ack quorum of ledgers on bookies."""


_COPIES: Final = ((2, 2, 2), (3, 2, 2), (3, 3, 2))
_KINDS: Final = (Kind.SCALABLE, Kind.SCALABLE, Kind.MIGRATING, Kind.CLASSIC)
_READINGS: Final = {
    Kind.SCALABLE: (Reading.STREAM, Reading.QUEUE, Reading.CHECKPOINT),
    Kind.MIGRATING: (Reading.STREAM, Reading.QUEUE),
    Kind.CLASSIC: (Reading.EXCLUSIVE, Reading.FAILOVER, Reading.SHARED, Reading.KEY_SHARED),
}


def make_plan(random: Random) -> Plan:
    busy_s = random.choice((10.0, 15.0, 15.0, 25.0))
    return Plan(
        brokers=random.choice((1, 1, 2, 2, 3)),
        has_faults=random.random() < 0.85,
        has_auto_scale=random.random() < 0.5,
        busy_s=busy_s,
        topics=tuple(
            _make_topic(random, number, busy_s) for number in range(random.choice((1, 1, 1, 2)))
        ),
        bookies=random.choice((0, 0, 0, 4, 5)),
        copies=random.choice(_COPIES),
    )


def _make_topic(random: Random, number: int, busy_s: float) -> TopicPlan:
    kind = random.choice(_KINDS)
    domain = "topic" if kind is Kind.SCALABLE else "persistent"
    return TopicPlan(
        topic=parse_topic(f"{domain}://public/space{number}/orders"),
        kind=kind,
        parts=random.choice((1, 1, 2, 3)) if kind is Kind.SCALABLE else random.choice((0, 1, 3)),
        has_deduplication=random.random() < 0.4,
        readings=tuple(
            (each, 1 if each is Reading.EXCLUSIVE else random.choice((1, 1, 2, 3)))
            for each in random.sample(_READINGS[kind], random.choice((1, 2)))
        ),
        producers=tuple(
            _make_producer(random, f"producer{number}-{index}", busy_s)
            for index in range(random.choice((1, 1, 2)))
        ),
    )


def _make_producer(random: Random, name: str, busy_s: float) -> ProducerPlan:
    messages = random.choice((30, 60, 60, 120))
    is_keyed = random.random() < 0.8
    keys = tuple(f"{name}.k{number}" for number in range(random.choice((1, 3, 8))))
    return ProducerPlan(
        name=name,
        keys=keys if is_keyed else (f"{name}{UNKEYED}",),
        is_keyed=is_keyed,
        messages=messages,
        pause_s=busy_s / messages,
        is_batching=random.random() < 0.5,
    )
