"""State of a scalable topic, held by its controller: a record read once, written conditionally."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from magnetar.broker.scalable.record import ScalableRecords
from magnetar.errors import TopicNotFound, VersionConflict
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName
from magnetar.model.scalable import ScalableTopicMetadata, WipeIntent
from magnetar.runtime.log import Logger

Listener: TypeAlias = Callable[[ScalableTopicMetadata | None], None]
"""Called with the record after each change that clients can see, None when the topic is gone."""

_TRIES_MAX: Final = 20

_log = Logger(__name__)


class TopicState:
    """Belongs to the controller's turn: one task at a time calls what waits."""

    def __init__(self, topic: TopicName, records: ScalableRecords) -> None:
        self.topic = topic
        self.records = records
        self.listeners: list[Listener] = []
        self.is_gone = False
        self.is_writing = False
        self._record: ScalableTopicMetadata | None = None
        self._version = -1

    @property
    def is_loaded(self) -> bool:
        return self._record is not None

    @property
    def record(self) -> ScalableTopicMetadata:
        if self._record is None:
            raise TopicNotFound(f"Scalable topic not found: {self.topic}")
        return self._record

    @property
    def layout(self) -> Layout:
        return self.record.layout

    async def load(self) -> ScalableTopicMetadata:
        """Read what the store says now; raise TopicNotFound when it says that there is nothing."""
        held = await self.records.load(self.topic, refresh=True)
        if held is None:
            self.forget()
            raise TopicNotFound(f"Scalable topic not found: {self.topic}")
        self._keep(held.value, held.stat.version)
        return held.value

    async def store(self, record: ScalableTopicMetadata) -> None:
        """Write over the version that is held; raise VersionConflict when it is not the last."""
        self.is_writing = True
        try:
            version = await self.records.store(self.topic, record, expect=self._version)
        finally:
            self.is_writing = False
        self._keep(record, version)

    async def update(
        self, change: Callable[[ScalableTopicMetadata], ScalableTopicMetadata]
    ) -> ScalableTopicMetadata:
        """Store what `change` makes of the record; a write by others is taken in first."""
        for _ in range(_TRIES_MAX):
            try:
                await self.store(change(self.record))
            except VersionConflict:
                await self.load()
            else:
                return self.record
        raise VersionConflict(f"The record of {self.topic} keeps being changed by others")

    def forget(self) -> None:
        """The record is not there any more."""
        self._record = None
        if not self.is_gone:
            self.is_gone = True
            self._tell(None)

    def _keep(self, record: ScalableTopicMetadata, version: int) -> None:
        before, self._record, self._version = self._record, record, version
        if record.is_deleting:
            if not self.is_gone:
                self.is_gone = True
                self._tell(None)
        elif before is not None and _shown(before) != _shown(record):
            self._tell(record)

    def _tell(self, record: ScalableTopicMetadata | None) -> None:
        for listener in tuple(self.listeners):
            try:
                listener(record)
            # Whatever goes wrong with one listener, the change is made and the others are called.
            except Exception as fault:
                _log.error("listener failed", error=fault, topic=self.topic.full)


def _shown(record: ScalableTopicMetadata) -> tuple[object, ...]:
    """What clients and coordinators go by. An intent alone changes nothing for them, but when data
    was wiped nothing waits for it any more.
    """
    return (
        isinstance(record.intent, WipeIntent),
        record.layout.epoch,
        record.layout.segments,
        record.properties,
        record.auto_scale_policy,
        record.migrated_from,
    )
