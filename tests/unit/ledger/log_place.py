"""A log and what it stands on, which survives it as disks survive a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from magnetar.errors import BrokerError
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.flight import PlainRun
from magnetar.ledger.info import LogPolicy
from magnetar.ledger.log import Log
from magnetar.ledger.pace import CursorPace
from magnetar.ledger.store import LedgerStore
from magnetar.model.position import EARLIEST, LedgerId, Position, Term
from magnetar.runtime.clock import LoopClock
from magnetar.testing.ledger import FaultyLedgerStore
from magnetar.testing.log_record import MemoryLogRecords, RecordShelf
from magnetar.testing.memory_ledger import MemoryLedgerStore

BYTES = 2**20
SMALL = LogPolicy(entries_max=10, roll_min_ms=0, roll_max_ms=0)


@dataclass
class StepClock(LoopClock):
    ms: int = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


@dataclass
class Place:
    policy: LogPolicy = SMALL
    clock: StepClock = field(default_factory=StepClock)
    shelf: RecordShelf = field(default_factory=RecordShelf)
    cache: EntryCache = field(default_factory=lambda: EntryCache(64 * BYTES))
    inner: LedgerStore = field(default_factory=MemoryLedgerStore)
    make_records: Callable[[RecordShelf], MemoryLogRecords] = MemoryLogRecords
    interval_s: float = 0.001
    term: int = 1
    count_messages: Callable[[bytes], int] = lambda entry: 1

    def __post_init__(self) -> None:
        self.store = FaultyLedgerStore(self.inner)
        self.records = self.make_records(self.shelf)

    async def open(self, *, birth: Collection[str] | None = None) -> Log:
        """As a new owner would: each time with a higher term."""
        self.term += 1
        self.store = FaultyLedgerStore(self.inner)
        self.records = self.make_records(self.shelf)
        log = Log(
            "persistent://tenant/ns/topic",
            self.store,
            self.records,
            self.policy,
            clock=self.clock,
            term=Term(self.term),
            count_messages=self.count_messages,
            cache=self.cache,
            pace=CursorPace(self.clock, interval_s=self.interval_s),
        )
        return await log.open(birth=birth)

    async def crash(self) -> Log:
        """The owner dies at once; the next one opens what is left."""
        self.store.kill()
        self.records.kill()
        return await self.open()

    def keep(self, **limits: int) -> None:
        self.policy = replace(self.policy, **limits)

    async def ledgers(self) -> tuple[LedgerId, ...]:
        return await self.inner.ledgers()


class Answers:
    """Collects what appends answer, in the order of the answers."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Position | None, BrokerError | None]] = []

    def expect(self, label: str) -> Callable[[Position | None, BrokerError | None], None]:
        return lambda first, error: self.all.append((label, first, error))

    @property
    def labels(self) -> list[str]:
        return [label for label, _, _ in self.all]

    @property
    def positions(self) -> list[Position]:
        return [first for _, first, _ in self.all if first is not None]

    @property
    def errors(self) -> list[type[BrokerError]]:
        return [type(error) for _, _, error in self.all if error is not None]


async def append(log: Log, *entries: bytes) -> Position:
    """Append one run and wait until it is durable."""
    answer: asyncio.Future[Position] = asyncio.get_running_loop().create_future()

    def done(first: Position | None, error: BrokerError | None) -> None:
        if first is not None:
            answer.set_result(first)
        else:
            assert error is not None
            answer.set_exception(error)

    log.flights.append(PlainRun(entries, [1] * len(entries), done))
    async with asyncio.timeout(10):
        return await answer


async def fill(log: Log, count: int) -> list[Position]:
    """Entries `0`, `1`, … one by one."""
    return [await append(log, str(number).encode()) for number in range(count)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def read_all(log: Log, start: Position = EARLIEST, *, step: int = 7) -> list[bytes]:
    found: list[bytes] = []
    while (run := await log.reader.read(start, step, BYTES)) is not None:
        assert 0 < len(run) <= step and len(run.counts) == len(run)
        found += run.data
        start = run.next_position
    return found
