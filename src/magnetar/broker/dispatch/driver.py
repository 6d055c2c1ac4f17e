"""Carries out what the machine of a subscription decides: reads, sends, sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Protocol

from magnetar.broker.consumer import Consumer
from magnetar.broker.dispatch.backlog import Backlog
from magnetar.broker.dispatch.view import EntryView
from magnetar.broker.limiter import RateLimiter
from magnetar.broker.topic_host import TopicHost
from magnetar.errors import (
    BookieUnavailable,
    BrokerError,
    EntryNotFound,
    LedgerCorrupt,
    LedgerNotFound,
)
from magnetar.model.name import TopicName
from magnetar.model.position import Position
from magnetar.rules.dispatch.action import Action, Announce, Deliver, Moment, Read, Rewind, Sleep
from magnetar.rules.dispatch.machine import DispatchLimits, Machine
from magnetar.rules.dispatch.member import Sharing
from magnetar.runtime.clock import Clock, Timer
from magnetar.runtime.log import Logger
from magnetar.wire.command import CommandActiveConsumerChange, make_command

_log = Logger(__name__)

_READ_ENTRIES_MAX: Final = 1000
_READ_BYTES_MAX: Final = 1 << 20
_READ_RETRY_S: Final = 1.0
_OWNER_RETRY_S: Final = 0.5
_DAMAGE_RETRY_S: Final = 60.0
_DAMAGE_ADVICE: Final = (
    "bring it back, or pass it: autoSkipNonRecoverableData, or a reset behind it"
)
# What its bookies may have is not lost, so nothing passes it by itself.
_ABSENCE_ADVICE: Final = (
    "it is read when its bookies are back; if they are gone for good, pass it by a reset behind it"
)
_TURN_READS_MAX: Final = 100
_UNLIMITED: Final = 1_000_000


class DispatchedSubscription(Protocol):
    """The subscription that a driver serves."""

    @property
    def name(self) -> str: ...

    def on_delivered(self, consumer: Consumer, messages: int, size: int) -> None: ...

    def on_end_reached(self) -> None:
        """Nothing is left to read."""


class Alarm:
    """Calls once, at the earliest of the times it was set to."""

    def __init__(self, clock: Clock, call: Callable[[], None]) -> None:
        self._clock = clock
        self._call = call
        self._timer: Timer | None = None
        self._at_s = 0.0

    def set(self, seconds: float) -> None:
        """Call after a while, unless an earlier call is due."""
        when_s = self._clock.monotonic() + seconds
        if self._timer is not None:
            if self._at_s <= when_s:
                return
            self._timer.cancel()
        self._at_s = when_s
        self._timer = self._clock.call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        # Forgotten first: a timer may fire a little before its time, and the next call must not
        # take it for one that is still to come.
        self._timer = None
        self._call()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Driver:
    """Runs only on the loop. `wake` is cheap and may be called for any change that could let an
    entry go out.
    """

    def __init__(
        self,
        subscription: DispatchedSubscription,
        topic: TopicName,
        host: TopicHost,
        sharing: Sharing,
        machine: Machine[Consumer],
        backlog: Backlog | None = None,
    ) -> None:
        """Without a backlog entries come from producers by `offer`, and nothing is read."""
        self.sharing = sharing
        self.machine = machine
        self._subscription = subscription
        self._topic = topic
        self._partition = topic.partition_index
        self._host = host
        self._clock = host.clock
        self._backlog = backlog
        self._limiters: Sequence[RateLimiter] = ()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._scheduled = False
        self._alarm = Alarm(self._clock, self.wake)
        if backlog is not None:
            machine.on_rewound(backlog.rewind(None))

    # ------------------------------------------------------------------ events

    def rival_of(self, consumer: Consumer) -> Consumer | None:
        """A consumer that keeps a newcomer out. It may be gone without a word: ask it."""
        rival = self.machine.rival_of(consumer.member)
        return None if rival is None else rival.consumer

    def add(self, consumer: Consumer) -> None:
        """Raise when a rival is in the way, or there is no place for another consumer."""
        self._carry_out(self.machine.add(consumer.member, self._now()))

    def remove(self, consumer: Consumer) -> None:
        self._carry_out(self.machine.remove(consumer.member, self._now()))

    def grant(self, consumer: Consumer, permits: int) -> None:
        self.machine.grant(consumer.member, permits)
        self._wake_if_due()

    def set_writable(self, consumer: Consumer, writable: bool) -> None:
        self.machine.set_writable(consumer.member, writable)
        self._wake_if_due()

    def release(
        self,
        consumer: Consumer | None,
        entries: Iterable[tuple[tuple[int, int], int | None]],
        *,
        is_final: bool = True,
    ) -> int:
        """Entries are acknowledged, each whole or up to so many messages; return how many messages
        were held until now. What is not final waits for a transaction.
        """
        member, release = None if consumer is None else consumer.member, self.machine.release
        if not is_final:  # else nothing is said: it would be said again for each entry
            release = partial(release, is_final=False)
        released = sum(release(member, position, remaining) for position, remaining in entries)
        self._wake_if_due()
        return released

    def discard(self, first: Position, last: Position, following: Position) -> None:
        """Everything from a position to another is acknowledged by no consumer."""
        self.machine.discard(first, last, following)
        self._wake_if_due()

    def redeliver(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        held = consumer.member.unacked
        self._carry_out(self.machine.redeliver(consumer.member, positions))
        consumer.stats.redeliver_rate.add(held - consumer.member.unacked, 0)

    def set_policy(self, limits: DispatchLimits, limiters: Sequence[RateLimiter]) -> None:
        self._limiters = limiters
        self.machine.set_limits(limits)
        self._wake_if_due()

    def refresh_source(self) -> None:
        """What is read by now is another view of the topic."""
        if self._backlog is not None:
            self._backlog.refresh_source()
            self.machine.on_rewound(self.machine.read_position)
            self._wake_if_due()

    def close(self) -> None:
        self._closed = True
        self._alarm.cancel()

    # ------------------------------------------------------------------ turns

    def wake(self) -> None:
        if not self._scheduled and not self._closed and self._backlog is not None:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _wake_if_due(self) -> None:
        if self.machine.is_due:
            self.wake()

    def _turn(self) -> None:
        self._scheduled = False
        for _ in range(_TURN_READS_MAX):
            if self._closed:
                return
            if not self._host.is_owner():
                # The lease may be confirmed again without any other event of this topic.
                self._alarm.set(_OWNER_RETRY_S)
                return
            actions = self.machine.poll(self._now(), self._allowance())
            self._carry_out(actions)
            if not any(type(action) is Read and action.is_replay for action in actions):
                return

    def _carry_out(self, actions: Iterable[Action[Consumer]]) -> None:
        for action in actions:
            match action:
                case Read():
                    self._read(action)
                case Rewind(reader):
                    if self._backlog is not None:
                        self.machine.on_rewound(self._backlog.rewind(reader))
                case Announce(consumer, is_active):
                    self._loop.call_soon(_announce, consumer, is_active)
                case Sleep(seconds):
                    self._alarm.set(seconds)
        self._wake_if_due()

    def _now(self) -> Moment:
        return Moment(self._clock.now_ms(), self._clock.monotonic())

    # ------------------------------------------------------------------ reading

    def _read(self, read: Read) -> None:
        assert self._backlog is not None
        source, entries_max = self._backlog.source, min(read.entries_max, _READ_ENTRIES_MAX)
        run = source.read_cached(read.position, entries_max, _READ_BYTES_MAX)
        if run is not None:
            self._deliver(read, self._backlog.view(run))
        elif source.is_readable(read.position):
            self._host.tasks.start(self._fetch(self._backlog, read), name="read")
        else:
            self.machine.on_nothing(read)
            if not read.is_replay:
                self._subscription.on_end_reached()

    async def _fetch(self, backlog: Backlog, read: Read) -> None:
        entries_max = min(read.entries_max, _READ_ENTRIES_MAX)
        try:
            run = await backlog.source.read(read.position, entries_max, _READ_BYTES_MAX)
        except BrokerError as failure:
            if self.machine.is_reading(read) and not self._closed:
                self._on_read_failed(backlog, read, failure)
            return
        if self._closed or not self.machine.is_reading(read):
            return
        if run is None:
            self._clock.call_later(_READ_RETRY_S, self._read_again, read)
        else:
            self._deliver(read, backlog.view(run))

    def _read_again(self, read: Read) -> None:
        """The read counted as under way until now: whatever else happened did not repeat it."""
        self.machine.on_failed(read)
        self._wake_if_due()

    def _on_read_failed(self, backlog: Backlog, read: Read, failure: BrokerError) -> None:
        """Unreadable data holds the subscription, unless the operator chose to skip it."""
        is_damage = isinstance(failure, LedgerCorrupt | LedgerNotFound | EntryNotFound)
        (_log.error if is_damage else _log.warning)(
            "entry unreadable" if is_damage else "read failed",
            topic=self._topic.full,
            subscription=self._subscription.name,
            at=str(read.position),
            reason=failure.sentence,
            advice=_advise(failure, is_damage=is_damage),
        )
        if not is_damage:
            self._clock.call_later(_READ_RETRY_S, self._read_again, read)
            return
        if not self._host.config.autoSkipNonRecoverableData:
            self._clock.call_later(_DAMAGE_RETRY_S, self._read_again, read)
            return
        self.machine.on_failed(read)
        last, following = backlog.skip_damage(read.position, failure)
        self.discard(read.position, last, following)

    # ------------------------------------------------------------------ delivery

    def offer(self, view: EntryView) -> tuple[int, int]:
        """Entries that are kept nowhere; return how many messages and bytes were delivered."""
        messages = size = 0
        for delivery in self.machine.offer(view, self._now()):
            messages += delivery.messages
            size += self._send(delivery, view)
        return messages, size

    def _deliver(self, read: Read, view: EntryView) -> None:
        for delivery in self.machine.on_entries(read, view, self._now()):
            self._send(delivery, view)
        if self._backlog is not None:
            self._backlog.note_read(self.machine.read_position)
        self._wake_if_due()

    def _send(self, delivery: Deliver[Consumer], view: EntryView) -> int:
        """Return how many bytes were sent."""
        consumer, messages = delivery.consumer, delivery.messages
        epoch = None if self._backlog is None else consumer.epoch
        frames, size = view.encode(
            delivery.indexes,
            delivery.redeliveries,
            consumer_id=consumer.id,
            partition=self._partition,
            epoch=epoch,
            with_checksums=consumer.knows_checksums,
        )
        consumer.connection.send_many(frames, size)
        for limiter in self._limiters:
            limiter.spend(messages, size, self._clock.monotonic())
        self._subscription.on_delivered(consumer, messages, size)
        return size

    def _allowance(self) -> int:
        """How many messages the rate limits let out now; 0 after an appointment for later."""
        allowed = _UNLIMITED
        for limiter in self._limiters:
            now = self._clock.monotonic()
            allowed = min(allowed, limiter.available(now))
            if allowed <= 0:
                self._alarm.set(limiter.wait_s(now))
                return 0
        return allowed


def _announce(consumer: Consumer, is_active: bool) -> None:
    """Called after the answer to its SUBSCRIBE: some clients drop what comes before."""
    if consumer.connection.protocol_version >= 12:
        change = CommandActiveConsumerChange(consumer_id=consumer.id, is_active=is_active)
        consumer.connection.send_command(make_command(change))


def _advise(failure: BrokerError, *, is_damage: bool) -> str:
    if is_damage:
        return _DAMAGE_ADVICE
    if isinstance(failure, BookieUnavailable):
        return _ABSENCE_ADVICE
    return "none needed: it is read again"
