from __future__ import annotations

import json
from typing import Any

import pytest

from magnetar.errors import RecordUnreadable
from magnetar.model.layout import Layout
from magnetar.model.scalable import (
    ChangeKind,
    ConsumerKind,
    ConsumerRecord,
    DeleteIntent,
    HealIntent,
    Intent,
    LayoutEvent,
    MergeIntent,
    MigrationOrigin,
    PruneIntent,
    ScalableTopicMetadata,
    SegmentLoad,
    SplitIntent,
    SubscriptionKind,
    SubscriptionRecord,
    SubscriptionState,
    WipeIntent,
)
from magnetar.model.segment import WHOLE, HashRange, SegmentId, SegmentRef
from magnetar.wire.scalable import (
    decode_consumer,
    decode_load,
    decode_subscription,
    decode_topic_record,
    encode_consumer,
    encode_load,
    encode_subscription,
    encode_topic_record,
    format_topic_record,
)

# As Pulsar writes a topic that was migrated from `persistent://t/n/x`, its policy set by hand.
MIGRATED = (
    b'{"epoch":0,"nextSegmentId":2,"segments":{"0":{"segmentId":0,'
    b'"hashRange":{"start":0,"end":65535},"state":"SEALED","parentIds":[],"childIds":[1],'
    b'"createdAtEpoch":0,"sealedAtEpoch":0,"createdAtMs":1700000000000,'
    b'"sealedAtMs":1700000000000,"legacyTopicName":"persistent://t/n/x","entryBucketSplits":[],'
    b'"sealed":true,"active":false,"root":true,"leaf":false,"legacy":true},'
    b'"1":{"segmentId":1,"hashRange":{"start":0,"end":65535},"state":"ACTIVE","parentIds":[0],'
    b'"childIds":[],"createdAtEpoch":0,"sealedAtEpoch":-1,"createdAtMs":1700000000000,'
    b'"sealedAtMs":-1,"entryBucketSplits":[16384,32768,49152],'
    b'"sealed":false,"active":true,"root":false,"leaf":true,"legacy":false}},'
    b'"properties":{"owner":"alice"},"autoScalePolicy":{"enabled":true,"maxSegments":8}}'
)
# What 5.0.0-M1 answered for a new topic; it has no buckets.
NEW_IN_M1 = (
    b'{"epoch":0,"nextSegmentId":1,"segments":{"0":{"segmentId":0,'
    b'"hashRange":{"start":0,"end":65535},"state":"ACTIVE","parentIds":[],"childIds":[],'
    b'"createdAtEpoch":0,"sealedAtEpoch":-1,"createdAtMs":1794735049888,"sealedAtMs":-1,'
    b'"sealed":false,"active":true,"root":true,"leaf":true,"legacy":false}},'
    b'"properties":{"team":"x"}}'
)


def test_a_record_is_written_as_pulsar_writes_it() -> None:
    layout = Layout.migrated(["persistent://t/n/x"], now_ms=1_700_000_000_000, bucket_budget=4)
    policy = {"enabled": True, "maxSegments": 8}
    record = ScalableTopicMetadata(layout, {"owner": "alice"}, policy)
    assert encode_topic_record(record) == MIGRATED
    assert decode_topic_record(MIGRATED) == record


def test_a_record_of_the_first_milestone_is_read() -> None:
    record = decode_topic_record(NEW_IN_M1)
    assert record.layout == Layout.initial(1, now_ms=1794735049888)
    assert record.properties == {"team": "x"}


def test_fields_that_others_wrote_survive_a_rewrite() -> None:
    value = json.loads(MIGRATED)
    value["futureField"] = {"deep": [1, None]}
    value["segments"]["1"]["replicas"] = ["a", "b"]
    record = decode_topic_record(json.dumps(value).encode())
    assert json.loads(encode_topic_record(record)) == value
    split = record.layout.split(SegmentId(1), now_ms=5)
    after = record.with_change(split, LayoutEvent(1, ChangeKind.SPLIT, (), (), 5))
    written = json.loads(encode_topic_record(after))
    assert written["futureField"] == {"deep": [1, None]}
    assert written["segments"]["1"]["replicas"] == ["a", "b"]


LOWER = SegmentRef(SegmentId(2), HashRange(0, 0x7FFF))
UPPER = SegmentRef(SegmentId(3), HashRange(0x8000, 0xFFFF))
OLD = SegmentRef(SegmentId(0), WHOLE, "persistent://t/n/x")


@pytest.mark.parametrize(
    ("intent", "expected"),
    [
        (
            SplitIntent(SegmentId(1), (LOWER, UPPER), 7, 99, "msgRateIn"),
            {
                "kind": "SPLIT",
                "segmentIds": [1],
                "epoch": 7,
                "startedAtMs": 99,
                "reason": "msgRateIn",
                "targets": [
                    {"segmentId": 2, "hashRange": {"start": 0, "end": 32767}},
                    {"segmentId": 3, "hashRange": {"start": 32768, "end": 65535}},
                ],
            },
        ),
        (
            MergeIntent((SegmentId(2), SegmentId(3)), SegmentRef(SegmentId(4), WHOLE), 8, 99),
            {
                "kind": "MERGE",
                "segmentIds": [2, 3],
                "epoch": 8,
                "startedAtMs": 99,
                "reason": "",
                "targets": [{"segmentId": 4, "hashRange": {"start": 0, "end": 65535}}],
            },
        ),
        (
            PruneIntent((OLD,), 99),
            {
                "kind": "PRUNE",
                "startedAtMs": 99,
                "targets": [
                    {
                        "segmentId": 0,
                        "hashRange": {"start": 0, "end": 65535},
                        "legacyTopicName": "persistent://t/n/x",
                    }
                ],
            },
        ),
        (DeleteIntent((), 99), {"kind": "DELETE", "startedAtMs": 99, "targets": []}),
        (
            WipeIntent((), 99, "forced by ann"),
            {"kind": "WIPE", "startedAtMs": 99, "targets": [], "reason": "forced by ann"},
        ),
        (HealIntent((), 99), {"kind": "HEAL", "startedAtMs": 99, "targets": []}),
    ],
)
def test_an_intent_is_a_field_of_the_record(intent: Intent, expected: dict[str, Any]) -> None:
    record = ScalableTopicMetadata(Layout.initial(1, now_ms=1), intent=intent)
    data = encode_topic_record(record)
    assert json.loads(data)["magnetarIntent"] == expected
    assert decode_topic_record(data) == record


def test_history_origin_and_merges_survive() -> None:
    layout = Layout.initial(2, now_ms=1).merge(SegmentId(0), SegmentId(1), now_ms=2)
    event = LayoutEvent(1, ChangeKind.MERGE, (SegmentId(0), SegmentId(1)), (SegmentId(2),), 2, "x")
    origin = MigrationOrigin("persistent://t/n/x", 2)
    record = ScalableTopicMetadata(layout, migrated_from=origin, history=(event,))
    data = encode_topic_record(record)
    assert decode_topic_record(data) == record
    value = json.loads(data)
    assert value["migratedFrom"] == {"topicName": "persistent://t/n/x", "partitions": 2}
    assert value["segments"]["2"]["magnetarMerges"] == 1
    assert "magnetarMerges" not in value["segments"]["0"]


def test_links_of_many_partitions_are_written_once() -> None:
    """A store that takes 1 MB takes the record of any topic that can be made."""
    names = [f"persistent://t/n/x-partition-{index}" for index in range(512)]
    record = ScalableTopicMetadata(Layout.migrated(names, now_ms=1))
    data = encode_topic_record(record)
    assert len(data) < 500_000
    assert decode_topic_record(data) == record
    children = decode_topic_record(data).layout.active
    assert all(each.parents is children[0].parents for each in children)
    value = json.loads(data)
    assert value["magnetarLinks"] == [list(range(512, 1024)), list(range(512))]
    assert value["magnetarRuns"][0]["like"]["magnetarChildren"] == 0
    assert value["segments"]["600"]["magnetarParents"] == 1
    assert "parentIds" not in value["segments"]["600"]
    told = format_topic_record(record)
    assert told["segments"]["600"]["parentIds"] == list(range(512))
    assert "magnetarLinks" not in told


@pytest.mark.parametrize("place", [-1, 2, "0", True])
def test_a_link_to_nowhere_makes_a_record_unreadable(place: object) -> None:
    names = [f"persistent://t/n/x-partition-{index}" for index in range(65)]
    value = json.loads(encode_topic_record(ScalableTopicMetadata(Layout.migrated(names, now_ms=1))))
    value["segments"]["70"]["magnetarParents"] = place
    with pytest.raises(RecordUnreadable, match="magnetarParents"):
        decode_topic_record(json.dumps(value).encode())


@pytest.mark.parametrize("links", [{}, [1], [["0"]], "x"])
def test_links_that_are_none_make_a_record_unreadable(links: object) -> None:
    with pytest.raises(RecordUnreadable, match="magnetarLinks"):
        decode_topic_record(changed("magnetarLinks", links))


def changed(path: str, value: Any) -> bytes:
    record = json.loads(MIGRATED)
    *outer, last = path.split(".")
    inner = record
    for part in outer:
        inner = inner[part]
    inner[last] = value
    return json.dumps(record).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        changed("epoch", "0"),
        changed("epoch", True),
        changed("segments", []),
        changed("segments.1", 5),
        changed("segments.1.segmentId", 0),
        changed("segments.1.state", "FROZEN"),
        changed("segments.1.hashRange.end", 70000),
        changed("segments.1.parentIds", ["0"]),
        changed("segments.1.entryBucketSplits", [5, 4]),
        changed("nextSegmentId", 1),
        changed("properties", {"a": 1}),
        changed("magnetarIntent", {"kind": "SPLIT"}),
        changed("magnetarIntent", {"startedAtMs": 1}),
        changed("magnetarHistory", [1]),
    ],
)
def test_a_record_that_cannot_be_is_refused(data: bytes) -> None:
    with pytest.raises(RecordUnreadable):
        decode_topic_record(data)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (SubscriptionRecord(SubscriptionKind.STREAM), b'{"type":"STREAM"}'),
        (SubscriptionRecord(SubscriptionKind.QUEUE), b'{"type":"QUEUE"}'),
        (
            SubscriptionRecord(SubscriptionKind.QUEUE, SubscriptionState.DELETING, {"x": 1}),
            b'{"type":"QUEUE","magnetarState":"DELETING","x":1}',
        ),
    ],
)
def test_a_subscription_record(record: SubscriptionRecord, expected: bytes) -> None:
    assert encode_subscription(record) == expected
    assert decode_subscription(expected) == record


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (ConsumerRecord(), b"{}"),
        (
            ConsumerRecord(ConsumerKind.CHECKPOINT, (SegmentId(1), SegmentId(4)), {"x": 1}),
            b'{"magnetarType":"CHECKPOINT","magnetarSegments":[1,4],"x":1}',
        ),
    ],
)
def test_a_consumer_record(record: ConsumerRecord, expected: bytes) -> None:
    assert encode_consumer(record) == expected
    assert decode_consumer(expected) == record


def test_a_load_record() -> None:
    data = b'{"msgRateIn":1.5,"bytesRateIn":2.0,"msgRateOut":3.0,"bytesRateOut":4.0}'
    assert decode_load(data) == SegmentLoad(1.5, 2.0, 3.0, 4.0)
    assert encode_load(SegmentLoad(1.5, 2.0, 3.0, 4.0)) == data
    assert decode_load(b'{"msgRateIn":7}') == SegmentLoad(7.0)
    with pytest.raises(RecordUnreadable):
        decode_load(b'{"msgRateIn":"7"}')


@pytest.mark.parametrize("data", [b'{"type":"TABLE"}', b'{"type":4}', b"7"])
def test_an_unknown_kind_of_subscription_is_refused(data: bytes) -> None:
    with pytest.raises(RecordUnreadable):
        decode_subscription(data)
