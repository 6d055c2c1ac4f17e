"""Where an entry stands in a topic's log."""

from __future__ import annotations

from typing import Final, NamedTuple, NewType

LedgerId = NewType("LedgerId", int)
EntryId = NewType("EntryId", int)
Term = NewType("Term", int)


class Position(NamedTuple):
    """Ledger id and entry id; ordered as a tuple. An entry id of -1 stands before the ledger's
    first entry.
    """

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


EARLIEST: Final = Position(-1, -1)
LATEST: Final = Position(2**63 - 1, 2**63 - 1)
