"""What takes more than one call, or a choice between calls, of the admin REST API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from magnetar.client.admin.operation import (
    NamespaceOperations,
    TenantOperations,
    TopicOperations,
)
from magnetar.client.admin.policy import find_policy, remove_policy, write_policy
from magnetar.client.admin.transport import Names, Query, format_path
from magnetar.client.admin.value import check_topic, format_namespace, format_topic
from magnetar.client.error import ConfigurationError

_PARTITIONED_METADATA = "application/vnd.partitioned-topic-metadata+json"
_REGULAR = ("persistent", "non-persistent")
_PAGE_MAX = 100_000
"""What a broker tells in one answer; more is cut off here."""


class AsyncTenantAdmin(TenantOperations):
    async def create(
        self, tenant: str, *, admin_roles: Iterable[str] = (), allowed_clusters: Iterable[str] = ()
    ) -> None:
        """Without `allowed_clusters` the tenant may use every cluster there is."""
        clusters = [*allowed_clusters] or await self._transport.get("admin/v2/clusters")
        body = {"adminRoles": [*admin_roles], "allowedClusters": clusters}
        await self._transport.put(f"admin/v2/tenants/{format_path(tenant)}", body)

    async def update(
        self,
        tenant: str,
        *,
        admin_roles: Iterable[str] | None = None,
        allowed_clusters: Iterable[str] | None = None,
    ) -> None:
        """Change what is given and keep the rest."""
        info = await self.get(tenant)
        if admin_roles is not None:
            info["adminRoles"] = [*admin_roles]
        if allowed_clusters is not None:
            info["allowedClusters"] = [*allowed_clusters]
        await self._transport.post(f"admin/v2/tenants/{format_path(tenant)}", info)


class AsyncNamespaceAdmin(NamespaceOperations):
    async def create(
        self,
        namespace: str,
        *,
        clusters: Iterable[str] = (),
        bundles: int = 0,
        topic_buckets: int | None = None,
    ) -> None:
        given = {
            "bundles": {"numBundles": bundles} if bundles > 0 else None,
            "numberOfTopicBuckets": topic_buckets,
            "replication_clusters": [*clusters] or None,
        }
        body = {name: value for name, value in given.items() if value is not None}
        await self._transport.put(_of_namespace(namespace), body)

    async def policy(self, namespace: str, key: str) -> Any:
        """One setting by its name (`retention`, `message-ttl`…); None when unset."""
        policy = find_policy("namespace", key)
        return await self._transport.get(f"{_of_namespace(namespace)}/{policy.read_path}")

    async def set_policy(self, /, namespace: str, key: str, value: Any, **query: Any) -> None:
        policy = find_policy("namespace", key)
        await write_policy(self._transport, _of_namespace(namespace), policy, value, query)

    async def remove_policy(self, /, namespace: str, key: str, **query: Any) -> None:
        policy = find_policy("namespace", key)
        await remove_policy(self._transport, _of_namespace(namespace), policy, query)

    async def unload(
        self, namespace: str, *, bundle: str | None = None, destination: str | None = None
    ) -> None:
        parts = ("unload",) if bundle is None else (bundle, "unload")
        query = {"destinationBroker": destination}
        await self._transport.put(_of_namespace(namespace, *parts), query=query)


class AsyncTopicAdmin(TopicOperations):
    async def list(
        self,
        namespace: str,
        *,
        domain: str | None = None,
        bundle: str | None = None,
        include_system: bool = False,
    ) -> Names:
        """Full names, each partition on its own; both domains unless one is named."""
        query = {"bundle": bundle, "includeSystemTopic": include_system}
        return await self._collect(_domains(domain), format_namespace(namespace), query)

    async def list_partitioned(self, namespace: str, *, include_system: bool = False) -> Names:
        path = format_namespace(namespace, "partitioned")
        return await self._collect(_REGULAR, path, {"includeSystemTopic": include_system})

    async def _collect(self, domains: Iterable[str], path: str, query: Query) -> Names:
        names: Names = []
        for domain in domains:
            names += await self._transport.get(f"admin/v2/{domain}/{path}", query)
        return names

    async def stream(
        self,
        namespace: str,
        *,
        domain: str | None = None,
        bundle: str | None = None,
        include_system: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[str, None]:
        """Full names as the broker finds them, never all in memory; at most `limit`.

        The order is that of the broker's buckets. `after` is a full name where an earlier listing
        stopped; it need not exist any more.
        """
        if limit is not None and limit < 1:
            raise ConfigurationError(f"limit is 1 or more, not {limit}")
        domains = _domains(domain)
        first = domains[0] if after is None else check_topic(after).domain.value
        if first not in domains:
            raise ConfigurationError(f"{after} is not among the topics of {', '.join(domains)}")
        left = limit
        for each in domains[domains.index(first) :]:
            is_scalable = each == "topic"
            path = f"admin/v2/{each}/{format_namespace(namespace)}"
            query = {
                "mode": "SCALABLE" if is_scalable else None,
                "bundle": bundle,
                "includeSystemTopic": include_system,
                "after": after if each == first else None,
                "limit": left if left is not None and left <= _PAGE_MAX else None,
            }
            listing = _of_namespace(namespace, "topics") if is_scalable else path
            async with aclosing(self._transport.stream(listing, query)) as names:
                async for name in names:
                    yield name
                    left = None if left is None else left - 1
                    if left == 0:
                        return

    async def page(
        self,
        namespace: str,
        *,
        limit: int,
        domain: str | None = None,
        bundle: str | None = None,
        include_system: bool = False,
        after: str | None = None,
    ) -> Names:
        """At most `limit` names, in the order of `stream`; the next page is after the last one."""
        names = self.stream(
            namespace,
            domain=domain,
            bundle=bundle,
            include_system=include_system,
            after=after,
            limit=limit,
        )
        return [name async for name in names]

    async def create_partitioned(
        self, topic: str, partitions: int, *, properties: Mapping[str, str] | None = None
    ) -> None:
        path = f"admin/v2/{format_topic(topic, 'partitions')}"
        if properties is None:
            await self._transport.put(path, partitions)
        else:
            body = {"partitions": partitions, "properties": dict(properties)}
            await self._transport.call("PUT", path, body=body, content_type=_PARTITIONED_METADATA)

    async def partitioned_lookup(self, topic: str) -> dict[str, str]:
        """The broker's URL of each partition; of the topic itself when it has none."""
        name = check_topic(topic)
        count = int((await self.partitioned_metadata(topic)).get("partitions", 0))
        each = [name.partition(index).full for index in range(count)] or [name.full]
        return {full: (await self.lookup(full))["brokerUrl"] for full in each}


def _domains(domain: str | None) -> tuple[str, ...]:
    return (domain,) if domain else _REGULAR


def _of_namespace(namespace: str, *rest: str) -> str:
    return f"admin/v2/namespaces/{format_namespace(namespace, *rest)}"
