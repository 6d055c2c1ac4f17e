"""What a change would do, said before it is done. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec import Struct

from magnetar.broker import log_search
from magnetar.broker.administration.message_browser import list_parts, parse_position
from magnetar.broker.administration.port import PeerOwners, TopicOwners
from magnetar.broker.administration.registry import Document, carries_out, finds
from magnetar.broker.administration.topic import find_topic
from magnetar.broker.broker_call import OwnerPort
from magnetar.broker.lag import count_lag
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.segment import together
from magnetar.broker.scalable.service import ScalableService
from magnetar.broker.subscription import Subscription
from magnetar.errors import BadRequest, SubscriptionNotFound, TopicNotFound
from magnetar.model.layout import Layout
from magnetar.model.name import TopicDomain, TopicName, parse_topic
from magnetar.model.position import Position
from magnetar.model.segment import RING, Segment, SegmentId
from magnetar.rules.layout import plan_scale
from magnetar.runtime.clock import Clock
from magnetar.runtime.task import yield_to_loop

_SEGMENTS_MAX: Final = 256
"""More are planned step by step for too long to be asked by a page."""
_COUNT_STEPS: Final = 8
"""Reads before the answer is an estimate."""


@carries_out("console.preview")
async def preview_layout(
    scalable: ScalableService,
    clock: Clock,
    topic: TopicName,
    segment: int | None,
    at: int | None,
    left: int | None,
    right: int | None,
    count: int | None,
) -> Document:
    if topic.domain is not TopicDomain.TOPIC:
        raise BadRequest("Only a scalable topic has a layout")
    if segment is not None:
        return await _preview_split(scalable, clock, topic, SegmentId(segment), at)
    if left is not None and right is not None:
        return await _preview_merge(scalable, clock, topic, SegmentId(left), SegmentId(right))
    if count is not None:
        return await _preview_scale(scalable, clock, topic, count)
    raise BadRequest("segment, left and right, or count is needed")


async def _preview_split(
    scalable: ScalableService, clock: Clock, topic: TopicName, segment: SegmentId, at: int | None
) -> Document:
    layout = (await scalable.records.require(topic)).layout
    now_ms = clock.now_ms()
    return _describe(layout, layout.split(segment, now_ms=now_ms, at=at))


async def _preview_merge(
    scalable: ScalableService, clock: Clock, topic: TopicName, left: SegmentId, right: SegmentId
) -> Document:
    layout = (await scalable.records.require(topic)).layout
    now_ms = clock.now_ms()
    return _describe(layout, layout.merge(left, right, now_ms=now_ms))


async def _preview_scale(
    scalable: ScalableService, clock: Clock, topic: TopicName, count: int
) -> Document:
    before = after = (await scalable.records.require(topic)).layout
    now_ms = clock.now_ms()
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
class CursorTarget(Struct, frozen=True):
    """Where a cursor is to go: the end, unless something is said."""

    time_ms: int | None = None
    position: Position | None = None
    skip: int | None = None


@finds(CursorTarget)
def find_target(time: int | None, position: str | None, skip: int | None) -> CursorTarget:
    place = None if not position else parse_position(position)
    return CursorTarget(time_ms=time, position=place, skip=skip)


class CursorMove(Struct, frozen=True, rename="camel"):
    """What moving a cursor would do, in messages."""

    again: int = 0
    passed: int = 0
    backlog: int = 0
    is_exact: bool = True
    """Whether they are counted; else they are estimates."""


class CursorMoves:
    """Port of the owner of a log: a regular topic, a partition or a segment."""

    def __init__(self, owners: TopicOwners, topic: TopicName) -> None:
        self._owners = owners
        self._topic = topic

    async def preview(self, subscription: str, target: CursorTarget) -> CursorMove:
        """Raise SubscriptionNotFound."""
        live = await find_topic(self._owners, self._topic)
        if not isinstance(live, PersistentTopic) or subscription not in live.subscriptions:
            raise _missing(subscription, self._topic)
        return await _preview(live, live.subscriptions[subscription], target)


Moves: TypeAlias = OwnerPort[CursorMoves]


@finds(Moves)
def find_moves(owners: PeerOwners) -> Moves:
    return OwnerPort(owners.calls, CursorMoves, partial(CursorMoves, owners))


@carries_out("console.preview_cursor")
async def preview_cursor(
    owners: TopicOwners,
    moves: Moves,
    topic: TopicName,
    subscription: str | None,
    target: CursorTarget,
) -> CursorMove:
    """How many messages are redelivered, and how many are skipped, if the cursor is moved: of the
    topic, or of each partition or segment that has it.
    """

    name = subscription or ""

    async def ask(part: TopicName) -> CursorMove | None:
        try:
            return await moves.at(part).preview(name, target)
        except (SubscriptionNotFound, TopicNotFound):
            return None

    parts = map(parse_topic, await list_parts(owners, topic))
    found = [each for each in await together(map(ask, parts)) if each is not None]
    if not found:
        raise _missing(name, topic)
    return CursorMove(
        again=sum(each.again for each in found),
        passed=sum(each.passed for each in found),
        backlog=sum(each.backlog for each in found),
        is_exact=all(each.is_exact for each in found),
    )


def _missing(subscription: str, topic: TopicName) -> SubscriptionNotFound:
    return SubscriptionNotFound(f"Subscription {subscription} not found for topic {topic}")


async def _preview(
    topic: PersistentTopic, subscription: Subscription, target: CursorTarget
) -> CursorMove:
    cursor, sequence = subscription.cursor, topic.log.sequence
    if target.skip is not None:
        end = cursor.position_after(min(target.skip, subscription.backlog))
    elif target.time_ms is not None:
        end = await log_search.position_at(topic.log, target.time_ms)
    else:
        end = sequence.end_position if target.position is None else target.position
    mark = cursor.first_unacked()
    moved, is_counted = await _count_between(topic, min(end, mark), max(end, mark))
    lag = await count_lag(subscription)
    return CursorMove(
        again=moved if end < mark else 0,
        passed=moved if mark < end else 0,
        backlog=lag.messages,
        is_exact=is_counted and lag.is_exact,
    )


async def _count_between(
    topic: PersistentTopic, start: Position, end: Position
) -> tuple[int, bool]:
    """How many messages, and whether they are counted; else it is an estimate."""
    tally, sequence = topic.log.reader.tally, topic.log.sequence
    messages = tally.between(start, end)
    for _ in range(_COUNT_STEPS):
        if messages is not None:
            return messages, True
        await tally.count(start)
        messages = tally.between(start, end)
    if messages is not None:
        return messages, True
    return round(sequence.entries_between(start, end) * tally.messages_per_entry), False
