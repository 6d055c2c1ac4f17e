"""Topics: their life, stats, properties, permissions and messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

from magnetar.client.admin.name import check_topic, format_namespace, format_topic
from magnetar.client.admin.transport import Answer, Document, Grants, Names, Query, Transport
from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import MessageId

_PARTITIONED_METADATA = "application/vnd.partitioned-topic-metadata+json"
_REGULAR = ("persistent", "non-persistent")
_PAGE_MAX = 100_000
"""What a broker tells in one answer; more is cut off here."""


class StoredEntry(NamedTuple):
    """An entry as the broker keeps it: a batch comes whole, and may be compressed."""

    id: str
    headers: Mapping[str, str]
    data: bytes


class AsyncTopicAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

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

    async def count(self, namespace: str) -> dict[str, int]:
        """How many topics there are, by domain; partitions and system topics count too."""
        path = f"admin/v2/namespaces/{format_namespace(namespace, 'topics', 'count')}"
        found: dict[str, int] = await self._transport.get(path)
        return found

    async def list_partitioned(self, namespace: str, *, include_system: bool = False) -> Names:
        query = {"includeSystemTopic": include_system}
        names: Names = []
        for domain in _REGULAR:
            path = f"admin/v2/{domain}/{format_namespace(namespace, 'partitioned')}"
            names += await self._transport.get(path, query)
        return names

    async def create(self, topic: str, *, properties: Mapping[str, str] | None = None) -> None:
        await self._transport.put(_path(topic), dict(properties or {}))

    async def delete(self, topic: str, *, force: bool = False) -> None:
        await self._transport.delete(_path(topic), {"force": force, "deleteSchema": True})

    async def create_partitioned(
        self, topic: str, partitions: int, *, properties: Mapping[str, str] | None = None
    ) -> None:
        path = _path(topic, "partitions")
        if properties is None:
            await self._transport.put(path, partitions)
        else:
            body = {"partitions": partitions, "properties": dict(properties)}
            await self._transport.call("PUT", path, body=body, content_type=_PARTITIONED_METADATA)

    async def create_missed_partitions(self, topic: str) -> None:
        await self._transport.post(_path(topic, "createMissedPartitions"))

    async def update_partitioned(
        self, topic: str, partitions: int, *, local_only: bool = False, force: bool = False
    ) -> None:
        query = {"updateLocalTopicOnly": local_only, "force": force}
        await self._transport.post(_path(topic, "partitions"), partitions, query)

    async def partitioned_metadata(self, topic: str) -> Document:
        found: Document = await self._transport.get(_path(topic, "partitions"))
        return found

    async def delete_partitioned(self, topic: str, *, force: bool = False) -> None:
        query = {"force": force, "deleteSchema": True}
        await self._transport.delete(_path(topic, "partitions"), query)

    async def properties(self, topic: str) -> dict[str, str]:
        found: dict[str, str] = await self._transport.get(_path(topic, "properties")) or {}
        return found

    async def update_properties(self, topic: str, properties: Mapping[str, str]) -> None:
        await self._transport.put(_path(topic, "properties"), dict(properties))

    async def remove_property(self, topic: str, key: str) -> None:
        await self._transport.delete(_path(topic, "properties"), {"key": key})

    async def stats(
        self,
        topic: str,
        *,
        precise_backlog: bool = False,
        backlog_size: bool = True,
        earliest_time: bool = False,
    ) -> Document:
        query = _stats_query(precise_backlog, backlog_size, earliest_time)
        found: Document = await self._transport.get(_path(topic, "stats"), query)
        return found

    async def partitioned_stats(
        self,
        topic: str,
        *,
        per_partition: bool = False,
        precise_backlog: bool = False,
        backlog_size: bool = True,
        earliest_time: bool = False,
    ) -> Document:
        query = _stats_query(precise_backlog, backlog_size, earliest_time)
        query["perPartition"] = per_partition
        found: Document = await self._transport.get(_path(topic, "partitioned-stats"), query)
        return found

    async def internal_stats(self, topic: str, *, metadata: bool = False) -> Document:
        path = _path(topic, "internalStats")
        found: Document = await self._transport.get(path, {"metadata": metadata})
        return found

    async def partitioned_internal_stats(self, topic: str) -> Document:
        found: Document = await self._transport.get(_path(topic, "partitioned-internalStats"))
        return found

    async def internal_info(self, topic: str) -> Document:
        found: Document = await self._transport.get(_path(topic, "internal-info"))
        return found

    async def unload(self, topic: str) -> None:
        await self._transport.put(_path(topic, "unload"))

    async def terminate(self, topic: str) -> MessageId:
        return _decode_id(await self._transport.post(_path(topic, "terminate")))

    async def terminate_partitioned(self, topic: str) -> dict[int, MessageId]:
        found = await self._transport.post(_path(topic, "terminate", "partitions"))
        return {int(index): _decode_id(last) for index, last in found.items()}

    async def compact(self, topic: str) -> None:
        await self._transport.put(_path(topic, "compaction"))

    async def compaction_status(self, topic: str) -> Document:
        found: Document = await self._transport.get(_path(topic, "compaction"))
        return found

    async def offload(self, topic: str, until: MessageId) -> None:
        body = {"ledgerId": until.ledger_id, "entryId": until.entry_id, "partitionIndex": -1}
        await self._transport.put(_path(topic, "offload"), body)

    async def offload_status(self, topic: str) -> Document:
        found: Document = await self._transport.get(_path(topic, "offload"))
        return found

    async def trim(self, topic: str) -> None:
        await self._transport.post(_path(topic, "trim"))

    async def truncate(self, topic: str) -> None:
        await self._transport.delete(_path(topic, "truncate"))

    async def last_message_id(self, topic: str) -> MessageId:
        return _decode_id(await self._transport.get(_path(topic, "lastMessageId")))

    async def message_id_at(self, topic: str, timestamp_ms: int) -> MessageId:
        return _decode_id(await self._transport.get(_path(topic, "messageid", timestamp_ms)))

    async def message_id_by_index(self, topic: str, index: int) -> MessageId:
        path = _path(topic, "getMessageIdByIndex")
        return _decode_id(await self._transport.get(path, {"index": index}))

    async def backlog_size(self, topic: str, position: MessageId) -> int:
        body = {
            "ledgerId": position.ledger_id,
            "entryId": position.entry_id,
            "partitionIndex": position.partition,
        }
        size: int = await self._transport.put(_path(topic, "backlogSize"), body)
        return size

    async def read_entry(self, topic: str, ledger_id: int, entry_id: int) -> StoredEntry:
        path = _path(topic, "ledger", ledger_id, "entry", entry_id)
        return decode_entry_answer(await self._transport.call("GET", path))

    async def examine(
        self, topic: str, *, initial_position: str = "latest", message_position: int = 1
    ) -> StoredEntry:
        query: Query = {
            "initialPosition": initial_position,
            "messagePosition": message_position,
        }
        path = _path(topic, "examinemessage")
        return decode_entry_answer(await self._transport.call("GET", path, query=query))

    async def permissions(self, topic: str) -> Grants:
        granted: Grants = await self._transport.get(_path(topic, "permissions")) or {}
        return granted

    async def grant(self, topic: str, role: str, actions: Iterable[str]) -> None:
        await self._transport.post(_path(topic, "permissions", role), [*actions])

    async def revoke(self, topic: str, role: str) -> None:
        await self._transport.delete(_path(topic, "permissions", role))

    async def lookup(self, topic: str) -> dict[str, str]:
        found: dict[str, str] = await self._transport.get(f"lookup/v2/topic/{format_topic(topic)}")
        return found

    async def partitioned_lookup(self, topic: str) -> dict[str, str]:
        """The broker's URL of each partition; of the topic itself when it has none."""
        name = check_topic(topic)
        count = int((await self.partitioned_metadata(topic)).get("partitions", 0))
        each = [name.partition(index).full for index in range(count)] or [name.full]
        return {full: (await self.lookup(full))["brokerUrl"] for full in each}

    async def bundle_range(self, topic: str) -> str:
        path = f"lookup/v2/topic/{format_topic(topic, 'bundle')}"
        return (await self._transport.call("GET", path)).body.decode().strip().strip('"')


def decode_entry_answer(answer: Answer) -> StoredEntry:
    prefix = "x-pulsar-"
    headers = {
        key.removeprefix(prefix): value
        for key, value in answer.headers.items()
        if key.startswith(prefix)
    }
    return StoredEntry(headers.pop("message-id", ""), headers, answer.body)


def _stats_query(precise_backlog: bool, backlog_size: bool, earliest_time: bool) -> dict[str, bool]:
    return {
        "getPreciseBacklog": precise_backlog,
        "subscriptionBacklogSize": backlog_size,
        "getEarliestTimeInBacklog": earliest_time,
    }


def _decode_id(data: Mapping[str, Any]) -> MessageId:
    return MessageId(
        int(data["ledgerId"]),
        int(data["entryId"]),
        int(data.get("partitionIndex", -1)),
        int(data.get("batchIndex", -1)),
    )


def _listing(namespace: str, domain: str) -> str:
    if domain == "topic":
        return f"admin/v2/namespaces/{format_namespace(namespace, 'topics')}"
    return f"admin/v2/{domain}/{format_namespace(namespace)}"


def _path(topic: str, *rest: str | int) -> str:
    return f"admin/v2/{format_topic(topic, *rest)}"
