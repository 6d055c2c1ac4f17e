"""Ledgers that no record names any more, on their way out."""

from __future__ import annotations

from magnetar.errors import BrokerError, LedgerCorrupt, LedgerFenced, LedgerNotFound
from magnetar.ledger.store import LedgerStore
from magnetar.model.position import LedgerId, Term
from magnetar.runtime.log import Log

_log = Log(__name__)


class Disposal:
    """Deletes after sealing, for a store may take appends to a deleted ledger otherwise. What fails
    is tried again.
    """

    def __init__(self, store: LedgerStore, term: Term) -> None:
        self._store = store
        self._term = term
        self._doomed: list[LedgerId] = []

    def add(self, ledger_id: int) -> None:
        self._doomed.append(LedgerId(ledger_id))

    async def run(self) -> None:
        doomed, self._doomed = self._doomed, []
        for ledger in doomed:
            try:
                await self._delete(ledger)
            except LedgerFenced:
                _log.warning("ledger belongs to a later owner, left alone", ledger=ledger)
            except BrokerError as error:
                self._doomed.append(ledger)
                _log.warning("ledger not deleted yet", ledger=ledger, reason=error.sentence)

    async def _delete(self, ledger: LedgerId) -> None:
        try:
            await self._store.recover(ledger, term=self._term)
        except LedgerNotFound:
            return
        except LedgerCorrupt:
            pass  # nothing in it is wanted any more
        await self._store.delete(ledger)
