"""What a log and its cursors keep outside of their ledgers, as Pulsar's managed ledgers do.

A record is written whole each time. What it says beyond these values, in fields that this version
knows no use for or does not know at all, is carried along as `rest` and written back as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from magnetar.model.entry_set import count_runs
from magnetar.model.position import Position


class Offload(Enum):
    """Whether the entries of a ledger are (also) in long-term storage."""

    NONE = "none"
    COPIED = "copied"
    """An offload was begun or done; the ledger has its entries too."""
    MOVED = "moved"
    """The ledger itself was deleted: its entries are in long-term storage only."""


@dataclass(frozen=True, slots=True)
class LedgerPart:
    """One ledger of a log.

    `created_ms` is the moment it was sealed, as stored records count it; 0 while it may still grow,
    and then `entries` and `size` of a stored record say nothing.
    """

    ledger_id: int
    entries: int
    size: int
    created_ms: int
    offload: Offload = Offload.NONE
    rest: bytes = b""


@dataclass(frozen=True, slots=True)
class LogInfo:
    """`owner` tells the records of one owner from those that the next one writes with the same
    content; empty where one broker alone writes them.
    """

    ledgers: tuple[LedgerPart, ...] = ()
    terminated: Position | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    rest: bytes = b""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class CursorInfo:
    """Everything a cursor remembers.

    `ledger_id` is the cursor's own ledger, or -1 when the record itself is the truth. `ranges` are
    the entries acknowledged beyond `mark_delete`: closed pairs (first, last), ascending and apart
    from each other. Ours are each inside one ledger; one that another broker stored may go from one
    ledger into a later one, and then covers all entries between. `bits` are others of that kind, by
    ledger: bit N is set when its entry N is acknowledged. `batches` are the entries acknowledged
    in part: the bits of what is still NOT acknowledged, as signed 64-bit words, lowest first.
    """

    ledger_id: int
    mark_delete: Position
    ranges: tuple[tuple[Position, Position], ...] = ()
    batches: Mapping[Position, tuple[int, ...]] = field(default_factory=dict)
    properties: Mapping[str, int] = field(default_factory=dict)
    cursor_properties: Mapping[str, str] = field(default_factory=dict)
    rest: bytes = b""
    bits: Mapping[int, int] = field(default_factory=dict)

    @property
    def range_count(self) -> int:
        """How many ranges a record has of it, which knows no bits."""
        return len(self.ranges) + sum(map(count_runs, self.bits.values()))
