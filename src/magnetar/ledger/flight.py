"""Runs on their way into a log, and the flights that carry them to its ledgers.

    run --add--> OPEN [--> FULL] --send--> SENT --> DURABLE
                   |         |              |
                   +---------+--------------+-----> REFUSED

A run is one object from its sender to its answer. A flight is what is appended to a ledger at once:
it takes runs while it is open, which it is until it is sent.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Final, Protocol

from magnetar.errors import BrokerError, LedgerSealed
from magnetar.ledger.info import LogPolicy
from magnetar.ledger.log_record import LogRecord
from magnetar.ledger.sequence import LogLedger
from magnetar.ledger.store import LedgerStore, LedgerWriter
from magnetar.model.position import Position
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger

_logger = Logger(__name__)
_make: Final = tuple.__new__
"""Of a named tuple too, without a detour: one is made for each run."""


class Run(Protocol):
    """What a log needs of a run: entries that are to stand one after the other in one ledger.

    `counts[i]` is the number of messages inside entry i, `size` the sum of the entries' lengths.
    Nothing of it changes once it was appended. It gets exactly one answer.
    """

    @property
    def entries(self) -> Sequence[bytes]: ...
    @property
    def counts(self) -> Sequence[int]: ...
    @property
    def size(self) -> int: ...

    def on_durable(self, first: Position) -> None:
        """All of it is durable; entry i stands i after `first`."""

    def on_refused(self, error: BrokerError) -> None:
        """None of it is stored, as far as is known."""


class PlainRun:
    """Entries without a sender: `done` gets the position of the first one, or the refusal."""

    __slots__ = ("counts", "done", "entries", "size")

    def __init__(
        self,
        entries: Sequence[bytes],
        counts: Sequence[int],
        done: Callable[[Position | None, BrokerError | None], None],
    ) -> None:
        self.entries = entries
        self.counts = counts
        self.size = sum(map(len, entries))
        self.done = done

    def on_durable(self, first: Position) -> None:
        self.done(first, None)

    def on_refused(self, error: BrokerError) -> None:
        self.done(None, error)


class OpenLedger:
    """The ledger at the end of a log, with what was sent to it."""

    __slots__ = ("bytes_sent", "created_ms", "entries_sent", "part", "writer")

    def __init__(self, writer: LedgerWriter, part: LogLedger, created_ms: int) -> None:
        self.writer = writer
        self.part = part
        self.created_ms = created_ms
        self.entries_sent = 0
        self.bytes_sent = 0

    def is_full(self, policy: LogPolicy, clock: Clock) -> bool:
        """By entries, bytes or age, but not younger than the least age; an empty ledger is never
        full.
        """
        if not self.entries_sent:
            return False
        age_ms = clock.now_ms() - self.created_ms
        due = (
            self.entries_sent >= policy.entries_max
            or self.bytes_sent >= policy.bytes_max
            or 0 < policy.roll_max_ms <= age_ms
        )
        return due and age_ms >= policy.roll_min_ms


def measure_room(
    ledger: OpenLedger | None, policy: LogPolicy, *, now_ms: int
) -> tuple[float, float]:
    """Entries and bytes that the open ledger takes, or one that is still to be made; as long as it
    may not be left for its age, any number of both.
    """
    if now_ms < policy.roll_min_ms + (now_ms if ledger is None else ledger.created_ms):
        return math.inf, math.inf
    if ledger is None:
        return policy.entries_max, policy.bytes_max
    return policy.entries_max - ledger.entries_sent, policy.bytes_max - ledger.bytes_sent


class FlightState(Enum):
    OPEN = "takes runs"
    FULL = "takes no more runs and waits for a ledger"
    SENT = "is on its way to the disk"
    DURABLE = "is on the disk"
    REFUSED = "is not stored"


_OPEN: Final = FlightState.OPEN


class Flight:
    """Runs that are appended to a ledger at once, and answered in order once that is over."""

    __slots__ = (
        "_bytes_max",
        "_entries_max",
        "_error",
        "count",
        "entries",
        "first",
        "ledger",
        "runs",
        "size",
        "state",
    )

    ledger: OpenLedger
    """Where it was sent to."""
    first: int
    """The id of its first entry there."""
    entries: Sequence[bytes]
    """Those of all its runs, as they were sent."""

    def __init__(self, entries_max: float, bytes_max: float) -> None:
        """It is full as soon as it reaches one of the limits."""
        self.state = FlightState.OPEN
        self.runs: list[Run] = []
        self.count = 0
        self.size = 0
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._error: BrokerError | None = None

    def add(self, run: Run) -> None:
        """Let a run go along; only an open flight takes any."""
        assert self.state is _OPEN, f"a flight that {self.state.value}"
        self.runs.append(run)
        self.count += len(run.entries)
        self.size += run.size
        if self.count >= self._entries_max or self.size >= self._bytes_max:
            self.state = FlightState.FULL

    @property
    def is_waiting(self) -> bool:
        """Whether it was not sent yet."""
        return self.state is FlightState.OPEN or self.state is FlightState.FULL

    @property
    def is_over(self) -> bool:
        """Whether its runs can be answered."""
        return self.state is FlightState.DURABLE or self.state is FlightState.REFUSED

    def send(self, ledger: OpenLedger, done: Callable[[BrokerError | None], None]) -> None:
        """Append everything to a ledger. Raise LedgerSealed when that takes nothing any more; the
        flight then waits as before.
        """
        runs = self.runs
        entries = runs[0].entries if len(runs) == 1 else [e for run in runs for e in run.entries]
        self.first = ledger.writer.append(entries, done, self.size)
        self.ledger, self.entries = ledger, entries
        self.state = FlightState.SENT
        ledger.entries_sent += self.count
        ledger.bytes_sent += self.size

    def land(self) -> None:
        """Everything is durable: note it in the sequence of ledgers."""
        self.state = FlightState.DURABLE
        part = self.ledger.part
        if not part.sealed_ms:  # else sealing has reported the same
            part.entries = self.first + self.count
            part.size += self.size

    def refuse(self, error: BrokerError) -> None:
        self.state = FlightState.REFUSED
        self._error = error

    def counts(self) -> Sequence[int]:
        """How many messages each entry holds."""
        runs = self.runs
        return runs[0].counts if len(runs) == 1 else [n for run in runs for n in run.counts]

    def answer(self) -> None:
        """Answer each run, in order."""
        first = 0 if self.state is FlightState.REFUSED else self.first
        for run in self.runs:
            try:
                if self._error is not None:
                    run.on_refused(self._error)
                else:
                    run.on_durable(_make(Position, (self.ledger.part.ledger_id, first)))
            # One sender's bug must not keep the others from their answer.
            except Exception as problem:
                _logger.error("the answer to a run failed", error=problem)
            first += len(run.entries)


class FlightHost(Protocol):
    """What the queue of flights needs of its log."""

    @property
    def ledger(self) -> OpenLedger | None:
        """The one that takes flights."""

    @property
    def policy(self) -> LogPolicy: ...

    def change_ledger(self) -> None:
        """Open a fresh ledger on the side, then `send`."""

    def leave_full(self) -> None:
        """Change the ledger if it was given enough."""

    def on_durable(self, flight: Flight) -> None: ...
    def on_refused(self, flight: Flight, error: BrokerError) -> None: ...


class FlightQueue:
    """What was appended to a log and is not answered, in order. Only the last flight may be open;
    it leaves with the next commit of the ledger store.

    When a flight is refused, so is everything behind it that is not durable: what is stored of a
    producer never has a hole that a resend would fill out of order.
    """

    __slots__ = ("_clock", "_flights", "_host", "_loop", "_record", "_store")

    def __init__(
        self, host: FlightHost, record: LogRecord, store: LedgerStore, clock: Clock
    ) -> None:
        self._host = host
        self._record = record
        self._store = store
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._flights: deque[Flight] = deque()

    def __len__(self) -> int:
        return len(self._flights)

    def append(self, run: Run) -> None:
        """Queue a run; it is answered once it is durable or refused, in order of the appends.

        Never blocks. Entry i of the run stands i after the first, in the same ledger.
        """
        flights = self._flights
        flight = flights[-1] if flights and flights[-1].state is _OPEN else self._open()
        flight.add(run)
        if flight.state is not _OPEN:
            self.send()

    def follow(self, run: Run) -> None:
        """Answer a run without entries when those appended before it, and not answered yet, are."""
        self._flights[-1].runs.append(run)

    @property
    def runs(self) -> int:
        """How many are not answered."""
        return sum(len(flight.runs) for flight in self._flights)

    @property
    def waiting_bytes(self) -> int:
        """What the ledger store was not given yet."""
        return sum(flight.size for flight in self._flights if flight.is_waiting)

    def send(self) -> None:
        """Hand the flights that wait to the open ledger, as far as it takes them; refuse them when
        the log takes nothing.
        """
        host = self._host
        refusal = self._record.refusal()
        if refusal is not None:
            self.refuse_waiting(refusal)
            return
        for flight in self._flights:
            if not flight.is_waiting:
                continue
            if host.ledger is None:
                host.change_ledger()
                return
            try:
                flight.send(host.ledger, partial(self._on_outcome, flight))
            except LedgerSealed:
                host.change_ledger()
                return
            host.leave_full()

    def refuse_waiting(self, error: BrokerError) -> None:
        """Refuse what no ledger was given yet."""
        for flight in self._flights:
            if flight.is_waiting:
                flight.refuse(error)
        self._answer()

    def _open(self) -> Flight:
        """A flight for the runs that come until the next commit."""
        host = self._host
        flight = Flight(*measure_room(host.ledger, host.policy, now_ms=self._clock.now_ms()))
        self._flights.append(flight)
        if not self._record.is_open:
            self._loop.call_soon(self.send)  # which refuses it
        elif host.ledger is None:
            host.change_ledger()
        else:
            self._store.commit_soon(self.send)
        return flight

    def _on_outcome(self, flight: Flight, error: BrokerError | None) -> None:
        if error is None:
            flight.land()
            self._host.on_durable(flight)
            self._answer()
        else:
            flight.refuse(error)
            self._host.on_refused(flight, error)
            self.refuse_waiting(error)

    def _answer(self) -> None:
        flights = self._flights
        while flights and flights[0].is_over:
            flights[0].answer()
            flights.popleft()
