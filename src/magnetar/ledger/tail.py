"""The open ledger at the end of a chain, and the runs on their way into it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from magnetar.errors import BrokerError
from magnetar.ledger.info import ChainPolicy
from magnetar.ledger.sequence import Part
from magnetar.ledger.store import LedgerWriter
from magnetar.model.position import Position
from magnetar.runtime.clock import Clock

Appended: TypeAlias = Callable[[Position | None, BrokerError | None], None]
"""Called with the position of a run's first entry, or with the refusal."""


_make: Final = tuple.__new__
"""Of a named tuple too, without a detour: one is made for each run."""


class PendingRun:
    """A run that was handed in and not answered yet."""

    __slots__ = ("counts", "done", "entries", "error", "first", "settled", "size")

    def __init__(
        self, entries: Sequence[bytes], counts: Sequence[int], done: Appended, size: int
    ) -> None:
        self.entries = entries
        self.counts = counts
        self.size = sum(map(len, entries)) if size < 0 else size
        self.done = done
        self.first: Position | None = None
        self.error: BrokerError | None = None
        self.settled = False

    def refuse(self, error: BrokerError) -> None:
        if not self.settled:
            self.error = error
            self.settled = True


class Tail:
    """Hands runs to one ledger writer and hears of each, in order, whether it is durable."""

    __slots__ = (
        "_bytes_durable",
        "_on_durable",
        "_on_refused",
        "_sent",
        "bytes_sent",
        "created_ms",
        "entries_sent",
        "part",
        "writer",
    )

    def __init__(
        self,
        writer: LedgerWriter,
        part: Part,
        *,
        created_ms: int,
        on_durable: Callable[[PendingRun, Position], None],
        on_refused: Callable[[Tail, BrokerError], None],
    ) -> None:
        self.writer = writer
        self.part = part
        self.created_ms = created_ms
        self.entries_sent = 0
        self.bytes_sent = 0
        self._bytes_durable = 0
        self._sent: deque[PendingRun] = deque()
        self._on_durable = on_durable
        self._on_refused = on_refused

    def append(self, run: PendingRun) -> None:
        """Raise LedgerSealed when the writer is dead; the run is then untouched."""
        entries = run.entries
        first = self.writer.append(entries, self._on_done, run.size)
        run.first = _make(Position, (self.part.ledger_id, first))
        self._sent.append(run)
        self.entries_sent += len(entries)
        self.bytes_sent += run.size

    def extend(self, known: Sequence[bytes], entries: Sequence[bytes], size: int) -> bool:
        """Add entries to the last run, if that holds exactly the list of `known` ones and has not
        left. The caller then adds them to its lists, which are the run's too.
        """
        if not self._sent or self._sent[-1].entries is not known:
            return False
        if not self.writer.extend(entries, size):
            return False
        self._sent[-1].size += size
        self.entries_sent += len(entries)
        self.bytes_sent += size
        return True

    def is_full(self, policy: ChainPolicy, clock: Clock) -> bool:
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

    def _on_done(self, error: BrokerError | None) -> None:
        run = self._sent.popleft()
        first = run.first
        assert first is not None
        if error is not None:
            run.refuse(error)
            self._on_refused(self, error)
            return
        run.settled = True
        self._bytes_durable += run.size
        part, end = self.part, first.entry_id + len(run.entries)
        if end > part.entries:  # sealing may have told the same already
            part.entries = end
        if self._bytes_durable > part.size:
            part.size = self._bytes_durable
        self._on_durable(run, first)
