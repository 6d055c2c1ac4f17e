"""Topics: their life, stats, properties, permissions and messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from magnetar.client.admin.name import check_topic, format_namespace, format_topic
from magnetar.client.admin.operation import TopicOperations
from magnetar.client.admin.transport import Names
from magnetar.client.error import ConfigurationError

_PARTITIONED_METADATA = "application/vnd.partitioned-topic-metadata+json"
_REGULAR = ("persistent", "non-persistent")
_PAGE_MAX = 100_000
"""What a broker tells in one answer; more is cut off here."""


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
        names: Names = []
        for each in (domain,) if domain else _REGULAR:
            names += await self._transport.get(
                f"admin/v2/{each}/{format_namespace(namespace)}", query
            )
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
        domains = (domain,) if domain else _REGULAR
        first = domains[0] if after is None else check_topic(after).domain.value
        if first not in domains:
            raise ConfigurationError(f"{after} is not among the topics of {', '.join(domains)}")
        left = limit
        for each in domains[domains.index(first) :]:
            query = {
                "mode": "SCALABLE" if each == "topic" else None,
                "bundle": bundle,
                "includeSystemTopic": include_system,
                "after": after if each == first else None,
                "limit": left if left is not None and left <= _PAGE_MAX else None,
            }
            async with aclosing(self._transport.stream(_listing(namespace, each), query)) as names:
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
        return [
            name
            async for name in self.stream(
                namespace,
                domain=domain,
                bundle=bundle,
                include_system=include_system,
                after=after,
                limit=limit,
            )
        ]

    async def list_partitioned(self, namespace: str, *, include_system: bool = False) -> Names:
        query = {"includeSystemTopic": include_system}
        names: Names = []
        for domain in _REGULAR:
            path = f"admin/v2/{domain}/{format_namespace(namespace, 'partitioned')}"
            names += await self._transport.get(path, query)
        return names

    async def create_partitioned(
        self, topic: str, partitions: int, *, properties: Mapping[str, str] | None = None
    ) -> None:
        path = _path(topic, "partitions")
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


def _listing(namespace: str, domain: str) -> str:
    if domain == "topic":
        return f"admin/v2/namespaces/{format_namespace(namespace, 'topics')}"
    return f"admin/v2/{domain}/{format_namespace(namespace)}"


def _path(topic: str, *rest: str | int) -> str:
    return f"admin/v2/{format_topic(topic, *rest)}"
