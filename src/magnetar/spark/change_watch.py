"""Notices that there may be something new, so that a trigger with nothing to read sends no request.

It listens from the ends that a survey has found: what came since that survey, also before the watch
was started, counts. "Unchanged" is trusted for a few seconds only, since some changes are not
pushed: a topic that is new in a namespace, or messages that were trimmed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from magnetar import (
    EARLIEST_ID,
    AsyncLayoutChanges,
    AsyncPulsarClient,
    MessageId,
    PulsarError,
    PulsarTimeoutError,
)
from magnetar.columns import AsyncBulk
from magnetar.model.layout import Layout
from magnetar.spark.offset import BEFORE_ALL
from magnetar.spark.option import Broker
from magnetar.spark.plan import SegmentView, TopicView
from magnetar.spark.pool import make_client

_LISTENERS_MAX: Final = 64
"""So many segments are listened to; with more, every trigger looks."""
_SUSPENDED_S: Final = 30.0
_TAKE_S: Final = 3600.0
_STOP_S: Final = 10.0
_WINDOW: Final = "64KB"


class _Changed(Exception):
    """Something came."""


class ChangeWatch:
    """For one query. A thread of its own listens; nothing here waits for it but `close`."""

    def __init__(self, broker: Broker, *, trust_s: float) -> None:
        self._broker = broker
        self._trust_s = trust_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="change watch", daemon=True
        )
        self._thread.start()
        self._client: AsyncPulsarClient | None = None
        self._listening: Future[None] | None = None
        self._round: object | None = None
        self._ready: object | None = None
        """The round whose listeners are all attached."""
        self._until = 0.0
        self._suspended_until = 0.0
        self._segments: Mapping[str, Mapping[int, bool]] = {}

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing has come since the survey it was started with."""
        is_ready = self._round is not None and self._ready is self._round
        return is_ready and time.monotonic() < self._until

    @property
    def is_suspended(self) -> bool:
        """Whether it failed to listen a short time ago, and so does not try."""
        return time.monotonic() < self._suspended_until

    def start(self, views: Mapping[str, TopicView]) -> None:
        """Listen from here on as soon as possible; or trust it for another while."""
        self._until = time.monotonic() + self._trust_s
        if self.is_suspended:
            return
        segments = {name: _segments_of(view) for name, view in views.items()}
        if self._listening is not None and not self._listening.done():
            if segments == self._segments:
                return
            self.stop()
        self._segments = segments
        if sum(map(_count_open, views.values())) <= _LISTENERS_MAX:
            self._round = object()
            body = self._listen(self._round, tuple(views.values()))
            self._listening = asyncio.run_coroutine_threadsafe(body, self._loop)

    def stop(self) -> None:
        """The ends it listens from are old."""
        self._round = None
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    def close(self) -> None:
        self.stop()
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
        ready = _Latch(sum(1 + _count_open(view) for view in views))
        try:
            async with asyncio.TaskGroup() as tasks:
                for view in views:
                    tasks.create_task(self._watch_layout(self._client, view, ready))
                    for segment in view.segments:
                        if not segment.is_final:
                            tasks.create_task(self._watch_entries(self._client, segment, ready))
                await ready.wait()
                self._ready = round
        except* _Changed:
            pass  # the next trigger makes a survey
        except* PulsarError:
            self._suspended_until = time.monotonic() + _SUSPENDED_S
        finally:
            if self._ready is round:
                self._ready = None

    async def _watch_layout(
        self, client: AsyncPulsarClient, view: TopicView, ready: _Latch
    ) -> None:
        changes: AsyncLayoutChanges
        async with client.layout_changes(view.label) as changes:
            async for change in changes:
                if not _is_same(change.after, view):
                    raise _Changed
                ready.add()

    async def _watch_entries(
        self, client: AsyncPulsarClient, segment: SegmentView, ready: _Latch
    ) -> None:
        end = segment.end
        start = EARLIEST_ID if end == BEFORE_ALL else MessageId(end.ledger, end.entry + 1)
        async with AsyncBulk(client).entry_reader(
            segment.topic, start=start, window=_WINDOW
        ) as reader:
            ready.add()
            while True:
                try:
                    await reader.take(_TAKE_S)
                except PulsarTimeoutError:
                    continue
                raise _Changed


class _Latch:
    """Waits until every listener is attached."""

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
    return sum(not segment.is_final for segment in view.segments)


def _segments_of(view: TopicView) -> Mapping[int, bool]:
    """The segments that the query has seen, and which of them are sealed."""
    return {segment.id: segment.is_sealed for segment in view.segments}


def _is_same(layout: Layout, view: TopicView) -> bool:
    told = {int(segment.id): segment.is_sealed for segment in layout.segments}
    return told == _segments_of(view)
