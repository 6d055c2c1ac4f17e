"""Subscriptions of a scalable topic: each acts on every segment of the layout."""

from __future__ import annotations

from typing import Any

from magnetar.broker.administration.registry import Document, carries_out
from magnetar.broker.administration.subscription import check_age
from magnetar.broker.scalable.controller import Controller
from magnetar.broker.service import Service
from magnetar.errors import BadRequest, PreconditionFailed, SubscriptionNotFound
from magnetar.model.name import TopicName
from magnetar.model.scalable import SubscriptionKind, SubscriptionRecord


@carries_out("scalable_topics.subscriptions")
async def list_subscriptions(service: Service, topic: TopicName) -> Document:
    controller = await service.scalable.controller(topic)
    known = await controller.subscriptions()
    return {
        name: await describe_subscription(controller, name, known[name]) for name in sorted(known)
    }


@carries_out("scalable_topics.subscription")
async def get_subscription(service: Service, topic: TopicName, subscription: str) -> Document:
    controller, record = await _find(service, topic, subscription)
    return await describe_subscription(controller, subscription, record)


@carries_out("scalable_topics.create_subscription")
async def create_subscription(
    service: Service, topic: TopicName, subscription: str, kind: str
) -> None:
    """One that exists keeps its kind."""
    try:
        wanted = SubscriptionKind(kind.upper())
    except ValueError:
        known = " or ".join(each.value for each in SubscriptionKind)
        raise BadRequest(f"type is {known}, not {kind!r}") from None
    if not subscription.strip():
        raise PreconditionFailed("Subscription name is not valid")
    controller = await service.scalable.controller(topic)
    await controller.create_subscription(subscription, wanted)


@carries_out("scalable_topics.delete_subscription")
async def delete_subscription(
    service: Service, topic: TopicName, subscription: str, force: bool
) -> None:
    controller, _ = await _find(service, topic, subscription)
    await controller.delete_subscription(subscription, force=force)


@carries_out("scalable_topics.seek")
async def seek(service: Service, topic: TopicName, subscription: str, timestamp_ms: int) -> None:
    controller, _ = await _find(service, topic, subscription)
    await controller.seek(subscription, timestamp_ms)


@carries_out("scalable_topics.clear_backlog")
async def clear_backlog(service: Service, topic: TopicName, subscription: str) -> None:
    controller, _ = await _find(service, topic, subscription)
    await controller.clear_backlog(subscription)


@carries_out("scalable_topics.expire")
async def expire(service: Service, topic: TopicName, subscription: str, seconds: int) -> None:
    check_age(seconds)
    controller, _ = await _find(service, topic, subscription)
    await controller.expire(subscription, seconds)


async def _find(
    service: Service, topic: TopicName, name: str
) -> tuple[Controller, SubscriptionRecord]:
    controller = await service.scalable.controller(topic)
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
