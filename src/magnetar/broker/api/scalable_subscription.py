"""Subscriptions of a scalable topic: each acts on every segment of the layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from magnetar.errors import PreconditionFailed, SubscriptionNotFound
from magnetar.model.name import TopicName
from magnetar.model.scalable import SubscriptionKind, SubscriptionRecord

if TYPE_CHECKING:
    from magnetar.broker.scalable.controller import Controller
    from magnetar.broker.service import Service


class ScalableSubscriptionApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def list(self, topic: TopicName) -> Mapping[str, Any]:
        controller = await self._service.scalable.controller(topic)
        known = await controller.subscriptions()
        return {
            name: await describe_subscription(controller, name, known[name])
            for name in sorted(known)
        }

    async def get(self, topic: TopicName, name: str) -> Mapping[str, Any]:
        controller, record = await self._find(topic, name)
        return await describe_subscription(controller, name, record)

    async def create(self, topic: TopicName, name: str, kind: SubscriptionKind) -> None:
        """One that exists keeps its kind."""
        if not name.strip():
            raise PreconditionFailed("Subscription name is not valid")
        await (await self._service.scalable.controller(topic)).create_subscription(name, kind)

    async def delete(self, topic: TopicName, name: str, *, force: bool) -> None:
        controller, _ = await self._find(topic, name)
        await controller.delete_subscription(name, force=force)

    async def seek(self, topic: TopicName, name: str, timestamp_ms: int) -> None:
        controller, _ = await self._find(topic, name)
        await controller.seek(name, timestamp_ms)

    async def clear_backlog(self, topic: TopicName, name: str) -> None:
        controller, _ = await self._find(topic, name)
        await controller.clear_backlog(name)

    async def expire(self, topic: TopicName, name: str, seconds: int) -> None:
        if seconds < 0:
            raise PreconditionFailed(f"An age in seconds is not negative: {seconds}")
        controller, _ = await self._find(topic, name)
        await controller.expire(name, seconds)

    async def _find(self, topic: TopicName, name: str) -> tuple[Controller, SubscriptionRecord]:
        controller = await self._service.scalable.controller(topic)
        record = (await controller.subscriptions()).get(name)
        if record is None:
            raise SubscriptionNotFound(f"Subscription {name} not found for topic {topic}")
        return controller, record


async def describe_subscription(
    controller: Controller, name: str, record: SubscriptionRecord | None
) -> dict[str, Any]:
    """Its kind, how far it is segment by segment, what its consumers read and wait for.

    A group of CHECKPOINT consumers keeps its place itself: it has no record and no backlog.
    """
    coordinator = controller.coordinators.get(name)
    described: dict[str, Any] = {} if coordinator is None else coordinator.stats()
    if record is not None:
        backlog = await controller.backlog(name)
        described |= {
            "type": record.kind.value,
            "msgBacklog": sum(backlog.values()),
            "backlog": {str(number): backlog[number] for number in sorted(backlog)},
        }
    return described
