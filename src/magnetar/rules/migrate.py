"""Whether a regular topic may become a scalable one, and what it will be.

First segments are made that belong to no topic yet, with every cursor; they can be taken back. Then
writers are held, late cursors carried over, and the record is written: from there on there is only
forward, as `rules.phase` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from magnetar.errors import (
    BrokerError,
    Conflict,
    LayoutTooLarge,
    MethodNotAllowed,
    NotScalable,
    PreconditionFailed,
    TopicNotFound,
)
from magnetar.model.layout import Layout
from magnetar.model.migration import Backlog, ClassicClient, legacy_names
from magnetar.model.name import TopicName
from magnetar.model.scalable import (
    ChangeKind,
    LayoutEvent,
    MigrateIntent,
    MigrationOrigin,
    ScalableTopicMetadata,
)
from magnetar.model.segment import scalable_name
from magnetar.rules.route import HashEvidence

SEGMENTS_MAX: Final = 1000
"""A topic begins with no more after its migration; it may be split further."""
_CLIENTS_TOLD_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a topic that is to become scalable."""

    topic: TopicName
    """The regular one."""
    exists: bool
    partitions: int = 0
    """0 for a topic without partitions."""
    wanted: int | None = None
    """How many segments were asked for; by default as many as partitions."""
    fitting: int = SEGMENTS_MAX
    """With more segments than these no client could open the topic."""
    record: ScalableTopicMetadata | None = None
    clients: tuple[ClassicClient, ...] = ()
    is_enabled: bool = True
    is_system: bool = False
    replicated_to: tuple[str, ...] = ()

    @property
    def segments(self) -> int:
        """How many there would be for new messages."""
        return min(max(1, self.partitions), self.fitting) if self.wanted is None else self.wanted


@dataclass(frozen=True, slots=True)
class Check:
    """One precondition of a migration."""

    requirement: str
    refusal: BrokerError | None = None
    """Why it is not met."""


def run_checks(survey: Survey, *, force: bool = False) -> tuple[Check, ...]:
    """Every precondition, what an operator must know first at the front."""
    topic = survey.topic
    return (
        Check("migration is enabled", _check_enabled(survey)),
        Check("the name is that of a whole topic", _check_name(topic)),
        Check("the topic is not a system topic", _check_system(survey)),
        Check("the topic exists and is regular", _check_kind(survey)),
        Check("the topic is not replicated to other clusters", _check_replicas(survey)),
        Check("clients can open the new layout", _check_size(survey)),
        Check(
            "no v4 client is attached",
            Conflict(_describe_clients(topic, survey.clients))
            if survey.clients and not force
            else None,
        ),
    )


def find_refusals(survey: Survey, *, force: bool = False) -> tuple[BrokerError, ...]:
    """Everything that is in the way."""
    checks = run_checks(survey, force=force)
    return tuple(check.refusal for check in checks if check.refusal is not None)


def _check_enabled(survey: Survey) -> BrokerError | None:
    if survey.is_enabled:
        return None
    return MethodNotAllowed("Migration to scalable topics is switched off here")


def _check_name(topic: TopicName) -> BrokerError | None:
    if not topic.is_partition:
        return None
    return PreconditionFailed(f"{topic} is called like a partition; name {topic.base}")


def _check_system(survey: Survey) -> BrokerError | None:
    if not survey.is_system:
        return None
    return PreconditionFailed(f"{survey.topic} belongs to the system and stays a regular topic")


def _check_kind(survey: Survey) -> BrokerError | None:
    if survey.record is not None:
        return Conflict(f"Topic is already scalable: {scalable_name(survey.topic)}")
    return None if survey.exists else TopicNotFound(f"Topic does not exist: {survey.topic}")


def _check_replicas(survey: Survey) -> BrokerError | None:
    if not survey.replicated_to:
        return None
    clusters = ", ".join(survey.replicated_to)
    return PreconditionFailed(f"{survey.topic} is replicated to {clusters}")


def _check_size(survey: Survey) -> BrokerError | None:
    if 1 <= survey.segments <= survey.fitting:
        return None
    return LayoutTooLarge(_describe_size(survey))


def find_notes(survey: Survey, evidence: HashEvidence) -> tuple[str, ...]:
    """What an operator should know, though it is not in the way."""
    return (*_note_segments(survey), *_note_hashes(evidence))


def _note_hashes(evidence: HashEvidence) -> tuple[str, ...]:
    if not evidence.keys or evidence.explaining:
        return ()
    fits = ", ".join(f"{count} by {each.value}" for each, count in evidence.fits.items())
    return (
        "v4 producers disagree on the partition of a key, or choose it by themselves: of"
        f" {evidence.keys} keys among the latest messages {fits}. The order of a key's messages"
        " holds within a partition only; give all producers one hash (hashingScheme)",
    )


def _note_segments(survey: Survey) -> tuple[str, ...]:
    if survey.wanted is None and survey.segments < survey.partitions:
        return (
            f"{survey.partitions} partitions become {survey.segments} segments, not as many:"
            " each segment comes after every partition, and a client must take all of these links"
            " at once. The topic can be split further afterwards",
        )
    return ()


def _describe_size(survey: Survey) -> str:
    if survey.wanted is not None and survey.fitting:
        return (
            f"{survey.topic} can have 1 to {survey.fitting} segments after its"
            f" {max(1, survey.partitions)} partition(s), not {survey.wanted}: clients could not"
            " take the layout, which links each segment to each partition"
        )
    return (
        f"{survey.topic} has too many partitions of too long a name, {survey.partitions} of"
        f" {len(survey.topic.full)} characters: clients could not take the layout"
    )


def find_fitting(fits: Callable[[int], bool]) -> int:
    """The most segments that fit, 0 when not even one does; fewer than fit do so too."""
    low, high = 0, SEGMENTS_MAX
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _describe_clients(topic: TopicName, clients: tuple[ClassicClient, ...]) -> str:
    """A client of several partitions is attached to each of them, and named once."""
    places = Counter(str(client) for client in clients)
    shown = [
        each if count == 1 else f"{each} on {count} partitions"
        for each, count in list(places.items())[:_CLIENTS_TOLD_MAX]
    ]
    if len(places) > len(shown):
        shown.append(f"{len(places) - len(shown)} more")
    connections = len({client.address for client in clients})
    return (
        f"{connections} legacy v4 client connection(s) still attached to {topic}, with"
        f" {len(clients)} producers, consumers or readers:"
        f" {', '.join(shown)}; disconnect them or upgrade them to V5 before migrating,"
        " or retry with force=true"
    )


def plan_migration(
    topic: TopicName,
    partitions: int,
    *,
    now_ms: int,
    segments: int | None = None,
    bucket_budget: int = 1,
) -> ScalableTopicMetadata:
    """The record whose writing makes the topic scalable."""
    names = [each.full for each in legacy_names(topic, partitions)]
    layout = Layout.migrated(names, now_ms=now_ms, children=segments, bucket_budget=bucket_budget)
    event = LayoutEvent(
        layout.epoch,
        ChangeKind.MIGRATE,
        tuple(each.id for each in layout.sealed),
        tuple(each.id for each in layout.active),
        now_ms,
        "manual",
    )
    return ScalableTopicMetadata(
        layout,
        migrated_from=MigrationOrigin(topic.full, partitions),
        intent=MigrateIntent(tuple(each.ref for each in layout.sealed), now_ms),
        history=(event,),
    )


def estimate_backlog(
    entries: int, size_bytes: int, rate_out_per_s: float, bytes_out_per_s: float
) -> Backlog:
    """By bytes: an entry may hold one message or a thousand."""
    drain_s: float | None = 0.0
    if entries:
        drain_s = size_bytes / bytes_out_per_s if bytes_out_per_s > 0 else None
    return Backlog(entries, size_bytes, rate_out_per_s, drain_s)


def refuse_regular(topic: TopicName, what: str) -> NotScalable:
    """What needs segments of its own is not to be had of a regular topic."""
    return NotScalable(
        f"{topic} is a regular topic, which has no {what}; make it scalable first:"
        f" magnetar admin scalable-topics migrate-to-scalable {topic}"
    )
