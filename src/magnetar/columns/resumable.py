"""A producer that takes up where an earlier one of its name was stopped.

Every message has a number that its application gives, rising from one to the next. A message goes
to the same place from every sender: by its key, or by its number. So what a segment has stored of
the name, up to some number, is exactly what was meant for it up to there, also after the segment
was sealed and its messages go elsewhere.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from magnetar.client.error import ProducerBusyError
from magnetar.client.handle import Enlisting, TransactionHandle, find_enlisting
from magnetar.client.message_id import MessageId
from magnetar.client.outgoing import MessageOptions, Pack, format_key
from magnetar.client.policy import BatchingPolicy
from magnetar.client.producer import AsyncProducer
from magnetar.client.publication import follow_send, measure
from magnetar.client.retry import run_together
from magnetar.client.segment_producer import Item, SegmentProducer
from magnetar.model.segment import Segment, SegmentId

if TYPE_CHECKING:
    from magnetar.columns.sheet import Sheet

T = TypeVar("T")

_BUSY_S: Final = 0.1
_SEALED_S: Final = 3.0
"""How long a layout is awaited that says what follows a sealed segment."""
_NAMES_MAX: Final = 64

LoadStored = Callable[[Collection[SegmentId]], Awaitable[dict[SegmentId, int]]]
"""The last numbers that segments, sealed or not, have of the name, as far as they are known."""
_Identity: TypeAlias = tuple[SegmentId, int, int | None]
OnSent = Callable[[asyncio.Future[MessageId]], None]
_ONE_BY_ONE: Final = BatchingPolicy(max_messages=1)


class AsyncResumableProducer(AsyncProducer[T]):
    """Made by `AsyncBulk.resumable_producer`. Every message needs a `sequence_id`."""

    _ranges: list[tuple[Segment, int]]
    _legacy: list[SegmentId]

    async def open(self) -> None:
        self._ranges, self._legacy = [], []
        self._sealed: OrderedDict[str, dict[_Identity, int]] = OrderedDict()
        await super().open()

    async def resume(self, load_stored: LoadStored) -> None:
        """Take the name on every active segment, then learn what is stored under it.

        In this order: the earlier holder of the name is gone from each of them by then. What a
        sealed segment has never changes: it is asked once for a name.
        """
        await self._take_all()
        layout = self._producers.layout
        known = self._known_of(self.name)
        stored = {s.id: known[found] for s in layout.segments if (found := _identify(s)) in known}
        stored |= await load_stored([s.id for s in layout.segments if s.id not in stored])
        known.update((_identify(s), stored.get(s.id, -1)) for s in layout.segments if s.is_sealed)
        for segment in layout.active:
            made = self._producers.by_segment.get(segment.id)
            if segment.id not in stored and made is not None:
                stored[segment.id] = made.producer.last_sequence_id
        self._legacy = sorted(each.id for each in layout.segments if each.is_legacy)
        self._ranges = [
            (each, stored[each.id]) for each in layout.segments if stored.get(each.id, -1) >= 0
        ]

    def _known_of(self, name: str) -> dict[_Identity, int]:
        known = self._sealed.setdefault(name, {})
        self._sealed.move_to_end(name)
        if len(self._sealed) > _NAMES_MAX:
            self._sealed.popitem(last=False)
        return known

    async def _take_all(self) -> None:
        """One first: of two with the name, the one that has it gets the others too. A segment that
        turns out to be sealed is not in the layout that comes.
        """
        deadline = self._session.clock.monotonic() + _SEALED_S
        while True:
            first, *others = sorted(self._producers.layout.active, key=lambda each: each.id)
            await self._take(first)
            await run_together(map(self._take, others))
            seals = [each.seal for each in self._producers.by_segment.values() if each.seal]
            if not seals:
                return
            if self._session.clock.monotonic() > deadline:
                raise seals[0]
            await self._session.clock.sleep(_BUSY_S)

    async def _take(self, segment: Segment) -> None:
        """Wait while another holds the name: a task that is about to be ended, or its twin."""
        deadline = self._session.clock.monotonic() + self._session.operation_timeout
        made = self._producers.by_segment.get(segment.id)
        if made is not None and (made.is_open or made.seal is not None):
            return
        while True:
            made = self._producers.by_segment.get(segment.id) or self._producers.add(segment)
            try:
                await made.open()
                return
            except ProducerBusyError:
                self._producers.by_segment.pop(segment.id, None)
                await made.close()
                if self._session.clock.monotonic() > deadline:
                    raise
            await self._session.clock.sleep(_BUSY_S)

    @property
    def active(self) -> list[SegmentId]:
        """The segments that take messages."""
        return [segment.id for segment in self._producers.layout.active]

    # ------------------------------------------------------------------ one name after another

    @property
    def is_current(self) -> bool:
        """Whether it knows the layout as it is, and so may go on under another name."""
        return self._producers.failure is None and self._producers.source.is_current

    async def leave(self) -> None:
        """Give the name back once everything is stored; the layout is followed all the same."""
        await self.flush()
        made = [*self._producers.by_segment.values()]
        self._producers.by_segment.clear()
        await run_together(each.close() for each in made)
        self._ranges, self._legacy = [], []

    def take_name(self, name: str) -> None:
        """Go on under another name, after `leave`."""
        self._settings = replace(self._settings, name=name)
        self._producers.settings = self._settings

    # ------------------------------------------------------------------ whole sheets

    def drop_stored(self, sheet: Sheet) -> Sheet:
        """The rows that no earlier producer of the name had stored."""
        if not self._ranges:
            return sheet
        found = sheet.find_stored(
            self._ranges,
            half=self._producers.half,
            legacy=self._legacy,
            hashing=self._producers.key_hash,
        )
        return sheet.take(~found) if found.any() else sheet

    async def submit_sheet(
        self, sheet: Sheet, on_sent: OnSent, transaction: TransactionHandle | None = None
    ) -> None:
        """Send all its rows in the order of their numbers; waits for room only.

        `on_sent` gets the outcome of each entry. Values are encoded already: interceptors
        see none of them.
        """
        enlisting = find_enlisting(transaction)
        items = list(self._pack(sheet, enlisting))
        for item in items:
            follow_send(self._session, item)
            item.sent.add_done_callback(on_sent)
        # All at once: what a change of the layout brings together again is sorted before it goes.
        await self._admission.enter_all(items)

    def _pack(self, sheet: Sheet, transaction: Enlisting | None) -> Iterator[Item]:
        batching = self._settings.batching or _ONE_BY_ONE
        layout = self._producers.layout
        for segment, part in sheet.part(
            layout, half=self._producers.half, hashing=self._producers.key_hash
        ):
            made = self._producers.by_segment.get(segment.id) or self._producers.start(segment)
            packs = part.pack(
                segment.bucket_splits,
                messages_max=batching.max_messages,
                bytes_max=made.producer.batch_bytes_max(batching),
            )
            for pack in packs:
                if isinstance(pack, int):
                    yield self._make_row(transaction, *part.message(pack))
                else:
                    yield self._make_pack(pack, segment, transaction)

    def _make_pack(self, pack: Pack, segment: Segment, transaction: Enlisting | None) -> Item:
        if self._producers.failure is not None:
            raise self._producers.failure
        sent: asyncio.Future[MessageId] = self._loop.create_future()
        options = MessageOptions(sequence_id=pack.first)
        if transaction is not None:
            options["transaction"] = transaction
        item = Item(None, sent, None, options, len(pack.payload), count=pack.count, pack=pack)
        item.aim = segment.id
        return item

    def _make_row(
        self, transaction: Enlisting | None, data: bytes | None, options: MessageOptions
    ) -> Item:
        if self._producers.failure is not None:
            raise self._producers.failure
        if transaction is not None:
            options["transaction"] = transaction
        sent: asyncio.Future[MessageId] = self._loop.create_future()
        return Item(data, sent, options.get("key"), options, measure(data, options))

    def _route(self, item: Item) -> None:
        assert item.chosen is not None, "a resumable producer numbers its messages"
        item.number = item.chosen
        pack = item.pack
        if pack is None:
            self._producers.route(route_of(item.key, item.chosen)).send(item)
            return
        aimed = self._aimed(item)
        if aimed is not None:
            aimed.send(item)
            return
        # The segment it was made for is not there any more: its rows may part.
        sheet, start = pack.source
        places = range(start, start + pack.count)
        rows = [self._make_row(item.transaction, *sheet.message(place)) for place in places]
        self._admission.exchange(item, rows)
        for row in rows:
            self._route(row)

    def _aimed(self, item: Item) -> SegmentProducer | None:
        """The producer of the segment that a pack was made for, if that still takes messages."""
        if item.producer is not None or item.aim is None:
            return None
        segment = self._producers.layout.by_id.get(item.aim)
        if segment is None or not segment.is_active:
            return None
        return self._producers.by_segment.get(segment.id) or self._producers.start(segment)


def _identify(segment: Segment) -> _Identity:
    """A topic that was deleted and made anew has other segments with the same numbers."""
    return segment.id, segment.created_at_ms, segment.sealed_at_ms


def route_of(key: str | bytes | None, number: int) -> str:
    return str(number) if key is None else format_key(key)
