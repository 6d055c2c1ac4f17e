from __future__ import annotations

import pytest

from magnetar.client.layout import decide_half, overlaps, route_any, route_key, span_of
from magnetar.model.layout import Layout
from magnetar.model.segment import WHOLE, HashRange
from magnetar.rules.route import KeyHash, SegmentHash

KEYS = ("", "a", "key-0", "key-1", "order-42", "customer-99")


@pytest.mark.parametrize(
    ("version", "half"),
    [
        ("Pulsar Server5.0.0-M1", SegmentHash.LOW),
        ("Pulsar Server5.0.0-M2", SegmentHash.HIGH),
        ("Pulsar Server5.0.0-SNAPSHOT", SegmentHash.HIGH),
        ("Pulsar Server5.0.0", SegmentHash.HIGH),
        ("Pulsar Server5.1.2", SegmentHash.HIGH),
        ("Pulsar Server4.9.9", SegmentHash.LOW),
        ("Magnetar 0.1.0", SegmentHash.LOW),
        ("", SegmentHash.LOW),
    ],
)
def test_releases_after_the_first_milestone_use_the_high_half(
    version: str, half: SegmentHash
) -> None:
    assert decide_half(version) is half


def test_keys_are_placed_by_the_chosen_half() -> None:
    layout = Layout.initial(2, now_ms=0)

    def place(half: SegmentHash) -> list[int]:
        return [route_key(layout, key, half=half, legacy=KeyHash.MURMUR3).id for key in KEYS]

    assert place(SegmentHash.LOW) == [0, 0, 1, 0, 1, 1]
    assert place(SegmentHash.HIGH) == [0, 0, 1, 1, 0, 1]


def test_partitions_are_chosen_by_remainder() -> None:
    layout = Layout.synthetic([f"persistent://t/n/x-partition-{k}" for k in range(4)], now_ms=0)

    def place(legacy: KeyHash) -> list[int]:
        return [route_key(layout, key, half=SegmentHash.LOW, legacy=legacy).id for key in KEYS]

    assert place(KeyHash.MURMUR3) == [0, 2, 3, 0, 2, 0]
    assert place(KeyHash.JAVA_STRING)[:2] == [0, 1]


def test_a_message_without_a_key_goes_to_each_segment_in_turn() -> None:
    layout = Layout.initial(3, now_ms=0)
    assert [route_any(layout, turn).id for turn in range(5)] == [0, 1, 2, 0, 1]


def test_a_regular_topic_may_hold_any_key() -> None:
    layout = Layout.migrated(["persistent://t/n/x"], now_ms=0)
    assert span_of(layout.by_id[layout.sealed[0].id]) == WHOLE
    assert overlaps(HashRange(0, 5), HashRange(5, 9)) and overlaps(WHOLE, HashRange(3, 3))
    assert not overlaps(HashRange(0, 5), HashRange(6, 9))
