from __future__ import annotations

import pytest

from magnetar.client.publication import ProducerSettings
from magnetar.client.segment_producer import name_on
from magnetar.model.segment import HashRange, Segment, SegmentId


@pytest.mark.parametrize(
    ("legacy_topic", "keeps_sequence", "name"),
    [
        ("", False, "p-seg-2"),
        ("", True, "p-seg-2"),
        ("persistent://public/default/t-partition-2", False, "p"),
        ("persistent://public/default/t-partition-2", True, "p-seg-2"),
    ],
)
def test_a_producer_that_is_asked_for_by_segment_has_one_name_before_and_after_a_migration(
    legacy_topic: str, keeps_sequence: bool, name: str
) -> None:
    segment = Segment(SegmentId(2), HashRange(0, 0xFFFF), legacy_topic=legacy_topic)
    settings = ProducerSettings(name="p", keeps_sequence=keeps_sequence)
    assert name_on(segment, settings) == name
