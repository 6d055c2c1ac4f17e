"""The ledger store on Apache BookKeeper."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from functools import partial
from typing import Final

from magnetar.errors import (
    BookieUnavailable,
    LedgerCorrupt,
    LedgerFenced,
    LedgerSealed,
    NotEnoughBookies,
    StoreClosed,
)
from magnetar.ledger.backends.bookkeeper.catalogue import LedgerCatalogue, TakeNumber
from magnetar.ledger.backends.bookkeeper.client import (
    BookieClient,
    Outbox,
    Surroundings,
    TellingClient,
)
from magnetar.ledger.backends.bookkeeper.placement import choose_ensemble, count_racks
from magnetar.ledger.backends.bookkeeper.policy import BookkeeperPolicy
from magnetar.ledger.backends.bookkeeper.reader import EntryReader
from magnetar.ledger.backends.bookkeeper.recovery import LedgerRecovery
from magnetar.ledger.backends.bookkeeper.registry import BookieRegistry
from magnetar.ledger.backends.bookkeeper.writer import BookkeeperWriter, describe_ledger
from magnetar.ledger.store import Digest, LedgerInfo, Replication
from magnetar.metadata.store import MetadataStore
from magnetar.model.position import EntryId, LedgerId, Term
from magnetar.runtime.clock import Clock
from magnetar.runtime.task import TaskScope
from magnetar.wire.bookkeeper import DigestType, LedgerMetadata, LedgerState, Segment

_CLOSED_MAX: Final = 10_000
"""Closed records that are remembered: they do not change, but for bookies that were replaced."""
_CHECKS: Final = 8
"""How often within the time a bookie has it is looked whether it answers."""


class BookkeeperLedgerStore:
    """Everything runs on the event loop. Other processes read and write the same ledgers."""

    is_shared = True
    is_apache_readable = True
    directory = None
    trouble = None

    def __init__(
        self,
        store: MetadataStore,
        take_number: TakeNumber,
        *,
        clock: Clock,
        policy: BookkeeperPolicy,
        root: str = "/ledgers",
        racks: MetadataStore | None = None,
    ) -> None:
        """Of use once it is open. The metadata stores stay the caller's: `racks` is that of the
        brokers, if bookies are registered in another one.
        """
        self._policy = policy
        self._clock = clock
        self._catalogue = LedgerCatalogue(store, root, take_number, clock)
        self.copy_records: Final = self._catalogue.copy
        registry = BookieRegistry(
            store, root, racks=racks or store, clock=clock, quarantine_s=policy.quarantine_s
        )
        self._around = Surroundings(registry, policy, clock, TaskScope("bookkeeper"), Outbox())
        # Reads have connections of their own: a long answer, or a request that a bookie does not
        # know and ends the connection over, holds up no entry. So have recoveries: an answer names
        # no request, and one to a writer that is being fenced, or to a read that did not fence,
        # must not be taken for theirs.
        self._clients: dict[tuple[str, str], BookieClient] = {}
        self._find_appending = partial(self._find, "append")
        self._find_recovering = partial(self._find, "recover")
        self._find_reading = partial(self._find, "read")
        self._telling: dict[str, TellingClient] = {}
        self._reader = EntryReader(self._around, self._find_reading)
        self._writers: dict[int, BookkeeperWriter] = {}
        self._recoveries: dict[int, asyncio.Task[LedgerMetadata]] = {}
        self._closed_records: OrderedDict[int, LedgerMetadata] = OrderedDict()
        self._closed = False
        registry.changed.append(self._on_bookies)
        self.list_bookies: Final = registry.list_all

    async def open(self) -> None:
        """Raise InvalidConfiguration when there is no BookKeeper in the metadata store."""
        await self._catalogue.open()
        await self._around.registry.open()
        self._around.scope.start(self._watch_bookies(), "watch for silent bookies")
        if self._policy.explicit_last_s > 0:
            self._around.scope.start(self._tell_ends(), "tell the ends of idle ledgers")

    async def create(
        self,
        *,
        term: Term,
        properties: Mapping[str, str],
        deletion_intended: bool = False,
        replication: Replication | None = None,
        digest: Digest = Digest.CRC32C,
    ) -> BookkeeperWriter:
        planned = self._plan(properties, replication or self._policy.replication, digest)
        return self._write(*await self._catalogue.create(planned))

    def _plan(
        self, properties: Mapping[str, str], wanted: Replication, digest: Digest
    ) -> LedgerMetadata:
        self._check_open()
        return LedgerMetadata(
            write_quorum=wanted.write_quorum,
            ack_quorum=wanted.ack_quorum,
            segments=(Segment(0, self._choose(wanted)),),
            digest=self._policy.digest if digest is Digest.CRC32C else DigestType[digest.name],
            password=self._policy.password,
            properties=tuple(
                (key, value.encode("utf-8", "surrogateescape")) for key, value in properties.items()
            ),
        )

    def _write(self, number: int, metadata: LedgerMetadata, version: int) -> BookkeeperWriter:
        self._check_open()
        writer = BookkeeperWriter(
            number,
            metadata,
            version,
            self._catalogue,
            self._around,
            self._find_appending,
            lambda ledger: self._writers.pop(ledger, None),
        )
        self._writers[number] = writer
        return writer

    def _choose(self, wanted: Replication) -> tuple[str, ...]:
        registry = self._around.registry
        preferred, failed = registry.candidates()
        there = len(preferred) + len(failed)
        size = min(wanted.ensemble, there)
        racks = registry.known.racks
        bookies = None
        if size >= wanted.write_quorum:
            bookies = choose_ensemble(
                preferred,
                failed,
                racks,
                size=size,
                write_quorum=wanted.write_quorum,
                min_racks=self._policy.min_racks,
                choose=self._clock.chance.choice,
            )
        if bookies is None:
            raise NotEnoughBookies(
                f"{there} bookies take entries, {wanted.write_quorum} copies are asked for: start"
                " bookies, or lower the quorums of the persistence policy"
            )
        least = min(self._policy.min_racks, wanted.write_quorum)
        if self._policy.enforce_racks and count_racks(bookies, racks, wanted.write_quorum) < least:
            raise NotEnoughBookies(f"copies must be on {least} racks, and bookies are on fewer")
        return bookies

    async def recover(self, ledger: LedgerId, *, term: Term) -> LedgerInfo:
        self._check_open()
        found = self._closed_records.get(ledger)
        if found is None:
            writer = self._writers.get(ledger)
            if writer is not None:
                writer.end(LedgerFenced(f"ledger {ledger} was recovered"))
            running = self._recoveries.get(ledger)
            if running is None:
                recovery = LedgerRecovery(
                    ledger, self._catalogue, self._around, self._find_recovering
                )
                running = self._around.scope.start(recovery.run(), f"recover ledger {ledger}")
                self._recoveries[ledger] = running
                running.add_done_callback(lambda _: self._recoveries.pop(ledger, None))
            found = await asyncio.shield(running)
            self._writers.pop(ledger, None)
            self._remember(ledger, found)
        return describe_ledger(ledger, found, found.last, found.length)

    async def describe(self, ledger: LedgerId) -> LedgerInfo:
        self._check_open()
        writer = self._writers.get(ledger)
        if writer is not None and writer.appender.error is None:
            return writer.describe()
        found = await self._load(ledger)
        last, length = found.last, found.length
        if found.state is not LedgerState.CLOSED:
            last, length = await self._reader.read_last(ledger, found)
        return describe_ledger(ledger, found, last, length)

    async def read(
        self, ledger: LedgerId, first: EntryId, *, entries_max: int, bytes_max: int
    ) -> list[bytes]:
        assert first >= 0
        self._check_open()
        writer = self._writers.get(ledger)
        if writer is not None and writer.appender.error is None:
            found, last = writer.metadata, writer.last_confirmed
        else:
            found = await self._load(ledger)
            last = EntryId(found.last)
            if found.state is not LedgerState.CLOSED:
                last = EntryId((await self._reader.read_last(ledger, found))[0])
        if first > last or entries_max < 1:
            return []
        try:
            return await self._reader.read(
                ledger, found, first, last, entries_max=entries_max, bytes_max=bytes_max
            )
        except (BookieUnavailable, LedgerCorrupt):
            # Entries of a lost bookie may have been copied to another, or the ledger deleted.
            self._closed_records.pop(ledger, None)
            renewed = await self._load(ledger)
            if renewed.segments == found.segments:
                raise
            return await self._reader.read(
                ledger, renewed, first, last, entries_max=entries_max, bytes_max=bytes_max
            )

    async def intend_deletion(self, ledgers: Collection[LedgerId]) -> None:
        """Nothing sweeps here, so there is nothing to release."""
        self._check_open()

    def cancel_deletion(self, ledgers: Collection[LedgerId]) -> None:
        """See `intend_deletion`."""

    async def delete(self, ledger: LedgerId) -> None:
        self._check_open()
        writer = self._writers.pop(ledger, None)
        if writer is not None:
            writer.end(LedgerSealed(f"ledger {ledger} was deleted"))
        self._closed_records.pop(ledger, None)
        await self._catalogue.delete(ledger)

    async def ledgers(self) -> tuple[LedgerId, ...]:
        self._check_open()
        return tuple(map(LedgerId, await self._catalogue.list()))

    def commit_soon(self, write: Callable[[], None]) -> None:
        self._around.outbox.commit_soon(write)

    def join(self, write: Callable[[], None]) -> None:
        self._around.outbox.join(write)

    @property
    def queued_bytes(self) -> int:
        return sum(writer.appender.queued_bytes for writer in self._writers.values())

    def counters(self) -> Mapping[str, Mapping[str, float]]:
        """By bookie."""
        return {bookie: asdict(counts) for bookie, counts in self._around.counts.items()}

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for writer in self._writers.values():
            writer.appender.stop()
        await asyncio.gather(*(each.appender.drain() for each in self._writers.values()))
        await self._around.registry.close()
        await self._around.scope.close()
        for client in (*self._clients.values(), *self._telling.values()):
            client.close()

    def _find(self, use: str, bookie: str) -> BookieClient:
        if (use, bookie) not in self._clients:
            self._clients[use, bookie] = BookieClient(bookie, self._around)
        return self._clients[use, bookie]

    async def _load(self, ledger: int) -> LedgerMetadata:
        found = self._closed_records.get(ledger)
        if found is None:
            found, _ = await self._catalogue.load(ledger)
            self._remember(ledger, found)
        return found

    def _remember(self, ledger: int, metadata: LedgerMetadata) -> None:
        if metadata.state is LedgerState.CLOSED:
            self._closed_records[ledger] = metadata
            while len(self._closed_records) > _CLOSED_MAX:
                self._closed_records.popitem(last=False)

    def _on_bookies(self) -> None:
        for each in tuple(self._around.watched):
            each.reconsider()

    async def _watch_bookies(self) -> None:
        while True:
            await self._clock.sleep(self._policy.timeout_s / _CHECKS)
            now = self._clock.monotonic()
            for each in tuple(self._around.watched):
                each.check(now)

    async def _tell_ends(self) -> None:
        def find_client(bookie: str) -> TellingClient:
            if bookie not in self._telling:
                self._telling[bookie] = TellingClient(bookie, self._around)
            return self._telling[bookie]

        while True:
            await self._clock.sleep(self._policy.explicit_last_s)
            for writer in tuple(self._writers.values()):
                writer.appender.tell_last(find_client)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the ledger store is closed")
