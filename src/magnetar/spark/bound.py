"""Where reading begins and ends, made of what was asked for and what is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from magnetar.model.position import LATEST
from magnetar.spark.offset import BEFORE_ALL, Place, TopicOffset, parse_topic_offset
from magnetar.spark.option import Bound, Edge
from magnetar.spark.plan import SegmentView, TopicView, begin, start_latest
from magnetar.spark.slice import Slice
from magnetar.spark.stretch import count_bytes, normalize_place, spans_between

FindTime = Callable[[SegmentView, int], Place]
"""The last place before those published at a time or later."""


def resolve_bound(bound: Bound, view: TopicView, find_time: FindTime) -> TopicOffset:
    """Everything up to the bound. What is trimmed from now on of a segment is a gap, also when
    nothing of it was read.
    """
    return begin(_resolve(bound.of(view.name), view, find_time), view)


def _resolve(bound: Bound, view: TopicView, find_time: FindTime) -> TopicOffset:
    if bound.edge is Edge.EARLIEST:
        return TopicOffset({}, frozenset(), view.next)
    if bound.edge is Edge.LATEST:
        return start_latest(view)
    if bound.at_ms is not None:
        return _resolve_time(bound.at_ms, view, find_time)
    assert bound.stated is not None
    return normalize_offset(parse_topic_offset(view.name, bound.stated), view)


def normalize_offset(offset: TopicOffset, view: TopicView) -> TopicOffset:
    """A stated offset, with the segments that it has read to the end marked so."""
    places: dict[int, Place] = {}
    ended = set(offset.ended)
    for segment in view.segments:
        place = offset.places.get(segment.id)
        if place is None or place == BEFORE_ALL:
            continue
        place = segment.end if place.position >= LATEST else place
        places[segment.id] = place
        if segment.is_final and place.sort_key >= segment.end.sort_key:
            ended.add(segment.id)
    kept = {number for number in ended if number in view.by_id}
    return TopicOffset(places, frozenset(kept), view.next)


def _resolve_time(at_ms: int, view: TopicView, find_time: FindTime) -> TopicOffset:
    places: dict[int, Place] = {}
    ended = set()
    for segment in view.segments:
        if 0 < segment.sealed_ms < at_ms:
            ended.add(segment.id)
            places[segment.id] = segment.end
        elif segment.end != BEFORE_ALL:
            place = segment.before if segment.before is not None else find_time(segment, at_ms)
            if place != BEFORE_ALL:
                places[segment.id] = normalize_place(segment.ledgers, place)
    return TopicOffset(places, frozenset(ended), view.next)


def plan_slices(
    view: TopicView, start: TopicOffset, end: TopicOffset, *, sized: bool = False
) -> list[Slice]:
    """What stands between two offsets, segment by segment; `sized` takes the sizes of the end."""
    slices = []
    for segment in view.segments:
        after, through = start.place(segment.id), end.place(segment.id)
        if through.entry < 0 and through != BEFORE_ALL:
            through = end_before(segment, through)
        if through == BEFORE_ALL or through.sort_key <= after.sort_key:
            continue
        piece = Slice(view.label, segment.id, segment.topic, after, through, hidden=segment.hidden)
        if segment.last is not None:
            slices.append(replace(piece, is_counted=False, size=1))
            continue
        spans = tuple(spans_between(segment.ledgers, after, through))
        size = count_bytes(segment.ledgers, spans)
        if sized:
            size = end.sizes.get(segment.id, size)
        if spans:
            slices.append(replace(piece, spans=spans, size=size))
    return slices


def end_before(segment: SegmentView, place: Place) -> Place:
    """A place before the first entry of a ledger, told by the ledger before it."""
    before = [each for each in segment.ledgers if each.ledger < place.ledger and each.entries]
    return Place(before[-1].ledger, before[-1].entries - 1) if before else BEFORE_ALL
