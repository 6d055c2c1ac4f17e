"""Readers of entries over the wire, on a loop that runs only while a task waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from magnetar import AsyncPulsarClient, MessageId, Opening
from magnetar.columns import AsyncBulk, AsyncEntryReader, StoredEntry
from magnetar.spark.option import Broker
from magnetar.spark.pool import POOL, Link
from magnetar.spark.slice import Slice

PATIENCE: Final = 3
"""How often nothing may come, each time for a third of the operation timeout."""
_AHEAD: Final = 64
"""So many readers are open at once, where slices are small."""
_WINDOW_MIN: Final = 64 << 10


class Opened(NamedTuple):
    """What a reader reads, from where on."""

    topic: str
    start: MessageId


class Wire:
    """A link to the broker, borrowed when first needed."""

    def __init__(self, broker: Broker, window_bytes: int) -> None:
        self._broker = broker
        self.window_bytes = window_bytes
        self._link: Link | None = None
        self._open: set[AsyncEntryReader] = set()

    def open(self, topic: str, start: MessageId) -> AsyncEntryReader:
        place = Opened(topic, start)
        found = self.open_all({place: self.window_bytes})[place]
        if isinstance(found, BaseException):
            raise found
        return found

    def open_all(
        self, windows: Mapping[Opened, int]
    ) -> dict[Opened, AsyncEntryReader | BaseException]:
        """Several readers at once, each with its window, or why it cannot be opened."""

        async def body(client: AsyncPulsarClient) -> list[AsyncEntryReader | BaseException]:
            opening = (
                _wait(AsyncBulk(client).entry_reader(each.topic, start=each.start, window=window))
                for each, window in windows.items()
            )
            return await asyncio.gather(*opening, return_exceptions=True)

        if self._link is None:
            self._link = POOL.borrow(self._broker)
        found = self._link.run(body)
        self._open.update(each for each in found if isinstance(each, AsyncEntryReader))
        return dict(zip(windows, found, strict=True))

    def take(self, reader: AsyncEntryReader) -> list[StoredEntry]:
        assert self._link is not None, "the reader was opened there"
        return self._link.step(reader.take(self._broker.timeout_s / PATIENCE))

    def close_all(self, readers: Iterable[AsyncEntryReader]) -> None:
        async def body() -> None:
            await asyncio.gather(*(reader.close() for reader in closing))

        closing = list(readers)
        assert self._link is not None, "the readers were opened there"
        self._link.step(body())
        self._open.difference_update(closing)

    def close(self) -> None:
        """A link with readers that could not be closed is not for another task."""
        link, self._link = self._link, None
        if link is not None:
            if self._open:
                link.close()
            else:
                POOL.give_back(link)


async def _wait(opening: Opening[AsyncEntryReader]) -> AsyncEntryReader:
    return await opening


class ReadersAhead:
    """Readers of small slices, opened and closed many at once: over many segments with little in
    each, one after the other would wait for the broker most of the time. Their windows together are
    no larger than that of the one reader that a large slice has.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._window_bytes = wire.window_bytes
        self._coming: Sequence[Slice] = ()
        self._opened: dict[Opened, AsyncEntryReader | BaseException] = {}
        self._read: list[AsyncEntryReader] = []

    def expect(self, slices: Sequence[Slice]) -> None:
        """What will be read, in this order."""
        self._coming = slices

    def open(self, piece: Slice, start: MessageId) -> AsyncEntryReader:
        place = Opened(piece.topic, start)
        if place not in self._opened:
            self.close()
            self._opened = self._wire.open_all(self._choose(piece, place))
        found = self._opened.pop(place)
        if isinstance(found, BaseException):
            raise found
        self._read.append(found)
        return found

    def _choose(self, piece: Slice, place: Opened) -> dict[Opened, int]:
        """The slice, and those after it that are small."""
        if piece not in self._coming or _window(piece) > self._window_bytes // _AHEAD:
            return {place: self._window_bytes}
        chosen = {place: _window(piece)}
        after = self._coming.index(piece) + 1
        for each in self._coming[after : after + _AHEAD - 1]:
            if each.is_counted and each.spans and _window(each) <= self._window_bytes // _AHEAD:
                first = each.spans[0]
                chosen[Opened(each.topic, MessageId(first.ledger, first.first))] = _window(each)
        return chosen

    def close(self) -> None:
        left = (each for each in self._opened.values() if not isinstance(each, BaseException))
        if readers := [*self._read, *left]:
            self._wire.close_all(readers)
        self._read, self._opened = [], {}


def _window(piece: Slice) -> int:
    """Sizes are estimates; a window that is too small costs a moment."""
    return max(_WINDOW_MIN, 2 * piece.size)
