"""Which consumer of a Key_Shared subscription owns a slot.

A key hashes to a slot from 1 to 65535 (0 means unset). Four ways to share the slots: points on a
ring, halved ranges, ranges that consumers ask for, and entry buckets that they declare together.
Each is a value: adding or removing a consumer returns a new one, so a caller can compare owners
before and after.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final, Generic, NamedTuple, Protocol, Self, TypeVar

from magnetar.errors import ConsumerAssignRefused
from magnetar.model.hash import murmur3_32, murmur31

SLOTS: Final = 65536
RING_POINTS: Final = 100

C = TypeVar("C", bound=Hashable)


class SlotRange(NamedTuple):
    first: int
    last: int


class SlotAssignment(NamedTuple, Generic[C]):
    range: SlotRange
    owner: C


class Selector(Protocol[C]):
    """What they have in common."""

    def add(self, consumer: C, *, name: str, ranges: Sequence[SlotRange] = ()) -> Self:
        """Raise ConsumerAssignRefused when there is no room for it."""

    def remove(self, consumer: C) -> Self: ...

    def slot_of(self, key: bytes) -> int: ...

    def owner(self, slot: int) -> C | None: ...

    def assignments(self) -> tuple[SlotAssignment[C], ...]:
        """Who owns which slots, ascending; neighbours of one owner are joined."""


def _slot(key: bytes, *, size: int, first: int) -> int:
    return max(1, murmur31(key) % size + first)


def _ring_slot(key: bytes) -> int:
    return _slot(key, size=SLOTS - 1, first=1)


@lru_cache(maxsize=1024)
def _ring_points(name: str, index: int, points: int) -> tuple[int, ...]:
    return tuple(_ring_slot(f"{name}\0{index}\0{i}".encode()) for i in range(points))


@dataclass(frozen=True)
class RingSelector(Generic[C]):
    """Consistent hashing: a slot belongs to the first point at or above it, wrapping around."""

    points_each: int = RING_POINTS
    _members: Mapping[C, tuple[str, int]] = field(default_factory=dict)
    _claims: Mapping[int, tuple[C, ...]] = field(default_factory=dict)
    """Who claims a point, in order of arrival: the earliest has it."""
    _points: tuple[int, ...] = ()

    def add(self, consumer: C, *, name: str, ranges: Sequence[SlotRange] = ()) -> Self:
        """Give the consumer its points; consumers of one name differ by the lowest free index."""
        assert consumer not in self._members and not ranges
        taken = {index for other, index in self._members.values() if other == name}
        index = next(i for i in range(len(taken) + 1) if i not in taken)
        claims = dict(self._claims)
        for point in _ring_points(name, index, self.points_each):
            claims[point] = (*claims.get(point, ()), consumer)
        fresh = claims.keys() - self._claims.keys()
        points = tuple(sorted((*self._points, *fresh)))
        members = {**self._members, consumer: (name, index)}
        return type(self)(self.points_each, members, claims, points)

    def remove(self, consumer: C) -> Self:
        if consumer not in self._members:
            return self
        members = dict(self._members)
        name, index = members.pop(consumer)
        claims = dict(self._claims)
        for point in set(_ring_points(name, index, self.points_each)):
            left = tuple(other for other in claims[point] if other != consumer)
            if left:
                claims[point] = left
            else:
                del claims[point]
        points = tuple(point for point in self._points if point in claims)
        return type(self)(self.points_each, members, claims, points)

    def slot_of(self, key: bytes) -> int:
        return _ring_slot(key)

    def owner(self, slot: int) -> C | None:
        if not self._points:
            return None
        at = bisect_left(self._points, slot)
        return self._claims[self._points[at if at < len(self._points) else 0]][0]

    def assignments(self) -> tuple[SlotAssignment[C], ...]:
        if not self._points:
            return ()
        pieces = [(point, self._claims[point][0]) for point in self._points]
        if self._points[-1] != SLOTS - 1:
            pieces.append((SLOTS - 1, pieces[0][1]))
        joined: list[SlotAssignment[C]] = []
        first = 1
        for last, owner in pieces:
            if joined and joined[-1].owner == owner:
                first = joined.pop().range.first
            joined.append(SlotAssignment(SlotRange(first, last), owner))
            first = last + 1
        return tuple(joined)


@dataclass(frozen=True)
class HalvingSelector(Generic[C]):
    """Ranges halved as consumers come: a newcomer takes the lower half of the widest."""

    _bounds: tuple[tuple[int, C], ...] = ()
    """Upper bounds, included, ascending; the last is always the number of slots."""

    def add(self, consumer: C, *, name: str, ranges: Sequence[SlotRange] = ()) -> Self:
        assert not ranges and all(owner != consumer for _, owner in self._bounds), name
        if not self._bounds:
            return type(self)(((SLOTS, consumer),))
        lower, widest, upper = 0, 0, SLOTS
        for bound, _ in self._bounds:
            if bound - lower > widest:
                widest, upper = bound - lower, bound
            lower = bound
        if widest <= 1:
            raise ConsumerAssignRefused(f"No range is left to split among {len(self._bounds)}")
        bounds = (*self._bounds, (upper - widest // 2, consumer))
        return type(self)(tuple(sorted(bounds, key=lambda bound: bound[0])))

    def remove(self, consumer: C) -> Self:
        """Give its range to the neighbour above, or below when it was the topmost."""
        left = [bound for bound in self._bounds if bound[1] != consumer]
        if left and left[-1][0] != SLOTS:
            left[-1] = (SLOTS, left[-1][1])
        return type(self)(tuple(left))

    def slot_of(self, key: bytes) -> int:
        return _slot(key, size=SLOTS, first=0)

    def owner(self, slot: int) -> C | None:
        at = bisect_left(self._bounds, slot, key=lambda bound: bound[0])
        return self._bounds[at][1] if at < len(self._bounds) else None

    def assignments(self) -> tuple[SlotAssignment[C], ...]:
        assigned: list[SlotAssignment[C]] = []
        first = 0
        for bound, owner in self._bounds:
            assigned.append(SlotAssignment(SlotRange(first, bound), owner))
            first = bound + 1
        return tuple(assigned)


@dataclass(frozen=True)
class StickySelector(Generic[C]):
    """Ranges that consumers ask for; slots that none asked for have no owner."""

    _ranges: tuple[SlotAssignment[C], ...] = ()

    def add(self, consumer: C, *, name: str, ranges: Sequence[SlotRange] = ()) -> Self:
        if not ranges:
            raise ConsumerAssignRefused(f"Consumer {name!r} asks for no hash range")
        ordered = sorted(ranges)
        for one in ordered:
            if one.first > one.last:
                raise ConsumerAssignRefused(f"Hash range {one.first}-{one.last} is reversed")
            if one.first < 0 or one.last >= SLOTS:
                raise ConsumerAssignRefused(
                    f"Hash range {one.first}-{one.last} is not within 0-{SLOTS - 1}"
                )
        for one, following in pairwise(ordered):
            if following.first <= one.last:
                raise ConsumerAssignRefused(f"Hash ranges of consumer {name!r} overlap")
        if self.conflict(ordered) is not None:
            raise ConsumerAssignRefused(f"Another consumer has hash ranges that {name!r} asks for")
        assigned = (*self._ranges, *(SlotAssignment(one, consumer) for one in ordered))
        return type(self)(tuple(sorted(assigned, key=lambda one: one.range)))

    def conflict(self, ranges: Sequence[SlotRange]) -> C | None:
        """A consumer in the way of these ranges; it may be gone without having said so."""
        for one in ranges:
            at = bisect_right(self._ranges, one.last, key=lambda taken: taken.range.first) - 1
            if at >= 0 and self._ranges[at].range.last >= one.first:
                return self._ranges[at].owner
        return None

    def remove(self, consumer: C) -> Self:
        return type(self)(tuple(one for one in self._ranges if one.owner != consumer))

    def slot_of(self, key: bytes) -> int:
        return _slot(key, size=SLOTS, first=0)

    def owner(self, slot: int) -> C | None:
        at = bisect_right(self._ranges, slot, key=lambda one: one.range.first) - 1
        if at < 0 or self._ranges[at].range.last < slot:
            return None
        return self._ranges[at].owner

    def assignments(self) -> tuple[SlotAssignment[C], ...]:
        return self._ranges


class _Sharer(NamedTuple, Generic[C]):
    name: str
    number: int
    consumer: C


@dataclass(frozen=True)
class BucketSelector(Generic[C]):
    """Entry buckets: every consumer declares all of them, and they are dealt out in equal runs.

    A whole entry goes by the bucket it was stamped with, so its slot is that bucket's first one.
    """

    _buckets: tuple[SlotRange, ...] = ()
    _sharers: tuple[_Sharer[C], ...] = ()
    """By name, then by number: every broker deals alike."""

    def add(
        self, consumer: C, *, name: str, ranges: Sequence[SlotRange] = (), number: int = 0
    ) -> Self:
        declared = tuple(ranges)
        _check_buckets(name, declared)
        if self._sharers and declared != self._buckets:
            raise ConsumerAssignRefused(
                f"Consumer {name!r} declares other entry buckets than those that are here"
            )
        sharer = _Sharer(name, number, consumer)
        sharers = sorted((*self._sharers, sharer), key=lambda one: (one.name, one.number))
        return type(self)(declared, tuple(sharers))

    def remove(self, consumer: C) -> Self:
        left = tuple(one for one in self._sharers if one.consumer != consumer)
        return type(self)(self._buckets, left)

    def slot_of(self, key: bytes) -> int:
        return self.slot_at(murmur3_32(key) % SLOTS)

    def slot_at(self, place: int) -> int:
        """The slot of an entry that was stamped with a place on the ring."""
        return max(1, self._buckets[self._bucket_at(place)].first) if self._buckets else 1

    def owner(self, slot: int) -> C | None:
        if not self._sharers:
            return None
        return self._owner_of(self._bucket_at(slot))

    def assignments(self) -> tuple[SlotAssignment[C], ...]:
        joined: list[SlotAssignment[C]] = []
        for index, bucket in enumerate(self._buckets if self._sharers else ()):
            owner, first = self._owner_of(index), bucket.first
            if joined and joined[-1].owner == owner:
                first = joined.pop().range.first
            joined.append(SlotAssignment(SlotRange(first, bucket.last), owner))
        return tuple(joined)

    def _bucket_at(self, place: int) -> int:
        return bisect_right(self._buckets, place % SLOTS, key=lambda bucket: bucket.first) - 1

    def _owner_of(self, bucket: int) -> C:
        """The j-th of k has the buckets from j·N/k to before (j+1)·N/k."""
        count = len(self._sharers)
        at = ((bucket + 1) * count - 1) // len(self._buckets)
        return self._sharers[at].consumer


def _check_buckets(name: str, buckets: Sequence[SlotRange]) -> None:
    edges = [0, *(bucket.last + 1 for bucket in buckets)]
    firsts = [*(bucket.first for bucket in buckets), SLOTS]
    if not buckets or edges != firsts or any(one.first > one.last for one in buckets):
        raise ConsumerAssignRefused(
            f"The entry buckets of consumer {name!r} do not follow each other from 0 to {SLOTS - 1}"
        )
    if buckets[0].last < 1:
        raise ConsumerAssignRefused(f"The first entry bucket of consumer {name!r} is too narrow")
