"""When the next transaction of a coordinator is overdue."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

from magnetar.model.transaction import Status, Transaction
from magnetar.rules.transaction.coordinator import CoordinatorState
from magnetar.runtime.clock import Clock, Timer

_ENDED_LEFT: Final = 64
"""Deadlines of ended transactions that are kept among the others, besides as many."""


class DeadlineTimer:
    def __init__(self, state: CoordinatorState, clock: Clock, on_due: Callable[[], None]) -> None:
        self._state = state
        self._clock = clock
        self._on_due = on_due
        self._deadlines: list[tuple[int, int]] = []
        """With the number of each transaction, as a heap; some have ended."""
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._deadlines)

    def add(self, transaction: Transaction) -> None:
        deadlines, transactions = self._deadlines, self._state.transactions
        if len(deadlines) > 2 * len(transactions) + _ENDED_LEFT:
            deadlines[:] = [each for each in deadlines if each[1] in transactions]
            heapq.heapify(deadlines)
        heapq.heappush(deadlines, (transaction.deadline_ms, transaction.id.least))
        if self._timer is None or transaction.deadline_ms < self._timer_at_ms:
            self._set_timer()

    def stop(self) -> None:
        """For good: what is not ended any more stays overdue, and would be found over and over."""
        self._is_stopped = True
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        self._cancel()
        transactions = self._state.transactions
        while self._deadlines and not self._is_stopped:
            deadline_ms, least = self._deadlines[0]
            known = transactions.get(least)
            if known is not None and known.status is Status.OPEN:
                wait_s = max(0.0, (deadline_ms - self._clock.now_ms()) / 1000)
                self._timer = self._clock.call_later(wait_s, self._on_timer)
                self._timer_at_ms = deadline_ms
                return
            heapq.heappop(self._deadlines)

    def _on_timer(self) -> None:
        self._timer = None
        self._on_due()
        self._set_timer()
