"""Ledgers that a crash left behind: made before a record named them, or no longer named and not yet
deleted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from magnetar.errors import LedgerNotFound
from magnetar.ledger.disposal import Disposal
from magnetar.ledger.info import ChainRecords
from magnetar.ledger.store import LedgerStore
from magnetar.model.position import LedgerId, Term


async def load_references(records: ChainRecords) -> frozenset[int]:
    """Every ledger that the records of one chain name, those of its cursors included."""
    loaded = await records.load()
    named = {part.ledger_id for part in loaded[0].ledgers} if loaded is not None else set()
    named.update(info.ledger_id for info, _ in (await records.load_cursors()).values())
    return frozenset(named)


async def remove_orphans(
    store: LedgerStore,
    suspects: Sequence[LedgerId],
    references: Callable[[str], Awaitable[Collection[int]]],
    *,
    term: Term,
) -> tuple[LedgerId, ...]:
    """Delete the suspects made by chains that their chain does not name; return them.

    `references` tells the ledgers a chain's records name, none when there is no such chain. The
    suspects are what the only owner of the store found before it opened a chain: a ledger that is
    just being made is not named yet, so it must not be among them. Ledgers made by others are left
    alone.
    """
    known: dict[str, Collection[int]] = {}
    disposal = Disposal(store, term)
    removed = []
    for ledger in suspects:
        try:
            chain = (await store.describe(ledger)).properties.get("chain")
        except LedgerNotFound:
            continue
        if chain is None:
            continue
        if chain not in known:
            known[chain] = await references(chain)
        if ledger not in known[chain]:
            disposal.add(ledger)
            removed.append(ledger)
    await disposal.run()
    return tuple(removed)
