"""Where in a segment its load lies, estimated from a sample of keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from typing import Final

from magnetar.model.segment import HashRange
from magnetar.rules.route import SegmentHash, segment_hash

MESSAGES_MAX: Final = 4096
"""A sample holds no more."""
_MESSAGES_LEAST: Final = 32
"""Fewer keys say nothing about a load."""
_GAIN_LEAST: Final = 0.1
"""A split point must take so much more of the load off the fuller half to be worth an odd range."""


@dataclass(frozen=True, slots=True)
class KeySample:
    total: int = 0
    """Messages looked at, with or without a key."""
    hashes: tuple[tuple[int, int], ...] = ()
    """Hashes of the segment and how many messages each has, by ascending hash."""
    top_key: str = ""
    top_count: int = 0

    @property
    def top_share(self) -> float:
        """Which part of the messages has the most frequent key."""
        return self.top_count / self.total if self.total >= _MESSAGES_LEAST else 0.0


def make_key_sample(keys: Iterable[str | None], span: HashRange) -> KeySample:
    """`keys` are those of some messages of a segment, None for a message without one.

    Producers place keys by one half of a hash or by the other; the keys tell by which.
    """
    counts = Counter(islice(keys, MESSAGES_MAX))
    total = counts.total()
    counts.pop(None, None)
    if not counts:
        return KeySample(total)
    found: dict[SegmentHash, Counter[int]] = {half: Counter() for half in SegmentHash}
    for key, count in counts.items():
        assert key is not None
        for half, hashes in found.items():
            place = segment_hash(key, half=half)
            if place in span:
                hashes[place] += count
    hashes = max(found.values(), key=lambda each: each.total())
    (top_key, top_count) = counts.most_common(1)[0]
    return KeySample(total, tuple(sorted(hashes.items())), top_key or "", top_count)


def plan_split_point(sample: KeySample, span: HashRange) -> int | None:
    """The first hash of the upper part, so that each part gets about half of the load; None when
    the middle of the range does as well, or nothing is known.
    """
    counts = [count for _, count in sample.hashes]
    whole = sum(counts)
    if whole < _MESSAGES_LEAST or len(counts) < 2:
        return None
    middle = span.split()[1].first
    below = sum(count for place, count in sample.hashes if place < middle)
    # Between two hashes that have messages any place will do: the one half way is taken.
    points = [
        (max(left, whole - left), abs(at - middle), at)
        for left, ((one, _), (two, _)) in zip(
            accumulate(counts), pairwise(sample.hashes), strict=False
        )
        for at in (one + (two - one) // 2 + 1,)
    ]
    fuller, _, at = min(points)
    if max(below, whole - below) - fuller < _GAIN_LEAST * whole:
        return None
    return at
