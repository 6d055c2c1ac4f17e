"""Turning the journal's records back into ledgers, and finding out whom a hole in the journal
concerns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, assert_never

import msgspec

from magnetar.ledger.backends.file.finding import Finding, FindingKind
from magnetar.ledger.backends.file.ledger import FileLedger, Part
from magnetar.ledger.backends.file.record import HEADER, Gap, Kind, Record, Walk
from magnetar.ledger.backends.file.usage import JournalUsage
from magnetar.ledger.backends.file.witness import MetadataWitness
from magnetar.model.document import decode_json

_WITH_BODY: Final = frozenset({Kind.CREATE, Kind.SETTLE, Kind.WITNESS})


class Replay:
    """Applies walks in order. A hole concerns the ledgers whose entry ids jump over it.

    A ledger that was open and that no later record proves whole is marked too: what it lost is
    unknown. A run whose header is whole is indexed even if its body is not: reading it names the
    place, and its neighbours stay readable.
    """

    def __init__(self, ledgers: dict[int, FileLedger], witness: MetadataWitness | None) -> None:
        self.ledgers = ledgers
        self.witness = witness
        self.usage = JournalUsage()
        self.findings: list[Finding] = []
        self.ledger_id_max = max(ledgers, default=0)
        self._deleted: set[int] = set()
        self._holes: list[str] = []
        self._unproven: dict[int, str] = {}

    def cover(self, extent: int, path: Path, walk: Walk) -> None:
        """Find the runs of ledgers that the catalogue already describes."""
        self._note_mended(path, walk)
        for item in _in_order(walk):
            if isinstance(item, Gap):
                self._note_hole(path, item)
                continue
            if not item.intact:
                self._note_damage(path, item)
            ledger = self.ledgers.get(item.ledger)
            if item.kind != Kind.RUN or ledger is None:
                continue
            if not ledger.indexed_end <= item.number <= ledger.last:
                continue
            if item.number > ledger.indexed_end:
                if ledger.damage is not None:
                    continue
                self._skip(ledger, item.number, self._place(path, item.offset), extent)
            self._index(ledger, item, extent)

    def check_covered(self) -> None:
        """Every entry the catalogue knows of must have a place by now."""
        extent = self.usage.newest
        for ledger in self.ledgers.values():
            if ledger.indexed_end <= ledger.last and ledger.damage is None:
                place = self._holes[0] if self._holes else "no extent holds them"
                if extent is None:
                    ledger.mark_damage(ledger.indexed_end, place)
                else:
                    self._skip(ledger, ledger.last + 1, place, extent)

    def lose_extent(self, path: Path) -> None:
        """An extent of the chain is gone."""
        sentence = "an extent of the journal is gone"
        self.findings.append(Finding(FindingKind.MISSING, path, 0, sentence))
        self._lose(f"{path} is missing")

    def apply(self, extent: int, path: Path, data: bytes | bytearray, walk: Walk) -> None:
        self._note_mended(path, walk)
        for item in _in_order(walk):
            if isinstance(item, Gap):
                self._lose(self._note_hole(path, item))
                continue
            if not item.intact:
                self._note_damage(path, item)
            body_start = item.offset + HEADER.size
            body = bytes(data[body_start : item.end]) if item.kind in _WITH_BODY else b""
            self._apply_record(extent, path, item, body if item.intact else b"")

    def finish(self) -> None:
        for number, place in self._unproven.items():
            ledger = self.ledgers.get(number)
            if ledger is not None:
                ledger.mark_damage(ledger.last + 1, place, open_end=True)
        for ledger in self.ledgers.values():
            ledger.next_entry = ledger.last + 1

    def _apply_record(self, extent: int, path: Path, record: Record, body: bytes) -> None:
        self.ledger_id_max = max(self.ledger_id_max, record.ledger)
        if record.kind == Kind.WITNESS:
            if body:
                self.witness = MetadataWitness(body.decode(), record.number)
            return
        if record.kind == Kind.RUN:
            self._apply_run(extent, path, record)
            return
        if record.kind == Kind.CREATE:
            properties = decode_json(body, dict[str, str]) if body else {}
            self.ledgers.setdefault(
                record.ledger, FileLedger(record.ledger, record.number, properties)
            )
            return
        ledger = self.ledgers.get(record.ledger)
        if ledger is None:
            return
        match Kind(record.kind):
            case Kind.SEAL:
                if record.number < ledger.last:
                    ledger.mark_damage(record.number + 1, self._place(path, record.offset))
                elif record.number > ledger.last and ledger.damage is None:
                    place = self._place(path, record.offset)
                    self._skip(ledger, record.number + 1, place, extent)
                self._unproven.pop(ledger.id, None)
                ledger.seal(record.number)
            case Kind.FENCE:
                ledger.fence(record.number)
            case Kind.SETTLE:
                if body:
                    part = msgspec.msgpack.decode(body, type=Part)
                    if part not in ledger.parts:
                        self.usage.release(ledger.settle(part))
            case Kind.DELETE:
                self._deleted.add(ledger.id)
                del self.ledgers[ledger.id]
                if ledger.runs is not None:
                    self.usage.release(ledger.runs.shares())
            case Kind.INTEND:
                ledger.intend_deletion(bool(record.number))
            case Kind.RUN | Kind.CREATE | Kind.WITNESS:
                raise AssertionError("applied above")
            case unknown:
                assert_never(unknown)

    def _apply_run(self, extent: int, path: Path, record: Record) -> None:
        ledger = self.ledgers.get(record.ledger)
        if ledger is None:
            if record.ledger in self._deleted:
                return
            ledger = self.ledgers[record.ledger] = FileLedger(record.ledger, 0, {})
            sentence = f"ledger {record.ledger} has entries but its creation is lost"
            self.findings.append(
                Finding(FindingKind.MISSING, path, record.offset, sentence, record.ledger)
            )
        expected = ledger.last + 1
        if record.number < expected or ledger.sealed:
            sentence = f"a run of ledger {ledger.id} repeats entry {record.number}"
            self.findings.append(
                Finding(FindingKind.SURPLUS, path, record.offset, sentence, ledger.id)
            )
            return
        if record.number > expected and ledger.damage is None:
            self._skip(ledger, record.number, self._place(path, record.offset), extent)
        self._unproven.pop(ledger.id, None)
        if ledger.damage is None:
            self._index(ledger, record, extent)
        ledger.extend(record.number + record.entry_count - 1, record.payload_bytes)

    def _index(self, ledger: FileLedger, record: Record, extent: int) -> None:
        ledger.add_run(record.number, record.entry_count, extent, record.offset, record.size)
        self.usage.occupy(extent, record.size)

    def _skip(self, ledger: FileLedger, end: int, place: str, extent: int) -> None:
        """Nothing was found of the entries before `end` that have no place yet."""
        ledger.add_hole(ledger.indexed_end, end, place, extent)
        self.usage.occupy(extent, 0)

    def _lose(self, place: str) -> None:
        for ledger in self.ledgers.values():
            if not ledger.sealed:
                self._unproven.setdefault(ledger.id, place)

    def _place(self, path: Path, offset: int) -> str:
        if self._holes:
            return self._holes[-1]
        return f"{path} at offset {offset}: the entries before are not in the journal"

    def _note_hole(self, path: Path, gap: Gap) -> str:
        place = f"{path} at offset {gap.start}: {gap.end - gap.start} bytes are unreadable"
        self._holes.append(place)
        self.findings.append(
            Finding(
                FindingKind.DAMAGE, path, gap.start, f"{gap.end - gap.start} bytes are unreadable"
            )
        )
        return place

    def _note_mended(self, path: Path, walk: Walk) -> None:
        for offset in walk.mended:
            sentence = "one flipped bit in the header of a record was put right in memory"
            self.findings.append(Finding(FindingKind.MENDED, path, offset, sentence))

    def _note_damage(self, path: Path, record: Record) -> None:
        what = (
            f"entries {record.number} to {record.number + record.entry_count - 1}"
            if record.kind == Kind.RUN
            else f"the {Kind(record.kind).name.lower()} record"
        )
        sentence = f"{what} of ledger {record.ledger}: the checksum does not match"
        self.findings.append(
            Finding(FindingKind.DAMAGE, path, record.offset, sentence, record.ledger)
        )


def _in_order(walk: Walk) -> Iterator[Record | Gap]:
    """Records and gaps as they stand in the file."""
    if not walk.gaps:
        return iter(walk.records)
    items: list[Record | Gap] = [*walk.records, *walk.gaps]
    items.sort(key=lambda item: item.start if isinstance(item, Gap) else item.offset)
    return iter(items)
