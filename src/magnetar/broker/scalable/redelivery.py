"""Redelivery of stalled segments: a sealed segment is assigned to its consumer again when the
reader came back and acknowledges nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, assert_never

from magnetar.broker.consumer import Consumer
from magnetar.broker.scalable.registration import Registration
from magnetar.broker.subscription import Subscription
from magnetar.model.layout import Layout
from magnetar.model.segment import SegmentId
from magnetar.rules.stall import Redeliver, SegmentRead, Sound, Wait, decide_stall
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_log = Logger(__name__)

_LEAVE_S: Final = 10.0
"""How long a reader has to leave a segment that was taken from it."""


class StallWatch:
    """Watches the readers of one group, each from when it comes back and its segment is sealed to
    its first acknowledgement; its segment is taken from it at most once.
    """

    def __init__(
        self,
        tasks: TaskScope,
        send: Callable[[Registration], None],
        *,
        clock: Clock,
        config: Configuration,
        on_redelivered: Callable[[], None],
    ) -> None:
        """`send` sends a consumer its segments, without those that are withdrawn."""
        self._tasks = tasks
        self._send = send
        self._clock = clock
        self._config = config
        self._on_redelivered = on_redelivered
        self._unwatched: dict[Consumer, tuple[Registration, SegmentId]] = {}

    def on_returned(
        self, session: Registration, segment: SegmentId, reader: Consumer, layout: Layout
    ) -> None:
        """A reader of a segment came that had one before."""
        patience_s = self._config.scalableTopicStalledSegmentSeconds
        if patience_s > 0 and not reader.sharing.kind.is_individual:
            self._unwatched[reader] = session, segment
            self.on_layout(layout)

    def on_layout(self, layout: Layout) -> None:
        """Watch the readers whose segments are sealed by now; forget those that left."""
        sealed = {segment.id for segment in layout.sealed}
        for reader, (session, segment) in list(self._unwatched.items()):
            if reader.closed or reader.stats.last_acked_ms:
                del self._unwatched[reader]
            elif segment in sealed:
                del self._unwatched[reader]
                self._tasks.start(self._watch(session, segment, reader), name="stalled")

    async def _watch(self, session: Registration, segment: SegmentId, reader: Consumer) -> None:
        subscription = reader.subscription
        assert isinstance(subscription, Subscription), "segments keep what they are sent"
        if await await_stall(subscription, reader, clock=self._clock, config=self._config):
            self.recall(session, segment)
            await await_leave(subscription, clock=self._clock)
            self.hand_back(session, segment)

    def recall(self, session: Registration, segment: SegmentId) -> None:
        """Take a segment from a consumer; it is handed back when its reader left, or in a while."""
        self._on_redelivered()
        _log.warning(
            "sealed segment assigned again: nothing was acknowledged since its reader came back",
            segment=segment,
            consumer=session.name,
        )
        session.withdraw(segment, now_ms=self._clock.now_ms())
        self._send(session)
        self._tasks.start(self._hand_back_later(session, segment), name="hand back")

    def hand_back(self, session: Registration, segment: SegmentId) -> None:
        if segment in session.withdrawn:
            session.withdrawn.discard(segment)
            self._send(session)

    async def _hand_back_later(self, session: Registration, segment: SegmentId) -> None:
        """The broker that serves the segment may not say that its reader left."""
        await self._clock.sleep(2 * _LEAVE_S)
        self.hand_back(session, segment)


async def await_stall(
    subscription: Subscription, reader: Consumer, *, clock: Clock, config: Configuration
) -> bool:
    """Watch a reader that came back until it is known whether its segment is to be assigned
    anew.
    """
    patience_ms = round(config.scalableTopicStalledSegmentSeconds * 1000)
    while True:
        decision = decide_stall(
            _observe_reader(subscription, reader), now_ms=clock.now_ms(), patience_ms=patience_ms
        )
        match decision:
            case Sound():
                return False
            case Wait(for_ms):
                await clock.sleep(for_ms / 1000)
            case Redeliver():
                return True
            case _:
                assert_never(decision)


async def await_leave(subscription: Subscription, *, clock: Clock) -> None:
    """Until the reader of a segment that was taken from its consumer left; one that stays is sent
    its assignment once more.
    """
    with suppress(TimeoutError):
        async with clock.timeout(_LEAVE_S):
            await subscription.await_vacancy()


def _observe_reader(subscription: Subscription, reader: Consumer) -> SegmentRead:
    log, dispatcher = subscription.topic.log, subscription.dispatcher
    return SegmentRead(
        is_attached=not reader.closed,
        is_sealed=log.record.terminated is not None,
        backlog=subscription.backlog,
        is_at_end=dispatcher is not None
        and dispatcher.machine.read_position > log.sequence.last_position,
        permits=reader.member.permits,
        has_acked=reader.stats.last_acked_ms > 0,
        quiet_since_ms=max(reader.connected_since_ms, reader.stats.last_consumed_ms),
    )
