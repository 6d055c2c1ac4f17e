"""Subscriptions of a topic: create, move, skip, expire, peek, delete."""

from __future__ import annotations

from collections.abc import Mapping

from magnetar.client.admin.name import format_topic
from magnetar.client.admin.operation import SubscriptionOperations
from magnetar.client.admin.value import encode_id
from magnetar.client.message_id import LATEST, MessageId


class AsyncSubscriptionAdmin(SubscriptionOperations):
    async def create(
        self,
        topic: str,
        subscription: str,
        *,
        position: MessageId = LATEST,
        replicated: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """At the end of the topic, or at `position`."""
        body = encode_id(position)
        body["properties"] = dict(properties or {})
        await self._transport.put(_path(topic, subscription), body, {"replicated": replicated})

    async def reset_to_id(
        self, topic: str, subscription: str, position: MessageId, *, excluded: bool = False
    ) -> None:
        """Move a subscription to a message, or with `excluded` behind it."""
        body = encode_id(position, excluded=excluded)
        await self._transport.post(_path(topic, subscription, "resetcursor"), body)

    async def expire_to(
        self, topic: str, subscription: str, position: MessageId, *, excluded: bool = False
    ) -> None:
        """Acknowledge everything up to a message, with `excluded` without it."""
        body = encode_id(position, excluded=excluded)
        await self._transport.post(_path(topic, subscription, "expireMessages"), body)

    async def set_replicated_status(self, topic: str, subscription: str, *, enabled: bool) -> None:
        path = _path(topic, subscription, "replicatedSubscriptionStatus")
        await self._transport.post(path, enabled)


def _path(topic: str, subscription: str, *rest: str | int) -> str:
    return f"admin/v2/{format_topic(topic, 'subscription', subscription, *rest)}"
