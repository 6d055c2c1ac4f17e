"""What a cluster of bookies begins with; and where bookies stand, as Pulsar keeps it: by group and
by the id of the bookie.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import Struct

BOOKIES: Final = "/bookies"
"""The record of all of them, in the metadata of the cluster's brokers."""
LEDGERS: Final = "/ledgers"
"""Where the records of BookKeeper begin, unless configured."""


def cluster_records(identity: bytes) -> dict[str, bytes]:
    """What a new BookKeeper cluster has there."""
    layout = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
    return {"available/readonly": b"", "LAYOUT": layout, "INSTANCEID": identity}


class BookieInfo(Struct, frozen=True, kw_only=True):
    rack: str | None = None
    hostname: str | None = None


BookieRacks: TypeAlias = Mapping[str, Mapping[str, BookieInfo]]


def find_bookie(racks: BookieRacks, bookie: str) -> BookieInfo | None:
    return next((group[bookie] for group in racks.values() if bookie in group), None)


def remove_bookie(racks: BookieRacks, bookie: str) -> BookieRacks:
    """Without the groups that had no other."""
    left = {
        name: {each: info for each, info in group.items() if each != bookie}
        for name, group in racks.items()
    }
    return {name: group for name, group in left.items() if group}


def place_bookie(racks: BookieRacks, group: str, bookie: str, info: BookieInfo) -> BookieRacks:
    """In this group alone; groups and bookies in the order in which Pulsar writes them."""
    left = remove_bookie(racks, bookie)
    members = {**left.get(group, {}), bookie: info}
    return dict(sorted({**left, group: dict(sorted(members.items()))}.items()))
