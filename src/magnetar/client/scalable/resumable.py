"""A producer that takes up where an earlier one of its name was stopped.

Every message has a number that its application gives, rising from one to the next. A message goes
to the same place from every sender: by its key, or by its number. So what a segment has stored of
the name, up to some number, is exactly what was meant for it up to there, also after the segment
was sealed and its messages go elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from magnetar.client.envelope import measure
from magnetar.client.error import ProducerBusyError
from magnetar.client.outgoing import MessageOptions, Pack, format_key
from magnetar.client.policy import BatchingPolicy
from magnetar.client.scalable.lane import Item, Lane
from magnetar.client.scalable.message_id import MessageId
from magnetar.client.scalable.producer import AsyncScalableProducer
from magnetar.model.segment import Segment, SegmentId

if TYPE_CHECKING:
    from magnetar.client.sheet import Sheet

T = TypeVar("T")

_BUSY_S: Final = 0.1

LastStored = Callable[[SegmentId, str], Awaitable[int | None]]
"""The last number that a segment, sealed or not, has of a name; None when it cannot be told."""
OnSent = Callable[[asyncio.Future[MessageId]], None]
_ONE_BY_ONE: Final = BatchingPolicy(max_messages=1)


class AsyncResumableProducer(AsyncScalableProducer[T]):
    """Made by `client.bulk.resumable_producer`. Every message needs a `sequence_id`."""

    _ranges: list[tuple[Segment, int]]
    _legacy: list[SegmentId]

    async def open(self) -> None:
        self._ranges, self._legacy = [], []
        await super().open()

    async def resume(self, last_stored: LastStored) -> None:
        """Take the name on every active segment, then learn what is stored under it.

        In this order: the earlier holder of the name is gone from each of them by then.
        """
        for segment in self._watch.layout.active:
            await self._take(segment)
        layout = self._watch.layout
        stored: dict[SegmentId, int] = {}
        for segment in layout.segments:
            found = await last_stored(segment.id, f"{self.name}-seg-{segment.id}")
            if found is None:
                lane = self._lanes.get(segment.id)
                found = -1 if lane is None else lane.producer.last_sequence_id
            stored[segment.id] = found
        self._legacy = sorted(each.id for each in layout.segments if each.is_legacy)
        self._ranges = [(each, stored[each.id]) for each in layout.segments if stored[each.id] >= 0]

    async def _take(self, segment: Segment) -> None:
        """Wait while another holds the name: a task that is about to be ended, or its twin."""
        deadline = self._session.clock.monotonic() + self._session.operation_timeout
        while True:
            lane = self._lanes.get(segment.id) or self._add_lane(segment)
            try:
                await lane.open()
                return
            except ProducerBusyError:
                self._lanes.pop(segment.id, None)
                await lane.close()
                if self._session.clock.monotonic() > deadline:
                    raise
            await self._session.clock.sleep(_BUSY_S)

    # ------------------------------------------------------------------ whole sheets

    def drop_stored(self, sheet: Sheet) -> Sheet:
        """The rows that no earlier producer of the name had stored."""
        if not self._ranges:
            return sheet
        found = sheet.find_stored(
            self._ranges, half=self._half, legacy=self._legacy, hashing=self._key_hash
        )
        return sheet.take(~found) if found.any() else sheet

    async def submit_sheet(self, sheet: Sheet, on_sent: OnSent) -> None:
        """Send all its rows in the order of their numbers; waits for room only.

        `on_sent` gets the outcome of each entry. Values are encoded already: interceptors
        see none of them.
        """
        items = list(self._pack(sheet))
        for item in items:
            item.sent.add_done_callback(on_sent)
        # All at once: what a change of the layout brings together again is sorted before it goes.
        await self._admission.enter_all(items)

    def _pack(self, sheet: Sheet) -> Iterator[Item]:
        batching = self._settings.batching or _ONE_BY_ONE
        layout = self._watch.layout
        for segment, part in sheet.part(layout, half=self._half, hashing=self._key_hash):
            lane = self._lanes.get(segment.id) or self._start_lane(segment)
            packs = part.pack(
                segment.bucket_splits,
                messages_max=batching.max_messages,
                bytes_max=lane.producer.batch_bytes_max(batching),
            )
            for pack in packs:
                if isinstance(pack, int):
                    yield self._make_row(*part.message(pack))
                else:
                    yield self._make_pack(pack, segment)

    def _make_pack(self, pack: Pack, segment: Segment) -> Item:
        if self._failure is not None:
            raise self._failure
        sent: asyncio.Future[MessageId] = self._loop.create_future()
        options = MessageOptions(sequence_id=pack.first)
        item = Item(None, sent, None, options, len(pack.payload), count=pack.count, pack=pack)
        item.aim = segment.id
        return item

    def _make_row(self, data: bytes | None, options: MessageOptions) -> Item:
        if self._failure is not None:
            raise self._failure
        sent: asyncio.Future[MessageId] = self._loop.create_future()
        return Item(data, sent, options.get("key"), options, measure(data, options))

    def _route(self, item: Item) -> None:
        assert item.chosen is not None, "a resumable producer numbers its messages"
        item.number = item.chosen
        pack = item.pack
        if pack is None:
            self._choose(route_of(item.key, item.chosen)).send(item)
            return
        lane = self._aimed(item)
        if lane is not None:
            lane.send(item)
            return
        # The segment it was made for is not there any more: its rows may part.
        sheet, start = pack.source
        rows = [self._make_row(*sheet.message(start + place)) for place in range(pack.count)]
        self._admission.exchange(item, rows)
        for row in rows:
            self._route(row)

    def _aimed(self, item: Item) -> Lane | None:
        """The lane of the segment that a pack was made for, if that still takes messages."""
        if item.lane is not None or item.aim is None:
            return None
        segment = self._watch.layout.by_id.get(item.aim)
        if segment is None or not segment.is_active:
            return None
        return self._lanes.get(segment.id) or self._start_lane(segment)


def route_of(key: str | bytes | None, number: int) -> str:
    return str(number) if key is None else format_key(key)
