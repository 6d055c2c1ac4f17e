"""All segments of a scalable topic at one epoch: a value; every change returns a new one.

Active segments tile the hash ring. Sealed ones are its past: each points to its parents and
children, and a child always has a higher id than its parents. Ids are given out once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import TypeAlias

from magnetar.errors import InvalidLayout, PreconditionFailed, SegmentNotFound, SegmentSealed
from magnetar.model.segment import RING, WHOLE, Segment, SegmentId, SegmentState, tile, tile_buckets

Links: TypeAlias = tuple[SegmentId, ...]


@dataclass(frozen=True)
class Layout:
    epoch: int
    next_id: SegmentId
    segments: tuple[Segment, ...]
    """Every one that is not pruned, by ascending id."""

    def __post_init__(self) -> None:
        if any(left.id >= right.id for left, right in pairwise(self.segments)):
            raise InvalidLayout("Segments are not in the order of their ids")
        if self.segments and self.segments[-1].id >= self.next_id:
            raise InvalidLayout(
                f"Segment {self.segments[-1].id} exists but the next id is {self.next_id}"
            )
        self._check_tiling()
        self._check_links()
        for segment in self.segments:
            if max(segment.created_at_epoch, segment.sealed_at_epoch or 0) > self.epoch:
                raise InvalidLayout(f"Segment {segment.id} changed after epoch {self.epoch}")

    def _check_tiling(self) -> None:
        expected = 0
        for segment in self.active:
            if segment.range.first != expected:
                problem = "unserved" if segment.range.first > expected else "served twice"
                raise InvalidLayout(f"Hash {min(segment.range.first, expected):04x} is {problem}")
            expected = segment.range.last + 1
        if expected != RING:
            raise InvalidLayout(f"Hash {expected:04x} is unserved")

    def _check_links(self) -> None:
        for segment, other in _one_sided(self.by_id, _parents, _children):
            raise InvalidLayout(f"Segment {other} does not know its child {segment}")
        for segment, other in _one_sided(self.by_id, _children, _parents):
            raise InvalidLayout(f"Segment {other} does not know its parent {segment}")

    @classmethod
    def initial(cls, count: int, *, now_ms: int, bucket_budget: int = 1) -> Layout:
        """A new topic; `bucket_budget` entry buckets are shared out evenly."""
        splits = tile_buckets(max(1, bucket_budget // max(1, count)))
        segments = tuple(
            Segment(SegmentId(index), span, created_at_ms=now_ms, bucket_splits=splits)
            for index, span in enumerate(tile(count))
        )
        return cls(0, SegmentId(count), segments)

    @classmethod
    def synthetic(cls, topics: Sequence[str], *, now_ms: int) -> Layout:
        """A regular topic, or its partitions in order, as clients of scalable topics see it."""
        segments = tuple(
            Segment(SegmentId(index), span, created_at_ms=now_ms, legacy_topic=topic)
            for index, (span, topic) in enumerate(zip(tile(len(topics)), topics, strict=True))
        )
        return cls(0, SegmentId(len(topics)), segments)

    @classmethod
    def migrated(
        cls,
        topics: Sequence[str],
        *,
        now_ms: int,
        children: int | None = None,
        bucket_budget: int = 1,
    ) -> Layout:
        """A regular topic, or its partitions in order, become sealed parents of as many children,
        or of a given number.

        A partition may hold any key, so each parent spans the ring and every child waits for all.
        """
        count = len(topics)
        ranges = tile(count if children is None else children)
        old = tuple(SegmentId(index) for index in range(count))
        new = tuple(SegmentId(count + index) for index in range(len(ranges)))
        splits = tile_buckets(max(1, bucket_budget // len(ranges)))
        parents = tuple(
            Segment(
                number,
                WHOLE,
                SegmentState.SEALED,
                children=new,
                created_at_ms=now_ms,
                sealed_at_epoch=0,
                sealed_at_ms=now_ms,
                legacy_topic=topic,
            )
            for number, topic in zip(old, topics, strict=True)
        )
        active = tuple(
            Segment(number, span, parents=old, created_at_ms=now_ms, bucket_splits=splits)
            for number, span in zip(new, ranges, strict=True)
        )
        return cls(0, SegmentId(count + len(new)), parents + active)

    @cached_property
    def by_id(self) -> Mapping[SegmentId, Segment]:
        return {segment.id: segment for segment in self.segments}

    @cached_property
    def active(self) -> tuple[Segment, ...]:
        """Those that take writes, by ascending hash."""
        return tuple(
            sorted((each for each in self.segments if each.is_active), key=lambda each: each.range)
        )

    @cached_property
    def sealed(self) -> tuple[Segment, ...]:
        return tuple(each for each in self.segments if each.is_sealed)

    @cached_property
    def _active_firsts(self) -> tuple[int, ...]:
        return tuple(segment.range.first for segment in self.active)

    @cached_property
    def is_synthetic(self) -> bool:
        """Clients route by remainder, not by range, when every active segment is legacy."""
        return all(segment.is_legacy for segment in self.active)

    def get(self, number: SegmentId) -> Segment:
        segment = self.by_id.get(number)
        if segment is None:
            raise SegmentNotFound(f"Segment not found: {number}")
        return segment

    def find_active(self, place: int) -> Segment:
        """The segment that takes writes for a hash."""
        if not 0 <= place < RING:
            raise PreconditionFailed(f"Hashes go from 0 to 65535; {place} is none")
        return self.active[bisect_right(self._active_firsts, place) - 1]

    def split(self, number: SegmentId, *, now_ms: int, at: int | None = None) -> Layout:
        """Seal a segment below two children; `at` is the first hash of the upper one."""
        parent = self._get_active(number, "split")
        epoch = self.epoch + 1
        numbers = (self.next_id, SegmentId(self.next_id + 1))
        splits = tile_buckets(max(1, parent.bucket_count // 2))
        children = tuple(
            Segment(
                child,
                span,
                parents=(number,),
                created_at_epoch=epoch,
                created_at_ms=now_ms,
                bucket_splits=splits,
                merges=self.merge_depth(number),
            )
            for child, span in zip(numbers, parent.range.split(at), strict=True)
        )
        sealed = parent.seal(numbers, epoch=epoch, now_ms=now_ms)
        return self._changed((sealed,), children)

    def merge(self, left: SegmentId, right: SegmentId, *, now_ms: int) -> Layout:
        """Seal two neighbours, given in either order, below one child."""
        parents = (self._get_active(left, "merge"), self._get_active(right, "merge"))
        epoch = self.epoch + 1
        merged = Segment(
            self.next_id,
            parents[0].range.join(parents[1].range),
            parents=(left, right),
            created_at_epoch=epoch,
            created_at_ms=now_ms,
            bucket_splits=tile_buckets(min(RING, sum(each.bucket_count for each in parents))),
            merges=max(self.merge_depth(left), self.merge_depth(right)) + 1,
        )
        sealed = tuple(each.seal((merged.id,), epoch=epoch, now_ms=now_ms) for each in parents)
        return self._changed(sealed, (merged,))

    def prune(self, numbers: Iterable[SegmentId]) -> Layout:
        """Forget sealed segments; an ancestor goes no later than what came out of it.

        Were the middle of a line forgotten first, nothing would tell its end to wait for its start.
        """
        gone = frozenset(numbers)
        for number in sorted(gone):
            segment = self.get(number)
            if segment.is_active:
                raise PreconditionFailed(f"Segment {number} is active and cannot be pruned")
            kept = [parent for parent in segment.parents if parent not in gone]
            if kept:
                raise PreconditionFailed(
                    f"Segment {number} cannot be pruned before its parent {kept[0]}"
                )

        @cache
        def keep(links: Links) -> Links:
            return tuple(each for each in links if each not in gone)

        segments = tuple(
            each if gone.isdisjoint(each.parents) else replace(each, parents=keep(each.parents))
            for each in self.segments
            if each.id not in gone
        )
        return Layout(self.epoch + len(gone), self.next_id, segments)

    def ancestors(self, number: SegmentId) -> tuple[SegmentId, ...]:
        """Everything it came out of, nearest first."""
        return self._behind(self.get(number).parents)

    def merge_depth(self, number: SegmentId) -> int:
        """How many merges lie behind a segment, its own included."""
        segment = self.by_id[number]
        counted = self._count_merges(segment.parents) + self._is_merge(segment)
        return max(counted, segment.merges)

    def _count_merges(self, parents: Links) -> int:
        found = self._merges_behind.get(parents)
        if found is None:
            behind = self._behind(parents)
            found = sum(1 for each in behind if self._is_merge(self.by_id[each]))
            self._merges_behind[parents] = found
        return found

    @cached_property
    def _merges_behind(self) -> dict[Links, int]:
        """By parents: a migration gives the same to all segments, and as many as there are."""
        return {}

    def _is_merge(self, segment: Segment) -> bool:
        """A migration joins parents too, but never by load."""
        return len(segment.parents) > 1 and not self.by_id[segment.parents[0]].is_legacy

    def _behind(self, parents: Links) -> tuple[SegmentId, ...]:
        """These and all their ancestors, nearest first."""
        seen: dict[SegmentId, None] = dict.fromkeys(parents)
        waiting = list(seen)
        for each in waiting:
            for parent in self.by_id[each].parents:
                if parent not in seen:
                    seen[parent] = None
                    waiting.append(parent)
        return tuple(seen)

    def _get_active(self, number: SegmentId, verb: str) -> Segment:
        segment = self.get(number)
        if segment.is_sealed:
            raise SegmentSealed(f"Cannot {verb} segment {number}: it is sealed")
        return segment

    def _changed(self, sealed: tuple[Segment, ...], added: tuple[Segment, ...]) -> Layout:
        changed = {segment.id: segment for segment in sealed}
        kept = tuple(changed.get(each.id, each) for each in self.segments)
        return Layout(self.epoch + 1, SegmentId(added[-1].id + 1), kept + added)


def _parents(segment: Segment) -> Links:
    return segment.parents


def _children(segment: Segment) -> Links:
    return segment.children


def _one_sided(
    segments: Mapping[SegmentId, Segment],
    there: Callable[[Segment], Links],
    back: Callable[[Segment], Links],
) -> Iterator[tuple[SegmentId, SegmentId]]:
    """Links of a segment to another that has none back, or is not there.

    A migrated topic has as many links as partitions times partitions, but most of its lists are the
    same object: what these have in common is looked at once.
    """
    owners: dict[int, list[Segment]] = {}
    for segment in segments.values():
        owners.setdefault(id(there(segment)), []).append(segment)
    for alike in owners.values():
        names = {segment.id for segment in alike}
        fine: set[int] = set()
        for number in there(alike[0]):
            other = segments.get(number)
            links: Links = () if other is None else back(other)
            if id(links) not in fine and (missing := names.difference(links)):
                yield min(missing), number
            fine.add(id(links))
