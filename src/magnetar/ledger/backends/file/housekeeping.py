"""Work behind the appends: settling, checkpoints of the catalogue, removal of what is no longer
needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from magnetar.errors import BrokerError, LedgerCorrupt
from magnetar.ledger.backends.file.catalogue import CatalogueHead, encode_catalogue, store_catalogue
from magnetar.ledger.backends.file.disk import Disk
from magnetar.ledger.backends.file.extent import extent_name
from magnetar.ledger.backends.file.journal import Journal, storage_error
from magnetar.ledger.backends.file.ledger import FileLedger, Part
from magnetar.ledger.backends.file.part import SEALED_DIRECTORY
from magnetar.ledger.backends.file.record import Kind
from magnetar.ledger.backends.file.settlement import (
    JOURNAL_DIRECTORY,
    Errand,
    SettlingStopped,
    plan_errand,
    settle_parts,
)
from magnetar.ledger.backends.file.usage import FilePolicy, JournalUsage
from magnetar.runtime.clock import Clock, Timer
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope
from magnetar.runtime.worker import Workers

_log = Logger(__name__)

_BATCH_MAX: Final = 64
_BATCH_BYTES_MAX: Final = 64 * 1024 * 1024


class Housekeeping:
    """One pass at a time, in a worker of its own. The order of a pass is what makes it safe at any
    crash:

    a part is durable under its name before the journal notes it, the catalogue is durable before an
    extent goes.
    """

    def __init__(
        self,
        root: Path,
        disk: Disk,
        policy: FilePolicy,
        *,
        ledgers: dict[int, FileLedger],
        usage: JournalUsage,
        journal: Journal,
        next_ledger: Callable[[], int],
        sequence: int,
        is_mended: bool,
        clock: Clock,
        workers: Workers,
    ) -> None:
        self._root = root
        self._disk = disk
        self._policy = policy
        self._ledgers = ledgers
        self._usage = usage
        self._journal = journal
        self._next_ledger = next_ledger
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._worker = workers("ledger-housekeeping")
        self._tasks = TaskScope("ledger housekeeping")
        self._one_pass = asyncio.Lock()
        self._timer: Timer | None = None
        self._closing = False
        self._current = 0
        """The extent being written; 0 until the first one was opened."""
        self._sequence = sequence
        self._rolled = is_mended
        self._sealed = {
            ledger.id: ledger
            for ledger in ledgers.values()
            if ledger.sealed and not ledger.is_settled
        }
        self._doomed: list[Path] = []
        if is_mended or self._sealed or usage.freed(self._current) or self._relief() is not None:
            self._wake(policy.settle_after_s)

    def on_sealed(self, ledger: FileLedger) -> None:
        self._sealed[ledger.id] = ledger
        self._wake(self._policy.settle_after_s)

    def on_deleted(self, ledger: FileLedger) -> None:
        self._sealed.pop(ledger.id, None)
        self._doomed += self._part_paths(ledger)
        self._wake(self._policy.settle_after_s)

    def on_rolled(self, extent: int) -> None:
        self._current = extent
        self._rolled = True
        self._wake(self._policy.settle_after_s)

    async def run(self) -> None:
        """One pass. Raise StorageFull or StorageFailed when the disk refuses; what was done stays
        done."""
        async with self._one_pass:
            try:
                await self._settle(tuple(self._sealed.values()))
                if (through := self._relief()) is not None:
                    await self._settle(self._crowding(through), through)
                await self._remove_doomed()
                if self._rolled or self._usage.freed(self._current):
                    await self._checkpoint()
            except OSError as error:
                raise storage_error("housekeeping of the ledgers", error) from error

    async def remove_parts(self, ledger: FileLedger) -> None:
        """Remove a ledger's own files before its deletion is recorded."""
        try:
            await self._worker.run(self._remove_files, self._part_paths(ledger))
        except OSError as error:
            raise storage_error(f"deleting ledger {ledger.id}", error) from error

    async def close(self) -> None:
        """Wait for the pass under way, then leave a catalogue that covers all of the journal."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        async with self._one_pass:
            try:
                await self._remove_doomed()
                await self._checkpoint()
            except OSError as error:
                refusal = storage_error("the last checkpoint", error)
                _log.warning("the journal will be replayed", reason=refusal.sentence)
        await self._tasks.close()
        self._worker.close()

    def _wake(self, after_s: float) -> None:
        if self._timer is None and not self._closing:
            self._timer = self._clock.call_later(after_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._tasks.start(self._run_later(), "pass")

    async def _run_later(self) -> None:
        try:
            await self.run()
        except BrokerError as error:
            _log.warning("ledger housekeeping waits", reason=error.sentence)
            self._wake(self._policy.retry_after_s)

    def _relief(self) -> int | None:
        return self._usage.plan_relief(self._policy, self._current)

    def _crowding(self, through: int) -> tuple[FileLedger, ...]:
        """Ledgers that keep the oldest extents of an overgrown journal alive."""
        return tuple(
            ledger
            for ledger in self._ledgers.values()
            if ledger.runs is not None and ledger.runs.first_extent <= through
        )

    async def _settle(self, ledgers: Sequence[FileLedger], through: int | None = None) -> None:
        for batch in self._batches(ledgers):
            if self._closing:
                return
            errands = [plan_errand(ledger, through) for ledger in batch]
            try:
                outcomes = await self._worker.run(self._settle_batch, errands)
            except SettlingStopped:
                return
            noted = [
                self._note(ledger, outcome)
                for ledger, outcome in zip(batch, outcomes, strict=True)
                if not self._is_refused(ledger, outcome)
            ]
            await asyncio.gather(*noted)

    def _batches(self, ledgers: Sequence[FileLedger]) -> Iterator[list[FileLedger]]:
        """Ledgers that may still be settled, a few at a time: one directory sync serves a batch."""
        batch: list[FileLedger] = []
        size = 0
        for ledger in ledgers:
            if self._ledgers.get(ledger.id) is not ledger or not ledger.can_settle:
                self._sealed.pop(ledger.id, None)
                continue
            if ledger.is_settled:
                continue
            batch.append(ledger)
            size += ledger.runs.payload_bytes if ledger.runs is not None else 0
            if len(batch) >= _BATCH_MAX or size >= _BATCH_BYTES_MAX:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _is_refused(self, ledger: FileLedger, outcome: Part | LedgerCorrupt) -> bool:
        if not isinstance(outcome, LedgerCorrupt):
            return False
        _log.error("a ledger cannot be settled", ledger=ledger.id, reason=outcome.sentence)
        ledger.unsettleable = True
        self._sealed.pop(ledger.id, None)
        return True

    def _note(self, ledger: FileLedger, part: Part | LedgerCorrupt) -> asyncio.Future[None]:
        """Record a part in the journal; from then on its runs there are garbage."""
        assert isinstance(part, Part)
        answered: asyncio.Future[None] = self._loop.create_future()

        def done(error: BrokerError | None) -> None:
            if error is not None:
                answered.set_exception(error)
                return
            if self._ledgers.get(ledger.id) is ledger:
                self._usage.release(ledger.settle(part))
                if part.final:
                    self._sealed.pop(ledger.id, None)
            else:
                self._doomed.append(self._root / SEALED_DIRECTORY / part.name(ledger.id))
            answered.set_result(None)

        body = msgspec.msgpack.encode(part)
        self._journal.control(Kind.SETTLE, ledger.id, part.last, done, body)
        return answered

    def _settle_batch(self, errands: list[Errand]) -> list[Part | LedgerCorrupt]:
        return settle_parts(self._disk, self._root, errands, lambda: self._closing)

    async def _remove_doomed(self) -> None:
        doomed, self._doomed = self._doomed, []
        if doomed:
            await self._worker.run(self._remove_files, doomed)

    async def _checkpoint(self) -> None:
        """Write the catalogue as of the last durable group, then remove the extents it does
        without."""
        freed = self._usage.freed(self._current)
        self._rolled = False
        head = CatalogueHead(
            next_ledger=self._next_ledger(),
            covered_extent=self._journal.point.extent,
            covered_end=self._journal.point.end,
            extents=self._usage.ends(without=freed),
            sequence=self._sequence + 1,
            witness=self._journal.metadata,
        )
        self._sequence += 1
        encoded = [ledger.encoded() for ledger in self._ledgers.values()]
        try:
            await self._worker.run(self._store_catalogue, head, encoded)
        except OSError:
            self._rolled = True
            raise
        # Only forward from here: the catalogue no longer names these extents.
        journal = self._root / JOURNAL_DIRECTORY
        for number in freed:
            self._usage.remove(number)
        if freed:
            await self._worker.run(
                self._remove_files, [journal / extent_name(number) for number in freed]
            )

    def _store_catalogue(self, head: CatalogueHead, encoded: list[bytes]) -> None:
        store_catalogue(self._disk, self._root, encode_catalogue(head, encoded))

    def _remove_files(self, paths: list[Path]) -> None:
        for path in paths:
            self._disk.remove(path)

    def _part_paths(self, ledger: FileLedger) -> list[Path]:
        directory = self._root / SEALED_DIRECTORY
        return [directory / part.name(ledger.id) for part in ledger.parts]
