"""Reading a store's directory after a stop or a crash: the catalogue, then the journal from there
on.

`examine` only reads, so that a check can use it too; `repair` carries out what it planned.

Extents form a chain: each names the one before it and where that one's last good group ended. An
extent that none names was given up after a failed write, and a tail behind the named end was
refused to its writers: neither holds anything acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from magnetar.errors import LedgerCorrupt
from magnetar.ledger.backends.file.catalogue import (
    CATALOGUE_NAME,
    COPY_NAME,
    EMPTY,
    Catalogue,
    CatalogueHead,
    load_catalogues,
)
from magnetar.ledger.backends.file.disk import Disk
from magnetar.ledger.backends.file.extent import (
    EXTENT_HEADER,
    Point,
    decode_extent_header,
    extent_name,
    extent_seed,
    parse_extent_name,
)
from magnetar.ledger.backends.file.finding import Finding, FindingKind
from magnetar.ledger.backends.file.ledger import FileLedger
from magnetar.ledger.backends.file.part import (
    SEALED_DIRECTORY,
    TEMPORARY_SUFFIX,
    load_parts,
)
from magnetar.ledger.backends.file.record import walk_records
from magnetar.ledger.backends.file.replay import Replay
from magnetar.ledger.backends.file.settlement import JOURNAL_DIRECTORY
from magnetar.ledger.backends.file.usage import JournalUsage
from magnetar.ledger.backends.file.witness import LedgerWitness, MetadataWitness


@dataclass(frozen=True, slots=True)
class Examined:
    ledgers: dict[int, FileLedger]
    usage: JournalUsage
    point: Point
    next_ledger: int
    next_extent: int
    is_new: bool
    sequence: int
    """Of the catalogue."""
    is_mended: bool
    """Whether a copy of the catalogue has to be written anew."""
    witness: MetadataWitness | None
    """The last commit of the metadata that the journal recorded."""
    shortfall: str | None
    """What the metadata has seen of the journal and is not there."""
    findings: list[Finding]
    truncations: list[tuple[Path, int]]
    removals: list[Path]


class _Link(NamedTuple):
    """One extent to replay. `end` is None when no later extent says where its good groups end."""

    extent: int
    start: int
    end: int | None


def examine(
    root: Path, disk: Disk, *, seen: LedgerWitness | None = None, rebuild: bool = False
) -> Examined:
    """`seen` is what the metadata has seen of the journal: nothing before that is a torn write.

    Raise LedgerCorrupt when the directory cannot be understood at all; with `rebuild`, one without
    a readable catalogue is understood from the journal and the parts alone.
    """
    return _Examination(root, disk, seen, rebuild=rebuild).run()


def repair(examined: Examined, disk: Disk) -> None:
    """Cut torn tails and remove what a crash left behind; where anything is damaged, remove
    nothing: what seems to be left over may be all there is.
    """
    for path, size in examined.truncations:
        disk.truncate(path, size)
    if all(finding.is_harmless for finding in examined.findings):
        for path in examined.removals:
            disk.remove(path)


class _Examination:
    def __init__(
        self, root: Path, disk: Disk, seen: LedgerWitness | None, *, rebuild: bool
    ) -> None:
        self._root = root
        self._disk = disk
        self._seen = seen
        self._may_rebuild = rebuild
        self._is_rebuilt = False
        self._shortfall: str | None = None
        self._early: list[Finding] = []
        self._loaded = bytearray()
        self._journal = root / JOURNAL_DIRECTORY
        self._sizes = {
            number: size
            for name, size in disk.sizes(self._journal).items()
            if (number := parse_extent_name(name)) is not None
        }
        self._truncations: list[tuple[Path, int]] = []
        self._removals: list[Path] = []

    def run(self) -> Examined:
        known = self._load_catalogue()
        is_new = known is None
        if known is None:
            known = EMPTY
        ledgers = {item.id: FileLedger.restored(item) for item in known.ledgers}
        if self._is_rebuilt:
            ledgers, unreadable = load_parts(self._disk, self._root)
            for path, sentence in unreadable.items():
                self._early.append(Finding(FindingKind.DAMAGE, path, 0, sentence))
        witness = known.head.witness
        self._replay = Replay(ledgers, None if witness is None else MetadataWitness(*witness))
        self._replay.findings += self._early
        self._replay_covered(known.head)
        point = self._replay_chain(known.head)
        self._replay.finish()
        self._compare_parts()
        extents = (*self._sizes, point.extent, known.head.covered_extent)
        return Examined(
            ledgers=self._replay.ledgers,
            usage=self._replay.usage,
            point=point,
            next_ledger=max(
                known.head.next_ledger,
                self._replay.ledger_id_max + 1,
                0 if self._seen is None else self._seen.next_ledger,
            ),
            next_extent=max(extents) + 1,
            is_new=is_new and not self._is_rebuilt,
            sequence=known.head.sequence,
            is_mended=self._is_rebuilt or (self._is_mended and not is_new),
            witness=self._replay.witness,
            shortfall=self._shortfall,
            findings=self._replay.findings,
            truncations=self._truncations,
            removals=self._removals,
        )

    def _load_catalogue(self) -> Catalogue | None:
        """The newest readable copy; None when there never was one."""
        copies = load_catalogues(self._disk, self._root)
        readable = [copy for copy in copies.values() if not isinstance(copy, LedgerCorrupt)]
        damaged = [copy for copy in copies.values() if isinstance(copy, LedgerCorrupt)]
        self._is_mended = len(readable) < 2
        if readable:
            for path, copy in copies.items():
                if isinstance(copy, LedgerCorrupt):
                    sentence = "a copy of the catalogue is damaged; the other one is used"
                    self._early.append(Finding(FindingKind.MENDED, path, 0, sentence))
            return max(readable, key=lambda copy: copy.head.sequence)
        parts = self._disk.sizes(self._root / SEALED_DIRECTORY)
        if not damaged and not self._sizes and not parts:
            return None
        if self._may_rebuild:
            self._is_rebuilt = True
            return None
        where = self._root / CATALOGUE_NAME
        what = damaged[0].sentence if damaged else f"{where} is missing but the ledgers are not"
        raise LedgerCorrupt(
            f"{what}; `magnetar doctor --repair` builds it anew from the journal and the ledgers"
        )

    def _replay_covered(self, head: CatalogueHead) -> None:
        for extent, end in sorted(head.extents):
            path = self._path(extent)
            data = self._load(extent)
            if extent not in self._sizes and extent != head.covered_extent:
                self._find(FindingKind.MISSING, path, 0, "an extent of the journal is gone")
            elif extent in self._sizes and decode_extent_header(data, extent) is None:
                self._find(FindingKind.DAMAGE, path, 0, "the header is unreadable")
            walk = walk_records(
                data,
                seed=extent_seed(extent),
                start=EXTENT_HEADER.size,
                end=end,
                durable_end=end,
            )
            self._replay.usage.note(extent, end, len(walk.records))
            self._replay.cover(extent, path, walk)
        self._replay.check_covered()
        needed = {extent for extent, _ in head.extents}
        for extent in sorted(self._sizes):
            if extent <= head.covered_extent and extent not in needed:
                self._remove(self._path(extent), "an extent that was no longer needed")

    def _replay_chain(self, head: CatalogueHead) -> Point:
        """Replay what came after the catalogue; return where the journal ends."""
        point = Point(head.covered_extent, head.covered_end)
        links = self._chain(point)
        is_needed = any(point.extent == extent for extent, _ in head.extents)
        if is_needed and point.extent not in self._sizes:
            self._replay.lose_extent(self._path(point.extent))
        elif is_needed:
            following_end = self._end_named_for(point, links)
            links.insert(0, _Link(point.extent, point.end, following_end))
        for link in links:
            point = self._replay_link(link, is_last=link is links[-1])
        if self._seen is not None and self._seen.point > point:
            point = self._seen.point
            self._replay.lose_extent(self._path(point.extent))
            self._shortfall = f"{self._path(point.extent)} is missing"
        return point

    def _replay_link(self, link: _Link, *, is_last: bool) -> Point:
        path = self._path(link.extent)
        data = self._load(link.extent)
        end = len(data) if link.end is None else link.end
        durable_end = link.start if is_last else end
        if is_last and self._seen is not None and self._seen.extent == link.extent:
            durable_end = max(durable_end, self._seen.end)
            end = max(end, durable_end)
        walk = walk_records(
            data,
            seed=extent_seed(link.extent),
            start=link.start,
            end=end,
            durable_end=durable_end,
        )
        if is_last and link.start < durable_end:
            written = _end_of_writing(data, walk.records[-1].end if walk.records else link.start)
            if written < durable_end:
                self._shortfall = f"{path} has {written} bytes, not {durable_end}"
        if walk.end < end:
            torn = len(data[walk.end : end].rstrip(b"\0"))  # the rest was laid there to write over
            if torn:
                sentence = f"{torn} bytes of an interrupted write"
                self._find(FindingKind.TORN, path, walk.end, sentence)
            self._truncations.append((path, walk.end))
        records = self._replay.usage.records_in(link.extent) + len(walk.records)
        self._replay.usage.note(link.extent, walk.end, records)
        self._replay.apply(link.extent, path, data, walk)
        return Point(link.extent, walk.end)

    def _chain(self, after: Point) -> list[_Link]:
        """The extents after the catalogue's, oldest first, found from the newest back."""
        later = [extent for extent in sorted(self._sizes) if extent > after.extent]
        headers = {extent: self._load_header(extent) for extent in later}
        real = [extent for extent in later if headers[extent] is not None or self._has_runs(extent)]
        links: list[_Link] = []
        current = real[-1] if real else after.extent
        end: int | None = None
        while current > after.extent:
            links.append(_Link(current, EXTENT_HEADER.size, end))
            before = headers[current]
            below = max((extent for extent in real if extent < current), default=after.extent)
            if before is None:
                self._find(FindingKind.DAMAGE, self._path(current), 0, "the header is unreadable")
                current, end = below, None
            elif before.extent > after.extent and before.extent not in self._sizes:
                if not self._is_rebuilt:  # else it may have been done with
                    self._replay.lose_extent(self._path(before.extent))
                current, end = below, None
            else:
                current, end = before
        if current < after.extent:
            raise LedgerCorrupt(
                f"{self._path(links[-1].extent)} follows extent {current},"
                f" but the catalogue reaches extent {after.extent}"
            )
        chained = {link.extent for link in links}
        for extent in later:
            if extent not in chained:
                self._remove(self._path(extent), "an extent given up after a failed write")
        return links[::-1]

    def _end_named_for(self, point: Point, links: list[_Link]) -> int | None:
        if not links:
            return None
        before = self._load_header(links[0].extent)
        return before.end if before is not None and before.extent == point.extent else None

    def _has_runs(self, extent: int) -> bool:
        data = self._load(extent)
        start = EXTENT_HEADER.size
        walk = walk_records(
            data, seed=extent_seed(extent), start=start, end=len(data), durable_end=len(data)
        )
        return any(record.intact for record in walk.records)

    def _compare_parts(self) -> None:
        directory = self._root / SEALED_DIRECTORY
        sizes = self._disk.sizes(directory)
        for ledger in self._replay.ledgers.values():
            for part in ledger.parts:
                name = part.name(ledger.id)
                size = sizes.pop(name, None)
                if size is None:
                    ledger.mark_damage(part.first, f"{directory / name} is missing")
                    sentence = f"entries {part.first} to {part.last} of ledger {ledger.id} are gone"
                    self._find(FindingKind.MISSING, directory / name, 0, sentence, ledger.id)
                elif size != part.size:
                    sentence = f"the file has {size} bytes, not {part.size}"
                    self._find(FindingKind.DAMAGE, directory / name, size, sentence, ledger.id)
        for name in sorted(sizes):
            if name.endswith((".led", ".led" + TEMPORARY_SUFFIX)):
                self._remove(directory / name, "a settled part that nothing refers to")
        names = self._disk.sizes(self._root)
        for temporary in (CATALOGUE_NAME + TEMPORARY_SUFFIX, COPY_NAME + TEMPORARY_SUFFIX):
            if temporary in names:
                self._remove(self._root / temporary, "a catalogue that was not finished")

    def _find(
        self, kind: FindingKind, path: Path, offset: int, sentence: str, ledger: int | None = None
    ) -> None:
        self._replay.findings.append(Finding(kind, path, offset, sentence, ledger))

    def _remove(self, path: Path, sentence: str) -> None:
        self._find(FindingKind.SURPLUS, path, 0, sentence)
        self._removals.append(path)

    def _path(self, extent: int) -> Path:
        return self._journal / extent_name(extent)

    def _load(self, extent: int) -> bytearray:
        """An extent, until the next one is loaded."""
        if extent in self._sizes:
            self._disk.load(self._path(extent), self._loaded)
        else:
            self._loaded.clear()
        return self._loaded

    def _load_header(self, extent: int) -> Point | None:
        (data,) = self._disk.read(self._path(extent), [(0, EXTENT_HEADER.size)])
        return decode_extent_header(data, extent)


def _end_of_writing(data: bytearray, read: int) -> int:
    """Where an extent ends but for zeros that were laid for later groups; its records were read up
    to `read`.
    """
    return read + len(data[read:].rstrip(b"\0")) if read < len(data) else len(data)
