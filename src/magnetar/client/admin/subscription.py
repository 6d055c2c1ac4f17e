"""Subscriptions of a topic: create, move, skip, expire, peek, delete."""

from __future__ import annotations

from collections.abc import Mapping

from magnetar.client.admin.name import format_topic
from magnetar.client.admin.transport import Document, Names, Transport
from magnetar.client.admin.value import StoredEntry, decode_entry
from magnetar.client.message_id import LATEST, MessageId


class AsyncSubscriptionAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, topic: str) -> Names:
        names: Names = await self._transport.get(f"admin/v2/{format_topic(topic, 'subscriptions')}")
        return names

    async def create(
        self,
        topic: str,
        subscription: str,
        *,
        position: MessageId = LATEST,
        replicated: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        body = _body(position, excluded=False)
        body["properties"] = dict(properties or {})
        await self._transport.put(_path(topic, subscription), body, {"replicated": replicated})

    async def delete(self, topic: str, subscription: str, *, force: bool = False) -> None:
        await self._transport.delete(_path(topic, subscription), {"force": force})

    async def skip(self, topic: str, subscription: str, count: int) -> None:
        await self._transport.post(_path(topic, subscription, "skip", count))

    async def skip_all(self, topic: str, subscription: str) -> None:
        await self._transport.post(_path(topic, subscription, "skip_all"))

    async def reset_to_time(self, topic: str, subscription: str, timestamp_ms: int) -> None:
        await self._transport.post(_path(topic, subscription, "resetcursor", timestamp_ms))

    async def reset_to_id(
        self, topic: str, subscription: str, position: MessageId, *, excluded: bool = False
    ) -> None:
        body = _body(position, excluded=excluded)
        await self._transport.post(_path(topic, subscription, "resetcursor"), body)

    async def expire(self, topic: str, subscription: str, seconds: int) -> None:
        await self._transport.post(_path(topic, subscription, "expireMessages", seconds))

    async def expire_to(
        self, topic: str, subscription: str, position: MessageId, *, excluded: bool = False
    ) -> None:
        body = _body(position, excluded=excluded)
        await self._transport.post(_path(topic, subscription, "expireMessages"), body)

    async def expire_all(self, topic: str, seconds: int) -> None:
        rest = ("all_subscription", "expireMessages", seconds)
        await self._transport.post(f"admin/v2/{format_topic(topic, *rest)}")

    async def peek(self, topic: str, subscription: str, place: int) -> StoredEntry:
        """The entry `place` entries ahead, from 1; nothing is acknowledged."""
        path = _path(topic, subscription, "position", place)
        return decode_entry(await self._transport.call("GET", path))

    async def properties(self, topic: str, subscription: str) -> dict[str, str]:
        path = _path(topic, subscription, "properties")
        found: dict[str, str] = await self._transport.get(path) or {}
        return found

    async def set_properties(
        self, topic: str, subscription: str, properties: Mapping[str, str]
    ) -> None:
        await self._transport.put(_path(topic, subscription, "properties"), dict(properties))

    async def analyze_backlog(self, topic: str, subscription: str) -> Document:
        path = _path(topic, subscription, "analyzeBacklog")
        found: Document = await self._transport.post(path)
        return found

    async def replicated_status(self, topic: str, subscription: str) -> dict[str, bool]:
        path = _path(topic, subscription, "replicatedSubscriptionStatus")
        found: dict[str, bool] = await self._transport.get(path)
        return found

    async def set_replicated_status(self, topic: str, subscription: str, *, enabled: bool) -> None:
        path = _path(topic, subscription, "replicatedSubscriptionStatus")
        await self._transport.post(path, enabled)


def _path(topic: str, subscription: str, *rest: str | int) -> str:
    return f"admin/v2/{format_topic(topic, 'subscription', subscription, *rest)}"


def _body(position: MessageId, *, excluded: bool) -> Document:
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": position.partition,
        "batchIndex": position.batch_index,
        "excluded": excluded,
    }
