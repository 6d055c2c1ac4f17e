"""Ledgers that were elsewhere before, with the ids that they had there."""

from __future__ import annotations

from collections.abc import Mapping

from magnetar.ledger.backends.bookkeeper.store import BookkeeperLedgerStore
from magnetar.ledger.backends.bookkeeper.writer import BookkeeperWriter
from magnetar.ledger.store import Digest
from magnetar.model.position import LedgerId


class BookkeeperImportStore(BookkeeperLedgerStore):
    async def reserve(self, above: int) -> None:
        """Give no id up to this one to a new ledger from now on."""
        await self._catalogue.reserve(above)

    async def create_at(
        self, ledger: LedgerId, *, properties: Mapping[str, str], digest: Digest = Digest.CRC32C
    ) -> BookkeeperWriter:
        """Make a ledger with an id that was reserved.

        One with the same properties that was never closed is begun again from its first entry.
        Raise VersionConflict when the id is taken otherwise.
        """
        planned = self._plan(properties, self._policy.replication, digest)
        return self._write(ledger, *await self._catalogue.create_at(ledger, planned))
