"""The segments' own interface: what a controller asks of the brokers that own segments.

A segment is a topic, but not one of its own: it is made, sealed and removed only as the layout of
its topic, or a change of it that has begun, says.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NewType

from magnetar.broker.administration.port import TopicOwners
from magnetar.broker.administration.registry import carries_out, finds
from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.service import ScalableService
from magnetar.broker.subscription import Subscription
from magnetar.errors import (
    Conflict,
    PreconditionFailed,
    SegmentNotFound,
    ServiceNotReady,
    SubscriptionNotFound,
    TopicNotFound,
)
from magnetar.model.caller import Caller
from magnetar.model.position import EARLIEST
from magnetar.model.scalable import ScalableTopicMetadata
from magnetar.model.segment import SegmentName
from magnetar.rules.layout import belongs, serves
from magnetar.runtime.log import Logger

SegmentTopic = NewType("SegmentTopic", PersistentTopic)
Cursor = NewType("Cursor", Subscription)
"""A subscription of one segment."""
_log = Logger(__name__)


# Finding
@finds(SegmentTopic)
async def find_segment(catalog: TopicCatalog, segment: SegmentName) -> SegmentTopic:
    try:
        live = await catalog.load_topic(segment.name)
    except TopicNotFound:
        raise SegmentNotFound(f"Segment not found: {segment}") from None
    assert isinstance(live, PersistentTopic)
    return SegmentTopic(live)


@finds(Cursor)
async def find_cursor(
    catalog: TopicCatalog, segment: SegmentName, subscription: str, is_moved: bool = False
) -> Cursor:
    """To be moved, a segment that is not there may be on its way: the controller asks again."""
    try:
        found = (await find_segment(catalog, segment)).subscriptions.get(subscription)
    except SegmentNotFound as error:
        raise (ServiceNotReady(error.sentence) if is_moved else error) from None
    if found is None:
        raise SubscriptionNotFound(f"Subscription {subscription} not found for segment {segment}")
    return Cursor(found)


async def _record_of(
    scalable: ScalableService, segment: SegmentName
) -> ScalableTopicMetadata | None:
    try:
        return await scalable.records.require(segment.topic)
    except TopicNotFound:
        return None


@carries_out("segments.create")
async def create_segment(
    owners: TopicOwners, segment: SegmentName, subscriptions: tuple[str, ...] | None
) -> None:
    """Make it, or find it made; the subscriptions begin at its first message."""
    record = await owners.scalable.records.require(segment.topic)
    if not belongs(record, segment):
        raise SegmentNotFound(f"{segment.topic} has no segment {segment.descriptor}")
    known = record.layout.by_id.get(segment.id)
    if known is not None and known.is_active:
        await owners.scalable.controls.at(segment.topic).heal(segment.id)
    elif known is not None and not await owners.catalog.topic_exists(segment.name):
        raise PreconditionFailed(
            f"Segment {segment.id} is sealed and its data was deleted: it is not made again"
        )
    live = await owners.catalog.load_topic(segment.name, create=True)
    assert isinstance(live, PersistentTopic)
    for name in subscriptions or ():
        await _subscribe(live, name)


@carries_out("segments.terminate")
async def terminate_segment(
    scalable: ScalableService, segment: SegmentName, live: SegmentTopic
) -> None:
    """Let it take no more messages. One that serves hashes is split: they stay served."""
    record = await _record_of(scalable, segment)
    if record is not None and serves(record, segment):
        await scalable.controls.at(segment.topic).split(segment.id, "terminate")
        return
    await live.termination.run()


@carries_out("segments.delete")
async def delete_segment(
    owners: TopicOwners, segment: SegmentName, force: bool, caller: Caller
) -> None:
    """Also when it is gone already. Of one that a layout names, which is to stay, only the data
    goes, and only by force: a sealed one then counts as read by everybody, an active one is made
    again, empty, for the next client.
    """
    record = await _record_of(owners.scalable, segment)
    if record is not None and not record.is_deleting and belongs(record, segment):
        await _wipe(owners.scalable, segment, force=force, caller=caller)
        return
    with suppress(TopicNotFound):
        await owners.catalog.delete_topic(segment.name, force=force)


async def _wipe(
    scalable: ScalableService, segment: SegmentName, *, force: bool, caller: Caller
) -> None:
    if not force:
        raise PreconditionFailed(
            f"Segment {segment.id} is part of the layout of {segment.topic}; force=true"
            " deletes its data all the same, whether it was read or not"
        )
    who = caller.original_role or caller.role or "a caller without a role"
    _log.warning("data of a segment is deleted by force", segment=str(segment), by=who)
    await scalable.controls.at(segment.topic).wipe(segment.id, f"forced by {who}")


# Subscriptions of one segment
@carries_out("segments.create_subscription")
async def create_subscription(live: SegmentTopic, subscription: str) -> None:
    await _subscribe(live, subscription)


@carries_out("segments.delete_subscription")
async def delete_subscription(
    catalog: TopicCatalog, segment: SegmentName, subscription: str
) -> None:
    """Also when it, or the segment, is gone already."""
    with suppress(SegmentNotFound, SubscriptionNotFound):
        live = await find_segment(catalog, segment)
        await live.subscriptions.delete(subscription, force=True)


@carries_out("segments.backlog")
async def get_backlog(cursor: Cursor) -> int:
    return cursor.backlog


@carries_out("segments.seek", is_moved=True)
async def seek(cursor: Cursor, timestamp_ms: int) -> None:
    await cursor.reset_to_time(timestamp_ms)


@carries_out("segments.clear_backlog", is_moved=True)
async def clear_backlog(cursor: Cursor) -> None:
    await cursor.skip_all()


async def _subscribe(live: PersistentTopic, name: str) -> None:
    if not name.strip():
        raise PreconditionFailed("Subscription name is not valid")
    with suppress(Conflict):
        await live.subscriptions.create(name, position=EARLIEST)
