"""A run: consecutive entries of one ledger, the unit in which data moves."""

from __future__ import annotations

from magnetar.model.position import Position


class EntryRun:
    """Entries `first`, `first + 1`, … of one ledger. `counts[i]` is the number of messages inside
    entry i.
    """

    __slots__ = ("counts", "data", "first", "ledger_id")

    def __init__(self, ledger_id: int, first: int, data: list[bytes], counts: list[int]) -> None:
        self.ledger_id = ledger_id
        self.first = first
        self.data = data
        self.counts = counts

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"EntryRun({self.ledger_id}:{self.first}..{self.last})"

    @property
    def last(self) -> int:
        """Entry id of the last entry."""
        return self.first + len(self.data) - 1

    @property
    def next_position(self) -> Position:
        """Where a sequential reader goes on."""
        return Position(self.ledger_id, self.first + len(self.data))
