"""The segments' own interface: what a controller asks of the brokers that own segments.

A segment is a topic, but not one of its own: it is made, sealed and removed only as the layout of
its topic, or a change of it that has begun, says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from magnetar.broker.persistent import PersistentTopic
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
from magnetar.model.scalable import DeleteIntent, MergeIntent, ScalableTopicMetadata, SplitIntent
from magnetar.model.segment import SegmentName
from magnetar.runtime.log import Log

if TYPE_CHECKING:
    from magnetar.broker.service import Service
    from magnetar.broker.subscription import Subscription


_log = Log(__name__)


class SegmentApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def create(self, segment: SegmentName, subscriptions: Sequence[str]) -> None:
        """Make it, or find it made; the subscriptions begin at its first message."""
        record = await self._service.scalable.metadata(segment.topic)
        if not _belongs(record, segment):
            raise SegmentNotFound(f"{segment.topic} has no segment {segment.descriptor}")
        known = record.layout.by_id.get(segment.id)
        if known is not None and known.is_active:
            await (await self._service.scalable.controller(segment.topic)).heal(segment.id)
        elif known is not None and not await self._service.topic_exists(segment.name):
            raise PreconditionFailed(
                f"Segment {segment.id} is sealed and its data was deleted: it is not made again"
            )
        live = await self._service.load_topic(segment.name, create=True)
        assert isinstance(live, PersistentTopic)
        for name in subscriptions:
            await _subscribe(live, name)

    async def terminate(self, segment: SegmentName) -> None:
        """Let it take no more messages. One that serves hashes is split: they stay served."""
        live = await self._find(segment)
        record = await self._record_of(segment)
        if record is not None and _serves(record, segment):
            controller = await self._service.scalable.controller(segment.topic)
            await controller.split(segment.id, reason="terminate")
            return
        await live.terminate()

    async def delete(self, segment: SegmentName, *, force: bool, caller: Caller) -> None:
        """Also when it is gone already. Of one that a layout names, which is to stay, only the
        data goes, and only by force: a sealed one then counts as read by everybody, an active one
        is made again, empty, for the next client.
        """
        record = await self._record_of(segment)
        if record is not None and not record.is_deleting and _belongs(record, segment):
            await self._wipe(segment, force=force, caller=caller)
            return
        try:
            await self._service.delete_topic(segment.name, force=force)
        except TopicNotFound:
            return

    async def _wipe(self, segment: SegmentName, *, force: bool, caller: Caller) -> None:
        if not force:
            raise PreconditionFailed(
                f"Segment {segment.id} is part of the layout of {segment.topic}; force=true"
                " deletes its data all the same, whether it was read or not"
            )
        who = caller.original_role or caller.role or "somebody without a role"
        _log.warning("data of a segment is deleted by force", segment=str(segment), by=who)
        controller = await self._service.scalable.controller(segment.topic)
        await controller.wipe(segment.id, reason=f"forced by {who}")

    # Subscriptions of one segment
    async def create_subscription(self, segment: SegmentName, name: str) -> None:
        await _subscribe(await self._find(segment), name)

    async def delete_subscription(self, segment: SegmentName, name: str) -> None:
        """Also when it, or the segment, is gone already."""
        try:
            await (await self._find(segment)).delete_subscription(name, force=True)
        except (SegmentNotFound, SubscriptionNotFound):
            return

    async def backlog(self, segment: SegmentName, name: str) -> int:
        return (await self._find_subscription(segment, name)).backlog

    async def seek(self, segment: SegmentName, name: str, timestamp_ms: int) -> None:
        await (await self._find_to_move(segment, name)).reset_to_time(timestamp_ms)

    async def skip_all(self, segment: SegmentName, name: str) -> None:
        await (await self._find_to_move(segment, name)).skip_all()

    # Finding
    async def _record_of(self, segment: SegmentName) -> ScalableTopicMetadata | None:
        try:
            return await self._service.scalable.metadata(segment.topic)
        except TopicNotFound:
            return None

    async def _find(self, segment: SegmentName) -> PersistentTopic:
        try:
            live = await self._service.load_topic(segment.name)
        except TopicNotFound:
            raise SegmentNotFound(f"Segment not found: {segment}") from None
        assert isinstance(live, PersistentTopic)
        return live

    async def _find_subscription(self, segment: SegmentName, name: str) -> Subscription:
        found = (await self._find(segment)).subscriptions.get(name)
        if found is None:
            raise SubscriptionNotFound(f"Subscription {name} not found for segment {segment}")
        return found

    async def _find_to_move(self, segment: SegmentName, name: str) -> Subscription:
        """A segment that is not there may be on its way: the controller asks again."""
        try:
            return await self._find_subscription(segment, name)
        except SegmentNotFound as error:
            raise ServiceNotReady(error.sentence) from None


async def _subscribe(live: PersistentTopic, name: str) -> None:
    if not name.strip():
        raise PreconditionFailed("Subscription name is not valid")
    try:
        await live.create_subscription(name, position=EARLIEST)
    except Conflict:
        return


def _serves(record: ScalableTopicMetadata, segment: SegmentName) -> bool:
    """Whether it takes writes and nothing has begun that would seal it."""
    known = record.layout.by_id.get(segment.id)
    if known is None or known.range != segment.range or not known.is_active:
        return False
    match record.intent:
        case SplitIntent() | MergeIntent() as change:
            return segment.id not in change.parents
        case DeleteIntent():
            return False
        case _:
            return True


def _belongs(record: ScalableTopicMetadata, segment: SegmentName) -> bool:
    """Whether the layout, or a change that has begun, names exactly this segment."""
    known = record.layout.by_id.get(segment.id)
    if known is not None:
        return known.range == segment.range and not known.is_legacy
    match record.intent:
        case SplitIntent() | MergeIntent() as change:
            refs = change.children
        case DeleteIntent(segments):
            refs = segments
        case _:
            return False
    return any((ref.id, ref.range) == (segment.id, segment.range) for ref in refs)
