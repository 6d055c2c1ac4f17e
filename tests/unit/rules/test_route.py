from __future__ import annotations

import pytest

from magnetar.model.segment import tile_buckets
from magnetar.rules.route import (
    HashEvidence,
    KeyHash,
    SegmentHash,
    bucket_hash,
    bucket_index,
    decide_hash,
    gather_evidence,
    route_partition,
    route_turn,
    segment_hash,
)

# key, partition among 3, 4 and 10: first by Murmur3, then by Java's hash
PARTITIONS = [
    ("", (0, 0, 0), (0, 0, 0)),
    ("a", (2, 2, 0), (1, 1, 7)),
    ("key-1", (1, 0, 2), (0, 3, 3)),
    ("key-2", (1, 0, 0), (1, 0, 4)),
    ("user-42", (0, 0, 2), (1, 0, 2)),
    ("order:12345", (2, 3, 9), (2, 3, 7)),
    ("pulsar", (1, 3, 9), (1, 1, 5)),
    ("héllo", (0, 0, 8), (1, 2, 4)),
    ("日本", (0, 2, 0), (0, 3, 7)),
]

# key, high half, low half, bucket among four, the slot that stands for the bucket
SEGMENTS = [
    ("", 0x0000, 0x0000, 0),
    ("a", 0x3C25, 0x69B2, 1),
    ("key-1", 0x98B1, 0x15A0, 0),
    ("key-2", 0xF3F8, 0x550C, 1),
    ("user-42", 0xB972, 0xDAD0, 3),
    ("order:12345", 0x65E5, 0x963B, 2),
    ("pulsar", 0x8054, 0x7BBB, 1),
    ("héllo", 0xBC9F, 0xA068, 2),
    ("日本", 0xC4D9, 0xF942, 3),
]


@pytest.mark.parametrize(("key", "by_murmur", "by_java"), PARTITIONS)
def test_a_key_goes_to_its_partition(
    key: str, by_murmur: tuple[int, int, int], by_java: tuple[int, int, int]
) -> None:
    counts = (3, 4, 10)
    assert tuple(route_partition(key, n, hashing=KeyHash.MURMUR3) for n in counts) == by_murmur
    assert tuple(route_partition(key, n) for n in counts) == by_java


def test_messages_without_a_key_take_turns() -> None:
    assert [route_turn(turn, 3) for turn in range(5)] == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(("key", "high", "low", "bucket"), SEGMENTS)
def test_a_key_has_its_place_on_segments_and_buckets(
    key: str, high: int, low: int, bucket: int
) -> None:
    splits = tile_buckets(4)
    assert segment_hash(key) == low
    assert segment_hash(key, half=SegmentHash.HIGH) == high
    place = bucket_hash(ordering_key=None, key=key.encode())
    assert place == low
    assert bucket_index(splits, place) == bucket


def test_an_ordering_key_comes_before_the_key_in_choosing_a_bucket() -> None:
    assert bucket_hash(ordering_key=b"a", key=b"key-1") == 0x69B2
    assert bucket_hash(ordering_key=b"", key=b"key-1") == 0
    assert bucket_hash(ordering_key=None, key=None) == 0


def test_a_split_point_opens_the_upper_bucket() -> None:
    splits = tile_buckets(4)
    assert splits == (0x4000, 0x8000, 0xC000)
    assert [bucket_index(splits, place) for place in (0, 0x3FFF, 0x4000, 0xFFFF)] == [0, 0, 1, 3]
    assert tile_buckets(1) == ()


@pytest.mark.parametrize(
    ("keys", "java", "murmur", "before", "expected"),
    [
        (0, 0, 0, None, None),
        (0, 0, 0, KeyHash.JAVA_STRING, KeyHash.JAVA_STRING),
        (3, 3, 1, None, KeyHash.JAVA_STRING),
        (3, 3, 1, KeyHash.MURMUR3, KeyHash.JAVA_STRING),
        (3, 3, 3, None, None),
        (3, 3, 3, KeyHash.MURMUR3, KeyHash.MURMUR3),
        (3, 3, 3, KeyHash.BOOST, None),
        (3, 1, 2, None, KeyHash.MURMUR3),
        (3, 1, 2, KeyHash.JAVA_STRING, KeyHash.JAVA_STRING),
    ],
)
def test_a_hash_is_believed_that_explains_every_key(
    keys: int, java: int, murmur: int, before: KeyHash | None, expected: KeyHash | None
) -> None:
    fits = {KeyHash.JAVA_STRING: java, KeyHash.MURMUR3: murmur, KeyHash.BOOST: 0}
    assert decide_hash(HashEvidence(keys, fits), before) is expected


@pytest.mark.parametrize("hashing", list(KeyHash))
def test_a_few_keys_tell_the_hash_and_a_mixture_is_none(hashing: KeyHash) -> None:
    keys = [f"k{number}" for number in range(20)]
    places = [(key, route_partition(key, 2, hashing=hashing)) for key in keys]
    found = gather_evidence(places * 3, 2)
    assert found.keys == 20 and found.explaining == (hashing,)
    other = [(key, 1 - place) for key, place in places[:3]]
    assert gather_evidence(places + other, 2).explaining == ()
    assert gather_evidence([("k", 0)], 1) == gather_evidence([("k", 0)], 0) == HashEvidence()
