"""Bring something in line with what it follows, again after each change, one round at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from magnetar.errors import BrokerError, StoreClosed, StoreUnavailable
from magnetar.runtime.backoff import Backoff
from magnetar.runtime.clock import Clock, Timer
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_log = Logger(__name__)


class Reconciler:
    """Runs `reconcile` after each request, and once more for requests that came during a round.

    A round that raises one of `retried` is run again after a delay that doubles from `first_s` to
    `most_s`. StoreClosed ends the reconciler. After any other exception, which is logged, the round
    counts as completed: to repeat it would not help.
    """

    def __init__(
        self,
        scope: TaskScope,
        name: str,
        reconcile: Callable[[], Awaitable[None]],
        *,
        clock: Clock,
        retried: type[BrokerError] = StoreUnavailable,
        first_s: float = 0.1,
        most_s: float = 5.0,
    ) -> None:
        self._scope = scope
        self._name = name
        self._reconcile = reconcile
        self._clock = clock
        self._retried = retried
        self._backoff = Backoff(first_s, most_s, clock.chance)
        self._requests = 0
        self._seen = 0
        """How many of the requests are older than the round that runs, or ran last."""
        self._met = 0
        """How many are older than a round that was completed."""
        self._running = False
        self._closed = False
        self._later = False
        self._timer: Timer | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def is_busy(self) -> bool:
        """Whether a round runs or is due."""
        return self._running or self._timer is not None

    @property
    def is_stale(self) -> bool:
        """Whether a request waits for a round that has not been completed."""
        return self._met < self._requests

    def request(self) -> None:
        """Something has changed: run a round that begins after this moment."""
        if self._closed or self._scope.is_closed:
            return
        self._requests += 1
        if not self._running:
            self._running = True
            self._scope.start(self._run(), self._name)

    def request_later(self) -> None:
        """Run a round after the delay of a retry, at the latest. A round calls this that leaves
        something to be tried again but is not to be waited for by `catch_up`.
        """
        if self._running:
            self._later = True  # the delay begins when the round has ended
        elif self._timer is None and not self._closed:
            self._timer = self._clock.call_later(self._backoff.next_s(), self._on_timer)

    def renew(self) -> bool:
        """Whether there were requests since the round began. It meets them too, if it then begins
        again.
        """
        is_outdated = self._seen < self._requests
        self._seen = self._requests
        return is_outdated

    async def catch_up(self) -> None:
        """Return when a round was completed that began after every request made so far; at once
        when that is so, and when there will be no more rounds.
        """
        if self.is_stale and self._running:
            caught_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((self._requests, caught_up))
            await caught_up

    def close(self) -> None:
        """Take no more requests; a round under way ends by itself or with its scope."""
        self._closed = True
        self._stop_timer()
        self._answer(self._requests)

    async def _run(self) -> None:
        try:
            while self.is_stale and not self._closed:
                self._stop_timer()
                self._seen, self._later = self._requests, False
                try:
                    await self._reconcile()
                except StoreClosed:
                    self.close()
                except self._retried:
                    await self._clock.sleep(self._backoff.next_s())
                # Only the body knows what it can raise, and later requests must have their round.
                except Exception as error:
                    _log.error("round failed", error=error, task=self._name)
                    self._answer(self._seen)
                else:
                    self._answer(self._seen)
                    if not self._later:
                        self._backoff.reset()
        finally:
            self._running = False
            self._answer(self._requests)
        if self._later:
            self.request_later()

    def _answer(self, met: int) -> None:
        self._met = max(self._met, met)
        while self._waiting and self._waiting[0][0] <= met:
            _, caught_up = self._waiting.popleft()
            if not caught_up.done():
                caught_up.set_result(None)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        self.request()
