"""One producer for each segment of a topic, while the layout changes: routes messages by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from magnetar.client.admission import SendCompletion
from magnetar.client.error import (
    ProducerFencedError,
    PulsarError,
    SchemaError,
    TopicTerminatedError,
)
from magnetar.client.layout import TopicLayout, decide_half, open_layout, route_any, route_key
from magnetar.client.publication import ProducerSettings
from magnetar.client.retry import run_together
from magnetar.client.schema.schema import Schema
from magnetar.client.segment_producer import Item, SegmentProducer
from magnetar.client.session import Session
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName
from magnetar.model.scalable import LayoutView
from magnetar.model.segment import Segment, SegmentId
from magnetar.rules.route import KeyHash, SegmentHash
from magnetar.runtime.clock import Timer
from magnetar.wire.command import ProducerAccessMode

_REFRESH_FACTOR: Final = 10
"""How many first backoffs a sealed segment waits for a layout before the broker is asked."""
_CONFIRMATIONS: Final = 2
"""A topic that becomes scalable has its layout before it is sealed: a regular one that is sealed is
terminated if the broker still tells of no layout. The first answer may have been on the way; the
second is asked for after a refresh, so that a broker whose metadata lags has time to follow."""


@dataclass(frozen=True, slots=True)
class Routing:
    """How keys are placed; without a `half`, as the broker's release does it, and without
    `partitions`, as the other producers of a regular topic do it.
    """

    half: SegmentHash | None = None
    partitions: KeyHash | None = None


class ProducerSet:
    """Opened with the first message to a segment; on a regular topic, and for a producer that is
    alone on its topic, all of them at once. One that keeps its sequence may have to wait for an
    earlier holder of its name, and takes them itself.
    """

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        settings: ProducerSettings,
        routing: Routing,
        completion: SendCompletion,
        *,
        resend: Callable[[Item], None],
    ) -> None:
        """`resend` gets what a segment that is not active any more did not store."""
        self.failure: PulsarError | None = None
        """Why nothing more is sent."""
        self.by_segment: dict[SegmentId, SegmentProducer] = {}
        self.layout: Layout
        self.half = SegmentHash.LOW
        self.key_hash = KeyHash.MURMUR3
        """How keys are placed on partitions; as the proposal says when the broker cannot tell."""
        self._session = session
        self.settings = settings
        self._asked = topic
        self._routing = routing
        self._completion = completion
        self._resend = resend
        self._source: TopicLayout | None = None
        self._ending: list[SegmentProducer] = []
        self._turn = 0
        self._refresh_s = _REFRESH_FACTOR * session.policy.backoff.initial
        self._refresh_timer: Timer | None = None
        self._last_sequence_id = -1

    @property
    def source(self) -> TopicLayout:
        assert self._source is not None, "it is open"
        return self._source

    @property
    def topic(self) -> str:
        return self._asked.full if self._source is None else self._source.name

    @property
    def last_sequence_id(self) -> int:
        known = [each.producer.last_sequence_id for each in self._all]
        initial = self.settings.initial_sequence_id
        return max([self._last_sequence_id, -1 if initial is None else initial, *known])

    @property
    def _all(self) -> tuple[SegmentProducer, ...]:
        return (*self.by_segment.values(), *self._ending)

    @property
    def _is_exclusive(self) -> bool:
        return self.settings.access_mode != ProducerAccessMode.Shared

    async def open(self) -> None:
        self._source = await open_layout(
            self._session, self._asked, on_change=self._on_layout, on_told=self._on_told
        )
        self.half = self._routing.half or decide_half(self._source.server_version)
        self._adopt(self._source.view)
        layout = self.layout
        if self._is_exclusive:
            for segment in layout.active:  # in this order: no two wait in a ring
                await self.add(segment).open()
        elif layout.is_synthetic and not self.settings.keeps_sequence:
            await run_together(self.add(segment).open() for segment in layout.active)
        elif self.settings.schema is not Schema.BYTES:
            await self._offer_schema()

    async def _offer_schema(self) -> None:
        """One segment tells whether the topic takes the schema; any other trouble is reported when
        there is a message to send.
        """
        first = self.add(self.layout.active[0])
        try:
            await first.open()
        except SchemaError:
            raise
        except PulsarError:
            self._forget(first)
            await first.close()

    def route(self, key: str | None) -> SegmentProducer:
        layout = self.layout
        if key is None and len(layout.active) == 1:
            segment = layout.active[0]
        elif key is None:
            segment = route_any(layout, self._next_turn())
        else:
            segment = route_key(layout, key, half=self.half, legacy=self.key_hash)
        return self.by_segment.get(segment.id) or self.start(segment)

    def _next_turn(self) -> int:
        batching = self.settings.batching
        if batching is None:
            self._turn += 1
            return self._turn
        # Stay on a segment for the time of a batch, so that there are batches at all.
        return int(self._session.clock.monotonic() / batching.max_delay)

    def start(self, segment: Segment) -> SegmentProducer:
        """Open on the side."""
        added = self.add(segment)
        added.start()
        return added

    def add(self, segment: Segment) -> SegmentProducer:
        made = SegmentProducer(
            self._session,
            self,
            segment.name_in(self.source.topic),
            segment,
            self.settings,
            self._completion,
            before=self._ending,
            is_followed=self.source.is_followed,
        )
        self.by_segment[segment.id] = made
        return made

    def flush(self) -> None:
        for each in self.by_segment.values():
            each.flush()

    def drop_ended(self) -> None:
        for each in self._all:
            each.producer.pending.drop_ended()  # they were late

    async def close(self, failure: PulsarError) -> None:
        if self._refresh_timer is not None:
            self._refresh_timer.cancel()
        if self._source is not None:
            self._source.close()
        for each in self._all:
            each.fail(failure)
        for each in self._all:
            await each.close()

    # ------------------------------------------------------------------ changes

    def _adopt(self, view: LayoutView) -> None:
        self.layout = view.layout
        told = view.key_hash
        known = KeyHash(told) if told in frozenset(KeyHash) else KeyHash.MURMUR3
        self.key_hash = self._routing.partitions or known

    def _on_layout(self, view: LayoutView) -> None:
        self._adopt(view)
        active = {segment.id: segment for segment in view.layout.active}
        gone = [
            each
            for number, each in self.by_segment.items()
            if number not in active or active[number].is_legacy != each.segment.is_legacy
        ]
        for each in gone:
            del self.by_segment[each.segment.id]
        self._ending += gone  # all of them, before the first hands on what it has
        for each in gone:
            each.end()
        if self._is_exclusive and self.failure is None:
            for segment in view.layout.active:
                if segment.id not in self.by_segment:
                    self.start(segment)

    def on_ended(self, producer: SegmentProducer, items: Iterable[Item]) -> None:
        self._forget(producer)
        for item in items:
            if not item.sent.done():
                self._resend(item)
        for other in self._all:
            other.unblock(producer)
            other.flush()
        self._session.scope.start(producer.close(), f"close {producer.producer.topic}")

    def on_sealed(self, producer: SegmentProducer) -> None:
        if producer.segment.is_legacy:
            self.source.refresh()
        self._refresh_later()

    def _refresh_later(self) -> None:
        if self._refresh_timer is None:
            self._refresh_timer = self._session.clock.call_later(self._refresh_s, self._refresh)

    def _on_told(self) -> None:
        for each in self._sealed:
            if each.segment.is_legacy:
                each.confirmations += 1
                if each.confirmations >= _CONFIRMATIONS:
                    each.give_up()

    @property
    def _sealed(self) -> list[SegmentProducer]:
        return [each for each in self.by_segment.values() if each.seal is not None]

    def on_failed(self, producer: SegmentProducer, failure: PulsarError) -> None:
        """Forgotten, so that the next message tries again; unless another producer took over."""
        self._forget(producer)
        if self.failure is None and isinstance(failure, ProducerFencedError | TopicTerminatedError):
            self.failure = failure
            for each in self.by_segment.values():
                each.fail(failure)

    def _forget(self, producer: SegmentProducer) -> None:
        self._last_sequence_id = max(self._last_sequence_id, producer.producer.last_sequence_id)
        if self.by_segment.get(producer.segment.id) is producer:
            del self.by_segment[producer.segment.id]
        if producer in self._ending:
            self._ending.remove(producer)

    def _refresh(self) -> None:
        self._refresh_timer = None
        if self._sealed:
            self.source.refresh()
            self._refresh_later()
