"""Which partition, segment or bucket a key belongs to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from magnetar.model.hash import boost_hash31, java_hash31, murmur3_32, murmur31, sign_safe_mod


class KeyHash(StrEnum):
    """How a producer hashes a key onto partitions."""

    JAVA_STRING = "java-string"
    """As Java clients do by default."""
    MURMUR3 = "murmur3"
    BOOST = "boost"
    """As C++ clients and those made of them, such as Python's, do unless told otherwise."""


class SegmentHash(StrEnum):
    """Which half of a key's Murmur3 places it on a segment; a topic's producers must agree."""

    LOW = "low"
    HIGH = "high"


def route_partition(key: str, partitions: int, *, hashing: KeyHash = KeyHash.JAVA_STRING) -> int:
    match hashing:
        case KeyHash.JAVA_STRING:
            value = java_hash31(key)
        case KeyHash.MURMUR3:
            value = murmur31(key.encode())
        case KeyHash.BOOST:
            value = boost_hash31(key.encode())
        case _:
            assert_never(hashing)
    return sign_safe_mod(value, partitions)


@dataclass(frozen=True, slots=True)
class HashEvidence:
    """Of so many keys on partitions, how many lie where each hash puts them."""

    keys: int = 0
    fits: Mapping[KeyHash, int] = field(default_factory=dict)

    @property
    def explaining(self) -> tuple[KeyHash, ...]:
        """The hashes that put every key where it is; several when there are few keys."""
        return tuple(each for each, count in self.fits.items() if count == self.keys)


def gather_evidence(places: Iterable[tuple[str, int]], partitions: int) -> HashEvidence:
    if partitions < 2:
        return HashEvidence()
    known = frozenset(places)
    return HashEvidence(
        len(known),
        {
            each: sum(route_partition(key, partitions, hashing=each) == at for key, at in known)
            for each in KeyHash
        },
    )


def decide_hash(evidence: HashEvidence, before: KeyHash | None) -> KeyHash | None:
    """The one that explains every key. While several do, what was believed before, if anything was;
    when none does, producers disagree, and it is that or what fits most keys.
    """
    if not evidence.keys:
        return before
    found = evidence.explaining
    if len(found) == 1:
        return found[0]
    if found:
        return before if before in found else None
    return before or max(KeyHash, key=lambda each: evidence.fits[each])


def route_turn(turn: int, partitions: int) -> int:
    """Where the n-th message without a key goes: round-robin."""
    return sign_safe_mod(turn, partitions)


def segment_hash(key: str, *, half: SegmentHash = SegmentHash.LOW) -> int:
    """A key's place on the ring of 65536 hashes that segments share."""
    raw = murmur3_32(key.encode())
    match half:
        case SegmentHash.LOW:
            return raw & 0xFFFF
        case SegmentHash.HIGH:
            return raw >> 16
        case _:
            assert_never(half)


def bucket_hash(*, ordering_key: bytes | None, key: bytes | None) -> int:
    """A message's place among the entry buckets of its segment; 0 without any key."""
    chosen = ordering_key if ordering_key is not None else key
    return 0 if chosen is None else murmur3_32(chosen) & 0xFFFF


def bucket_index(splits: Sequence[int], place: int) -> int:
    """Which bucket holds `place`; a split point is the first hash of the bucket above it."""
    return bisect_right(splits, place)
