"""Messages against conversations that Apache Pulsar 5.0.0-M1 had with its own client."""

from __future__ import annotations

import pytest

from magnetar.errors import ProtocolViolation
from magnetar.model.layout import Layout
from magnetar.model.scalable import (
    AssignedSegment,
    BrokerAddress,
    ConsumerAssignment,
    ConsumerKind,
    LayoutView,
)
from magnetar.model.segment import HashRange, SegmentId
from magnetar.wire.command import (
    CommandScalableTopicAssignmentUpdate,
    CommandScalableTopicUpdate,
    ScalableAssignedSegment,
    ScalableConsumerAssignment,
    ScalableConsumerType,
    ScalableTopicDAG,
    body_of,
    decode_command,
    make_command,
)
from magnetar.wire.frame import FrameDecoder
from magnetar.wire.layout import (
    decode_assignment,
    decode_consumer_kind,
    decode_dag,
    encode_assignment,
    encode_consumer_kind,
    encode_dag,
    encode_diff,
    encode_layout,
    encode_snapshot,
    estimate_migrated,
    measure_layout,
)

AFTER_SPLIT = bytes.fromhex(
    "0847ba04df01080112a701080112200800100018ffff03200130013002380040014892fb98f59d3450e18b99f59d34"
    "12150801100018ffff0120002800380148e18b99f59d34121708021080800218ffff0320002800380148e18b99f59d"
    "341a1b0802121770756c7361723a2f2f6c6f63616c686f73743a373135311a1b0801121770756c7361723a2f2f6c6f"
    "63616c686f73743a37313531221770756c7361723a2f2f6c6f63616c686f73743a373135312a31746f7069633a2f2f"
    "676f6c64656e2f73706c69742d647572696e672d73747265616d2d636f6e73756d652f6f7264657273"
)
AFTER_MIGRATION = bytes.fromhex(
    "0847ba04bb020801129602080012510800100018ffff03200130023003380040004886c19df59d345086c19df59d34"
    "5a2f70657273697374656e743a2f2f676f6c64656e2f6d6967726174652f726567756c61722d706172746974696f6e"
    "2d3012510801100018ffff03200130023003380040004886c19df59d345086c19df59d345a2f70657273697374656e"
    "743a2f2f676f6c64656e2f6d6967726174652f726567756c61722d706172746974696f6e2d3112170802100018ffff"
    "0120002800280138004886c19df59d34121908031080800218ffff0320002800280138004886c19df59d341a1b0803"
    "121770756c7361723a2f2f6c6f63616c686f73743a373135311a1b0802121770756c7361723a2f2f6c6f63616c686f"
    "73743a373135312a1e746f7069633a2f2f676f6c64656e2f6d6967726174652f726567756c6172"
)
ASSIGNMENT = bytes.fromhex(
    "084bda04ea01080012e501080112490801100018ffff01223f7365676d656e743a2f2f676f6c64656e2f73706c6974"
    "2d647572696e672d73747265616d2d636f6e73756d652f6f72646572732f303030302d376666662d31124908001000"
    "18ffff03223f7365676d656e743a2f2f676f6c64656e2f73706c69742d647572696e672d73747265616d2d636f6e73"
    "756d652f6f72646572732f303030302d666666662d30124b08021080800218ffff03223f7365676d656e743a2f2f67"
    "6f6c64656e2f73706c69742d647572696e672d73747265616d2d636f6e73756d652f6f72646572732f383030302d66"
    "6666662d32"
)
BROKER = BrokerAddress("pulsar://localhost:7151")


def dag_of(data: bytes) -> ScalableTopicDAG:
    body = body_of(decode_command(data))
    assert isinstance(body, CommandScalableTopicUpdate)
    return body.dag


def test_a_layout_after_a_split_is_what_the_reference_pushed() -> None:
    recorded = dag_of(AFTER_SPLIT)
    first, second = recorded.segments[0].created_at_ms, recorded.segments[0].sealed_at_ms
    layout = Layout.initial(1, now_ms=first).split(SegmentId(0), now_ms=second)
    view = LayoutView(layout, {SegmentId(1): BROKER, SegmentId(2): BROKER}, BROKER)
    assert decode_dag(recorded) == view
    recorded.segment_brokers.sort(key=lambda each: each.segment_id)
    assert ScalableTopicDAG.FromString(encode_dag(view)) == recorded


def test_a_layout_after_a_migration_is_what_the_reference_pushed() -> None:
    recorded = dag_of(AFTER_MIGRATION)
    names = [f"persistent://golden/migrate/regular-partition-{index}" for index in range(2)]
    layout = Layout.migrated(names, now_ms=recorded.segments[0].created_at_ms)
    view = LayoutView(layout, {SegmentId(2): BROKER, SegmentId(3): BROKER})
    assert decode_dag(recorded) == view
    recorded.segment_brokers.sort(key=lambda each: each.segment_id)
    assert ScalableTopicDAG.FromString(encode_dag(view)) == recorded


def test_an_assignment_is_what_the_reference_pushed() -> None:
    body = body_of(decode_command(ASSIGNMENT))
    assert isinstance(body, CommandScalableTopicAssignmentUpdate)
    topic = "segment://golden/split-during-stream-consume/orders"
    expected = ConsumerAssignment(
        1,
        (
            AssignedSegment(SegmentId(1), HashRange(0, 0x7FFF), f"{topic}/0000-7fff-1"),
            AssignedSegment(SegmentId(0), HashRange(0, 0xFFFF), f"{topic}/0000-ffff-0"),
            AssignedSegment(SegmentId(2), HashRange(0x8000, 0xFFFF), f"{topic}/8000-ffff-2"),
        ),
    )
    assert decode_assignment(body.assignment) == expected
    update = CommandScalableTopicAssignmentUpdate(
        consumer_id=body.consumer_id, assignment=encode_assignment(expected)
    )
    assert make_command(update).SerializeToString() == ASSIGNMENT


def test_buckets_cross_the_wire() -> None:
    layout = Layout.initial(1, now_ms=1, bucket_budget=2)
    dag = ScalableTopicDAG.FromString(encode_dag(LayoutView(layout)))
    assert list(dag.segments[0].entry_bucket_splits) == [0x8000]
    assert decode_dag(dag).layout == layout
    buckets = (HashRange(0, 0x7FFF), HashRange(0x8000, 0xFFFF))
    part = AssignedSegment(SegmentId(0), HashRange(0, 0xFFFF), "segment://t/n/x/0-1-2", buckets)
    assignment = ConsumerAssignment(3, (part,))
    message = encode_assignment(assignment)
    ranges = [(each.start, each.end) for each in message.segments[0].bucket_ranges]
    assert ranges == [(0, 0x7FFF), (0x8000, 0xFFFF)]
    assert decode_assignment(message) == assignment


def test_a_broker_with_tls_only_fills_the_required_field() -> None:
    layout = Layout.initial(1, now_ms=1)
    secure = BrokerAddress("", "pulsar+ssl://b:6651")
    view = LayoutView(layout, {SegmentId(0): secure}, secure)
    message = ScalableTopicDAG.FromString(encode_dag(view))
    assert message.segment_brokers[0].broker_url == "pulsar+ssl://b:6651"
    assert message.segment_brokers[0].broker_url_tls == "pulsar+ssl://b:6651"
    assert not message.HasField("controller_broker_url")
    assert message.controller_broker_url_tls == "pulsar+ssl://b:6651"


def test_a_layout_of_many_partitions_is_told_in_one_frame() -> None:
    names = [f"persistent://t/n/x-partition-{index}" for index in range(512)]
    layout = Layout.migrated(names, now_ms=1).split(SegmentId(600), now_ms=2)
    view = LayoutView(layout, {each.id: BROKER for each in layout.active}, BROKER)
    decoder = FrameDecoder(frame_bytes_max=5 << 20)
    decoder.feed(encode_layout(7, view, "topic://t/n/x"))
    frame = decoder.next_frame()
    assert frame is not None
    body = body_of(decode_command(frame.command))
    assert isinstance(body, CommandScalableTopicUpdate)
    assert (body.session_id, body.resolved_topic_name) == (7, "topic://t/n/x")
    assert decode_dag(body.dag) == view
    links = [each.parents for each in decode_dag(body.dag).layout.active if len(each.parents) > 1]
    assert all(each is links[0] for each in links)  # one list, however many have it


def test_a_layout_that_cannot_be_is_refused() -> None:
    message = ScalableTopicDAG.FromString(encode_dag(LayoutView(Layout.initial(2, now_ms=1))))
    del message.segments[0]
    with pytest.raises(ProtocolViolation, match="0000 is unserved"):
        decode_dag(message)
    with pytest.raises(ProtocolViolation):
        decode_dag(ScalableTopicDAG(epoch=0))
    bad = ScalableAssignedSegment(segment_id=1, hash_start=5, hash_end=4, segment_topic="x")
    with pytest.raises(ProtocolViolation):
        decode_assignment(ScalableConsumerAssignment(layout_epoch=1, segments=[bad]))


@pytest.mark.parametrize(
    ("kind", "name"), [(ConsumerKind.STREAM, "STREAM"), (ConsumerKind.CHECKPOINT, "CHECKPOINT")]
)
def test_kinds_of_consumers(kind: ConsumerKind, name: str) -> None:
    assert encode_consumer_kind(kind) == name
    assert decode_consumer_kind(ScalableConsumerType.Value(name)) is kind


def test_a_watch_gets_a_snapshot_also_when_it_is_empty() -> None:
    assert encode_snapshot(4, []).WhichOneof("event") == "snapshot"
    diff = encode_diff(4, added=["b"], removed=["a"])
    assert (diff.watch_id, list(diff.diff.added), list(diff.diff.removed)) == (4, ["b"], ["a"])


@pytest.mark.parametrize(
    ("partitions", "children"),
    [(1, 1), (100, 130), (900, 900), (935, 930), (5000, 130), (10_000, 1), (10_000, 60)],
)
def test_an_estimate_is_never_below_what_a_migrated_layout_takes(
    partitions: int, children: int
) -> None:
    names = [f"persistent://t/n/ü-partition-{index}" for index in range(partitions)]
    layout = Layout.migrated(names, now_ms=1_800_000_000_000, children=children, bucket_budget=512)
    view = LayoutView(layout, {each.id: BROKER for each in layout.active}, BROKER)
    size = measure_layout(view, "topic://t/n/ü")
    estimate = estimate_migrated(partitions, names[-1], children, BROKER, bucket_budget=512)
    assert size <= estimate <= size * 1.1 + 300
    assert size == len(encode_layout(1, view, "topic://t/n/ü")) + 8  # the id is short there
