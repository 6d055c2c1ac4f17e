"""Rings when there may be something new, so that a trigger with nothing to read asks nobody.

It listens from the ends that a look has found: whatever came since that look, also before the bell
was hung, rings it. Silence is trusted for a few seconds only, since not everything is told: a topic
that is new in a namespace, or messages that were trimmed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import PulsarError, PulsarTimeoutError
from magnetar.client.message_id import EARLIEST, MessageId
from magnetar.client.scalable.layout import AsyncLayoutChanges
from magnetar.model.layout import Layout
from magnetar.spark.offset import BEFORE_ALL
from magnetar.spark.option import Broker
from magnetar.spark.plan import SegmentView, TopicView
from magnetar.spark.survey import make_client

_LISTENERS_MAX: Final = 64
"""So many segments are listened to; with more, every trigger looks."""
_REST_S: Final = 30.0
_TAKE_S: Final = 3600.0
_STOP_S: Final = 10.0
_WINDOW: Final = "64KB"


class _Rung(Exception):
    """Something came."""


class Bell:
    """For one query. A thread of its own listens; nothing here waits for it but `close`."""

    def __init__(self, broker: Broker, *, trust_s: float) -> None:
        self._broker = broker
        self._trust_s = trust_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bell", daemon=True)
        self._thread.start()
        self._client: AsyncPulsarClient | None = None
        self._listening: Future[None] | None = None
        self._round: object | None = None
        self._hung: object | None = None
        """The round whose listeners are all in their places."""
        self._until = 0.0
        self._rests_until = 0.0
        self._segments: Mapping[str, Mapping[int, bool]] = {}

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come since the look it was hung with."""
        is_hung = self._round is not None and self._hung is self._round
        return is_hung and time.monotonic() < self._until

    @property
    def is_resting(self) -> bool:
        """Whether it could not listen a short time ago, and so does not try."""
        return time.monotonic() < self._rests_until

    def hang(self, views: Mapping[str, TopicView]) -> None:
        """Listen from here on, as soon as that can be; or trust the silence once more."""
        self._until = time.monotonic() + self._trust_s
        if self.is_resting:
            return
        segments = {name: _segments_of(view) for name, view in views.items()}
        if self._listening is not None and not self._listening.done():
            if segments == self._segments:
                return
            self.take_down()
        self._segments = segments
        if sum(map(_count_open, views.values())) <= _LISTENERS_MAX:
            self._round = object()
            body = self._listen(self._round, tuple(views.values()))
            self._listening = asyncio.run_coroutine_threadsafe(body, self._loop)

    def take_down(self) -> None:
        """The ends it listens from are old."""
        self._round = None
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    def close(self) -> None:
        self.take_down()
        asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result(_STOP_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)
        self._loop.close()

    async def _leave(self) -> None:
        if self._client is not None:
            await self._client.close(immediate=True)

    async def _listen(self, round: object, views: tuple[TopicView, ...]) -> None:
        if self._client is None:
            self._client = make_client(self._broker)
        hung = _Hung(sum(1 + _count_open(view) for view in views))
        try:
            async with asyncio.TaskGroup() as tasks:
                for view in views:
                    tasks.create_task(self._hear_layout(self._client, view, hung))
                    for segment in view.segments:
                        if not segment.is_sealed:
                            tasks.create_task(self._hear_entry(self._client, segment, hung))
                await hung.wait()
                self._hung = round
        except* _Rung:
            pass  # the next trigger looks for itself
        except* PulsarError:
            self._rests_until = time.monotonic() + _REST_S
        finally:
            if self._hung is round:
                self._hung = None

    async def _hear_layout(self, client: AsyncPulsarClient, view: TopicView, hung: _Hung) -> None:
        changes: AsyncLayoutChanges
        async with client.layout_changes(view.label) as changes:
            async for change in changes:
                if not _is_same(change.after, view):
                    raise _Rung
                hung.add()

    async def _hear_entry(
        self, client: AsyncPulsarClient, segment: SegmentView, hung: _Hung
    ) -> None:
        end = segment.end
        start = EARLIEST if end == BEFORE_ALL else MessageId(end.ledger, end.entry + 1)
        async with client.bulk.entry_reader(segment.topic, start=start, window=_WINDOW) as reader:
            hung.add()
            while True:
                try:
                    await reader.take(_TAKE_S)
                except PulsarTimeoutError:
                    continue
                raise _Rung


class _Hung:
    """Waits until every listener is in its place."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._ready = asyncio.Event()

    def add(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._ready.set()

    async def wait(self) -> None:
        await self._ready.wait()


def _count_open(view: TopicView) -> int:
    return sum(not segment.is_sealed for segment in view.segments)


def _segments_of(view: TopicView) -> Mapping[int, bool]:
    """The segments that the query has seen, and which of them are sealed."""
    return {segment.id: segment.is_sealed for segment in view.segments}


def _is_same(layout: Layout, view: TopicView) -> bool:
    told = {int(segment.id): segment.is_sealed for segment in layout.segments}
    return told == _segments_of(view)
