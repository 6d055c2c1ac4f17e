"""The shared journal: one group commit for the appends of every ledger.

Everything queued while a group is on its way to the disk forms the next group. One worker writes
and syncs; all bookkeeping happens on the event loop.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from magnetar.errors import BrokerError, StorageFailed, StorageFull
from magnetar.ledger.backends.file.extent import ExtentWriter, Point, Written
from magnetar.ledger.backends.file.group import Control, Gathered, Group
from magnetar.ledger.backends.file.record import Kind
from magnetar.ledger.backends.file.witness import MetadataWitness
from magnetar.ledger.store import Appended
from magnetar.runtime.clock import Clock, Timer
from magnetar.runtime.log import Logger
from magnetar.runtime.worker import Workers

_log = Logger(__name__)

_WITNESS_S: Final = 0.05
"""How long the metadata's last commit waits for a group to go with."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def storage_error(what: str, error: OSError) -> BrokerError:
    """The refusal a failed disk operation means."""
    place = f" on {error.filename}" if error.filename else ""
    sentence = f"{what} failed{place}: {error.strerror or error}"
    return StorageFull(sentence) if error.errno in _FULL else StorageFailed(sentence)


class Journal:
    """Queues on the event loop, writes in a worker of its own, answers on the event loop in
    order."""

    def __init__(
        self,
        writer: ExtentWriter,
        after: Point,
        seen: MetadataWitness | None,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        workers: Workers,
        on_written: Callable[[Written], None],
        on_failed: Callable[[Iterable[int]], None],
    ) -> None:
        self._writer = writer
        self._loop = loop
        self._clock = clock
        self._on_written = on_written
        self._on_failed = on_failed
        self._gathering = Group()
        self._in_flight: Group | None = None
        self._joining: list[Callable[[], None]] = []
        self._is_awaited = False  # some of those have entries to write
        self._scheduled = False
        self._worker = workers("ledger-journal")
        self.point = after
        """Where the last group ended that is known to be durable."""
        self.metadata = seen
        """How far the metadata has come, as far as the journal knows."""
        self._unwritten: MetadataWitness | None = None
        self._timer: Timer | None = None
        self.trouble: str | None = None
        """Why groups with entries are refused; None when they are not."""
        self.queued_bytes = 0
        self.groups = 0
        self.syncs = 0
        self.write_s = 0.0
        self.bytes_written = 0

    def append(
        self, ledger: int, first: int, entries: Sequence[bytes], size: int, done: Appended
    ) -> None:
        self.queued_bytes += size
        group = self._gathering
        gathered = group.runs.get(ledger)
        if gathered is None:
            group.runs[ledger] = Gathered(first, entries, size)
        else:
            gathered.add(entries, size)
        group.payload_bytes += size
        group.done.append(done)
        if self._in_flight is None and not self._scheduled:
            self._schedule()

    def control(
        self, kind: Kind, ledger: int, number: int, done: Appended, body: bytes = b""
    ) -> None:
        self._gathering.controls.append(Control(kind, ledger, number, body))
        self._gathering.done.append(done)
        self._schedule()

    def commit_soon(self, write: Callable[[], None]) -> None:
        """Have a group leave, and call `write` when it is about to."""
        self._joining.append(write)
        self._is_awaited = True
        self._schedule()

    def join(self, write: Callable[[], None]) -> None:
        """Call `write` when the next group is about to leave."""
        self._joining.append(write)

    def note_metadata(self, identity: str, commits: int) -> None:
        """Goes with the next group; when none comes, with one of its own."""
        noted = MetadataWitness(identity, commits)
        if noted == self.metadata:
            return
        self.metadata = self._unwritten = noted
        if self._timer is None:
            self._timer = self._clock.call_later(_WITNESS_S, self._write_witness)

    def _write_witness(self) -> None:
        self._timer = None
        if self._unwritten is not None:
            self._gathering.done.append(lambda _: None)
            self._schedule()

    async def drain(self) -> None:
        """Return when everything queued before was answered."""
        if self._timer is not None:
            self._timer.cancel()
        passed = self._loop.create_future()
        self._gathering.done.append(lambda _: passed.set_result(None))
        self._schedule()
        await asyncio.shield(passed)

    def stop(self) -> None:
        """End the worker; call it when drained."""
        self._worker.submit(self._writer.close)
        self._worker.close()

    def _schedule(self) -> None:
        if not self._scheduled and self._in_flight is None:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._in_flight is None and (self._is_awaited or self._gathering.done):
            self._scheduled = True  # what is appended now leaves with this group
            self._is_awaited = False
            joining, self._joining = self._joining, []
            for write in joining:
                _call(write)
            if self._gathering.done:
                self._leave()
        self._scheduled = False
        if self._is_awaited:
            self._schedule()

    def _leave(self) -> None:
        self._in_flight, self._gathering = self._gathering, Group()
        if self._unwritten is not None:
            identity, commits = self._unwritten
            self._unwritten = None
            self._in_flight.controls.append(Control(Kind.WITNESS, 0, commits, identity.encode()))
        self._worker.submit(self._write, self._in_flight)

    def _write(self, group: Group) -> None:
        """In the worker."""
        outcome: Written | Exception | None
        try:
            if group.runs and self.trouble is not None:
                raise OSError(errno.ENOSPC, self.trouble)
            has_records = group.runs or group.controls
            started_s = self._clock.monotonic()
            outcome = self._writer.write(group) if has_records else None
            write_s = self._clock.monotonic() - started_s
        # Whatever went wrong, callers wait for an answer.
        except Exception as error:
            outcome, write_s = error, 0.0
        try:
            self._loop.call_soon_threadsafe(self._on_outcome, group, outcome, write_s)
        except RuntimeError:
            self._writer.close()  # the loop was closed under the store: no caller waits any more

    def _on_outcome(
        self, group: Group, outcome: Written | Exception | None, write_s: float
    ) -> None:
        self._in_flight = None
        if isinstance(outcome, Exception):
            self._refuse(group, outcome)
            return
        if outcome is not None:
            self.groups += 1
            self.syncs += outcome.syncs
            self.write_s += write_s
            self.bytes_written += outcome.size
            self.point = outcome.point
            self.queued_bytes -= group.payload_bytes
            self._on_written(outcome)
        self._flush()  # the disk goes on while the answers are given
        self._answer(group.done, None)

    def _refuse(self, group: Group, error: Exception) -> None:
        """Refuse what was in flight and what gathered behind it: later runs of a ledger must not
        outlive earlier ones."""
        behind, self._gathering = self._gathering, Group()
        self._unwritten = self.metadata
        self.queued_bytes -= group.payload_bytes + behind.payload_bytes
        if isinstance(error, OSError):
            refusal = storage_error("the journal's write", error)
            _log.warning("journal write failed", reason=refusal.sentence)
        else:
            refusal = StorageFailed(f"the journal's write failed: {error!r}")
            _log.error("journal write failed", error=error)
        self._on_failed({**group.runs, **behind.runs})
        self._answer([*group.done, *behind.done], refusal)
        if self._is_awaited:
            self._schedule()

    def _answer(self, waiting: Iterable[Appended], error: BrokerError | None) -> None:
        for done in waiting:
            _call(done, error)


def _call(callback: Callable[..., None], *words: BrokerError | None) -> None:
    """A caller's bug must not keep the others from their answer."""
    try:
        callback(*words)
    except Exception as problem:
        _log.error("an append's callback failed", error=problem)
