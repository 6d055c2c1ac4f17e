"""Namespaces: their life, policies, permissions and bundles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from magnetar.client.admin.name import format_namespace
from magnetar.client.admin.operation import NamespaceOperations
from magnetar.client.admin.policy import (
    find_policy,
    remove_policy,
    write_policy,
)
from magnetar.client.admin.transport import Document

_ROOT = "admin/v2/namespaces"


class AsyncNamespaceAdmin(NamespaceOperations):
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

    async def policy(self, namespace: str, key: str) -> Any:
        """One setting by its name (`retention`, `message-ttl`…); None when unset."""
        policy = find_policy("namespace", key)
        return await self._transport.get(f"{_path(namespace)}/{policy.read_path}")

    async def set_policy(self, /, namespace: str, key: str, value: Any, **query: Any) -> None:
        policy = find_policy("namespace", key)
        await write_policy(self._transport, _path(namespace), policy, value, query)

    async def remove_policy(self, /, namespace: str, key: str, **query: Any) -> None:
        policy = find_policy("namespace", key)
        await remove_policy(self._transport, _path(namespace), policy, query)

    async def unload(
        self, namespace: str, *, bundle: str | None = None, destination: str | None = None
    ) -> None:
        parts = ("unload",) if bundle is None else (bundle, "unload")
        await self._transport.put(
            _path(namespace, *parts), query={"destinationBroker": destination}
        )


def _path(namespace: str, *rest: str) -> str:
    return f"{_ROOT}/{format_namespace(namespace, *rest)}"
