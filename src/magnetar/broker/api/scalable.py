"""Scalable topics: made, changed and removed as a whole; their layout split, merged and scaled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from magnetar.broker.administration.permission import forget_permissions
from magnetar.broker.administration.record import load_policies
from magnetar.broker.api.autoscale import AutoScaleApi
from magnetar.errors import PreconditionFailed, TopicNotFound
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.segment import RING, SegmentId
from magnetar.wire.scalable import format_topic_record

if TYPE_CHECKING:
    from magnetar.broker.scalable.controller import Controller
    from magnetar.broker.service import Service


class ScalableApi:
    def __init__(self, service: Service, auto_scale: AutoScaleApi) -> None:
        self._service = service
        self._auto_scale = auto_scale

    # The topic
    async def list(self, namespace: NamespaceName, filters: Mapping[str, str]) -> Sequence[str]:
        await load_policies(self._service, namespace)
        found = await self._service.scalable.list(namespace, filters)
        return [topic.full for topic in found]

    async def create(
        self, topic: TopicName, *, segments: int, properties: Mapping[str, str]
    ) -> None:
        if segments < 1:
            raise PreconditionFailed("numInitialSegments must be >= 1")
        if segments > RING:
            raise PreconditionFailed(f"numInitialSegments must be <= {RING}")
        await self._service.scalable.create_topic(topic, segments=segments, properties=properties)

    async def delete(self, topic: TopicName, *, force: bool) -> None:
        await self._service.scalable.delete_topic(topic, force=force)
        await forget_permissions(self._service, topic)

    async def metadata(self, topic: TopicName) -> Mapping[str, Any]:
        return format_topic_record(await self._service.scalable.metadata(topic))

    async def properties(self, topic: TopicName) -> Mapping[str, str]:
        return (await self._service.scalable.metadata(topic)).properties

    async def set_properties(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        """All of them: what is not named goes."""
        await self._service.scalable.update_properties(topic, properties)

    async def history(self, topic: TopicName) -> Sequence[Mapping[str, Any]]:
        """The latest changes of the layout, oldest first."""
        events: Sequence[Mapping[str, Any]] = (await self.metadata(topic)).get(
            "magnetarHistory", []
        )
        return events

    async def policy(self, topic: TopicName) -> Mapping[str, Any]:
        """What is in force: for scaling, and for the messages of all segments."""
        await self._service.scalable.metadata(topic)
        return {
            "autoScale": await self._auto_scale.effective(topic),
            "topic": await self._service.policies.get_applied(topic),
        }

    # The layout
    async def _controller(self, topic: TopicName) -> Controller:
        scalable = self._service.scalable
        try:
            return await scalable.controller(topic)
        except TopicNotFound:
            await scalable.regular.check_scalable(topic, "segments to split and merge")
            raise

    async def split(self, topic: TopicName, segment: SegmentId, *, at: int | None) -> None:
        await (await self._controller(topic)).split(segment, at=at)

    async def merge(self, topic: TopicName, left: SegmentId, right: SegmentId) -> None:
        await (await self._controller(topic)).merge(left, right)

    async def scale(
        self, topic: TopicName, count: int, *, hold_until_ms: int | None = None
    ) -> None:
        if not 1 <= count <= RING:
            raise PreconditionFailed(f"segments must be from 1 to {RING}, not {count}")
        await (await self._controller(topic)).scale_to(count, hold_until_ms=hold_until_ms)

    async def prune(self, topic: TopicName) -> Sequence[SegmentId]:
        """Remove what is drained and no longer retained, now; the ids of what went."""
        return await (await self._service.scalable.controller(topic)).prune()
