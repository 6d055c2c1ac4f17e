from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from magnetar.errors import RecordUnreadable
from magnetar.model.name import parse_topic
from magnetar.model.scalable import PruneIntent, ScalableTopicMetadata
from magnetar.model.segment import SegmentId
from magnetar.rules.migrate import plan_migration
from magnetar.wire.scalable import (
    decode_topic_record,
    encode_topic_record,
    format_topic_record,
)

TOPIC = parse_topic("persistent://shop/eu/orders")


def make(partitions: int, segments: int) -> ScalableTopicMetadata:
    return plan_migration(TOPIC, partitions, now_ms=1_700_000_000_000, segments=segments)


@pytest.mark.parametrize(("partitions", "segments"), [(63, 63), (64, 1), (900, 900), (10_000, 60)])
def test_the_record_of_any_migrated_topic_fits_every_store(partitions: int, segments: int) -> None:
    record = make(partitions, segments)
    data = encode_topic_record(record)
    assert len(data) < 500_000
    assert decode_topic_record(data) == record
    assert len(format_topic_record(record)["segments"]) == partitions + segments


def test_few_partitions_are_spelled_as_apache_pulsar_spells_them() -> None:
    value = json.loads(encode_topic_record(make(63, 2)))
    assert len(value["segments"]) == 65 and "magnetarRuns" not in value


def test_what_is_left_of_many_partitions_is_still_short() -> None:
    record = make(10_000, 8)
    kept = [each.ref for each in record.layout.sealed if each.id % 2]
    gone = [each.ref for each in record.layout.sealed if not each.id % 2]
    layout = record.layout.prune(each.id for each in gone)
    intent = PruneIntent(tuple(gone), 7)
    record = replace(record, layout=layout, intent=intent, unknown_of={SegmentId(1): {"a": 1}})
    data = encode_topic_record(record)
    assert len(data) < 500_000
    found = decode_topic_record(data)
    assert found == record and [each.ref for each in found.layout.sealed] == kept
    assert json.loads(data)["segments"]["1"]["a"] == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ids", None),
        ("ids", [[5, 4]]),
        ("ids", [[-1, 4]]),
        ("ids", [[0, 1 << 40]]),
        ("ids", [["0", "4"]]),
        ("ids", [[0, 10], [5, 12]]),
        ("like", {"segmentId": 0, "hashRange": {"start": 0, "end": 65535}, "state": "SEALED"}),
    ],
)
def test_a_damaged_run_makes_a_record_unreadable(key: str, value: Any) -> None:
    stored = json.loads(encode_topic_record(make(100, 2)))
    stored["magnetarRuns"][0][key] = value
    with pytest.raises(RecordUnreadable):
        decode_topic_record(json.dumps(stored).encode())
