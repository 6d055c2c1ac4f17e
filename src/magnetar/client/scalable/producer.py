"""The producer on a scalable topic: routes by key, and keeps the order of every key."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, Self, TypeVar, Unpack

from magnetar.client.envelope import measure, pack_message
from magnetar.client.error import (
    AlreadyClosedError,
    ProducerFencedError,
    PulsarError,
    PulsarTimeoutError,
    QueueFullError,
)
from magnetar.client.interceptor import tell_sent
from magnetar.client.outgoing import format_key
from magnetar.client.publication import ProducerSettings
from magnetar.client.scalable.lane import Item, Lane
from magnetar.client.scalable.layout import LayoutWatch
from magnetar.client.scalable.message_id import MessageId
from magnetar.client.scalable.route import decide_half, route_any, route_key
from magnetar.client.send_option import SendOptions
from magnetar.client.session import Session
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName
from magnetar.model.scalable import LayoutView
from magnetar.model.segment import Segment, SegmentId
from magnetar.rules.route import KeyHash, SegmentHash
from magnetar.wire.command import ProducerAccessMode

T = TypeVar("T")

_REFRESH_FACTOR: Final = 10
"""How many first backoffs a sealed segment waits for a layout before the broker is asked."""


@dataclass(frozen=True, slots=True)
class Routing:
    """How keys are placed; without a `half`, as the broker's release does it."""

    half: SegmentHash | None = None
    legacy: KeyHash = KeyHash.MURMUR3


@dataclass(frozen=True, slots=True)
class ProducerStats:
    sent: int
    failed: int
    pending: int
    segments: tuple[SegmentId, ...] = field(default=())
    """Where it has a producer now."""


class AsyncScalableProducer(Generic[T]):
    """Made by `client.producer`; use it as an async context manager.

    Every send resolves once: with the id of the stored message, or with the reason why there is
    none. Messages of one key are stored in the order of the calls, also when they are not awaited
    one by one and the topic's segments split, merge or move meanwhile.
    """

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        settings: ProducerSettings,
        routing: Routing,
        *,
        waits_for_room: bool = True,
    ) -> None:
        self._session = session
        self._settings = settings
        self._routing = routing
        self._waits_for_room = waits_for_room
        self._loop = asyncio.get_running_loop()
        self._watch = LayoutWatch(session, topic, on_change=self._on_layout)
        self._half = SegmentHash.LOW
        self._lanes: dict[SegmentId, Lane] = {}
        self._ending: list[Lane] = []
        self._turn = 0
        self._calls = 0
        self._refresh_s = _REFRESH_FACTOR * session.policy.backoff_first
        self._room = settings.max_pending_messages
        self._entry: deque[tuple[Item, asyncio.Future[None]]] = deque()
        self._vacated = asyncio.Event()
        self._admitting: asyncio.Task[None] | None = None
        self._unresolved: set[asyncio.Future[MessageId]] = set()
        self._due: deque[Item] = deque()
        self._due_timer: asyncio.TimerHandle | None = None
        self._refresh_timer: asyncio.TimerHandle | None = None
        self._failure: PulsarError | None = None
        self._last_sequence_id = -1
        self._sent = self._failed = 0

    @property
    def topic(self) -> str:
        """The `topic://` name."""
        return self._watch.topic.full

    @property
    def name(self) -> str:
        assert self._settings.name is not None
        return self._settings.name

    @property
    def last_sequence_id(self) -> int:
        """The highest one confirmed; -1, or the initial one, before that."""
        known = [lane.producer.last_sequence_id for lane in (*self._lanes.values(), *self._ending)]
        initial = self._settings.initial_sequence_id
        return max([self._last_sequence_id, -1 if initial is None else initial, *known])

    @property
    def stats(self) -> ProducerStats:
        pending = len(self._unresolved) + len(self._entry)
        return ProducerStats(self._sent, self._failed, pending, tuple(sorted(self._lanes)))

    async def open(self) -> None:
        """Learn the layout; a producer that wants to be alone also takes every segment."""
        try:
            await self._watch.open()
            self._half = self._routing.half or decide_half(self._watch.server_version)
            if self._is_exclusive:
                for segment in self._watch.layout.active:  # in this order: no two wait in a ring
                    await self._add_lane(segment).open()
        except BaseException:
            await self._close_all()
            raise
        self._session.made[self] = None

    async def send(self, value: T | None, **options: Unpack[SendOptions]) -> MessageId:
        """Publish, and return the id once the broker has stored it; waits while too many wait.

        None is a tombstone: on a compacted topic it deletes what its key had.
        """
        return await (await self.submit(value, **options))

    async def submit(
        self, value: T | None, **options: Unpack[SendOptions]
    ) -> asyncio.Future[MessageId]:
        """Wait for room only, and return the future of the id: many sends on their way at once."""
        item = self._make(value, options)
        if self._try_enter(item):
            return item.sent
        if not self._waits_for_room:
            raise self._full()
        place: asyncio.Future[None] = self._loop.create_future()
        self._entry.append((item, place))
        if self._admitting is None or self._admitting.done():
            self._admitting = self._session.scope.start(self._admit(), f"room on {self.topic}")
        try:
            await place
        except asyncio.CancelledError:
            item.sent.cancel()
            raise
        return item.sent

    def send_nowait(
        self, value: T | None, **options: Unpack[SendOptions]
    ) -> asyncio.Future[MessageId]:
        """Publish without waiting for anything; raises QueueFullError when too many wait."""
        item = self._make(value, options)
        if not self._try_enter(item):
            raise self._full()
        return item.sent

    async def flush(self) -> None:
        """Wait until everything sent before is stored or has failed."""
        await self._settle(None)

    async def close(self) -> None:
        """Flush and leave; what is not confirmed by the operation timeout fails."""
        if isinstance(self._failure, AlreadyClosedError):
            return
        if self._failure is None:
            self._failure = AlreadyClosedError(f"The producer on {self.topic} is closed")
            await self._settle(self._session.operation_timeout)
        self._failure = AlreadyClosedError(f"The producer on {self.topic} is closed")
        self._session.made.pop(self, None)
        await self._close_all()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _is_exclusive(self) -> bool:
        return self._settings.access_mode != ProducerAccessMode.Shared

    def _make(self, value: T | None, options: SendOptions) -> Item:
        if self._failure is not None:
            raise self._failure
        now_ms = self._session.clock.now_ms()
        data, packed = pack_message(self._settings, self.topic, value, options, now_ms=now_ms)
        key = packed.get("key")
        return Item(
            data,
            -1,
            self._loop.create_future(),
            key,
            packed.get("ordering_key"),
            packed.get("properties", {}),
            packed.get("event_time_ms"),
            packed.get("deliver_at_ms"),
            packed.get("replicate_to", ()),
            route=None if key is None else format_key(key),
            chosen=packed.get("sequence_id"),
            held_bytes=measure(data, packed),
        )

    def _full(self) -> QueueFullError:
        limit = self._settings.max_pending_messages
        return QueueFullError(f"{limit} messages wait for their receipts already")

    def _try_enter(self, item: Item) -> bool:
        """Calls that wait enter first, in their order."""
        if self._room <= 0 or self._entry or not self._session.memory.try_take(item.held_bytes):
            return False
        self._enter(item)
        return True

    async def _admit(self) -> None:
        """Let those in who wait, one after the other, as room and memory come free."""
        while self._entry:
            item, place = self._entry[0]
            if not place.done() and self._room <= 0:
                self._vacated.clear()
                await self._vacated.wait()
                continue
            if not place.done():
                await self._session.memory.take(item.held_bytes)
                if place.done():  # given up meanwhile
                    self._session.memory.give(item.held_bytes)
            self._entry.popleft()
            if not place.done():
                place.set_result(None)
                self._enter(item)

    def _enter(self, item: Item) -> None:
        """Room and memory are taken; both come back when the send is resolved."""
        self._room -= 1
        self._calls += 1
        item.number = self._calls
        self._unresolved.add(item.sent)
        item.sent.add_done_callback(partial(self._on_resolved, item.held_bytes))
        timeout = self._settings.send_timeout
        if timeout > 0:
            item.expires_at = self._loop.time() + timeout
            self._due.append(item)
            if self._due_timer is None:
                self._due_timer = self._loop.call_at(item.expires_at, self._expire)
        self._choose(item.route).send(item)

    def _on_resolved(self, held_bytes: int, sent: asyncio.Future[MessageId]) -> None:
        self._unresolved.discard(sent)
        self._room += 1
        self._session.memory.give(held_bytes)
        self._vacated.set()
        error = None if sent.cancelled() else sent.exception()
        if sent.cancelled() or error is not None:
            self._failed += 1
        else:
            self._sent += 1
        if self._settings.interceptors and not sent.cancelled():
            id = None if error is not None else sent.result()
            tell_sent(self._settings.interceptors, self.topic, id, error)
        while self._due and self._due[0].sent.done():
            self._due.popleft()

    def _expire(self) -> None:
        self._due_timer = None
        now = self._loop.time()
        while self._due and (self._due[0].sent.done() or self._due[0].expires_at <= now):
            item = self._due.popleft()
            if not item.sent.done():
                seal = item.lane.seal if item.lane is not None else None
                late = PulsarTimeoutError(f"No receipt from {self.topic} in time")
                item.sent.set_exception(seal or late)
        if self._due:
            self._due_timer = self._loop.call_at(self._due[0].expires_at, self._expire)

    # ------------------------------------------------------------------ routing

    def _choose(self, key: str | None) -> Lane:
        layout = self._watch.layout
        if key is None:
            segment = route_any(layout, self._next_turn(layout))
        else:
            routing = self._routing
            segment = route_key(layout, key, half=self._half, legacy=routing.legacy)
        return self._lanes.get(segment.id) or self._start_lane(segment)

    def _next_turn(self, layout: Layout) -> int:
        batching = self._settings.batching
        if batching is None or len(layout.active) == 1:
            self._turn += 1
            return self._turn
        # Stay on a segment for the time of a batch, so that there are batches at all.
        return int(self._loop.time() / batching.max_delay)

    def _start_lane(self, segment: Segment) -> Lane:
        lane = self._add_lane(segment)
        lane.start()
        return lane

    def _add_lane(self, segment: Segment) -> Lane:
        lane = Lane(
            self._session, self, self._watch.topic, segment, self._settings, before=self._ending
        )
        self._lanes[segment.id] = lane
        return lane

    def _on_layout(self, view: LayoutView) -> None:
        active = {segment.id: segment for segment in view.layout.active}
        gone = [
            lane
            for number, lane in self._lanes.items()
            if number not in active or active[number].is_legacy != lane.segment.is_legacy
        ]
        for lane in gone:
            del self._lanes[lane.segment.id]
        self._ending += gone  # all of them, before the first hands on what it has
        for lane in gone:
            lane.end()
        if self._is_exclusive and self._failure is None:
            for segment in view.layout.active:
                if segment.id not in self._lanes:
                    self._start_lane(segment)

    def on_lane_ended(self, lane: Lane, items: Iterable[Item]) -> None:
        self._forget(lane)
        for item in items:
            if not item.sent.done():
                self._choose(item.route).send(item)
        for other in (*self._lanes.values(), *self._ending):
            other.unblock(lane)
            other.flush()
        self._session.scope.start(lane.close(), f"close {lane.producer.topic}")

    def on_lane_sealed(self, lane: Lane) -> None:
        if self._refresh_timer is None:
            self._refresh_timer = self._loop.call_later(self._refresh_s, self._refresh)

    def on_lane_failed(self, lane: Lane, failure: PulsarError) -> None:
        """Forgotten, so that the next message tries again; unless another producer took over."""
        self._forget(lane)
        if isinstance(failure, ProducerFencedError) and self._failure is None:
            self._failure = failure
            for each in self._lanes.values():
                each.fail(failure)

    def _forget(self, lane: Lane) -> None:
        self._last_sequence_id = max(self._last_sequence_id, lane.producer.last_sequence_id)
        if self._lanes.get(lane.segment.id) is lane:
            del self._lanes[lane.segment.id]
        if lane in self._ending:
            self._ending.remove(lane)

    def _refresh(self) -> None:
        self._refresh_timer = None
        if any(lane.seal is not None for lane in self._lanes.values()):
            self._watch.refresh()
            self._refresh_timer = self._loop.call_later(self._refresh_s, self._refresh)

    # ------------------------------------------------------------------ ending

    async def _settle(self, timeout: float | None) -> None:
        pending = [*self._unresolved, *(item.sent for item, _ in self._entry)]
        for lane in self._lanes.values():
            lane.flush()
        if pending:
            await asyncio.wait(pending, timeout=timeout)

    async def _close_all(self) -> None:
        for timer in (self._due_timer, self._refresh_timer):
            if timer is not None:
                timer.cancel()
        self._watch.close()
        failure = self._failure or AlreadyClosedError(f"The producer on {self.topic} is closed")
        lanes = (*self._lanes.values(), *self._ending)
        for lane in lanes:
            lane.fail(failure)
        if self._admitting is not None:
            self._admitting.cancel()
        for item, place in self._entry:
            if not place.done():
                place.set_exception(failure)
            item.sent.cancel()
        self._entry.clear()
        for sent in tuple(self._unresolved):
            if not sent.done():
                sent.set_exception(failure)
        for lane in lanes:
            await lane.close()
