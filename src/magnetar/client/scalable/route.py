"""Where a message goes: the segment its key belongs to, or any when it has none."""

from __future__ import annotations

import re
from typing import Final

from magnetar.model.layout import Layout
from magnetar.model.segment import WHOLE, HashRange, Segment
from magnetar.rules.route import KeyHash, SegmentHash, route_partition, route_turn, segment_hash

_APACHE: Final = re.compile(r"Pulsar Server-?v?(\d+)\.(\d+)\.(\d+)(?:-M(\d+))?")
_FINAL: Final = 1 << 30
"""The milestone of a version that is none: it comes after all of them."""
_LAST_LOW: Final = (5, 0, 0, 1)


def is_apache(server_version: str) -> bool:
    """Whether the broker is Apache Pulsar, any release of it."""
    return _APACHE.match(server_version) is not None


def decide_half(server_version: str) -> SegmentHash:
    """Apache Pulsar after 5.0.0-M1 places keys by the high half of a hash, others by the low."""
    found = _APACHE.match(server_version)
    if found is None:
        return SegmentHash.LOW
    release = int(found[1]), int(found[2]), int(found[3])
    milestone = int(found[4]) if found[4] else _FINAL
    return SegmentHash.HIGH if (*release, milestone) > _LAST_LOW else SegmentHash.LOW


def route_key(layout: Layout, key: str, *, half: SegmentHash, legacy: KeyHash) -> Segment:
    """Regular topics are routed as their partitions are: by remainder, in the order of ids."""
    if layout.is_synthetic:
        parts = sorted(layout.active, key=lambda segment: segment.id)
        return parts[route_partition(key, len(parts), hashing=legacy)]
    return layout.find_active(segment_hash(key, half=half))


def route_any(layout: Layout, turn: int) -> Segment:
    return layout.active[route_turn(turn, len(layout.active))]


def span_of(segment: Segment) -> HashRange:
    """The hashes of keys that may be in it: a legacy segment holds keys of all hashes."""
    return WHOLE if segment.is_legacy else segment.range


def overlaps(one: HashRange, other: HashRange) -> bool:
    return one.first <= other.last and other.first <= one.last
