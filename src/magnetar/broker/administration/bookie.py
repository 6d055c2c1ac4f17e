"""Bookies: which there are, and on which racks they stand."""

from __future__ import annotations

from magnetar.broker.administration.registry import carries_out
from magnetar.broker.resource import Resources
from magnetar.errors import NotFound, PreconditionFailed
from magnetar.ledger.store import LedgerStore
from magnetar.model.answer.broker import BookieNames
from magnetar.model.bookie import (
    BookieInfo,
    BookieRacks,
    find_bookie,
    place_bookie,
    remove_bookie,
)


@carries_out("bookies.list")
async def list_bookies(ledgers: LedgerStore) -> BookieNames:
    list_all = ledgers.list_bookies
    if list_all is None:
        raise NotFound(
            "There are no bookies: this broker's ledgers are files, which magnetar doctor checks"
        )
    return {"bookies": [{"bookieId": bookie} for bookie in await list_all()]}


@carries_out("bookies.racks")
async def get_racks(resources: Resources) -> BookieRacks:
    return await resources.racks.get()


@carries_out("bookies.rack")
async def get_rack(resources: Resources, bookie: str) -> BookieInfo:
    found = find_bookie(await resources.racks.get(), bookie)
    if found is None:
        raise _not_found(bookie)
    return found


@carries_out("bookies.set_rack")
async def set_rack(resources: Resources, bookie: str, info: BookieInfo, group: str = "") -> None:
    if not group:
        raise PreconditionFailed("Bookie 'group' parameters is missing")
    if "/" in (info.rack or "").strip("/"):
        raise PreconditionFailed(
            "Bookie 'rack' parameter is invalid: the name of a rack has no slash but at its ends"
        )
    await resources.racks.update(lambda racks: place_bookie(racks, group, bookie, info))


@carries_out("bookies.delete_rack")
async def delete_rack(resources: Resources, bookie: str) -> None:
    def change(racks: BookieRacks) -> BookieRacks:
        if find_bookie(racks, bookie) is None:
            raise _not_found(bookie)
        return remove_bookie(racks, bookie)

    await resources.racks.update(change)


def _not_found(bookie: str) -> NotFound:
    return NotFound(f"Bookie rack placement configuration not found: {bookie}")
