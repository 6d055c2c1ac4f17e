"""What a change would do, said before it is done. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from magnetar.broker import log_search
from magnetar.broker.administration.message_browser import list_parts
from magnetar.broker.administration.registry import Document
from magnetar.broker.administration.topic import find_topic
from magnetar.broker.administration.topic_table import lag_of, messages_per_entry
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.service import Service
from magnetar.broker.subscription import Subscription
from magnetar.errors import BadRequest, SubscriptionNotFound
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.position import Position
from magnetar.model.segment import RING, Segment, SegmentId
from magnetar.rules.layout import plan_scale
from magnetar.runtime.task import yield_to_loop

_SEGMENTS_MAX: Final = 256
"""More are planned step by step for too long to be asked by a page."""


async def preview_split(
    service: Service, topic: TopicName, segment: SegmentId, at: int | None
) -> Document:
    layout = (await service.scalable.records.require(topic)).layout
    now_ms = service.clock.now_ms()
    return _describe(layout, layout.split(segment, now_ms=now_ms, at=at))


async def preview_merge(
    service: Service, topic: TopicName, left: SegmentId, right: SegmentId
) -> Document:
    layout = (await service.scalable.records.require(topic)).layout
    now_ms = service.clock.now_ms()
    return _describe(layout, layout.merge(left, right, now_ms=now_ms))


async def preview_scale(service: Service, topic: TopicName, count: int) -> Document:
    before = after = (await service.scalable.records.require(topic)).layout
    now_ms = service.clock.now_ms()
    if not 1 <= count <= _SEGMENTS_MAX:
        raise BadRequest(f"segments is from 1 to {_SEGMENTS_MAX} here, not {count}")
    steps = 0
    while (intent := plan_scale(after, count, now_ms=now_ms)) is not None:
        steps += 1
        await yield_to_loop()
        parents = intent.parents
        if len(parents) == 1:
            after = after.split(parents[0], now_ms=now_ms)
        else:
            after = after.merge(parents[0], parents[1], now_ms=now_ms)
    return {**_describe(before, after), "steps": steps}


def _describe(before: Layout, after: Layout) -> Document:
    known = {segment.id for segment in before.active}
    remain = {segment.id for segment in after.active}
    sealed = [each for each in before.active if each.id not in remain]
    made = [each for each in after.active if each.id not in known]
    return {
        "before": len(before.active),
        "after": len(after.active),
        "sealed": [_show(each) for each in sealed],
        "made": [_show(each) for each in made],
        "layout": [_show(each) for each in after.active],
        "sentences": [
            f"{_list(sealed)} is sealed: it takes no more messages and is read to its end first."
            if len(sealed) == 1
            else f"{_list(sealed)} are sealed: they take no more messages and are read first.",
            f"{_list(made)} {_takes(made)} over, with the cursor of every subscription.",
            "Producers and consumers follow by themselves; each key stays in order.",
        ]
        if sealed
        else ["There are as many segments already: nothing changes."],
    }


def _show(segment: Segment) -> dict[str, Any]:
    share = segment.range.size / RING
    return {"id": segment.id, "hashRange": str(segment.range), "share": share}


def _takes(segments: Sequence[Segment]) -> str:
    return "takes" if len(segments) == 1 else "take"


def _list(segments: Sequence[Segment]) -> str:
    names = ", ".join(f"{each.id} ({each.range})" for each in segments)
    return f"Segment {names}" if len(segments) == 1 else f"Segments {names}"


# Cursors
async def preview_cursor(
    service: Service,
    topic: TopicName,
    subscription: str,
    *,
    time_ms: int | None,
    position: Position | None,
    skip: int | None,
) -> Document:
    """How many messages come again, and how many are passed over, if the cursor is moved."""
    again = passed = backlog = 0
    is_exact = True
    for live, each in await _find_subscriptions(service, topic, subscription):
        cursor, sequence = each.cursor, live.log.sequence
        if skip is not None:
            target = cursor.position_after(min(skip, each.backlog))
        elif time_ms is not None:
            target = await log_search.position_at(live.log, time_ms)
        else:
            target = sequence.end_position if position is None else position
        mark = cursor.first_unacked()
        per_entry = messages_per_entry(live)
        again += round(sequence.entries_between(target, mark) * per_entry) if target < mark else 0
        passed += round(sequence.entries_between(mark, target) * per_entry) if mark < target else 0
        backlog += lag_of(each, per_entry)
        is_exact &= per_entry == 1.0
    return {"again": again, "passed": passed, "backlog": backlog, "isExact": is_exact}


async def _find_subscriptions(
    service: Service, topic: TopicName, subscription: str
) -> Sequence[tuple[PersistentTopic, Subscription]]:
    """Of the topic, or of each partition or segment that has it."""
    found = []
    for name in await list_parts(service, topic):
        part = parse_topic(name)
        if not await service.catalog.topic_exists(part):
            continue
        live = await find_topic(service, part)
        if isinstance(live, PersistentTopic) and subscription in live.subscriptions:
            found.append((live, live.subscriptions[subscription]))
    if not found:
        raise SubscriptionNotFound(f"Subscription {subscription} not found for topic {topic}")
    return found
