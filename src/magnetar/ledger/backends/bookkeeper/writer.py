"""The writer of one ledger: an appender, and the metadata that its changes are recorded in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from magnetar.errors import (
    BrokerError,
    LedgerFenced,
    LedgerNotFound,
    LedgerSealed,
    VersionConflict,
)
from magnetar.ledger.backends.bookkeeper.appender import Appender
from magnetar.ledger.backends.bookkeeper.catalogue import (
    LedgerCatalogue,
    apply_close,
    apply_ensemble,
)
from magnetar.ledger.backends.bookkeeper.client import BookieClient, Surroundings
from magnetar.ledger.backends.bookkeeper.entry import EntryCodec
from magnetar.ledger.store import Appended, LedgerInfo
from magnetar.model.position import EntryId, LedgerId, Term
from magnetar.wire.bookkeeper import LedgerMetadata, LedgerState


def describe_ledger(ledger: int, metadata: LedgerMetadata, last: int, length: int) -> LedgerInfo:
    """Terms mean nothing here, so there is none. Values of other writers that are no text keep
    their bytes as surrogates.
    """
    return LedgerInfo(
        id=LedgerId(ledger),
        term=Term(0),
        sealed=metadata.state is LedgerState.CLOSED,
        last=EntryId(last),
        length=length,
        properties={
            key: value.decode("utf-8", "surrogateescape") for key, value in metadata.properties
        },
    )


class BookkeeperWriter:
    def __init__(
        self,
        ledger: int,
        metadata: LedgerMetadata,
        version: int,
        catalogue: LedgerCatalogue,
        around: Surroundings,
        find_client: Callable[[str], BookieClient],
        on_end: Callable[[int], object],
    ) -> None:
        """`on_end` is called with the ledger once it is sealed."""
        self.metadata = metadata
        self._version = version
        self._catalogue = catalogue
        self._on_end = on_end
        self._lock = asyncio.Lock()
        self._sealed: LedgerInfo | None = None
        codec = EntryCodec(ledger, metadata.digest, metadata.password)
        self.appender = Appender(ledger, metadata, codec, around, find_client, self._record_change)

    @property
    def id(self) -> LedgerId:
        return LedgerId(self.appender.ledger)

    @property
    def last_confirmed(self) -> EntryId:
        return EntryId(self.appender.confirmed)

    def append(self, entries: Sequence[bytes], done: Appended, size: int = -1) -> EntryId:
        return EntryId(self.appender.append(entries, done, size))

    def end(self, error: BrokerError) -> None:
        """Refuse what is queued and everything after it."""
        self.appender.fail(error)

    def describe(self) -> LedgerInfo:
        appender = self.appender
        return self._sealed or describe_ledger(
            self.id, self.metadata, appender.confirmed, appender.confirmed_length
        )

    async def seal(self) -> LedgerInfo:
        self.appender.stop()
        await self.appender.drain()
        async with self._lock:
            if self._sealed is None:
                if isinstance(self.appender.error, LedgerFenced):
                    raise self.appender.error
                self._sealed = await self._close()
                self.appender.fail(LedgerSealed(f"ledger {self.id} is sealed"))
                self._on_end(self.id)
        return self._sealed

    async def _close(self) -> LedgerInfo:
        """Also over a recovery that has begun: it finds the record closed, and nothing that was
        confirmed is beyond.
        """
        last, length = self.appender.confirmed, self.appender.confirmed_length
        while True:
            closed = apply_close(self.metadata, last, length)
            try:
                await self._update(closed)
            except VersionConflict:
                if self.metadata.state is not LedgerState.CLOSED:
                    continue
                if (self.metadata.last, self.metadata.length) != (last, length):
                    raise LedgerFenced(
                        f"ledger {self.id} was closed at entry {self.metadata.last} by another"
                        f" owner, not at {last}"
                    ) from None
            return describe_ledger(self.id, self.metadata, last, length)

    async def _record_change(self, first: int, bookies: tuple[str, ...]) -> None:
        async with self._lock:
            while self.metadata.state is LedgerState.OPEN:
                try:
                    return await self._update(apply_ensemble(self.metadata, first, bookies))
                except VersionConflict:
                    continue
        raise LedgerFenced(f"ledger {self.id} was sealed or taken over")

    async def _update(self, metadata: LedgerMetadata) -> None:
        """Raise VersionConflict when another wrote the record, which is then known, and
        LedgerFenced when another deleted it.
        """
        try:
            try:
                self._version = await self._catalogue.update(self.id, metadata, self._version)
            except VersionConflict:
                self.metadata, self._version = await self._catalogue.load(self.id)
                raise
        except LedgerNotFound:
            raise LedgerFenced(f"ledger {self.id} was deleted by another owner") from None
        self.metadata = metadata
