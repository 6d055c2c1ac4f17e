"""Engine of resumable changes: see the segments of a topic, and carry out what was decided.

What is decided stands in `rules.phase`. Every action may be done twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import assert_never

from magnetar.broker.scalable.scale_record import ScaleRecords
from magnetar.broker.scalable.segment import AT_ONCE_MAX, END, Segments, together
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST
from magnetar.model.scalable import ScalableTopicMetadata
from magnetar.model.segment import SegmentId, SegmentRef
from magnetar.rules.phase import (
    Action,
    AddCursors,
    CreateSegment,
    DeleteRecord,
    RemoveSegment,
    SealSegment,
    SegmentSeen,
    Step,
    StoreRecord,
)
from magnetar.runtime.log import Logger

_log = Logger(__name__)


class Engine:
    """Of one topic."""

    def __init__(
        self,
        topic: TopicName,
        segments: Segments,
        scaling: ScaleRecords,
        *,
        store: Callable[[ScalableTopicMetadata], Awaitable[None]],
        forget: Callable[[], Awaitable[None]],
        at_once: int = AT_ONCE_MAX,
    ) -> None:
        """`store` writes the topic's record conditionally, `forget` removes the record of the
        change when nothing else is left; `at_once` limits the actions that run side by side.
        """
        self._topic = topic
        self._segments = segments
        self._scaling = scaling
        self._store = store
        self._forget = forget
        self._at_once = at_once

    async def see(self, refs: tuple[SegmentRef, ...]) -> dict[SegmentId, SegmentSeen]:
        found = await together((self._segments.see(ref) for ref in refs), at_once=self._at_once)
        return {ref.id: seen for ref, seen in zip(refs, found, strict=True) if seen is not None}

    async def take(self, step: Step) -> None:
        """Carry a step out, what it writes last."""
        _log.debug("step", topic=self._topic.full, phase=step.phase.value)
        writes = [a for a in step.actions if isinstance(a, StoreRecord | DeleteRecord)]
        acting = (self._act(action) for action in step.actions if action not in writes)
        await together(acting, at_once=self._at_once)
        for write in writes:
            await self._act(write)

    async def _act(self, action: Action) -> None:
        match action:
            case CreateSegment(segment, subscriptions, properties):
                await self._segments.create(segment, subscriptions, properties)
            case AddCursors(segment, subscriptions, at_end, properties):
                start = END if at_end else EARLIEST
                await together(
                    self._segments.create_subscription(
                        segment, name, start, properties.get(name, {})
                    )
                    for name in subscriptions
                )
            case SealSegment(segment):
                await self._segments.seal(segment)
            case RemoveSegment(segment):
                await self._scaling.delete_load(self._topic, segment.id)
                await self._segments.delete(segment)
            case StoreRecord(record):
                await self._store(record)
            case DeleteRecord():
                await self._forget()
            case _:
                assert_never(action)
