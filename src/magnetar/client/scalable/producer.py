"""The producer on a scalable topic: routes by key, and keeps the order of every key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, Unpack

from magnetar.client.admission import Admission
from magnetar.client.envelope import measure, pack_message
from magnetar.client.error import (
    AlreadyClosedError,
    ProducerFencedError,
    PulsarError,
    PulsarTimeoutError,
    SchemaError,
)
from magnetar.client.handle import Handle
from magnetar.client.publication import ProducerSettings
from magnetar.client.scalable.lane import Item, Lane
from magnetar.client.scalable.layout import LayoutWatch
from magnetar.client.scalable.message_id import MessageId
from magnetar.client.scalable.route import decide_half, route_any, route_key
from magnetar.client.schema.schema import Schema
from magnetar.client.send_option import SendOptions
from magnetar.client.session import Session
from magnetar.client.stats import ProducerStats
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName
from magnetar.model.scalable import LayoutView
from magnetar.model.segment import Segment, SegmentId
from magnetar.rules.route import KeyHash, SegmentHash
from magnetar.runtime.clock import Timer
from magnetar.wire.command import ProducerAccessMode

T = TypeVar("T")

_REFRESH_FACTOR: Final = 10
"""How many first backoffs a sealed segment waits for a layout before the broker is asked."""


@dataclass(frozen=True, slots=True)
class Routing:
    """How keys are placed; without a `half`, as the broker's release does it, and without a
    `legacy`, as the v4 producers of the topic do it.
    """

    half: SegmentHash | None = None
    legacy: KeyHash | None = None


class AsyncScalableProducer(Handle, Generic[T]):
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
        self._refresh_s = _REFRESH_FACTOR * session.policy.backoff.initial
        self._admission: Admission[Item] = Admission(
            session,
            settings,
            name=lambda: self.topic,
            send=self._route,
            explain=self._explain,
        )
        self._refresh_timer: Timer | None = None
        self._failure: PulsarError | None = None
        self._last_sequence_id = -1

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
        admission = self._admission
        return ProducerStats(
            admission.sent, admission.failed, admission.pending, tuple(sorted(self._lanes))
        )

    async def open(self) -> None:
        """Learn the layout; a producer that wants to be alone also takes every segment."""
        try:
            await self._watch.open()
            self._half = self._routing.half or decide_half(self._watch.server_version)
            if self._is_exclusive:
                for segment in self._watch.layout.active:  # in this order: no two wait in a ring
                    await self._add_lane(segment).open()
            elif self._settings.schema is not Schema.BYTES:
                await self._offer_schema()
        except BaseException:
            await self._close_all()
            raise
        self._session.made[self] = None

    async def _offer_schema(self) -> None:
        """One segment tells whether the topic takes the schema; any other trouble is told when
        there is a message to send.
        """
        lane = self._add_lane(self._watch.layout.active[0])
        try:
            await lane.open()
        except SchemaError:
            raise
        except PulsarError:
            self._forget(lane)
            await lane.close()

    async def send(self, value: T | None, **options: Unpack[SendOptions]) -> MessageId:
        """Publish, and return the id once the broker has stored it; waits while too many wait.

        None is a tombstone: on a compacted topic it deletes what its key had.
        """
        return await self.begin_send(value, options)

    async def submit(
        self, value: T | None, **options: Unpack[SendOptions]
    ) -> asyncio.Future[MessageId]:
        """Wait for room only, and return the future of the id: many sends on their way at once.

        One that fails is told by its future, and by `flush`.
        """
        item = self._make(value, options)
        item.is_submitted = True
        if not self._admission.try_enter(item):
            await self._wait_for_room(item)
        return item.sent

    def begin_send(self, value: T | None, options: SendOptions) -> asyncio.Future[MessageId]:
        """As `send`, and not to be batched with others if none is on its way."""
        item = self._make(value, options)
        if self._admission.try_enter(item):
            self._hurry(item)
        elif self._waits_for_room:
            self._admission.enter_later(item)
        else:
            raise self._admission.full()
        return item.sent

    def _hurry(self, item: Item) -> None:
        if item.lane is not None:
            item.lane.producer.hurry()

    def send_nowait(
        self, value: T | None, **options: Unpack[SendOptions]
    ) -> asyncio.Future[MessageId]:
        """Publish without waiting for anything; raises QueueFullError when too many wait."""
        item = self._make(value, options)
        item.is_submitted = True
        if not self._admission.try_enter(item):
            raise self._admission.full()
        return item.sent

    async def flush(self) -> None:
        """Wait until everything sent before is stored or has failed.

        Raises SendFailedError when a message that was submitted since the last flush has failed.
        """
        await self._settle(None)
        if (failures := self._admission.take_failures()) is not None:
            raise failures from failures.first

    async def close(self) -> None:
        """Flush and leave; what is not confirmed by the operation timeout fails."""
        if isinstance(self._failure, AlreadyClosedError):
            return
        if self._failure is None:
            self._failure = AlreadyClosedError(f"The producer on {self.topic} is closed")
            if not self._session.is_ending_now:
                await self._settle(self._session.operation_timeout)
        self._failure = AlreadyClosedError(f"The producer on {self.topic} is closed")
        self._session.made.pop(self, None)
        await self._close_all()

    @property
    def _is_exclusive(self) -> bool:
        return self._settings.access_mode != ProducerAccessMode.Shared

    def _make(self, value: T | None, options: SendOptions) -> Item:
        if self._failure is not None:
            raise self._failure
        data, packed = pack_message(self._settings, self.topic, value, options, self._session.clock)
        sent: asyncio.Future[MessageId] = self._loop.create_future()
        return Item(data, sent, packed.get("key"), packed, measure(data, packed))

    async def _wait_for_room(self, item: Item) -> None:
        if not self._waits_for_room:
            raise self._admission.full()
        await self._admission.enter(item)

    def _explain(self, item: Item) -> PulsarError:
        """Why it is late."""
        seal = item.lane.seal if item.lane is not None else None
        return seal or PulsarTimeoutError(f"No receipt from {self.topic} in time")

    # ------------------------------------------------------------------ routing

    def _route(self, item: Item) -> None:
        self._choose(None if item.key is None else item.route).send(item)

    def _choose(self, key: str | None) -> Lane:
        layout = self._watch.layout
        if key is None and len(layout.active) == 1:
            segment = layout.active[0]
        elif key is None:
            segment = route_any(layout, self._next_turn(layout))
        else:
            segment = route_key(layout, key, half=self._half, legacy=self._key_hash)
        return self._lanes.get(segment.id) or self._start_lane(segment)

    @property
    def _key_hash(self) -> KeyHash:
        """How keys are placed on partitions; as the proposal says when the broker cannot tell."""
        told = self._watch.view.key_hash
        return self._routing.legacy or (
            KeyHash(told) if told in frozenset(KeyHash) else KeyHash.MURMUR3
        )

    def _next_turn(self, layout: Layout) -> int:
        batching = self._settings.batching
        if batching is None:
            self._turn += 1
            return self._turn
        # Stay on a segment for the time of a batch, so that there are batches at all.
        return int(self._session.clock.monotonic() / batching.max_delay)

    def _start_lane(self, segment: Segment) -> Lane:
        lane = self._add_lane(segment)
        lane.start()
        return lane

    def _add_lane(self, segment: Segment) -> Lane:
        lane = Lane(
            self._session,
            self,
            self._watch.topic,
            segment,
            self._settings,
            self._admission,
            before=self._ending,
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
                self._route(item)
        for other in (*self._lanes.values(), *self._ending):
            other.unblock(lane)
            other.flush()
        self._session.scope.start(lane.close(), f"close {lane.producer.topic}")

    def on_lane_sealed(self, lane: Lane) -> None:
        if self._refresh_timer is None:
            self._refresh_timer = self._session.clock.call_later(self._refresh_s, self._refresh)

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
            self._refresh_timer = self._session.clock.call_later(self._refresh_s, self._refresh)

    # ------------------------------------------------------------------ ending

    async def _settle(self, timeout: float | None) -> None:
        for lane in self._lanes.values():
            lane.flush()
        await self._admission.drain(timeout)

    async def _close_all(self) -> None:
        if self._refresh_timer is not None:
            self._refresh_timer.cancel()
        self._watch.close()
        failure = self._failure or AlreadyClosedError(f"The producer on {self.topic} is closed")
        lanes = (*self._lanes.values(), *self._ending)
        for lane in lanes:
            lane.fail(failure)
        self._admission.close(failure)
        for lane in lanes:
            await lane.close()
