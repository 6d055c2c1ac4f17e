"""Ledgers that no record names any more, on their way out."""

from __future__ import annotations

from collections.abc import Iterable

from magnetar.errors import BrokerError, LedgerCorrupt, LedgerFenced, LedgerNotFound
from magnetar.ledger.belonging import belongs_to_log
from magnetar.ledger.store import LedgerStore
from magnetar.model.position import LedgerId, Term
from magnetar.runtime.log import Logger

_log = Logger(__name__)


class Disposal:
    """Deletes the ledgers of one log after sealing, for a store may take appends to a deleted
    ledger otherwise. What fails is tried again.

    A ledger with entries is announced before its record drops it: the intent tells a crash between
    the two from lost metadata.
    """

    def __init__(self, store: LedgerStore, term: Term, log_name: str) -> None:
        self._store = store
        self._term = term
        self._log_name = log_name
        self._doomed: list[LedgerId] = []

    async def announce(self, ledger_ids: Iterable[int]) -> None:
        """Note durably that the record is about to drop these."""
        own = [LedgerId(each) for each in ledger_ids if await self._is_own(LedgerId(each))]
        if own:
            await self._store.intend_deletion(own)

    def add(self, ledger_id: int) -> None:
        self._doomed.append(LedgerId(ledger_id))

    async def run(self) -> None:
        doomed, self._doomed = self._doomed, []
        for ledger in doomed:
            try:
                if await self._is_own(ledger):
                    await delete_ledger(self._store, ledger, self._term)
            except LedgerFenced:
                _log.warning("ledger belongs to a later owner, left alone", ledger=ledger)
            except BrokerError as error:
                self._doomed.append(ledger)
                _log.warning("ledger not deleted yet", ledger=ledger, reason=error.sentence)

    async def _is_own(self, ledger: LedgerId) -> bool:
        try:
            info = await self._store.describe(ledger)
        except LedgerNotFound:
            return False
        if not belongs_to_log(info, self._log_name):
            _log.error("ledger of another log, left alone", ledger=ledger, log=self._log_name)
            return False
        return True


async def delete_ledger(store: LedgerStore, ledger: LedgerId, term: Term) -> None:
    """Seal a ledger, then remove it; a missing one is not an error."""
    try:
        await store.recover(ledger, term=term)
    except LedgerNotFound:
        return
    except LedgerCorrupt:
        pass  # nothing in it is wanted any more
    await store.delete(ledger)
