"""What every dispatcher shares: turns of the loop, reads that miss the cache, rate limits."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, Protocol

from magnetar.broker.limiter import RateLimiter
from magnetar.errors import BrokerError, EntryNotFound, LedgerCorrupt, LedgerNotFound
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.run import EntryRun
from magnetar.model.position import Position
from magnetar.runtime.clock import Timer
from magnetar.runtime.log import Log

if TYPE_CHECKING:
    from magnetar.broker.consumer import Consumer, SubscriptionType
    from magnetar.broker.persistent import PersistentTopic
    from magnetar.broker.subscription import Subscription

_log = Log(__name__)

READ_ENTRIES_MAX: Final = 1000
READ_BYTES_MAX: Final = 1 << 20
_READ_RETRY_S: Final = 1.0
_DAMAGE_RETRY_S: Final = 60.0


class Source(Protocol):
    """Where entries are read from: the topic's log, or its compacted view."""

    def read_cached(self, start: Position, entries_max: int, bytes_max: int) -> EntryRun | None: ...
    async def read(self, start: Position, entries_max: int, bytes_max: int) -> EntryRun | None: ...
    def is_readable(self, position: Position) -> bool: ...


class Dispatcher(ABC):
    """Runs only on the loop. `wake` is cheap and may be called for any change that could let an
    entry go out.
    """

    kind: SubscriptionType

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.topic: PersistentTopic = subscription.topic
        self.cursor: Cursor = subscription.cursor
        self.source: Source = self.topic.log.reader
        self.read_position = self.cursor.first_unacked()
        self.limiter: RateLimiter | None = None
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._reading = False
        self._generation = 0
        self._fetched: tuple[Position, EntryRun] | None = None
        self._clock = self.topic.service.clock
        self._timer: Timer | None = None
        self._timer_at = 0.0

    # ------------------------------------------------------------------ what subclasses say

    @abstractmethod
    def _dispatch(self) -> None:
        """Hand out what can be handed out now."""

    def rival_of(self, consumer: Consumer) -> Consumer | None:
        """Who keeps a newcomer out. It may be gone without a word: the subscription asks it."""
        return None

    @abstractmethod
    def add_consumer(self, consumer: Consumer) -> None:
        """Take a consumer in; raise when a rival is in the way."""

    @abstractmethod
    def remove_consumer(self, consumer: Consumer) -> None: ...

    @abstractmethod
    def redeliver(self, consumer: Consumer, positions: list[Position], epoch: int | None) -> None:
        """Deliver again what the consumer gives back; no positions means all it holds."""

    @property
    @abstractmethod
    def consumers(self) -> list[Consumer]: ...

    # ------------------------------------------------------------------ turns

    def wake(self) -> None:
        if not self._scheduled and not self.closed:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def wake_in(self, seconds: float) -> None:
        """Wake once after a while; an earlier appointment stays."""
        when = self._clock.monotonic() + seconds
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._clock.call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        # Forgotten first: a timer may fire a little before its time, and the next appointment
        # must not take it for one that is still to come.
        self._timer = None
        self.wake()

    def _turn(self) -> None:
        self._scheduled = False
        if not self.closed and not self._reading:
            self._dispatch()

    def close(self) -> None:
        self.closed = True
        self._generation += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def rewind(self) -> None:
        """Read again from the first unacknowledged entry."""
        self._give_up_read()
        self.read_position = self.cursor.first_unacked()
        self.cursor.read_position = self.read_position

    def _give_up_read(self) -> None:
        """What is being fetched is not wanted any more."""
        self._generation += 1
        self._reading = False
        self._fetched = None

    def on_policy_changed(self) -> None:
        """Limits may have moved."""
        self.wake()

    # ------------------------------------------------------------------ reading

    def _read(self, start: Position, entries_max: int) -> EntryRun | None:
        """A run from `start` on, or None while there is none or it is being fetched."""
        if self._fetched is not None:
            asked, run = self._fetched
            self._fetched = None
            if asked == start:
                return run
        run_at_hand = self.source.read_cached(
            start, min(entries_max, READ_ENTRIES_MAX), READ_BYTES_MAX
        )
        if run_at_hand is None and self.source.is_readable(start):
            self._reading = True
            self.topic.service.tasks.start(
                self._fetch(start, min(entries_max, READ_ENTRIES_MAX), self._generation),
                name="read",
            )
        return run_at_hand

    async def _fetch(self, start: Position, entries_max: int, generation: int) -> None:
        run: EntryRun | None = None
        try:
            run = await self.source.read(start, entries_max, READ_BYTES_MAX)
        except (LedgerCorrupt, LedgerNotFound, EntryNotFound) as damage:
            if generation == self._generation:
                self._on_damage(start, damage)
            return
        except BrokerError as failure:
            if generation == self._generation:
                _log.warning(
                    "read failed",
                    topic=self.topic.name.full,
                    at=str(start),
                    reason=failure.sentence,
                )
                self._read_again_in(_READ_RETRY_S)
            return
        if generation != self._generation or self.closed:
            return
        if run is None:
            self._read_again_in(_READ_RETRY_S)
            return
        self._reading = False
        self._fetched = (start, run)
        self._dispatch()

    def _read_again_in(self, seconds: float) -> None:
        """The read counts as under way until then: whatever else happens does not repeat it."""
        generation = self._generation

        def read_again() -> None:
            if generation == self._generation:
                self._reading = False
                self.wake()

        self._clock.call_later(seconds, read_again)

    def _on_damage(self, start: Position, damage: BrokerError) -> None:
        """Data that cannot be read holds the subscription, unless the operator chose to skip it."""
        _log.error(
            "entry unreadable",
            topic=self.topic.name.full,
            subscription=self.subscription.name,
            at=str(start),
            reason=damage.sentence,
        )
        if not self.topic.service.config.autoSkipNonRecoverableData:
            self._read_again_in(_DAMAGE_RETRY_S)
            return
        self._reading = False
        last = start
        if isinstance(damage, LedgerNotFound) and self.source is self.topic.log.reader:
            last = self._last_of(start)  # all the rest of the ledger is gone with it
        self._skip(start, last)
        self.wake()

    def _last_of(self, position: Position) -> Position:
        for part in self.topic.log.sequence.describe():
            if part.ledger_id == position.ledger_id:
                return Position(part.ledger_id, max(position.entry_id, part.entries - 1))
        return position

    def _skip(self, first: Position, last: Position) -> None:
        """Count entries of one ledger as acknowledged and read behind them."""
        entry_ids = list(range(first.entry_id, last.entry_id + 1))
        self.cursor.acknowledge_entries(first.ledger_id, entry_ids)
        if self.read_position <= last:
            self.read_position = self.topic.log.sequence.next_position(last)

    def _is_untouched(self, run: EntryRun) -> bool:
        """Whether nothing of a run is acknowledged, so that it can go out as it is."""
        return not self.cursor.has_partial and len(self.cursor.unacked_in(run)) == len(run)

    # ------------------------------------------------------------------ limits

    def _allowance(self) -> int:
        """How many messages the rate limits let out now; 0 after an appointment for later."""
        allowed = READ_ENTRIES_MAX * 1000
        for limiter in (self.limiter, self.topic.dispatch_limiter):
            if limiter is None:
                continue
            now = self.topic.service.clock.monotonic()
            available = limiter.available(now)
            if available <= 0:
                self.wake_in(limiter.wait_s(now))
                return 0
            allowed = min(allowed, available)
        return allowed

    def _spend(self, messages: int, size: int) -> None:
        for limiter in (self.limiter, self.topic.dispatch_limiter):
            if limiter is not None:
                limiter.spend(messages, size, self.topic.service.clock.monotonic())


def cut_by_permits(counts: list[int], permits: int) -> int:
    """How many whole entries go out while permits are left: the last may overdraw them."""
    total = 0
    for index, count in enumerate(counts):
        if total >= permits:
            return index
        total += count
    return len(counts)
