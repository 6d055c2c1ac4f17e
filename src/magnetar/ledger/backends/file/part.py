"""Settled parts: a stretch of one ledger in a file that explains itself.

Layout: a header (magic, version, a JSON description, checksum), run records as in the journal, an
index of them, and a trailer that says where the index stands. Another process can read it without
the broker.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c

from magnetar.errors import LedgerCorrupt, LedgerNotFound
from magnetar.ledger.backends.file.disk import AppendFile, Disk, SystemDisk
from magnetar.ledger.backends.file.ledger import FileLedger, Part
from magnetar.ledger.backends.file.record import (
    HEADER,
    Kind,
    decode_body,
    encode_header,
    mend_header,
    seed_of,
    split_entries,
    walk_records,
)
from magnetar.model.document import decode_json
from magnetar.runtime.log import Logger

_log = Logger(__name__)

PART_VERSION: Final = 1
SEALED_DIRECTORY: Final = "sealed"
TEMPORARY_SUFFIX: Final = ".tmp"
_MAGIC: Final = b"MGNTRled"
_END_MAGIC: Final = b"MGNTRend"
_LEAD: Final = struct.Struct("<8sIII")
"""Magic, version, description bytes, description checksum."""
_TRAILER: Final = struct.Struct("<8sQIII")
"""Magic, index offset, index bytes, index checksum, checksum of the trailer so far."""
_RUN_BYTES: Final = 256 * 1024
_WRITE_BYTES: Final = 4 * 1024 * 1024


class PartDescription(msgspec.Struct, frozen=True):
    ledger: int
    term: int
    part: int
    """-1 when this file holds the whole ledger."""
    first: int
    count: int
    length: int
    final: bool
    properties: dict[str, str]


class PartRun(NamedTuple):
    first: int
    entry_count: int
    offset: int
    size: int

    @property
    def payload_bytes(self) -> int:
        return self.size - HEADER.size - 4 * self.entry_count


class PartIndex:
    """The runs of one part."""

    __slots__ = ("_firsts", "_offsets", "_sizes")

    def __init__(
        self, firsts: array[int], offsets: array[int], sizes: array[int], end: int
    ) -> None:
        self._firsts = array("q", (*firsts, end))
        self._offsets = offsets
        self._sizes = sizes

    def __len__(self) -> int:
        return len(self._offsets)

    def from_entry(self, entry: int) -> Iterator[PartRun]:
        start = max(0, bisect_right(self._firsts, entry, 0, len(self)) - 1)
        for number in range(start, len(self)):
            first, end = self._firsts[number], self._firsts[number + 1]
            yield PartRun(first, end - first, self._offsets[number], self._sizes[number])


def part_seed(ledger: int, first: int) -> int:
    return seed_of(b"part", ledger, first)


def encode_description(description: PartDescription) -> bytes:
    body = msgspec.json.encode(description)
    return _LEAD.pack(_MAGIC, PART_VERSION, len(body), crc32c(body)) + body


class PartWriter:
    """Copies verified run bodies into a part; small runs are joined, entries are never looked
    at."""

    def __init__(self, file: AppendFile, description: PartDescription) -> None:
        self._file = file
        self._description = description
        self._seed = part_seed(description.ledger, description.first)
        lead = encode_description(description)
        self._pieces = [lead]
        self._waiting_bytes = len(lead)
        self._offset = len(lead)
        self._next = description.first
        self._tables: list[bytes] = []
        self._payloads: list[bytes] = []
        self._joined_bytes = 0
        self._firsts = array("q")
        self._offsets = array("q")
        self._sizes = array("I")

    def add(self, count: int, body: bytes) -> None:
        payload_bytes = len(body) - 4 * count
        if self._tables and self._joined_bytes + payload_bytes > _RUN_BYTES:
            self._emit()
        self._tables.append(body[: 4 * count])
        self._payloads.append(body[4 * count :])
        self._joined_bytes += payload_bytes

    def finish(self) -> int:
        """Write what is left, the index and the trailer; make it durable; return the file's
        size."""
        if self._tables:
            self._emit()
        assert self._next == self._description.first + self._description.count
        index = b"".join(_little(column) for column in (self._firsts, self._offsets, self._sizes))
        trailer = _TRAILER.pack(_END_MAGIC, self._offset, len(index), crc32c(index), 0)[:-4]
        self._write(index, trailer, struct.pack("<I", crc32c(trailer)))
        self._file.write(self._pieces)
        self._file.sync()
        return self._offset

    def _emit(self) -> None:
        table = b"".join(self._tables)
        payload = b"".join(self._payloads)
        count = len(table) // 4
        header = encode_header(
            Kind.RUN,
            self._description.ledger,
            self._next,
            count,
            len(table) + len(payload),
            crc32c(payload, crc32c(table)),
            offset=self._offset,
            group_start=self._offset,
            seed=self._seed,
        )
        self._firsts.append(self._next)
        self._offsets.append(self._offset)
        self._sizes.append(len(header) + len(table) + len(payload))
        self._write(header, table, payload)
        self._next += count
        self._tables, self._payloads, self._joined_bytes = [], [], 0

    def _write(self, *pieces: bytes) -> None:
        size = sum(map(len, pieces))
        self._pieces.extend(pieces)
        self._offset += size
        self._waiting_bytes += size
        if self._waiting_bytes >= _WRITE_BYTES:
            self._file.write(self._pieces)
            self._pieces, self._waiting_bytes = [], 0


def load_description(disk: Disk, path: Path) -> PartDescription:
    """Raise LedgerCorrupt when it cannot be trusted."""
    (lead,) = disk.read(path, [(0, _LEAD.size)])
    if len(lead) < _LEAD.size:
        raise LedgerCorrupt(f"{path}: the file ends inside its header")
    magic, version, body_bytes, checksum = _LEAD.unpack(lead)
    if magic != _MAGIC or version != PART_VERSION:
        raise LedgerCorrupt(f"{path}: not a settled ledger of format version {PART_VERSION}")
    (body,) = disk.read(path, [(_LEAD.size, body_bytes)])
    if len(body) < body_bytes or crc32c(body) != checksum:
        raise LedgerCorrupt(f"{path}: the header does not match its checksum")
    return decode_json(body, PartDescription)


def load_index(
    disk: Disk, path: Path, size: int, *, ledger: int, first: int, end: int
) -> PartIndex:
    """The index of a part of `size` bytes with the entries from `first` up to `end`."""
    try:
        return _read_index(disk, path, size, end)
    except LedgerCorrupt as damage:
        _log.error("the index of a part is damaged, its runs are used", reason=damage.sentence)
        return scan_index(disk, path, size, ledger=ledger, first=first, end=end)


def check_index(
    disk: Disk, path: Path, size: int, *, ledger: int, first: int, end: int
) -> str | None:
    """What is wrong with how a part's runs are found, though nothing of them is lost by it."""
    try:
        index = _read_index(disk, path, size, end)
    except LedgerCorrupt as damage:
        return damage.sentence
    seed = part_seed(ledger, first)
    for run in index.from_entry(first):
        (header,) = disk.read(path, [(run.offset, HEADER.size)])
        if mend_header(header, run.offset, seed) is not None:
            return f"{path} at offset {run.offset}: the header of a run has one flipped bit"
    return None


def _read_index(disk: Disk, path: Path, size: int, end: int) -> PartIndex:
    (trailer,) = disk.read(path, [(max(0, size - _TRAILER.size), _TRAILER.size)])
    if len(trailer) < _TRAILER.size:
        raise LedgerCorrupt(
            f"{path}: the file is shorter than the {size} bytes it was written with"
        )
    magic, offset, index_bytes, index_checksum, checksum = _TRAILER.unpack(trailer)
    if magic != _END_MAGIC or crc32c(trailer[:-4]) != checksum:
        raise LedgerCorrupt(f"{path}: the trailer at {size - _TRAILER.size} is damaged")
    (data,) = disk.read(path, [(offset, index_bytes)])
    count, rest = divmod(index_bytes, 20)
    if rest or len(data) != index_bytes or crc32c(data) != index_checksum:
        raise LedgerCorrupt(f"{path}: the index at {offset} does not match its checksum")
    return PartIndex(
        _from_little("q", data[: 8 * count]),
        _from_little("q", data[8 * count : 16 * count]),
        _from_little("I", data[16 * count :]),
        end,
    )


def scan_index(
    disk: Disk, path: Path, size: int, *, ledger: int, first: int, end: int
) -> PartIndex:
    """The index of a part by its runs, each of which says what it is. A stretch where none is
    found is in the index too, so that reading it fails.
    """
    (data,) = disk.read(path, [(0, size)])
    start = 0
    if len(data) >= _LEAD.size and data.startswith(_MAGIC):
        start = _LEAD.size + _LEAD.unpack_from(data)[2]  # else the first run is searched for
    seed = part_seed(ledger, first)
    walk = walk_records(data, seed=seed, start=start, end=size, durable_end=size)
    firsts, offsets, sizes = array("q"), array("q"), array("I")

    def add(number: int, offset: int, record_bytes: int) -> None:
        firsts.append(number)
        offsets.append(offset)
        sizes.append(record_bytes)

    following = first
    for record in walk.records:
        if record.kind != Kind.RUN or record.ledger != ledger or record.number < following:
            continue
        if record.number > following:
            add(following, 0, 0)
        add(record.number, record.offset, record.size)
        following = record.number + record.entry_count
    if following < end:
        add(following, 0, 0)
    return PartIndex(firsts, offsets, sizes, end)


def load_parts(disk: Disk, root: Path) -> tuple[dict[int, FileLedger], dict[Path, str]]:
    """Ledgers by what their parts say of themselves, and the files that do not say it."""
    directory = root / SEALED_DIRECTORY
    found: dict[int, list[tuple[PartDescription, int]]] = {}
    unreadable: dict[Path, str] = {}
    for name, size in sorted(disk.sizes(directory).items()):
        if not name.endswith(".led"):
            continue
        try:
            description = load_description(disk, directory / name)
        except (LedgerCorrupt, msgspec.MsgspecError) as error:
            unreadable[directory / name] = str(error)
            continue
        found.setdefault(description.ledger, []).append((description, size))
    ledgers: dict[int, FileLedger] = {}
    for number, parts in found.items():
        parts.sort(key=lambda each: (each[0].first, -each[0].count))
        newest = parts[-1][0]
        ledger = ledgers[number] = FileLedger(number, newest.term, newest.properties)
        for description, size in parts:
            if description.first != ledger.settled_last + 1:
                continue
            last = description.first + description.count - 1
            ledger.settle(
                Part(
                    description.part,
                    description.first,
                    last,
                    description.length,
                    size,
                    description.final,
                )
            )
            ledger.extend(last, description.length)
        if ledger.is_settled:
            ledger.seal(ledger.last)
    return ledgers, unreadable


def read_part(disk: Disk, path: Path, size: int, first: int) -> Iterator[bytes]:
    """Entries from `first` on, in order, checksums verified."""
    description = load_description(disk, path)
    end = description.first + description.count
    index = load_index(
        disk, path, size, ledger=description.ledger, first=description.first, end=end
    )
    seed = part_seed(description.ledger, description.first)
    following = description.first if first <= description.first else None
    for run in index.from_entry(first):
        if following is not None and run.first != following:
            raise LedgerCorrupt(f"{path}: entries {following} to {run.first - 1} are not there")
        following = run.first + run.entry_count
        (data,) = disk.read(path, [(run.offset, run.size)])
        try:
            count, body = decode_body(
                data, ledger=description.ledger, number=run.first, offset=run.offset, seed=seed
            )
            entries = split_entries(body, count)
        except ValueError as error:
            raise LedgerCorrupt(f"{path} at offset {run.offset}: {error}") from None
        if count != run.entry_count:
            raise LedgerCorrupt(
                f"{path} at offset {run.offset}: {count} entries, not {run.entry_count}"
            )
        yield from entries[max(0, first - run.first) :]
    if following not in (None, end):
        raise LedgerCorrupt(f"{path}: entries {following} to {end - 1} are not there")


def read_sealed(path: Path, ledger: int, first: int = 0) -> Iterator[bytes]:
    """Read a settled ledger from the store's directory, in any process, while a broker runs or not.

    Raise LedgerNotFound when the ledger has not been settled to the end.
    """
    disk = SystemDisk()
    directory = path / SEALED_DIRECTORY
    whole = directory / f"{ledger}.led"
    if whole.exists():
        return read_part(disk, whole, whole.stat().st_size, first)
    parts: list[tuple[Path, PartDescription]] = []
    while not parts or not parts[-1][1].final:
        part = directory / f"{ledger}.{len(parts)}.led"
        if not part.exists():
            raise LedgerNotFound(f"ledger {ledger} is not settled under {directory}")
        parts.append((part, load_description(disk, part)))
    for (_, before), (part, after) in pairwise(parts):
        if before.first + before.count != after.first:
            raise LedgerCorrupt(f"{part}: begins at {after.first}, not after the part before it")
    return _read_parts(disk, parts, first)


def _read_parts(
    disk: Disk, parts: list[tuple[Path, PartDescription]], first: int
) -> Iterator[bytes]:
    for part, description in parts:
        if first < description.first + description.count:
            yield from read_part(disk, part, part.stat().st_size, first)


def _little(column: array[int]) -> bytes:
    if sys.byteorder == "little":
        return column.tobytes()
    swapped = column[:]
    swapped.byteswap()
    return swapped.tobytes()


def _from_little(code: str, data: bytes) -> array[int]:
    column = array("q") if code == "q" else array("I")
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column
