"""A producer that takes up where an earlier one of its name was stopped.

Every message has a number that its application gives, rising from one to the next. A message goes
to the same place whoever sends it: by its key, or by its number. So what a segment has stored of
the name, up to some number, is exactly what was meant for it up to there, also after the segment
was sealed and its messages go elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from magnetar.client.error import ProducerBusyError
from magnetar.client.outgoing import format_key
from magnetar.client.scalable.lane import Item
from magnetar.client.scalable.producer import AsyncScalableProducer
from magnetar.model.segment import Segment, SegmentId
from magnetar.rules.route import route_partition, segment_hash

T = TypeVar("T")

_BUSY_S: Final = 0.1

LastStored = Callable[[SegmentId, str], Awaitable[int | None]]
"""The last number that a segment, sealed or not, has of a name; None when it cannot be told."""


class AsyncResumableProducer(AsyncScalableProducer[T]):
    """Made by `client.resumable_producer`. Every message needs a `sequence_id`."""

    async def resume(self, last_stored: LastStored) -> None:
        """Take the name on every active segment, then learn what is stored under it.

        In this order: whoever had the name before is gone from each of them by then.
        """
        for segment in self._watch.layout.active:
            await self._take(segment)
        self._stored: dict[SegmentId, int] = {}
        layout = self._watch.layout
        for segment in layout.segments:
            found = await last_stored(segment.id, f"{self.name}-seg-{segment.id}")
            if found is None:
                lane = self._lanes.get(segment.id)
                found = -1 if lane is None else lane.producer.last_sequence_id
            self._stored[segment.id] = found
        self._legacy = sorted(each.id for each in layout.segments if each.is_legacy)
        self._ranges = [
            (each, self._stored[each.id]) for each in layout.segments if self._stored[each.id] >= 0
        ]

    async def _take(self, segment: Segment) -> None:
        """Wait while another holds the name: a task that is about to be ended, or its twin."""
        deadline = self._loop.time() + self._session.operation_timeout
        while True:
            lane = self._lanes.get(segment.id) or self._add_lane(segment)
            try:
                await lane.open()
                return
            except ProducerBusyError:
                self._lanes.pop(segment.id, None)
                await lane.close()
                if self._loop.time() > deadline:
                    raise
            await asyncio.sleep(_BUSY_S)

    def is_stored(self, key: str | bytes | None, number: int) -> bool:
        """Whether an earlier producer of the name had this message stored."""
        if not self._ranges:
            return False
        route = route_of(key, number)
        place = segment_hash(route, half=self._half)
        for segment, last in self._ranges:
            if number > last:
                continue
            if segment.is_legacy:
                index = route_partition(route, len(self._legacy), hashing=self._routing.legacy)
                if self._legacy[index] == segment.id:
                    return True
            elif place in segment.range:
                return True
        return False

    def _route(self, item: Item) -> None:
        assert item.chosen is not None, "a resumable producer numbers its messages"
        self._choose(route_of(item.key, item.chosen)).send(item)


def route_of(key: str | bytes | None, number: int) -> str:
    return str(number) if key is None else format_key(key)
