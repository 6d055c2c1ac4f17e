"""Ledgers that no record names.

A crash leaves some behind: made and not yet named, or no longer named and not yet deleted. Those
are empty, or their deletion was intended. One that holds entries otherwise was acknowledged to a
producer: its record was lost, and deleting it would make that loss final.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from magnetar.errors import BrokerError, LedgerFenced, LedgerNotFound
from magnetar.ledger.belonging import parse_use
from magnetar.ledger.disposal import delete_ledger
from magnetar.ledger.info import LogRecords
from magnetar.ledger.store import LedgerInfo, LedgerStore
from magnetar.model.position import LedgerId, Term
from magnetar.runtime.log import Logger

_log = Logger(__name__)


@dataclass(frozen=True, slots=True)
class Orphans:
    removed: tuple[LedgerId, ...]
    kept: tuple[LedgerId, ...]
    """Those with entries whose deletion was not recorded."""


def is_garbage(info: LedgerInfo) -> bool:
    """Whether a ledger that no record names may go."""
    return info.deletion_intended or (info.last < 0 and info.is_whole)


def describe_owner(info: LedgerInfo) -> str:
    """What a ledger was made for, as far as it says."""
    use = parse_use(info.properties)
    return "an unknown owner" if use is None else use.owner


async def load_references(records: LogRecords) -> frozenset[int]:
    """Every ledger that the records of one log name, those of its cursors included."""
    loaded = await records.load()
    named = {part.ledger_id for part in loaded[0].ledgers} if loaded is not None else set()
    named.update(info.ledger_id for info, _ in (await records.load_cursors()).values())
    return frozenset(named)


async def remove_orphans(
    store: LedgerStore,
    suspects: Sequence[LedgerId],
    is_named: Callable[[LedgerInfo], Awaitable[bool | None]],
    *,
    term: Term,
) -> Orphans:
    """Delete the garbage among the suspects, and report what is not named and no garbage.

    `is_named` says whether the owner's records name a ledger; None when the owner is not known. The
    suspects are what the only owner of the store found before it opened a log: a ledger that is
    just being made is not named yet, so it must not be among them. Ledgers made by others are left
    alone. A ledger that is named after all loses the intent to delete it.
    """
    removed: list[LedgerId] = []
    kept: list[LedgerId] = []
    for ledger in suspects:
        try:
            info = await store.describe(ledger)
            named = await is_named(info)
            if named is None:
                continue
            if named:
                if info.deletion_intended:
                    store.cancel_deletion([ledger])
                continue
            if is_garbage(info):
                await delete_ledger(store, ledger, term)
                removed.append(ledger)
            else:
                kept.append(ledger)
                _log.error(
                    "ledger holds entries and no record names it; it is kept",
                    ledger=ledger,
                    owner=describe_owner(info),
                    entries=info.last + 1,
                )
        except LedgerNotFound:
            continue
        except LedgerFenced:
            _log.warning("ledger belongs to a later owner, left alone", ledger=ledger)
        except BrokerError as error:
            _log.warning("ledger not looked at", ledger=ledger, reason=error.sentence)
    return Orphans(tuple(removed), tuple(kept))
