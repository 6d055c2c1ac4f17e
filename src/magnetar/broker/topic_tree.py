"""Where a namespace's topics stand in the metadata store, and which there are.

How many buckets a namespace has is one of its policies. The number is also kept beside the topics,
in the record of the namespace's own node: a topic looked for in the wrong bucket would seem not to
exist, so where the two differ nothing is served.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from typing import Final

from msgspec import Struct

from magnetar.broker.log_record import NOT_PACKED, MetadataLogRecords, RecordPacking
from magnetar.broker.resource import Namespaces, policies_path
from magnetar.errors import BucketsDiffer, RecordNotEmpty, RecordNotFound, VersionConflict
from magnetar.metadata.path import child_of
from magnetar.metadata.store import ABSENT, ANY_VERSION, MetadataStore
from magnetar.model.document import decode_document, encode_document
from magnetar.model.log_path import (
    LOGS,
    bucket_of,
    bucket_paths,
    domain_path,
    is_bucket,
    journal_path,
    log_path,
    node_of,
)
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, decode_local

_DOMAINS: Final = (TopicDomain.PERSISTENT, TopicDomain.SEGMENT)
NAMES_AHEAD: Final = 16_384
"""How many names may be read before those in front of them were taken."""
_NAMES_AT_ONCE: Final = 4_096
_READS_AT_ONCE: Final = 32


class BucketCount(Struct, frozen=True, kw_only=True):
    """What is kept beside the topics of a namespace."""

    numberOfTopicBuckets: int


class TopicTree:
    def __init__(
        self,
        store: MetadataStore,
        namespaces: Namespaces,
        packing: RecordPacking = NOT_PACKED,
        *,
        is_apache_readable: bool = False,
    ) -> None:
        """`is_apache_readable`: brokers of Apache Pulsar may come after this one, which know no
        buckets.
        """
        self._store = store
        self._namespaces = namespaces
        self._packing = packing
        self._is_apache_readable = is_apache_readable
        self._agreed: dict[NamespaceName, int] = {}
        """Namespaces whose policies tell what is kept beside their topics."""

    # ------------------------------------------------------------------ places

    async def buckets(self, namespace: NamespaceName) -> int:
        """Raise BucketsDiffer when the policies tell another number than the topics have."""
        policies = await self._namespaces.get(namespace)
        declared = None if policies is None else policies.numberOfTopicBuckets or 1
        if self._is_apache_readable and declared not in (None, 1):
            raise BucketsDiffer(
                f"{policies_path(namespace)} tells of {declared} topic buckets: with ledgers that"
                " brokers share there is one, for Apache Pulsar knows no others"
            )
        if declared is not None and self._agreed.get(namespace) == declared:
            return declared
        kept = await self._load_kept(namespace)
        if declared is None:
            return kept or 1
        if kept not in (None, declared):
            raise BucketsDiffer(
                f"The topics of {namespace} are kept in {kept} buckets, but"
                f" {policies_path(namespace)} tells of {declared}; none is served until"
                f" numberOfTopicBuckets is {kept} there again"
            )
        if kept is not None or declared == 1:
            self._agreed[namespace] = declared
        return declared

    async def claim(self, namespace: NamespaceName) -> None:
        """Keep the number of buckets beside the topics; done before the first of them is made."""
        buckets = await self.buckets(namespace)
        if buckets == 1 or namespace in self._agreed:
            return
        value = encode_document(BucketCount(numberOfTopicBuckets=buckets))
        try:
            await self._store.put(f"{LOGS}/{namespace}", value, expect=ABSENT)
        except VersionConflict:
            await self.buckets(namespace)  # another broker was quicker: raise unless they agree

    async def _load_kept(self, namespace: NamespaceName) -> int | None:
        record = await self._store.get(f"{LOGS}/{namespace}")
        if record is None or not record.value:
            return None
        return decode_document(record.value, BucketCount).numberOfTopicBuckets

    async def path_of(self, name: TopicName) -> str:
        return log_path(name, await self.buckets(name.namespace))

    async def records(self, name: TopicName) -> MetadataLogRecords:
        return MetadataLogRecords(
            self._store,
            await self.path_of(name),
            self._packing,
            is_apache_readable=self._is_apache_readable,
        )

    def journal_records(self, name: str) -> MetadataLogRecords:
        """Of a transaction journal, which stands beside the topics."""
        return MetadataLogRecords(self._store, journal_path(name))

    async def exists(self, name: TopicName) -> bool:
        return await self._store.exists(await self.path_of(name))

    # ------------------------------------------------------------------ lists

    async def list(self, namespace: NamespaceName, domain: TopicDomain) -> list[str]:
        """Full names of all topics, sorted."""
        names: list[str] = []
        async for some in self.scan(namespace, domain):
            names += some
        return sorted(names)

    async def count(self, namespace: NamespaceName, domain: TopicDomain) -> int:
        paths = bucket_paths(namespace, domain, await self.buckets(namespace))
        total = 0
        for start in range(0, len(paths), _READS_AT_ONCE):
            some = paths[start : start + _READS_AT_ONCE]
            total += sum(await asyncio.gather(*map(self._store.count_children, some)))
        return total

    async def scan(
        self,
        namespace: NamespaceName,
        domain: TopicDomain,
        *,
        after: TopicName | None = None,
        names_ahead: int = NAMES_AHEAD,
    ) -> AsyncIterator[Sequence[str]]:
        """Full names bucket by bucket, within one in the order of their nodes.

        `after` is where an earlier scan stopped; it need not exist any more. No more buckets are
        asked at once than hold about `names_ahead` names.
        """
        paths = bucket_paths(namespace, domain, await self.buckets(namespace))
        prefix, start, last = f"{domain.value}://{namespace}/", 0, ""
        if after is not None:
            last = node_of(after)
            start = bucket_of(last, len(paths))
        width = 1
        while start < len(paths):
            some = paths[start : start + width]
            found = await asyncio.gather(*map(self._store.children, some))
            start += width
            most = max(len(nodes) for nodes in found)
            width = min(max(names_ahead // max(most, 1), 1), _READS_AT_ONCE)
            for nodes in found:
                if last:
                    nodes, last = nodes[bisect_right(nodes, last) :], ""
                for first in range(0, len(nodes), _NAMES_AT_ONCE):
                    yield _names(prefix, nodes[first : first + _NAMES_AT_ONCE])

    # ------------------------------------------------------------------ the end of a namespace

    async def clear(self, namespace: NamespaceName) -> bool:
        """Remove the nodes that held a namespace's topics; False when one still does.

        What holds a record is never removed: a topic made meanwhile is found by the next look.
        """
        try:
            for domain in _DOMAINS:
                await self._clear(domain_path(namespace, domain), domain)
            await self._remove(f"{LOGS}/{namespace}")
        except RecordNotEmpty:
            return False
        self._agreed.pop(namespace, None)
        return True

    async def _clear(self, path: str, domain: TopicDomain) -> None:
        """Of a segment's topic no record is kept there, so that its node may go like a bucket."""
        for node in await self._store.children(path):
            child = child_of(path, node)
            if is_bucket(node):
                await self._clear(child, domain)
            elif domain is TopicDomain.SEGMENT:
                await self._remove(child)
            else:
                raise RecordNotEmpty(f"{child} is a topic")
        await self._remove(path)

    async def _remove(self, path: str) -> None:
        try:
            await self._store.delete(path, expect=ANY_VERSION)
        except RecordNotFound:
            pass


def _names(prefix: str, nodes: Sequence[str]) -> list[str]:
    """Full names of nodes; most have nothing to decode, and one look tells for all of them."""
    joined = "".join(nodes)
    if "%" not in joined and "+" not in joined:
        return [prefix + node for node in nodes]
    return [prefix + decode_local(node) for node in nodes]
