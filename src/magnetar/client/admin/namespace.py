"""Namespaces: their life, policies, permissions and bundles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from magnetar.client.admin.name import format_namespace
from magnetar.client.admin.policy import (
    NAMESPACE_POLICIES,
    find_policy,
    remove_policy,
    write_policy,
)
from magnetar.client.admin.transport import Document, Grants, Names, Transport, format_path

_ROOT = "admin/v2/namespaces"


class AsyncNamespaceAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, tenant: str) -> Names:
        names: Names = await self._transport.get(f"{_ROOT}/{format_path(tenant)}")
        return names

    async def get(self, namespace: str) -> Document:
        """All policies of the namespace in one object."""
        policies: Document = await self._transport.get(_path(namespace))
        return policies

    async def create(
        self,
        namespace: str,
        *,
        clusters: Iterable[str] = (),
        bundles: int = 0,
        topic_buckets: int | None = None,
    ) -> None:
        body: Document = {}
        if bundles > 0:
            body["bundles"] = {"numBundles": bundles}
        if topic_buckets is not None:
            body["numberOfTopicBuckets"] = topic_buckets
        named = [*clusters]
        if named:
            body["replication_clusters"] = named
        await self._transport.put(_path(namespace), body)

    async def topic_buckets(self, namespace: str) -> int:
        """In how many buckets the metadata of its topics is kept."""
        count: int = await self._transport.get(_path(namespace, "numberOfTopicBuckets"))
        return count

    async def rebucket(self, namespace: str, topic_buckets: int) -> None:
        """Refused, unless it is the number that the namespace was created with."""
        await self._transport.post(_path(namespace, "numberOfTopicBuckets"), topic_buckets)

    async def delete(self, namespace: str, *, force: bool = False) -> None:
        await self._transport.delete(_path(namespace), {"force": force})

    async def topics(
        self, namespace: str, *, mode: str | None = None, include_system: bool = False
    ) -> Names:
        query = {"mode": mode, "includeSystemTopic": include_system}
        names: Names = await self._transport.get(_path(namespace, "topics"), query)
        return names

    async def policy(self, namespace: str, key: str) -> Any:
        """One setting by its name (`retention`, `message-ttl`…); None when unset."""
        policy = find_policy(NAMESPACE_POLICIES, key)
        return await self._transport.get(f"{_path(namespace)}/{policy.read_path}")

    async def set_policy(self, /, namespace: str, key: str, value: Any, **query: Any) -> None:
        policy = find_policy(NAMESPACE_POLICIES, key)
        await write_policy(self._transport, _path(namespace), policy, value, query)

    async def remove_policy(self, /, namespace: str, key: str, **query: Any) -> None:
        policy = find_policy(NAMESPACE_POLICIES, key)
        await remove_policy(self._transport, _path(namespace), policy, query)

    async def permissions(self, namespace: str) -> Grants:
        granted: Grants = await self._transport.get(_path(namespace, "permissions")) or {}
        return granted

    async def grant(self, namespace: str, role: str, actions: Iterable[str]) -> None:
        await self._transport.post(_path(namespace, "permissions", role), [*actions])

    async def revoke(self, namespace: str, role: str) -> None:
        await self._transport.delete(_path(namespace, "permissions", role))

    async def subscription_permissions(self, namespace: str) -> Grants:
        """The roles that each subscription is kept for; one that is not named is for everybody."""
        kept: Grants = (
            await self._transport.get(_path(namespace, "permissions", "subscription")) or {}
        )
        return kept

    async def grant_subscription(
        self, namespace: str, subscription: str, roles: Iterable[str]
    ) -> None:
        path = _path(namespace, "permissions", "subscription", subscription)
        await self._transport.post(path, [*roles])

    async def revoke_subscription(self, namespace: str, subscription: str, role: str) -> None:
        await self._transport.delete(_path(namespace, "permissions", subscription, role))

    async def properties(self, namespace: str) -> dict[str, str]:
        found: dict[str, str] = await self._transport.get(_path(namespace, "properties")) or {}
        return found

    async def set_properties(self, namespace: str, properties: Mapping[str, str]) -> None:
        await self._transport.put(_path(namespace, "properties"), dict(properties))

    async def clear_properties(self, namespace: str) -> None:
        await self._transport.delete(_path(namespace, "properties"))

    async def property(self, namespace: str, key: str) -> str | None:
        value: str | None = await self._transport.get(_path(namespace, "property", key))
        return value

    async def set_property(self, namespace: str, key: str, value: str) -> None:
        await self._transport.put(_path(namespace, "property", key, value))

    async def remove_property(self, namespace: str, key: str) -> None:
        await self._transport.delete(_path(namespace, "property", key))

    async def bundles(self, namespace: str) -> Document:
        found: Document = await self._transport.get(_path(namespace, "bundles"))
        return found

    async def unload(
        self, namespace: str, *, bundle: str | None = None, destination: str | None = None
    ) -> None:
        parts = ("unload",) if bundle is None else (bundle, "unload")
        await self._transport.put(
            _path(namespace, *parts), query={"destinationBroker": destination}
        )

    async def split_bundle(
        self, namespace: str, bundle: str, *, unload: bool = False, algorithm: str | None = None
    ) -> None:
        query = {"unload": unload, "splitAlgorithmName": algorithm}
        await self._transport.put(_path(namespace, bundle, "split"), query=query)

    async def clear_backlog(
        self, namespace: str, *, subscription: str | None = None, bundle: str | None = None
    ) -> None:
        parts = [*_some(bundle), "clearBacklog", *_some(subscription)]
        await self._transport.post(_path(namespace, *parts))

    async def unsubscribe(
        self, namespace: str, subscription: str, *, bundle: str | None = None
    ) -> None:
        parts = [*_some(bundle), "unsubscribe", subscription]
        await self._transport.post(_path(namespace, *parts))


def _path(namespace: str, *rest: str) -> str:
    return f"{_ROOT}/{format_namespace(namespace, *rest)}"


def _some(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)
