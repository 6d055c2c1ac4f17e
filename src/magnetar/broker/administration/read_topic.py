"""Which topics a query reads, and the parts that their layouts have."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from magnetar.broker.administration.port import QueryOwners, TopicOwners
from magnetar.broker.administration.record import load_policies
from magnetar.broker.administration.visibility import shown_name
from magnetar.broker.authorization import Authorization
from magnetar.broker.resource import Resources
from magnetar.broker.scalable.record import has_properties
from magnetar.broker.scalable.segment import together
from magnetar.broker.topic_tree import TopicTree
from magnetar.broker.topiclist import TopicPattern
from magnetar.errors import RecordUnreadable
from magnetar.metadata.store import MetadataStore
from magnetar.model.caller import Caller
from magnetar.model.name import (
    NamespaceName,
    TopicDomain,
    TopicName,
    decode_local,
    parse_namespace,
    parse_stored_topic,
    parse_topic,
)
from magnetar.model.permission import NAMESPACE_CONSUME, TOPIC_CONSUME, Target
from magnetar.model.read_plan import ReadQuery
from magnetar.model.scalable import ScalableTopicMetadata, namespace_path
from magnetar.model.segment import scalable_name
from magnetar.runtime.log import Logger
from magnetar.wire.scalable import decode_topic_record

_PATTERN_MAX: Final = 1000
_RECORDS: Final = 16_384
_log = Logger(__name__)


class Part(NamedTuple):
    """One part as the layout has it."""

    id: int
    name: str
    parents: tuple[int, ...] = ()
    is_sealed: bool = False
    sealed_ms: int = 0


class PartLayout(NamedTuple):
    key: str
    """The name without its domain, which a migration changes."""
    topic: TopicName
    parts: tuple[Part, ...]
    next: int
    must_exist: bool
    """Whether the topic is there only if its part is."""


def key_of(topic: TopicName) -> str:
    return f"{topic.namespace}/{topic.local}"


async def find_layouts(owners: QueryOwners, query: ReadQuery, caller: Caller) -> list[PartLayout]:
    """In the order of their names; those that are not there are left out as far as that is known
    without a look at their parts.
    """
    if query.topics:
        names = [parse_topic(name) for name in query.topics]
        await check_readable(owners.authorization, caller, names)
        found = await together(_find(owners, name) for name in names)
        layouts = [each for each in found if each is not None]
    else:
        layouts = await _list(owners, query, caller)
    return sorted(layouts, key=lambda each: each.key)


async def check_readable(
    authorization: Authorization, caller: Caller, names: Iterable[TopicName]
) -> None:
    """Raise unless the caller may consume every topic."""
    if not authorization.is_enabled:
        return
    whole: dict[NamespaceName, bool] = {}
    for name in {shown_name(each) for each in names}:
        if name.namespace not in whole:
            target = Target(namespace=name.namespace)
            whole[name.namespace] = await authorization.may(caller, NAMESPACE_CONSUME, target)
        if not whole[name.namespace]:
            await authorization.check(caller, TOPIC_CONSUME, Target(topic=name))


async def _find(owners: TopicOwners, name: TopicName) -> PartLayout | None:
    record = await owners.scalable.records.get(scalable_name(name))
    if record is not None:
        return None if record.is_deleting else _scalable(scalable_name(name), record)
    regular = TopicName(TopicDomain.PERSISTENT, name.namespace, name.local)
    partitioned = await owners.resources.partitioned.get(regular)
    return _regular(regular, 0 if partitioned is None else partitioned.partitions)


def _scalable(topic: TopicName, record: ScalableTopicMetadata) -> PartLayout:
    parts = tuple(
        Part(
            int(each.id),
            each.name_in(topic).full,
            tuple(map(int, each.parents)),
            each.is_sealed,
            each.sealed_at_ms or 0,
        )
        for each in record.layout.segments
    )
    return PartLayout(key_of(topic), topic, parts, int(record.layout.next_id), must_exist=False)


def _regular(topic: TopicName, partitions: int) -> PartLayout:
    names = [topic.partition(index).full for index in range(partitions)] or [topic.full]
    parts = tuple(Part(index, name) for index, name in enumerate(names))
    return PartLayout(key_of(topic), topic, parts, len(parts), must_exist=not partitions)


async def _list(owners: QueryOwners, query: ReadQuery, caller: Caller) -> list[PartLayout]:
    namespace = parse_namespace(query.namespace)
    await owners.authorization.check(caller, NAMESPACE_CONSUME, Target(namespace=namespace))
    await load_policies(owners.resources, namespace)
    matches = _make_match(namespace, query.pattern)
    found: dict[str, PartLayout] = {}
    async for topic, record in _scan_scalable(owners.store, namespace):
        if matches(topic.local) and has_properties(record, query.properties):
            found[topic.local] = _scalable(topic, record)
    if not query.properties:
        partitions = await _list_regular(owners.resources, owners.tree, namespace, matches)
        for local, count in partitions.items():
            if local not in found:
                topic = TopicName(TopicDomain.PERSISTENT, namespace, local)
                found[local] = _regular(topic, count)
    return list(found.values())


def _make_match(namespace: NamespaceName, pattern: str) -> Callable[[str], bool]:
    """The broker's own topics are left out."""
    if not pattern:
        return lambda local: not local.startswith("__")
    prefix = f"{namespace}/"
    compiled = TopicPattern(f"{re.escape(prefix)}(?:{pattern})", length_max=_PATTERN_MAX)
    return lambda local: (
        not local.startswith("__") and compiled.matches(f"persistent://{prefix}{local}")
    )


async def _scan_scalable(
    store: MetadataStore, namespace: NamespaceName
) -> AsyncIterator[tuple[TopicName, ScalableTopicMetadata]]:
    async for component, stored in store.scan_children(namespace_path(namespace)):
        topic = TopicName(TopicDomain.TOPIC, namespace, decode_local(component))
        try:
            record = _decode_record(stored.value)
        except RecordUnreadable as failure:
            _log.error("topic left out", topic=topic.full, reason=failure.sentence)
            continue
        if not record.is_deleting:
            yield topic, record


@lru_cache(maxsize=_RECORDS)
def _decode_record(stored: bytes) -> ScalableTopicMetadata:
    """Query after query sees the same ones."""
    return decode_topic_record(stored)


async def _list_regular(
    resources: Resources, tree: TopicTree, namespace: NamespaceName, matches: Callable[[str], bool]
) -> Mapping[str, int]:
    """The number of partitions by local name; 0 for a topic without any."""
    found: dict[str, int] = {}
    domain = TopicDomain.PERSISTENT
    for name in await resources.partitioned.list(namespace, domain):
        metadata = await resources.partitioned.get(name)
        if metadata is not None and matches(name.local):
            found[name.local] = metadata.partitions
    for full in await tree.list(namespace, domain):
        topic = parse_stored_topic(full)
        base = topic.base if topic.is_partition else topic
        if base.local not in found and matches(base.local):
            found[base.local] = 0
    return found
