"""The records of scalable topics in the metadata store.

Topic records are cached until the store reports a change. Every write of a topic's record names the
version it read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from magnetar.broker.scalable.group_record import GroupRecords
from magnetar.broker.scalable.listener import Listeners
from magnetar.broker.scalable.scale_record import ScaleRecords
from magnetar.errors import (
    Conflict,
    RecordExists,
    RecordNotFound,
    RecordUnreadable,
    TopicNotFound,
)
from magnetar.metadata.cache import Held, MetadataCache
from magnetar.metadata.store import (
    Cancel,
    Change,
    ChangeKind,
    MetadataStore,
    SessionEvent,
)
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, decode_local
from magnetar.model.scalable import (
    TOPICS,
    ScalableTopicMetadata,
    controller_path,
    namespace_path,
    parse_topic_path,
    topic_path,
)
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.wire.scalable import (
    decode_topic_record,
    encode_plain_record,
    encode_topic_record,
)

TopicListener: TypeAlias = Callable[[], None]
NamespaceListener: TypeAlias = Callable[[TopicName], None]

_INTENT_MARK: Final = b'"magnetarIntent"'
_SEALED_MARK: Final = b'"SEALED"'

_log = Logger(__name__)


class ScalableRecords:
    def __init__(
        self, store: MetadataStore, *, clock: Clock, is_apache_readable: bool = False
    ) -> None:
        """`is_apache_readable`: brokers of Apache Pulsar may serve the topics after this one."""
        self._store = store
        self.encode: Final = encode_plain_record if is_apache_readable else encode_topic_record
        self._cache = MetadataCache(
            store, TOPICS, encode=self.encode, decode=decode_topic_record, clock=clock
        )
        self._topics: Listeners[str, TopicListener] = Listeners()
        self._namespaces: Listeners[NamespaceName, NamespaceListener] = Listeners()
        self.groups = GroupRecords(store)
        self.scaling = ScaleRecords(store)
        # After the cache's own listeners, so that those here read what is new.
        self._cancels = (
            store.watch(TOPICS, self._on_change),
            store.watch_session(self._on_session),
        )

    def close(self) -> None:
        for cancel in self._cancels:
            cancel()
        self._cache.close()

    # ------------------------------------------------------------------ topics

    async def load(
        self, topic: TopicName, *, refresh: bool = False
    ) -> Held[ScalableTopicMetadata] | None:
        """The record with its version; `refresh` asks the store itself."""
        path = topic_path(topic)
        if refresh:
            await self._store.sync(path)
            self._cache.invalidate(path)
        return await self._cache.get_with_stat(path)

    async def get(self, topic: TopicName) -> ScalableTopicMetadata | None:
        held = await self.load(topic)
        return None if held is None else held.value

    async def require(self, topic: TopicName) -> ScalableTopicMetadata:
        """Raise TopicNotFound for a topic that is not there, or no longer for its clients."""
        record = await self.get(topic)
        if record is None or record.is_deleting:
            raise TopicNotFound(f"Scalable topic not found: {topic}")
        return record

    async def create(self, topic: TopicName, record: ScalableTopicMetadata) -> None:
        try:
            await self._cache.create(topic_path(topic), record)
        except RecordExists:
            raise Conflict(f"Scalable topic already exists: {topic}") from None

    async def store(self, topic: TopicName, record: ScalableTopicMetadata, *, expect: int) -> int:
        """Write over exactly the version that was read; return the new one."""
        return await self._cache.put(topic_path(topic), record, expect=expect)

    async def update(
        self, topic: TopicName, change: Callable[[ScalableTopicMetadata], ScalableTopicMetadata]
    ) -> ScalableTopicMetadata:
        """Store what `change` makes of the record; it may be called several times."""

        def change_present(present: ScalableTopicMetadata) -> ScalableTopicMetadata:
            if present.is_deleting:
                raise TopicNotFound(f"Scalable topic not found: {topic}")
            return change(present)

        try:
            return await self._cache.read_modify_update(topic_path(topic), change_present)
        except RecordNotFound:
            raise TopicNotFound(f"Scalable topic not found: {topic}") from None

    async def update_properties(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        await self.update(topic, lambda record: replace(record, properties=dict(properties)))

    async def delete(self, topic: TopicName) -> None:
        """Remove the record and everything below it, the record last."""
        try:
            await self._store.delete_recursive(topic_path(topic))
        finally:
            self._cache.invalidate(topic_path(topic))

    async def list(
        self, namespace: NamespaceName, filters: Mapping[str, str] | None = None
    ) -> list[TopicName]:
        """Topics that have all of the given properties, sorted by name."""
        found: list[TopicName] = []
        async for component, stored in self._store.scan_children(namespace_path(namespace)):
            topic = TopicName(TopicDomain.TOPIC, namespace, decode_local(component))
            if filters or _INTENT_MARK in stored.value:
                try:
                    record = decode_topic_record(stored.value)
                except RecordUnreadable as failure:
                    _log.error("topic left out", topic=topic.full, reason=failure.sentence)
                    continue
                if record.is_deleting or not has_properties(record, filters or {}):
                    continue
            found.append(topic)
        return sorted(found, key=lambda each: each.full)

    async def namespaces(self) -> tuple[NamespaceName, ...]:
        """Those with anything below them."""
        return tuple(
            [
                NamespaceName(tenant, local)
                for tenant in await self._store.children(TOPICS)
                for local in await self._store.children(f"{TOPICS}/{tenant}")
            ]
        )

    async def load_unfinished(
        self, namespace: NamespaceName
    ) -> dict[TopicName, ScalableTopicMetadata]:
        """Records of topics with a change under way or with sealed segments, also of those that
        are being deleted.
        """
        found: dict[TopicName, ScalableTopicMetadata] = {}
        async for component, stored in self._store.scan_children(namespace_path(namespace)):
            if not any(mark in stored.value for mark in (_INTENT_MARK, _SEALED_MARK)):
                continue
            topic = TopicName(TopicDomain.TOPIC, namespace, decode_local(component))
            try:
                found[topic] = decode_topic_record(stored.value)
            except RecordUnreadable as failure:
                _log.error("topic cannot be served", topic=topic.full, reason=failure.sentence)
        return found

    async def load_controller(self, topic: TopicName) -> bytes | None:
        """What the controller of a topic wrote about itself."""
        record = await self._store.get(controller_path(topic))
        return None if record is None else record.value

    # ------------------------------------------------------------------ changes

    def watch(self, topic: TopicName, listener: TopicListener) -> Cancel:
        """Call the listener after each change of the topic's own record."""
        return self._topics.add(topic_path(topic), listener)

    def is_watched(self, topic: TopicName) -> bool:
        """Whether it has watchers beside its controller."""
        return len(self._topics.of(topic_path(topic))) > 1

    def watched(self) -> tuple[TopicName, ...]:
        """Topics that have watchers, with a record or without."""
        found = (parse_topic_path(path) for path in self._topics)
        return tuple(topic for topic in found if topic is not None)

    def watch_namespace(self, namespace: NamespaceName, listener: NamespaceListener) -> Cancel:
        """Call the listener with each topic whose record came, changed or went."""
        return self._namespaces.add(namespace, listener)

    def _on_change(self, change: Change) -> None:
        if change.kind is ChangeKind.CHILDREN_CHANGED:
            return
        topic = parse_topic_path(change.path)
        if topic is None:
            self.scaling.on_change(change.path)
            return
        self._notify(change.path)
        for listener in self._namespaces.of(topic.namespace):
            try:
                listener(topic)
            # Whatever goes wrong with one watcher, the others are called.
            except Exception as fault:
                _log.error("watcher of a namespace failed", error=fault, path=change.path)

    def _notify(self, path: str) -> None:
        for listener in self._topics.of(path):
            try:
                listener()
            # Whatever goes wrong with one watcher, the others are called.
            except Exception as fault:
                _log.error("watcher of a topic failed", error=fault, path=path)

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.RECONNECTED:  # changes in between were not notified
            for path in self._topics:
                self._notify(path)
            self.scaling.on_reconnected()


def has_properties(record: ScalableTopicMetadata, filters: Mapping[str, str]) -> bool:
    return all(record.properties.get(key) == value for key, value in filters.items())
