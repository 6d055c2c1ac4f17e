"""What the store holds in memory of one ledger, and how that is written into the catalogue."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from operator import attrgetter
from typing import Final

import msgspec

from magnetar.errors import LedgerCorrupt
from magnetar.ledger.backends.file.index import RunIndex, RunPlace, Share
from magnetar.ledger.store import LedgerInfo
from magnetar.model.position import EntryId, LedgerId, Term


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A settled stretch of a ledger in a file of its own. `number` is -1 when the file holds the
    whole ledger."""

    number: int
    first: int
    last: int
    length: int
    size: int
    final: bool
    """Nothing follows: the ledger was sealed when this was written."""

    def name(self, ledger: int) -> str:
        return f"{ledger}.led" if self.number < 0 else f"{ledger}.{self.number}.led"


class Damage(msgspec.Struct, frozen=True, array_like=True):
    """Entries from `first` on cannot be served. An open end means that their number is
    unknown."""

    first: int
    place: str
    open_end: bool


class Hole(msgspec.Struct, frozen=True, array_like=True):
    """Unreadable entries from `first` up to `end`, excluded; those behind them are readable.

    Found anew at each start, so no catalogue keeps it.
    """

    first: int
    end: int
    place: str


class LedgerSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """A ledger as the catalogue keeps it."""

    id: int
    term: int
    sealed: bool
    last: int
    length: int
    properties: dict[str, str]
    parts: list[Part]
    damage: Damage | None
    deletion_intended: bool = False


_encoder = msgspec.msgpack.Encoder()


class FileLedger:
    """One ledger. Everything here is durable but for the claimed term and what belongs to the
    writer."""

    __slots__ = (
        "_encoded",
        "claimed_term",
        "damage",
        "deletion_intended",
        "holes",
        "id",
        "last",
        "length",
        "next_entry",
        "parts",
        "properties",
        "runs",
        "sealed",
        "term",
        "unsettleable",
        "writable",
    )

    def __init__(self, ledger: int, term: int, properties: Mapping[str, str]) -> None:
        self.id: Final = ledger
        self.term = term
        self.claimed_term = term
        """The highest term anybody asked for; its record may still be on the way."""
        self.properties: Final = dict(properties)
        self.sealed = False
        self.last = -1
        self.length = 0
        self.parts: list[Part] = []
        self.runs: RunIndex | None = None
        self.damage: Damage | None = None
        self.holes: Final[list[Hole]] = []
        self.deletion_intended = False
        self.writable = False
        self.next_entry = 0
        self.unsettleable = False
        """A run in the journal does not match its checksum, so nothing is copied from it any
        more."""
        self._encoded: bytes | None = None

    @classmethod
    def restored(cls, snapshot: LedgerSnapshot) -> FileLedger:
        ledger = cls(snapshot.id, snapshot.term, snapshot.properties)
        ledger.sealed = snapshot.sealed
        ledger.last = snapshot.last
        ledger.next_entry = snapshot.last + 1
        ledger.length = snapshot.length
        ledger.parts = list(snapshot.parts)
        ledger.damage = snapshot.damage
        ledger.deletion_intended = snapshot.deletion_intended
        return ledger

    @property
    def info(self) -> LedgerInfo:
        return LedgerInfo(
            LedgerId(self.id),
            Term(self.term),
            self.sealed,
            EntryId(self.last),
            self.length,
            self.properties,
            self.deletion_intended,
            self.is_whole,
        )

    @property
    def settled_last(self) -> int:
        return self.parts[-1].last if self.parts else -1

    @property
    def indexed_end(self) -> int:
        """The id after the last entry whose place is known."""
        return self.runs.end if self.runs is not None else self.settled_last + 1

    @property
    def is_settled(self) -> bool:
        return bool(self.parts) and self.parts[-1].final

    @property
    def is_whole(self) -> bool:
        return self.damage is None and not self.holes

    @property
    def can_settle(self) -> bool:
        return self.is_whole and not self.unsettleable

    def encoded(self) -> bytes:
        """The snapshot's bytes, kept until something changes: most ledgers of a big store never
        change again."""
        if self._encoded is None:
            self._encoded = _encoder.encode(
                LedgerSnapshot(
                    self.id,
                    self.term,
                    self.sealed,
                    self.last,
                    self.length,
                    self.properties,
                    self.parts,
                    self.damage,
                    self.deletion_intended,
                )
            )
        return self._encoded

    def add_run(self, first: int, count: int, extent: int, offset: int, size: int) -> None:
        if self.runs is None:
            self.runs = RunIndex(first)
        self.runs.add(first, count, extent, offset, size)

    def extend(self, last: int, payload_bytes: int) -> None:
        self.last = last
        self.length += payload_bytes
        self._encoded = None

    def fence(self, term: int) -> None:
        self.term = term
        self._encoded = None

    def intend_deletion(self, intended: bool) -> None:
        self.deletion_intended = intended
        self._encoded = None

    def seal(self, last: int) -> None:
        self.sealed = True
        self.writable = False
        self.last = last
        self.next_entry = last + 1
        self._encoded = None

    def settle(self, part: Part) -> list[Share]:
        """Note a part; its runs in the journal are no longer needed. Return what they held."""
        self.parts.append(part)
        self._encoded = None
        if self.runs is None:
            return []
        dropped = self.runs.drop_through(part.last)
        if not self.runs:
            self.runs = None
        return dropped

    def mark_damage(self, first: int, place: str, *, open_end: bool = False) -> None:
        """Note the first damage; what comes later is behind it anyway."""
        if self.damage is None or first < self.damage.first:
            self.damage = Damage(first, place, open_end)
            self._encoded = None

    def add_hole(self, first: int, end: int, place: str, extent: int) -> None:
        """Note entries that are lost, in the index as well: what follows them is found by it."""
        self.holes.append(Hole(first, end, place))
        self.add_run(first, end - first, extent, 0, 0)

    def readable_end(self, entry: int) -> int:
        """The first unreadable entry after `entry`, or the end."""
        ends = [hole.first for hole in self.holes if hole.first > entry]
        if self.damage is not None:
            ends.append(self.damage.first)
        return min((self.last + 1, *ends))

    def check(self, entry: int) -> None:
        """Raise LedgerCorrupt when `entry` is in a hole, or at or behind damage."""
        for hole in self.holes:
            if hole.first <= entry < hole.end:
                sentence = (
                    f"ledger {self.id}: entries {hole.first} to {hole.end - 1} are unreadable"
                )
                raise LedgerCorrupt(f"{sentence}: {hole.place}")
        if self.damage is not None and entry >= self.damage.first:
            sentence = f"ledger {self.id} cannot be read from entry {self.damage.first} on"
            raise LedgerCorrupt(f"{sentence}: {self.damage.place}")

    def part_of(self, entry: int) -> Part | None:
        """The part that holds `entry`, or None when it stands in the journal."""
        if entry > self.settled_last:
            return None
        found = self.parts[bisect_right(self.parts, entry, key=attrgetter("first")) - 1]
        assert found.first <= entry <= found.last
        return found

    def runs_from(self, entry: int, *, entries_max: int, bytes_max: int) -> list[RunPlace]:
        """Runs in the journal that hold up to `entries_max` entries and about `bytes_max` bytes
        from `entry` on."""
        assert self.runs is not None
        chosen: list[RunPlace] = []
        entries = size = 0
        for run in self.runs.from_entry(entry):
            chosen.append(run)
            entries += run.entry_count - (entry - run.first if run.first < entry else 0)
            size += run.payload_bytes if run.first > entry else 0
            if entries >= entries_max or size >= bytes_max:
                break
        return chosen
