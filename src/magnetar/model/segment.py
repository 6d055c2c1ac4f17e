"""One segment of a scalable topic: its place on the hash ring, its state, its name.

A segment's topic is called `segment://tenant/namespace/<topic>/<first>-<last>-<id>`. The last slash
parts the topic's own local name, which may hold slashes, from the descriptor. A legacy segment is
a regular topic that a migration turned into one: clients attach to its old name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Final, NewType, Self

from magnetar.errors import InvalidLayout, InvalidName, PreconditionFailed
from magnetar.model.name import TopicDomain, TopicName, parse_stored_topic

SegmentId = NewType("SegmentId", int)

RING: Final = 65536
"""How many hashes segments share; the same number of hashes is shared by a segment's buckets."""
_ID_MAX: Final = 2**63 - 1
_DESCRIPTOR: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+)-([0-9]+)", re.ASCII | re.IGNORECASE)


class SegmentState(StrEnum):
    ACTIVE = "ACTIVE"
    SEALED = "SEALED"


@dataclass(frozen=True, slots=True, order=True)
class HashRange:
    """The hashes from `first` to `last`, both included."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last < RING:
            raise PreconditionFailed(
                f"No hash range goes from {self.first} to {self.last}; hashes go from 0 to 65535"
            )

    def __str__(self) -> str:
        return f"{self.first:04x}-{self.last:04x}"

    def __contains__(self, place: int) -> bool:
        return self.first <= place <= self.last

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def split(self, at: int | None = None) -> tuple[Self, Self]:
        """Two ranges; `at` is the first hash of the upper one, the middle unless given."""
        if self.size < 2:
            raise PreconditionFailed(f"The range {self} is a single hash and cannot be split")
        if at is None:
            at = self.first + (self.last - self.first) // 2 + 1
        if not self.first < at <= self.last:
            raise PreconditionFailed(
                f"The range {self} can be split at {self.first + 1:04x} to {self.last:04x},"
                f" not at {at:04x}"
            )
        return type(self)(self.first, at - 1), type(self)(at, self.last)

    def is_adjacent(self, other: HashRange) -> bool:
        return self.last + 1 == other.first or other.last + 1 == self.first

    def join(self, other: HashRange) -> Self:
        if not self.is_adjacent(other):
            raise PreconditionFailed(f"The ranges {self} and {other} are not adjacent")
        return type(self)(min(self.first, other.first), max(self.last, other.last))


WHOLE: Final = HashRange(0, RING - 1)


def tile(count: int) -> tuple[HashRange, ...]:
    """`count` ranges of equal width; the last one takes what is left over."""
    if not 1 <= count <= RING:
        raise PreconditionFailed(
            f"A topic has at least 1 and at most {RING} segments; {count} were asked for"
        )
    width = RING // count
    firsts = range(0, width * count, width)
    return tuple(
        HashRange(first, RING - 1 if index == count - 1 else first + width - 1)
        for index, first in enumerate(firsts)
    )


def tile_buckets(count: int) -> tuple[int, ...]:
    """Where buckets 1 and up of a segment begin, when all are equally wide."""
    return tuple(index * RING // count for index in range(1, count))


def bucket_ranges(splits: tuple[int, ...]) -> tuple[HashRange, ...]:
    edges = (0, *splits, RING)
    return tuple(HashRange(first, after - 1) for first, after in pairwise(edges))


@dataclass(frozen=True)
class SegmentName:
    """The name of a segment's own topic."""

    topic: TopicName
    range: HashRange
    id: SegmentId

    def __post_init__(self) -> None:
        if self.topic.domain is not TopicDomain.TOPIC:
            raise InvalidName(f"Only a topic:// has segments, not {self.topic}")
        if not 0 <= self.id <= _ID_MAX:
            raise InvalidName(f"There is no segment id {self.id}")

    @property
    def descriptor(self) -> str:
        return f"{self.range}-{self.id}"

    @cached_property
    def name(self) -> TopicName:
        local = f"{self.topic.local}/{self.descriptor}"
        return TopicName(TopicDomain.SEGMENT, self.topic.namespace, local)

    def __str__(self) -> str:
        return self.name.full


def parse_descriptor(text: str) -> tuple[HashRange, SegmentId]:
    """Read `0000-7fff-3`; hexadecimal digits may be of either case and any number."""
    found = _DESCRIPTOR.fullmatch(text)
    if found is None:
        raise InvalidName(
            f"Invalid segment descriptor {text!r}; expected <first hash>-<last hash>-<segment id>"
        )
    first, last, number = int(found[1], 16), int(found[2], 16), int(found[3])
    if not first <= last < RING or number > _ID_MAX:
        raise InvalidName(
            f"Invalid segment descriptor {text!r}; hashes go from 0000 to ffff in rising order"
        )
    return HashRange(first, last), SegmentId(number)


def parse_segment(name: TopicName) -> SegmentName:
    """Take a segment's name apart; printing the result spells it the one canonical way."""
    local, slash, descriptor = name.local.rpartition("/")
    if name.domain is not TopicDomain.SEGMENT or not slash or not local.strip():
        raise InvalidName(
            f"Invalid segment name {name};"
            " expected segment://<tenant>/<namespace>/<topic>/<first>-<last>-<id>"
        )
    span, number = parse_descriptor(descriptor)
    return SegmentName(TopicName(TopicDomain.TOPIC, name.namespace, local), span, number)


def scalable_name(name: TopicName) -> TopicName:
    """The scalable topic that a name of any domain belongs to; the local name stays as it is."""
    match name.domain:
        case TopicDomain.TOPIC:
            return name
        case TopicDomain.SEGMENT:
            return parse_segment(name).topic
        case TopicDomain.PERSISTENT:
            return TopicName(TopicDomain.TOPIC, name.namespace, name.base.local)
        case TopicDomain.NON_PERSISTENT:
            raise InvalidName(f"{name} keeps nothing and cannot be a scalable topic")


def policy_name(name: TopicName) -> TopicName:
    """Whose policies a topic has: a partition those of its topic, and a segment too."""
    return scalable_name(name) if name.domain is TopicDomain.SEGMENT else name.base


def check_scalable_name(name: TopicName) -> None:
    """Refuse what a scalable topic may not be called when it is made."""
    if name.full != name.full.strip():
        raise InvalidName(f"A topic's name may not begin or end with white space: {name.full!r}")
    if name.is_partition:
        raise InvalidName(f"{name} is called like a partition of {name.base}")


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """What is needed to find a segment's topic, also once the layout has forgotten it."""

    id: SegmentId
    range: HashRange
    legacy_topic: str = ""

    def name_in(self, topic: TopicName) -> TopicName:
        """The topic that clients attach to."""
        if self.legacy_topic:
            return parse_stored_topic(self.legacy_topic)
        return SegmentName(topic, self.range, self.id).name


@dataclass(frozen=True, slots=True)
class Segment:
    id: SegmentId
    range: HashRange
    state: SegmentState = SegmentState.ACTIVE
    parents: tuple[SegmentId, ...] = ()
    children: tuple[SegmentId, ...] = ()
    created_at_epoch: int = 0
    created_at_ms: int = 0
    sealed_at_epoch: int | None = None
    sealed_at_ms: int | None = None
    legacy_topic: str = ""
    """The regular topic it is, or nothing."""
    bucket_splits: tuple[int, ...] = ()
    """Where its entry buckets 1 and up begin; a segment without splits is one bucket."""
    merges: int = 0
    """At least so many merges lie behind it; pruned ancestors can no longer be counted."""

    def __post_init__(self) -> None:
        if not 0 <= self.id <= _ID_MAX:
            raise InvalidLayout(f"There is no segment id {self.id}")
        for moment in (self.sealed_at_epoch, self.sealed_at_ms):
            if self.is_active is (moment is not None):
                raise InvalidLayout(f"Segment {self.id} is {self.state}: sealed at {moment}")
        if self.is_active and self.children:
            raise InvalidLayout(f"Segment {self.id} is active and has children")
        if self.parents and max(self.parents) >= self.id:
            raise InvalidLayout(f"Segment {self.id} is older than one of its parents")
        edges = (0, *self.bucket_splits, RING)
        if any(first >= after for first, after in pairwise(edges)):
            raise InvalidLayout(f"The bucket splits of segment {self.id} do not rise")

    @property
    def is_active(self) -> bool:
        return self.state is SegmentState.ACTIVE

    @property
    def is_sealed(self) -> bool:
        return self.state is SegmentState.SEALED

    @property
    def is_legacy(self) -> bool:
        return bool(self.legacy_topic)

    @property
    def bucket_count(self) -> int:
        return len(self.bucket_splits) + 1

    @property
    def ref(self) -> SegmentRef:
        return SegmentRef(self.id, self.range, self.legacy_topic)

    def name_in(self, topic: TopicName) -> TopicName:
        return self.ref.name_in(topic)

    def seal(self, children: tuple[SegmentId, ...], *, epoch: int, now_ms: int) -> Segment:
        assert self.is_active
        return replace(
            self,
            state=SegmentState.SEALED,
            children=children,
            sealed_at_epoch=epoch,
            sealed_at_ms=now_ms,
        )
