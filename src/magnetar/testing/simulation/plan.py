"""What a seed decides before a run: the cluster, its topics, and who uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Final

from magnetar.model.name import TopicName, parse_topic

UNKEYED: Final = ".unkeyed"
"""How what messages without a key are counted by ends: they go anywhere, in no order."""


TRANSFER: Final = "tx"
"""How the keys of what transactions send begin."""


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
class Focus:
    """What every topic of a run is and how several consumers read it, whatever the seed says."""

    kind: Kind
    reading: Reading


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
class TransferPlan:
    """Inputs that are consumed, and turned to outputs in two topics, by transactions."""

    inputs: int
    workers: int
    messages: int
    """That a transaction sends to each topic."""

    @property
    def input(self) -> TopicName:
        return parse_topic("persistent://public/bank/inputs")

    @property
    def output(self) -> TopicName:
        """The one beside the first topic of the plan."""
        return parse_topic("persistent://public/bank/outputs")


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
    transfer: TransferPlan | None = None
    has_pauses: bool = False
    """Brokers stand still for longer than their sessions, instead of all other faults."""


_TRANSFERS_SHARE: Final = 0.35
_BOOKIES: Final = 4
_COPIES: Final = ((2, 2, 2), (3, 2, 2), (3, 3, 2))
_KINDS: Final = (Kind.SCALABLE, Kind.SCALABLE, Kind.MIGRATING, Kind.CLASSIC)
_READINGS: Final = {
    Kind.SCALABLE: (Reading.STREAM, Reading.QUEUE, Reading.CHECKPOINT),
    Kind.MIGRATING: (Reading.STREAM, Reading.QUEUE),
    Kind.CLASSIC: (Reading.EXCLUSIVE, Reading.FAILOVER, Reading.SHARED, Reading.KEY_SHARED),
}


def parse_focus(text: str) -> Focus:
    """From `KIND/READING`; raise ValueError unless topics of the kind are read so."""
    kind, _, reading = text.partition("/")
    focus = Focus(Kind(kind), Reading(reading))
    if focus.reading not in _READINGS[focus.kind]:
        raise ValueError(f"{focus.kind} topics are not read by {focus.reading}")
    return focus


def make_plan(random: Random, focus: Focus | None = None) -> Plan:
    busy_s = random.choice((10.0, 15.0, 15.0, 25.0))
    return Plan(
        brokers=random.choice((1, 1, 2, 2, 3)),
        has_faults=random.random() < 0.85,
        has_auto_scale=random.random() < 0.5,
        busy_s=busy_s,
        topics=tuple(
            _make_topic(random, number, busy_s, focus)
            for number in range(random.choice((1, 1, 1, 2)))
        ),
        bookies=random.choice((0, 0, 0, 4, 5)),
        copies=random.choice(_COPIES),
    )


def add_transfer(plan: Plan, random: Random) -> Plan:
    """Transactions in some of the runs, beside everything else."""
    if random.random() >= _TRANSFERS_SHARE:
        return plan
    chosen = TransferPlan(
        inputs=random.choice((3, 6, 9)),
        workers=random.choice((1, 2)),
        messages=random.choice((1, 2, 3)),
    )
    return replace(plan, transfer=chosen)


def choose_ledgers(plan: Plan, *, on_bookies: bool) -> Plan:
    """Whatever the seed says, several brokers share bookies, or each has files of its own."""
    if on_bookies:
        return replace(plan, brokers=max(2, plan.brokers), bookies=plan.bookies or _BOOKIES)
    return replace(plan, bookies=0)


def _make_topic(
    random: Random, number: int, busy_s: float, focus: Focus | None = None
) -> TopicPlan:
    kind = random.choice(_KINDS) if focus is None else focus.kind
    consumers = (1, 1, 2, 3) if focus is None else (2, 3)
    domain = "topic" if kind is Kind.SCALABLE else "persistent"
    return TopicPlan(
        topic=parse_topic(f"{domain}://public/space{number}/orders"),
        kind=kind,
        parts=random.choice((1, 1, 2, 3)) if kind is Kind.SCALABLE else random.choice((0, 1, 3)),
        has_deduplication=random.random() < 0.4,
        readings=tuple(
            (each, 1 if each is Reading.EXCLUSIVE else random.choice(consumers))
            for each in _choose_readings(random, kind, focus)
        ),
        producers=tuple(
            _make_producer(random, f"producer{number}-{index}", busy_s)
            for index in range(random.choice((1, 1, 2)))
        ),
    )


def _choose_readings(random: Random, kind: Kind, focus: Focus | None) -> Sequence[Reading]:
    if focus is not None:
        return (focus.reading,)
    return random.sample(_READINGS[kind], random.choice((1, 2)))


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
