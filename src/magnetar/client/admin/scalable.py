"""Scalable topics: their life, layout, subscriptions and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from magnetar.client.admin.name import format_bare, format_namespace
from magnetar.client.admin.transport import Document, Documents, Names, Transport
from magnetar.client.admin.value import StoredEntry, decode_entry

Ids: TypeAlias = list[int]


class AsyncScalableAdmin:
    """A topic may be named in any domain: `topic://t/n/x`, `persistent://t/n/x` or `t/n/x`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    # The topic
    async def list(self, namespace: str, *, properties: Mapping[str, str] | None = None) -> Names:
        """Full names; of those only that have all the given properties."""
        filters = [f"{key}={value}" for key, value in (properties or {}).items()]
        path = f"admin/v2/scalable/{format_namespace(namespace)}"
        names: Names = await self._transport.get(path, {"property": filters})
        return names

    async def create(
        self, topic: str, *, segments: int = 1, properties: Mapping[str, str] | None = None
    ) -> None:
        query = {"numInitialSegments": segments}
        await self._transport.put(_path(topic), dict(properties or {}), query)

    async def delete(self, topic: str, *, force: bool = False) -> None:
        await self._transport.delete(_path(topic), {"force": force})

    async def migrate_to_scalable(
        self, topic: str, *, force: bool = False, segments: int | None = None
    ) -> None:
        """Make a regular topic scalable, for ever; with `force` also below v4 clients. It gets as
        many segments as it has partitions, or as a client can take, or `segments`.
        """
        query = {"force": force} | _count(segments)
        await self._transport.call("POST", _path(topic, "migrate"), query=query)

    async def migration_check(self, topic: str, *, segments: int | None = None) -> Document:
        """What migrating would do, and what is in its way."""
        path = _path(topic, "migration-check")
        found: Document = await self._transport.get(path, _count(segments))
        return found

    async def metadata(self, topic: str) -> Document:
        found: Document = await self._transport.get(_path(topic))
        return found

    async def properties(self, topic: str) -> dict[str, str]:
        found: dict[str, str] = await self._transport.get(_path(topic, "properties"))
        return found

    async def set_properties(self, topic: str, properties: Mapping[str, str]) -> None:
        """All of them: what is not named goes."""
        await self._transport.put(_path(topic, "properties"), dict(properties))

    async def history(self, topic: str) -> Documents:
        found: Documents = await self._transport.get(_path(topic, "history"))
        return found

    async def policy(self, topic: str) -> Document:
        """What is in force, and where each value about scaling comes from."""
        found: Document = await self._transport.get(_path(topic, "policy"))
        return found

    # Numbers
    async def stats(self, topic: str) -> Document:
        found: Document = await self._transport.get(_path(topic, "stats"))
        return found

    async def segments(self, topic: str) -> dict[str, Document]:
        """Every segment with its rates and the backlog of each subscription, by id."""
        found: dict[str, Document] = await self._transport.get(_path(topic, "segments"))
        return found

    async def segment_stats(self, topic: str, segment: int) -> Document:
        found: Document = await self._transport.get(_path(topic, "segments", segment))
        return found

    async def segment_internal_stats(self, topic: str, segment: int) -> Document:
        """Ledgers and cursors of one segment."""
        path = _path(topic, "segments", segment, "internalStats")
        found: Document = await self._transport.get(path)
        return found

    async def last_sequence_id(self, topic: str, segment: int, producer: str) -> int:
        """The highest that one segment, sealed or not, has stored of a producer; -1 for none."""
        path = _path(topic, "segments", segment, "lastSequenceId")
        found: int = await self._transport.get(path, {"producer": producer})
        return found

    async def load(self, topic: str) -> dict[str, Document]:
        found: dict[str, Document] = await self._transport.get(_path(topic, "load"))
        return found

    async def explain(self, topic: str) -> Document:
        """Why the topic splits, merges or stays, and what waits for what in each subscription."""
        found: Document = await self._transport.get(_path(topic, "explain"))
        return found

    async def decisions(self, topic: str) -> Documents:
        """What the topic decided about scaling itself, lately; oldest first."""
        found: Documents = await self._transport.get(_path(topic, "decisions"))
        return found

    async def peek(self, topic: str, segment: int, subscription: str, place: int) -> StoredEntry:
        """The entry `place` entries ahead in one segment, from 1; nothing is acknowledged."""
        rest = ("segments", segment, "subscriptions", subscription, "position", place)
        return decode_entry(await self._transport.call("GET", _path(topic, *rest)))

    async def analyze_backlog(
        self, topic: str, segment: int, subscription: str, *, entries_max: int | None = None
    ) -> Document:
        """How many entries and messages wait in one segment, by reading up to so many entries;
        `aborted` tells that there are more.
        """
        path = _path(topic, "segments", segment, "subscriptions", subscription, "analyzeBacklog")
        found: Document = await self._transport.post(path, query={"entriesMax": entries_max})
        return found

    # The layout
    async def split(self, topic: str, segment: int, *, at: int | None = None) -> None:
        """In the middle, or so that `at` is the first hash of the upper half."""
        await self._transport.call("POST", _path(topic, "split", segment), query={"at": at})

    async def merge(self, topic: str, left: int, right: int) -> None:
        await self._transport.post(_path(topic, "merge", left, right))

    async def scale(self, topic: str, segments: int, *, hold_until_ms: int | None = None) -> None:
        """Split or merge until there are so many active segments; till the given time there are no
        fewer.
        """
        query = {"segments": segments, "holdUntil": hold_until_ms}
        await self._transport.call("POST", _path(topic, "scale"), query=query)

    async def prune(self, topic: str) -> Ids:
        """Remove what is drained and no longer retained; the ids of what went."""
        found: Ids = await self._transport.post(_path(topic, "prune"))
        return found

    # Subscriptions
    async def subscriptions(self, topic: str) -> dict[str, Document]:
        found: dict[str, Document] = await self._transport.get(_path(topic, "subscriptions"))
        return found

    async def subscription(self, topic: str, subscription: str) -> Document:
        found: Document = await self._transport.get(_path(topic, "subscriptions", subscription))
        return found

    async def create_subscription(
        self, topic: str, subscription: str, *, kind: str = "STREAM"
    ) -> None:
        """`kind` is STREAM or QUEUE."""
        path = _path(topic, "subscriptions", subscription)
        await self._transport.call("PUT", path, query={"type": kind})

    async def delete_subscription(
        self, topic: str, subscription: str, *, force: bool = False
    ) -> None:
        await self._transport.delete(_path(topic, "subscriptions", subscription), {"force": force})

    async def seek(self, topic: str, subscription: str, timestamp_ms: int) -> None:
        path = _path(topic, "subscriptions", subscription, "seek")
        await self._transport.call("POST", path, query={"timestamp": timestamp_ms})

    async def clear_backlog(self, topic: str, subscription: str) -> None:
        await self._transport.post(_path(topic, "subscriptions", subscription, "skip-all"))

    async def expire(self, topic: str, subscription: str, seconds: int) -> None:
        rest = ("subscriptions", subscription, "expireMessages", seconds)
        await self._transport.post(_path(topic, *rest))

    # How it scales itself
    async def auto_scale_policy(self, topic: str) -> Document | None:
        """What the topic sets itself; None when nothing."""
        found: Document | None = await self._transport.get(_path(topic, "autoScalePolicy"))
        return found

    async def set_auto_scale_policy(self, topic: str, override: Mapping[str, Any]) -> None:
        await self._transport.post(_path(topic, "autoScalePolicy"), dict(override))

    async def remove_auto_scale_policy(self, topic: str) -> None:
        await self._transport.delete(_path(topic, "autoScalePolicy"))


def _path(topic: str, *rest: str | int) -> str:
    return f"admin/v2/scalable/{format_bare(topic, *rest)}"


def _count(segments: int | None) -> dict[str, int]:
    return {} if segments is None else {"segments": segments}
