from __future__ import annotations

from typing import Any

from magnetar.cli.lineage import format_lineage
from magnetar.model.layout import Layout
from magnetar.model.scalable import ScalableTopicMetadata
from magnetar.model.segment import SegmentId
from magnetar.wire.scalable import format_topic_record

TOPIC = "topic://public/default/orders"


def record(layout: Layout) -> dict[str, Any]:
    return format_topic_record(ScalableTopicMetadata(layout))


def test_a_new_topic_is_a_line_for_each_segment() -> None:
    assert format_lineage(TOPIC, record(Layout.initial(2, now_ms=1))) == (
        "topic://public/default/orders  epoch 0, 2 active, 0 sealed\n"
        "├─ 0  0000-7fff  active\n"
        "└─ 1  8000-ffff  active"
    )


def test_children_stand_below_their_parent_and_a_merged_one_below_the_last() -> None:
    layout = Layout.initial(2, now_ms=1).split(SegmentId(0), now_ms=2)
    layout = layout.merge(SegmentId(3), SegmentId(1), now_ms=3)
    assert format_lineage(TOPIC, record(layout)) == (
        "topic://public/default/orders  epoch 2, 2 active, 3 sealed\n"
        "├─ 0  0000-7fff  sealed  at epoch 1\n"
        "│  ├─ 2  0000-3fff  active\n"
        "│  └─ 3  4000-7fff  sealed  at epoch 2\n"
        "│     └─ 4  4000-ffff  active  merged from 3 and 1\n"
        "└─ 1  8000-ffff  sealed  at epoch 2\n"
        "   └─ 4  (below 3)"
    )


def test_a_segment_whose_parents_are_pruned_is_a_root() -> None:
    layout = Layout.initial(1, now_ms=1).split(SegmentId(0), now_ms=2).prune([SegmentId(0)])
    assert format_lineage(TOPIC, record(layout)).splitlines()[1:] == [
        "├─ 1  0000-7fff  active",
        "└─ 2  8000-ffff  active",
    ]


def test_a_migrated_topic_shows_the_topics_it_was_and_its_segments_once() -> None:
    names = [f"persistent://public/default/orders-partition-{index}" for index in range(3)]
    layout = Layout.migrated(names, now_ms=1).split(SegmentId(3), now_ms=2)
    assert format_lineage(TOPIC, record(layout)).splitlines()[1:] == [
        f"├─ 0  0000-ffff  sealed  at epoch 0  {names[0]}",
        f"├─ 1  0000-ffff  sealed  at epoch 0  {names[1]}",
        f"└─ 2  0000-ffff  sealed  at epoch 0  {names[2]}",
        "   ├─ 3  0000-5554  sealed  at epoch 1  after 3 partitions",
        "   │  ├─ 6  0000-2aaa  active",
        "   │  └─ 7  2aab-5554  active",
        "   ├─ 4  5555-aaa9  active  after 3 partitions",
        "   └─ 5  aaaa-ffff  active  after 3 partitions",
    ]
