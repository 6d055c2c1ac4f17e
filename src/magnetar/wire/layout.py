"""Layouts and assignments as the messages of commands 70 to 78."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, assert_never, cast

from magnetar.errors import InvalidLayout, PreconditionFailed, ProtocolViolation
from magnetar.model.layout import Layout, Links
from magnetar.model.scalable import (
    AssignedSegment,
    BrokerAddress,
    ConsumerAssignment,
    ConsumerKind,
    LayoutView,
)
from magnetar.model.segment import (
    WHOLE,
    HashRange,
    Segment,
    SegmentId,
    SegmentState,
    tile_buckets,
)
from magnetar.wire.command import (
    BaseCommand,
    CommandScalableTopicUpdate,
    CommandWatchScalableTopicsUpdate,
    IntRange,
    ScalableAssignedSegment,
    ScalableConsumerAssignment,
    ScalableConsumerType,
    ScalableTopicDAG,
    ScalableTopicsDiff,
    ScalableTopicsSnapshot,
    SegmentBrokerAddress,
    SegmentInfoProto,
    unknown_bytes,
)
from magnetar.wire.varint import spell_tag, spell_varint

_WIRE_ACTIVE = 0
_WIRE_SEALED = 1
_WIRE_STREAM = 0
_WIRE_CHECKPOINT = 1
_ID_MAX: Final = 2**63 - 1
_TIME_MAX: Final = 2**48
"""Milliseconds: far from now, and as wide as it is."""
_KEY_HASH_FIELD: Final = 1000
"""Ours, far from those of Apache Pulsar, whose clients pass over it."""
_HEAD_BYTES: Final = 64
_FRAMING_BYTES: Final = 6
"""A tag, and the length of what follows."""


def encode_layout(session_id: int, view: LayoutView, topic: str) -> bytes:
    """The frame that tells a client of a layout."""
    update = CommandScalableTopicUpdate(session_id=session_id, resolved_topic_name=topic)
    dag = encode_dag(view)
    tag = spell_tag(CommandScalableTopicUpdate.DAG_FIELD_NUMBER)
    body = b"".join((update.SerializeToString(), tag, spell_varint(len(dag)), dag))
    if view.key_hash:
        key_hash = view.key_hash.encode()
        body += b"".join((spell_tag(_KEY_HASH_FIELD), spell_varint(len(key_hash)), key_hash))
    number = BaseCommand.SCALABLE_TOPIC_UPDATE
    head = BaseCommand(type=BaseCommand.Type.Name(number)).SerializeToString()
    content = b"".join((head, spell_tag(number), spell_varint(len(body)), body))
    return struct.pack(">II", len(content) + 4, len(content)) + content


def encode_dag(view: LayoutView) -> bytes:
    """A ScalableTopicDAG. A migrated topic has as many links as partitions times partitions, but
    only two lists of them: each is spelled once.
    """
    message = ScalableTopicDAG(epoch=view.layout.epoch)
    for segment in view.layout.active:
        if (address := view.brokers.get(segment.id)) is not None:
            message.segment_brokers.append(_encode_address(segment.id, address))
    if view.controller is not None:
        if view.controller.url:
            message.controller_broker_url = view.controller.url
        if view.controller.url_tls:
            message.controller_broker_url_tls = view.controller.url_tls
    tag = spell_tag(ScalableTopicDAG.SEGMENTS_FIELD_NUMBER)
    parts = [message.SerializeToString()]
    parents, children = _Links("parent_ids"), _Links("child_ids")
    for segment in view.layout.segments:
        own = _encode_segment(segment)
        above, below = parents.spell(segment.parents), children.spell(segment.children)
        size = len(own) + len(above) + len(below)
        parts += (tag, spell_varint(size), own, above, below)
    return b"".join(parts)


def measure_layout(view: LayoutView, topic: str) -> int:
    """How many bytes a client must take at once to learn of a layout."""
    return len(encode_layout(_ID_MAX, view, topic))


def estimate_migrated(
    parents: int, longest: str, children: int, address: BrokerAddress, *, bucket_budget: int = 1
) -> int:
    """No fewer bytes than `measure_layout` finds when so many regular topics, with names no longer
    than this one, have so many children, and about one in a hundred more; found without making the
    layout.
    """
    widest = SegmentId(parents + children)
    splits = tile_buckets(max(1, bucket_budget // children))
    new = Segment(widest, WHOLE, created_at_ms=_TIME_MAX, bucket_splits=splits)
    old = replace(new.seal((), epoch=0, now_ms=_TIME_MAX), legacy_topic=longest, bucket_splits=())
    head = 2 * len(longest.encode()) + 2 * len(address.url) + 2 * len(address.url_tls) + _HEAD_BYTES
    parent = len(_encode_segment(old)) + _FRAMING_BYTES
    child = len(_encode_segment(new)) + 2 * _FRAMING_BYTES
    child += len(_encode_address(widest, address).SerializeToString())
    links = children * _measure_links(0, parents)
    links += parents * _measure_links(parents, parents + children)
    return head + links + parents * parent + children * child


def _measure_links(first: int, end: int) -> int:
    """Bytes of a list of the ids from `first` up to `end`: each has a tag of one byte."""
    wider = sum(max(0, end - max(first, 1 << bits)) for bits in (7, 14, 21))
    return 2 * (end - first) + wider


class _Links:
    """A field of segments that holds links, each list of which is spelled once."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._spelled: dict[Links, bytes] = {(): b""}

    def spell(self, links: Links) -> bytes:
        found = self._spelled.get(links)
        if found is None:
            message = SegmentInfoProto()
            getattr(message, self._field).extend(links)
            found = self._spelled[links] = message.SerializePartialToString()
        return found


def _encode_address(number: SegmentId, address: BrokerAddress) -> SegmentBrokerAddress:
    """The plain URL is a required field: a broker that serves TLS only gives that one twice."""
    message = SegmentBrokerAddress(segment_id=number, broker_url=address.url or address.url_tls)
    if address.url_tls:
        message.broker_url_tls = address.url_tls
    return message


def _encode_segment(segment: Segment) -> bytes:
    """Without its links."""
    message = SegmentInfoProto(
        segment_id=segment.id,
        hash_start=segment.range.first,
        hash_end=segment.range.last,
        state=segment.state.value,
        created_at_epoch=segment.created_at_epoch,
        created_at_ms=segment.created_at_ms,
        entry_bucket_splits=segment.bucket_splits,
    )
    if segment.sealed_at_epoch is not None:
        message.sealed_at_epoch = segment.sealed_at_epoch
    if segment.sealed_at_ms is not None:
        message.sealed_at_ms = segment.sealed_at_ms
    if segment.legacy_topic:
        message.legacy_topic_name = segment.legacy_topic
    return message.SerializeToString()


def decode_layout(update: CommandScalableTopicUpdate) -> LayoutView:
    """A layout as a client gets it; raise ProtocolViolation for an invalid one."""
    view = decode_dag(update.dag)
    key_hash = unknown_bytes(update, _KEY_HASH_FIELD)
    return view if key_hash is None else replace(view, key_hash=key_hash.decode(errors="replace"))


def decode_dag(message: ScalableTopicDAG) -> LayoutView:
    """The layout of such a message; raise ProtocolViolation for an invalid one."""
    try:
        known: dict[Links, Links] = {}
        decoded = (_decode_segment(each, known) for each in message.segments)
        segments = sorted(decoded, key=lambda each: each.id)
        following = SegmentId(segments[-1].id + 1 if segments else 0)
        layout = Layout(message.epoch, following, tuple(segments))
    except (InvalidLayout, PreconditionFailed) as error:
        raise ProtocolViolation(f"an invalid layout: {error.sentence}") from None
    brokers = {
        SegmentId(each.segment_id): BrokerAddress(each.broker_url, each.broker_url_tls)
        for each in message.segment_brokers
    }
    controller = BrokerAddress(message.controller_broker_url, message.controller_broker_url_tls)
    return LayoutView(layout, brokers, controller if controller != BrokerAddress() else None)


def _decode_segment(message: SegmentInfoProto, known: dict[Links, Links]) -> Segment:
    """Equal lists of links become one, which takes less room and is quicker to compare."""
    sealed = message.state == _WIRE_SEALED
    parents = cast(Links, tuple(message.parent_ids[:]))
    children = cast(Links, tuple(message.child_ids[:]))
    return Segment(
        SegmentId(message.segment_id),
        HashRange(message.hash_start, message.hash_end),
        SegmentState.SEALED if sealed else SegmentState.ACTIVE,
        known.setdefault(parents, parents),
        known.setdefault(children, children),
        message.created_at_epoch,
        message.created_at_ms,
        message.sealed_at_epoch if sealed else None,
        message.sealed_at_ms if sealed else None,
        message.legacy_topic_name,
        tuple(message.entry_bucket_splits),
    )


def encode_assignment(assignment: ConsumerAssignment) -> ScalableConsumerAssignment:
    return ScalableConsumerAssignment(
        layout_epoch=assignment.epoch,
        segments=[
            ScalableAssignedSegment(
                segment_id=each.id,
                hash_start=each.range.first,
                hash_end=each.range.last,
                segment_topic=each.topic,
                bucket_ranges=[IntRange(start=one.first, end=one.last) for one in each.buckets],
            )
            for each in assignment.segments
        ],
    )


def decode_assignment(message: ScalableConsumerAssignment) -> ConsumerAssignment:
    try:
        segments = tuple(
            AssignedSegment(
                SegmentId(each.segment_id),
                HashRange(each.hash_start, each.hash_end),
                each.segment_topic,
                tuple(HashRange(one.start, one.end) for one in each.bucket_ranges),
            )
            for each in message.segments
        )
    except PreconditionFailed as error:
        raise ProtocolViolation(f"an invalid assignment: {error.sentence}") from None
    return ConsumerAssignment(message.layout_epoch, segments)


def encode_consumer_kind(kind: ConsumerKind) -> str:
    match kind:
        case ConsumerKind.STREAM:
            number = _WIRE_STREAM
        case ConsumerKind.CHECKPOINT:
            number = _WIRE_CHECKPOINT
        case _:
            assert_never(kind)
    return ScalableConsumerType.Name(number)


def decode_consumer_kind(number: int) -> ConsumerKind:
    return ConsumerKind.CHECKPOINT if number == _WIRE_CHECKPOINT else ConsumerKind.STREAM


def encode_snapshot(watch_id: int, topics: Iterable[str]) -> CommandWatchScalableTopicsUpdate:
    return CommandWatchScalableTopicsUpdate(
        watch_id=watch_id, snapshot=ScalableTopicsSnapshot(topics=topics)
    )


def encode_diff(
    watch_id: int, *, added: Iterable[str], removed: Iterable[str]
) -> CommandWatchScalableTopicsUpdate:
    return CommandWatchScalableTopicsUpdate(
        watch_id=watch_id, diff=ScalableTopicsDiff(added=added, removed=removed)
    )
