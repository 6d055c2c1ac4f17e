"""Records by which scalable topics scale themselves: the reported loads of their segments, and what
a controller remembers of its decisions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from magnetar.broker.scalable.listener import Listeners
from magnetar.errors import RecordNotFound, RecordUnreadable
from magnetar.metadata.store import ABSENT, ANY_VERSION, Cancel, MetadataStore
from magnetar.model.name import TopicName
from magnetar.model.scalable import (
    SegmentLoad,
    load_path,
    parse_load_path,
    scaling_path,
    topic_path,
)
from magnetar.model.scaling import ScaleMemory
from magnetar.model.segment import SegmentId
from magnetar.runtime.log import Logger
from magnetar.wire.scalable import decode_load, encode_load
from magnetar.wire.scaling import decode_scaling, encode_scaling

LoadListener: TypeAlias = Callable[[SegmentId | None], None]

_log = Logger(__name__)


class ScaleRecords:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._listeners: Listeners[str, LoadListener] = Listeners()

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

    async def load_memory(self, topic: TopicName) -> tuple[ScaleMemory, int]:
        """What a topic remembers of scaling itself, and the version of that. It can do without."""
        stored = await self._store.get(scaling_path(topic))
        if stored is None:
            return ScaleMemory(), ABSENT
        try:
            return decode_scaling(stored.value), stored.stat.version
        except RecordUnreadable as failure:
            _log.error("scaling forgotten", topic=topic.full, reason=failure.sentence)
            return ScaleMemory(), stored.stat.version

    async def store_memory(self, topic: TopicName, memory: ScaleMemory, *, expect: int) -> int:
        """Write over exactly the version that was read; return the new one."""
        path = scaling_path(topic)
        return (await self._store.put(path, encode_scaling(memory), expect=expect)).version

    def watch_loads(self, topic: TopicName, listener: LoadListener) -> Cancel:
        """Call the listener with each segment whose load was reported or removed, and with None
        when any may have been.
        """
        return self._listeners.add(topic_path(topic), listener)

    def on_change(self, path: str) -> None:
        """Something below the record of a topic was written."""
        found = parse_load_path(path)
        if found is not None:
            for listener in self._listeners.of(found[0]):
                listener(found[1])

    def on_reconnected(self) -> None:
        """Changes may have been missed."""
        for topic in self._listeners:
            for listener in self._listeners.of(topic):
                listener(None)
