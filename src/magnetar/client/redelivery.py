"""When messages are asked for again: those refused after a delay, those forgotten in time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from magnetar.client.message_id import MessageId
from magnetar.client.policy import BackoffPolicy
from magnetar.runtime.clock import Clock, Timer

_TOGETHER_S: Final = 0.001
"""What is due within this time is asked for at once: messages of one batch are refused together."""
_STALE_MAX: Final = 1000
"""How many places of messages that are done may be left, beside as many as wait."""


@dataclass(frozen=True, slots=True)
class RedeliveryTimes:
    """Seconds; a `processing_timeout` of 0 never asks by itself."""

    nack_delay: float
    nack_backoff: BackoffPolicy | None = None
    processing_timeout: float = 0.0
    processing_backoff: BackoffPolicy | None = None


class RedeliveryPlan:
    """Knows when each unacknowledged entry is due; one timer for all of them.

    The time to process a message starts when the application gets it, not when it arrives.
    """

    def __init__(
        self,
        times: RedeliveryTimes,
        redeliver: Callable[[list[MessageId]], None],
        *,
        clock: Clock,
    ) -> None:
        self._times = times
        self._redeliver = redeliver
        self._clock = clock
        self._due: dict[MessageId, float] = {}
        self._counts: dict[MessageId, int] = {}
        """How often a message that is out was delivered before."""
        self._heap: list[tuple[float, MessageId]] = []
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self.is_counting = bool(times.nack_backoff or times.processing_timeout)
        """Whether it matters which messages the application got."""

    def on_taken(self, id: MessageId, redelivery_count: int) -> None:
        """The application got a message."""
        self._counts[id] = redelivery_count
        if self._times.processing_timeout:
            delay = self._times.processing_timeout
            backoff = self._times.processing_backoff
            if backoff is not None and redelivery_count:
                delay += backoff.delay(redelivery_count - 1, self._clock.chance)
            self._plan(id, delay)

    def on_refused(self, id: MessageId, delay: float | None) -> None:
        """The application wants it again, after `delay` or as the policy says."""
        count = self._counts.pop(id, 0)
        if delay is None:
            backoff = self._times.nack_backoff
            delay = self._times.nack_delay
            if backoff is not None:
                delay = backoff.delay(count, self._clock.chance)
        self._plan(id, delay)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for no message and counts none."""
        return not self._due and not self._counts

    def on_done(self, ids: Iterable[MessageId]) -> None:
        if self.is_idle:
            return
        for id in ids:
            self._due.pop(id, None)
            self._counts.pop(id, None)

    def on_done_up_to(self, last: MessageId) -> None:
        self.on_done([id for id in self._due if id <= last])
        for id in [id for id in self._counts if id <= last]:
            del self._counts[id]

    def clear(self) -> None:
        """Delivery starts over: everything is redelivered anyway."""
        self._due.clear()
        self._counts.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self, id: MessageId, delay: float) -> None:
        when = self._clock.monotonic() + delay
        self._due[id] = when
        heapq.heappush(self._heap, (when, id))
        if len(self._heap) > 2 * len(self._due) + _STALE_MAX:
            self._heap = [(due, waiting) for waiting, due in self._due.items()]
            heapq.heapify(self._heap)
        if self._timer is None or when < self._timer_at:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # What was acknowledged or planned anew since leaves a stale place behind.
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if self._heap:
            self._timer_at = self._heap[0][0]
            self._timer = self._clock.call_at(self._timer_at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        horizon = self._clock.monotonic() + _TOGETHER_S
        due = []
        while self._heap and self._heap[0][0] <= horizon:
            when, id = heapq.heappop(self._heap)
            if self._due.get(id) == when:
                self.on_done(_with_batch(id))
                due.append(id)
        self._arm()
        if due:
            self._redeliver(due)


def _with_batch(id: MessageId) -> Iterable[MessageId]:
    """Every message that is redelivered with this one: a batch is redelivered once, whole."""
    yield id
    for index in range(id.batch_size):
        yield MessageId(id.ledger_id, id.entry_id, id.partition, index)
