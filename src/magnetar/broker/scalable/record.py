"""The records of scalable topics in the metadata store.

Topic records are remembered until the store tells of a change; everything below them is read when
it is needed. Every write of a topic's record names the version it read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from magnetar.errors import (
    Conflict,
    RecordExists,
    RecordNotFound,
    RecordUnreadable,
    TopicNotFound,
)
from magnetar.metadata.cache import Held, MetadataCache
from magnetar.metadata.store import (
    ABSENT,
    ANY_VERSION,
    Cancel,
    Change,
    ChangeKind,
    MetadataStore,
    SessionEvent,
)
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, decode_local
from magnetar.model.scalable import (
    TOPICS,
    ConsumerRecord,
    ScalableTopicMetadata,
    SegmentLoad,
    SubscriptionRecord,
    consumer_path,
    consumers_path,
    controller_path,
    load_path,
    namespace_path,
    parse_load_path,
    parse_topic_path,
    scaling_path,
    subscription_path,
    subscriptions_path,
    topic_path,
    unescape_component,
)
from magnetar.model.scaling import ScaleMemory
from magnetar.model.segment import SegmentId
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Log
from magnetar.wire.scalable import (
    decode_consumer,
    decode_load,
    decode_subscription,
    decode_topic_record,
    encode_consumer,
    encode_load,
    encode_subscription,
    encode_topic_record,
)
from magnetar.wire.scaling import decode_scaling, encode_scaling

TopicListener: TypeAlias = Callable[[], None]
NamespaceListener: TypeAlias = Callable[[TopicName], None]
LoadListener: TypeAlias = Callable[[SegmentId | None], None]

_Key = TypeVar("_Key")
_Listener = TypeVar("_Listener")
_INTENT_MARK: Final = b'"magnetarIntent"'
_SEALED_MARK: Final = b'"SEALED"'

_log = Log(__name__)


class ScalableRecords:
    def __init__(self, store: MetadataStore, *, clock: Clock) -> None:
        self._store = store
        self._cache = MetadataCache(
            store, TOPICS, encode=encode_topic_record, decode=decode_topic_record, clock=clock
        )
        self._topics: dict[str, dict[object, TopicListener]] = {}
        self._namespaces: dict[NamespaceName, dict[object, NamespaceListener]] = {}
        self._loads: dict[str, dict[object, LoadListener]] = {}
        # After the cache's own listeners: whoever is told here reads what is new.
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

    # ------------------------------------------------------------------ subscriptions

    async def load_subscriptions(self, topic: TopicName) -> dict[str, SubscriptionRecord]:
        """Those with a record; a group that only has consumers is none."""
        found = self._store.scan_children(subscriptions_path(topic))
        return {
            unescape_component(component): decode_subscription(stored.value)
            async for component, stored in found
        }

    async def load_groups(self, topic: TopicName) -> tuple[str, ...]:
        """Names that have a record of their own or registered consumers."""
        names = await self._store.children(subscriptions_path(topic))
        return tuple(unescape_component(name) for name in names)

    async def store_subscription(
        self, topic: TopicName, name: str, record: SubscriptionRecord
    ) -> None:
        # The controller alone writes it: the last write is the right one.
        path = subscription_path(topic, name)
        await self._store.put(path, encode_subscription(record), expect=ANY_VERSION)

    async def delete_subscription(self, topic: TopicName, name: str) -> None:
        """With the records of its consumers."""
        await self._store.delete_recursive(subscription_path(topic, name))

    # ------------------------------------------------------------------ consumers

    async def load_consumers(
        self, topic: TopicName, subscription: str
    ) -> dict[str, ConsumerRecord]:
        found = self._store.scan_children(consumers_path(topic, subscription))
        return {
            unescape_component(component): decode_consumer(stored.value)
            async for component, stored in found
        }

    async def store_consumer(
        self, topic: TopicName, subscription: str, name: str, record: ConsumerRecord
    ) -> None:
        path = consumer_path(topic, subscription, name)
        await self._store.put(path, encode_consumer(record), expect=ANY_VERSION)

    async def delete_consumer(self, topic: TopicName, subscription: str, name: str) -> None:
        """One that is not there is fine."""
        try:
            path = consumer_path(topic, subscription, name)
            await self._store.delete(path, expect=ANY_VERSION)
        except RecordNotFound:
            pass

    # ------------------------------------------------------------------ load

    async def get_load(
        self, topic: TopicName, segment: SegmentId
    ) -> tuple[SegmentLoad, int] | None:
        """The load and when it was reported, in milliseconds."""
        stored = await self._store.get(load_path(topic, segment))
        if stored is None:
            return None
        return decode_load(stored.value), stored.stat.modified_ms

    async def store_load(self, topic: TopicName, segment: SegmentId, load: SegmentLoad) -> None:
        # The segment's owner alone writes it.
        await self._store.put(load_path(topic, segment), encode_load(load), expect=ANY_VERSION)

    async def delete_load(self, topic: TopicName, segment: SegmentId) -> None:
        try:
            await self._store.delete(load_path(topic, segment), expect=ANY_VERSION)
        except RecordNotFound:
            pass

    # ------------------------------------------------------------------ scaling

    async def load_scaling(self, topic: TopicName) -> tuple[ScaleMemory, int]:
        """What a topic remembers of scaling itself, and the version of that. It can do without."""
        stored = await self._store.get(scaling_path(topic))
        if stored is None:
            return ScaleMemory(), ABSENT
        try:
            return decode_scaling(stored.value), stored.stat.version
        except RecordUnreadable as failure:
            _log.error("scaling forgotten", topic=topic.full, reason=failure.sentence)
            return ScaleMemory(), stored.stat.version

    async def store_scaling(self, topic: TopicName, memory: ScaleMemory, *, expect: int) -> int:
        """Write over exactly the version that was read; return the new one."""
        path = scaling_path(topic)
        return (await self._store.put(path, encode_scaling(memory), expect=expect)).version

    def watch_loads(self, topic: TopicName, listener: LoadListener) -> Cancel:
        """Call the listener with each segment whose load was reported or removed, and with None
        when any may have been.
        """
        return _add(self._loads, topic_path(topic), listener)

    # ------------------------------------------------------------------ changes

    def watch(self, topic: TopicName, listener: TopicListener) -> Cancel:
        """Call the listener after each change of the topic's own record."""
        return _add(self._topics, topic_path(topic), listener)

    def is_watched(self, topic: TopicName) -> bool:
        """Whether anybody beside the topic's controller watches it."""
        return len(self._topics.get(topic_path(topic), ())) > 1

    def watched(self) -> tuple[TopicName, ...]:
        """Topics that anybody watches, whether there is a record or not."""
        found = (parse_topic_path(path) for path in self._topics)
        return tuple(topic for topic in found if topic is not None)

    def watch_namespace(self, namespace: NamespaceName, listener: NamespaceListener) -> Cancel:
        """Call the listener with each topic whose record came, changed or went."""
        return _add(self._namespaces, namespace, listener)

    def _on_change(self, change: Change) -> None:
        if change.kind is ChangeKind.CHILDREN_CHANGED:
            return
        topic = parse_topic_path(change.path)
        if topic is None:
            self._on_below(change.path)
            return
        _tell(self._topics.get(change.path, {}), change.path)
        for listener in tuple(self._namespaces.get(topic.namespace, {}).values()):
            try:
                listener(topic)
            # Whatever goes wrong with one watcher, the others hear of the change.
            except Exception as fault:
                _log.error("watcher of a namespace failed", error=fault, path=change.path)

    def _on_below(self, path: str) -> None:
        found = parse_load_path(path) if self._loads else None
        if found is not None:
            for listener in tuple(self._loads.get(found[0], {}).values()):
                listener(found[1])

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.RECONNECTED:  # what changed meanwhile was not told
            for path, listeners in list(self._topics.items()):
                _tell(listeners, path)
            for each in [one for listeners in self._loads.values() for one in listeners.values()]:
                each(None)


def has_properties(record: ScalableTopicMetadata, filters: Mapping[str, str]) -> bool:
    return all(record.properties.get(key) == value for key, value in filters.items())


def _tell(listeners: Mapping[object, TopicListener], path: str) -> None:
    for listener in tuple(listeners.values()):
        try:
            listener()
        # Whatever goes wrong with one watcher, the others hear of the change.
        except Exception as fault:
            _log.error("watcher of a topic failed", error=fault, path=path)


def _add(registry: dict[_Key, dict[object, _Listener]], key: _Key, listener: _Listener) -> Cancel:
    token = object()
    registry.setdefault(key, {})[token] = listener

    def cancel() -> None:
        listeners = registry.get(key)
        if listeners is not None and listeners.pop(token, None) is not None and not listeners:
            del registry[key]

    return cancel
