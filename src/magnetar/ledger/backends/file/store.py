"""The file ledger store: a shared journal in front, settled parts behind, a catalogue over both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from magnetar.errors import (
    BrokerError,
    DataDirectoryRefused,
    LedgerCorrupt,
    LedgerFenced,
    LedgerNotFound,
    StorageFull,
    StoreClosed,
)
from magnetar.ledger.backends.file.catalogue import EMPTY, encode_catalogue, store_catalogue
from magnetar.ledger.backends.file.disk import Disk, SystemDisk
from magnetar.ledger.backends.file.extent import ExtentWriter, Written
from magnetar.ledger.backends.file.housekeeping import Housekeeping
from magnetar.ledger.backends.file.journal import Journal, storage_error
from magnetar.ledger.backends.file.ledger import FileLedger
from magnetar.ledger.backends.file.part import SEALED_DIRECTORY
from magnetar.ledger.backends.file.reader import RunReader
from magnetar.ledger.backends.file.record import Kind
from magnetar.ledger.backends.file.recovery import Examined, examine, repair
from magnetar.ledger.backends.file.settlement import JOURNAL_DIRECTORY
from magnetar.ledger.backends.file.usage import FilePolicy
from magnetar.ledger.backends.file.witness import (
    LedgerWitness,
    MetadataWitness,
    format_witness,
)
from magnetar.ledger.backends.file.writer import FileLedgerWriter
from magnetar.ledger.store import Digest, LedgerInfo, Replication
from magnetar.model.position import EntryId, LedgerId, Term
from magnetar.runtime.clock import SYSTEM, Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.worker import ThreadWorker, Workers, run_in_thread

_log = Logger(__name__)

_READ_ATTEMPTS = 3
"""A run may move from the journal to a part while it is read; it moves at most once."""

TakeId: TypeAlias = Callable[[int], Awaitable[int]]
"""Finds an id that no ledger has or had, and that is not below the one given."""


async def open_file_store(
    path: Path,
    *,
    sync: bool = True,
    disk: Disk | None = None,
    policy: FilePolicy | None = None,
    seen: LedgerWitness | None = None,
    check_metadata: Callable[[MetadataWitness | None], None] = lambda seen: None,
    clock: Clock = SYSTEM,
    workers: Workers = ThreadWorker,
    take_id: TakeId | None = None,
) -> FileLedgerStore:
    """Open the store in directory `path`, which is made when missing; recovery runs in a thread.

    With `sync` off, an acknowledged entry survives the process but not the machine. `seen` is what
    the metadata has seen of the journal; raise DataDirectoryRefused when that is not there.
    `check_metadata` raises when the metadata is not what the journal has seen of it. Either leaves
    everything as it is. `take_id` is for files that other processes have their part in: it chooses
    the ids of ledgers, none below the one it is given.
    """
    chosen = SystemDisk() if disk is None else disk
    try:
        examined = await run_in_thread(_prepare, path, chosen, seen, check_metadata)
    except OSError as error:
        raise storage_error("opening the ledgers", error) from error
    return FileLedgerStore(
        path,
        chosen,
        policy or FilePolicy(),
        examined,
        sync=sync,
        clock=clock,
        workers=workers,
        take_id=take_id,
    )


def _prepare(
    root: Path,
    disk: Disk,
    seen: LedgerWitness | None,
    check_metadata: Callable[[MetadataWitness | None], None],
) -> Examined:
    for directory in (root, root / JOURNAL_DIRECTORY, root / SEALED_DIRECTORY):
        disk.make_directory(directory)
    examined = examine(root, disk, seen=seen)
    if examined.shortfall is not None:
        raise DataDirectoryRefused(
            f"the ledgers are older than the metadata, or the end of the journal is lost:"
            f" {examined.shortfall}. Bring back the ledgers that belong to the metadata, or the"
            " whole directory from a backup; to go on without what is missing, run"
            " `magnetar doctor --repair`"
        )
    check_metadata(examined.witness)
    for finding in examined.findings:
        report = _log.warning if finding.is_harmless else _log.error
        report("ledger recovery", finding=finding)
    repair(examined, disk)
    if examined.is_new:
        store_catalogue(disk, root, encode_catalogue(EMPTY.head, ()))
        disk.sync_directory(root.parent)
    return examined


class FileLedgerStore:
    """Everything here runs on the event loop; disk work runs in workers this store owns."""

    is_apache_readable = False
    list_bookies = None

    def __init__(
        self,
        root: Path,
        disk: Disk,
        policy: FilePolicy,
        examined: Examined,
        *,
        sync: bool,
        clock: Clock,
        workers: Workers,
        take_id: TakeId | None = None,
    ) -> None:
        self.is_shared: Final = take_id is not None
        self._take_id = take_id
        self._loop = asyncio.get_running_loop()
        self._root = root
        self._disk = disk
        self._ledgers = examined.ledgers
        self._next_ledger = examined.next_ledger
        self._usage = examined.usage
        self._sync = sync
        self._closed = False
        self._owed_seals: set[int] = set()
        writer = ExtentWriter(
            root / JOURNAL_DIRECTORY,
            disk,
            sync=sync,
            extent_bytes_max=policy.extent_bytes_max,
            extent_records_max=policy.extent_records_max,
            run_bytes_max=policy.run_bytes_max,
            after=examined.point,
            next_extent=examined.next_extent,
        )
        self._journal = Journal(
            writer,
            examined.point,
            examined.witness,
            loop=self._loop,
            clock=clock,
            workers=workers,
            on_written=self._on_written,
            on_failed=self._on_failed,
        )
        self._reader = RunReader(
            root, disk, cached_bytes_max=policy.cached_bytes_max, workers=workers
        )
        self._housekeeping = Housekeeping(
            root,
            disk,
            policy,
            ledgers=self._ledgers,
            usage=self._usage,
            journal=self._journal,
            next_ledger=lambda: self._next_ledger,
            sequence=examined.sequence,
            is_mended=examined.is_mended,
            clock=clock,
            workers=workers,
        )

    async def create(
        self,
        *,
        term: Term,
        properties: Mapping[str, str],
        deletion_intended: bool = False,
        replication: Replication | None = None,
        digest: Digest = Digest.CRC32C,
    ) -> FileLedgerWriter:
        self._check_open()
        if self.trouble is not None:
            raise StorageFull(self.trouble)
        self._seal_failed()
        number = self._next_ledger
        if self._take_id is not None:
            number = await self._take_id(number)
        ledger = FileLedger(number, term, properties)
        self._next_ledger = max(self._next_ledger, number + 1)
        body = msgspec.json.encode(ledger.properties)

        def created() -> None:
            self._ledgers[ledger.id] = ledger
            ledger.writable = not self._closed

        records = [self._record(Kind.CREATE, ledger.id, term, created, body)]
        if deletion_intended:
            records.append(self._intend(ledger, True))  # in the same group
        await asyncio.gather(*records)
        return FileLedgerWriter(ledger, self._journal, self._seal)

    async def recover(self, ledger: LedgerId, *, term: Term) -> LedgerInfo:
        found = self._find(ledger)
        if self.is_shared:
            term = Term(max(term, found.claimed_term))
        if term < found.claimed_term:
            raise LedgerFenced(
                f"ledger {ledger} belongs to term {found.claimed_term}, not to term {term}"
            )
        found.writable = False
        if found.damage is not None and found.damage.open_end and not found.sealed:
            found.check(found.damage.first)
        found.claimed_term = term
        pending: list[Awaitable[None]] = []
        if term > found.term:
            pending.append(self._record(Kind.FENCE, found.id, term, partial(found.fence, term)))
        if not found.sealed:
            pending.append(self._seal(found))
        await asyncio.gather(*pending)
        return found.info

    async def describe(self, ledger: LedgerId) -> LedgerInfo:
        return self._find(ledger).info

    async def read(
        self, ledger: LedgerId, first: EntryId, *, entries_max: int, bytes_max: int
    ) -> list[bytes]:
        assert first >= 0
        missing: object = None
        for _ in range(_READ_ATTEMPTS):
            found = self._find(ledger)
            found.check(first)
            if first > found.last or entries_max < 1:
                return []
            readable = min(entries_max, found.readable_end(first) - first)
            try:
                return await self._reader.read(
                    found, first, entries_max=readable, bytes_max=bytes_max
                )
            except FileNotFoundError as error:
                missing = error.filename
            except OSError as error:
                raise storage_error(f"reading ledger {ledger}", error) from error
        raise LedgerCorrupt(f"ledger {ledger}, entry {first}: {missing} is missing")

    async def intend_deletion(self, ledgers: Collection[LedgerId]) -> None:
        self._check_open()
        found = [each for number in ledgers if (each := self._ledgers.get(number)) is not None]
        intents = [self._intend(each, True) for each in found if not each.deletion_intended]
        try:
            await asyncio.gather(*intents)
        except StorageFull as refusal:
            # To delete makes room. After a crash in between, the ledgers are kept and reported.
            _log.warning("deletion goes on without its record", reason=refusal.sentence)

    def cancel_deletion(self, ledgers: Collection[LedgerId]) -> None:
        for number in ledgers:
            found = self._ledgers.get(number)
            if found is not None and found.deletion_intended and not self._closed:
                self._intend(found, False).add_done_callback(asyncio.Future.exception)

    def _intend(self, ledger: FileLedger, intended: bool) -> asyncio.Future[None]:
        applied = partial(ledger.intend_deletion, intended)
        return self._record(Kind.INTEND, ledger.id, int(intended), applied)

    def witness(self) -> str:
        """What the metadata keeps of this store; nothing when its end need not survive a crash."""
        if not self._sync:
            return ""
        point = self._journal.point
        return format_witness(LedgerWitness(point.extent, point.end, self._next_ledger))

    def note_metadata(self, identity: str, commits: int) -> None:
        """How far the metadata has come; written with what is written next, or soon."""
        if not self._closed:
            self._journal.note_metadata(identity, commits)

    async def delete(self, ledger: LedgerId) -> None:
        self._check_open()
        found = self._ledgers.get(ledger)
        if found is None:
            return
        found.writable = False
        try:
            await self._record(Kind.DELETE, found.id, 0, partial(self._forget, found))
        except StorageFull:
            # On a full disk the record finds no room, but the ledger's own files can make some.
            await self._housekeeping.remove_parts(found)
            await self._record(Kind.DELETE, found.id, 0, partial(self._forget, found))

    async def ledgers(self) -> tuple[LedgerId, ...]:
        self._check_open()
        return tuple(map(LedgerId, sorted(self._ledgers)))

    async def settle(self) -> None:
        """Settle what is sealed and give space back now rather than in a while; return when
        done."""
        self._check_open()
        await self._housekeeping.run()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for ledger in self._ledgers.values():
            ledger.writable = False
        await self._journal.drain()
        await self._housekeeping.close()
        self._journal.stop()
        await run_in_thread(self._reader.close)

    def commit_soon(self, write: Callable[[], None]) -> None:
        self._journal.commit_soon(write)

    def join(self, write: Callable[[], None]) -> None:
        self._journal.join(write)

    @property
    def directory(self) -> Path:
        return self._root

    @property
    def trouble(self) -> str | None:
        return self._journal.trouble

    @trouble.setter
    def trouble(self, reason: str | None) -> None:
        """Refuse entries and new ledgers, but nothing that deletes; None: no longer."""
        self._journal.trouble = reason

    @property
    def queued_bytes(self) -> int:
        return self._journal.queued_bytes

    def counters(self) -> Mapping[str, Mapping[str, float]]:
        own = {
            "journal_groups": self._journal.groups,
            "journal_syncs": self._journal.syncs,
            "journal_bytes": self._journal.bytes_written,
            "journal_write_seconds": self._journal.write_s,
        }
        return {"": own}

    @property
    def journal_bytes(self) -> int:
        """The size of the journal on disk."""
        return self._usage.total_bytes

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the ledger store is closed")

    def _find(self, ledger: LedgerId) -> FileLedger:
        self._check_open()
        found = self._ledgers.get(ledger)
        if found is None:
            raise LedgerNotFound(f"ledger {ledger} does not exist")
        return found

    def _record(
        self, kind: Kind, ledger: int, number: int, applied: Callable[[], None], body: bytes = b""
    ) -> asyncio.Future[None]:
        """Queue a control record; `applied` runs once it is durable, whether or not anybody still
        waits."""
        answered: asyncio.Future[None] = self._loop.create_future()

        def done(error: BrokerError | None) -> None:
            if error is None:
                applied()
            if answered.done():
                return
            if error is None:
                answered.set_result(None)
            else:
                answered.set_exception(error)

        self._journal.control(kind, ledger, number, done, body)
        return answered

    def _seal(self, ledger: FileLedger) -> asyncio.Future[None]:
        """Seal behind everything queued: runs and seal stand or fall together."""
        self._check_open()
        last = ledger.next_entry - 1
        return self._record(Kind.SEAL, ledger.id, last, partial(self._on_sealed, ledger, last))

    def _seal_failed(self) -> None:
        """Seal what a failed write has ended: there seems to be room again."""
        for number in sorted(self._owed_seals):
            ledger = self._ledgers.get(number)
            if ledger is None or ledger.sealed:
                self._owed_seals.discard(number)
                continue
            self._seal(ledger).add_done_callback(asyncio.Future.exception)

    def _on_sealed(self, ledger: FileLedger, last: int) -> None:
        ledger.seal(last)
        self._owed_seals.discard(ledger.id)
        self._housekeeping.on_sealed(ledger)

    def _forget(self, ledger: FileLedger) -> None:
        if self._ledgers.pop(ledger.id, None) is None:
            return
        self._owed_seals.discard(ledger.id)
        if ledger.runs is not None:
            self._usage.release(ledger.runs.shares())
        for part in ledger.parts:
            self._reader.forget(self._root / SEALED_DIRECTORY / part.name(ledger.id))
        self._housekeeping.on_deleted(ledger)

    def _on_written(self, written: Written) -> None:
        for extent, (end, records) in written.extents.items():
            if self._usage.note(extent, end, records):
                self._housekeeping.on_rolled(extent)
        for run in written.runs:
            ledger = self._ledgers.get(run.ledger)
            if ledger is None:
                continue
            ledger.add_run(run.first, run.entry_count, run.extent, run.offset, run.size)
            ledger.extend(run.first + run.entry_count - 1, run.payload_bytes)
            self._usage.occupy(run.extent, run.size)

    def _on_failed(self, ledgers: Iterable[int]) -> None:
        for number in ledgers:
            ledger = self._ledgers.get(number)
            if ledger is not None:
                ledger.writable = False
                ledger.next_entry = ledger.last + 1
                self._owed_seals.add(number)
