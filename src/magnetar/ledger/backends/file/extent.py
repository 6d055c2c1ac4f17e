"""Extents, the files of the journal: their header, and the writer that the journal's thread
drives."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from magnetar.ledger.backends.file.disk import AppendFile, Disk
from magnetar.ledger.backends.file.group import Group, cut_entries
from magnetar.ledger.backends.file.record import (
    HEADER,
    Kind,
    encode_header,
    encode_lengths,
    seed_of,
)

EXTENT_HEADER: Final = struct.Struct("<8sIQQQI")
"""Magic, format version, own number, number and durable end of the extent before it, checksum."""
_MAGIC: Final = b"MGNTRjrn"
_VERSION: Final = 1
_CHECKSUM_BYTES: Final = 4
_SUFFIX: Final = ".log"
_ZEROS_BYTES_MIN: Final = 256 * 1024
_GROUPS_AHEAD: Final = 8
_ZEROS_FOR_BYTES_MAX: Final = 64 * 1024
"""Zeros are laid behind groups up to this size: larger ones are slowed down more by writing every
byte twice than by telling the file system that the file has grown.
"""


class Point(NamedTuple):
    """A place in the journal; everything before it is durable. Extent 0 stands before the first
    one."""

    extent: int
    end: int


def extent_name(number: int) -> str:
    return f"{number:016x}{_SUFFIX}"


def parse_extent_name(name: str) -> int | None:
    stem = name.removesuffix(_SUFFIX)
    if len(stem) != 16 or stem == name:
        return None
    try:
        return int(stem, 16)
    except ValueError:
        return None


def extent_seed(number: int) -> int:
    return seed_of(b"extent", number)


def encode_extent_header(number: int, after: Point) -> bytes:
    unchecked = EXTENT_HEADER.pack(_MAGIC, _VERSION, number, after.extent, after.end, 0)
    checked = unchecked[:-_CHECKSUM_BYTES]
    return checked + struct.pack("<I", crc32c(checked))


def decode_extent_header(data: bytes | bytearray, number: int) -> Point | None:
    """The point this extent follows, or None when this is not the header of extent `number`."""
    if len(data) < EXTENT_HEADER.size:
        return None
    magic, version, found, before, before_end, checksum = EXTENT_HEADER.unpack_from(data)
    checked = data[: EXTENT_HEADER.size - _CHECKSUM_BYTES]
    if (magic, version, found) != (_MAGIC, _VERSION, number) or crc32c(checked) != checksum:
        return None
    return Point(before, before_end)


_make: Final = tuple.__new__
"""Of a named tuple too, without a detour."""


class WrittenRun(NamedTuple):
    ledger: int
    first: int
    entry_count: int
    payload_bytes: int
    extent: int
    offset: int
    size: int


@dataclass(slots=True)
class Written:
    """What a group became on disk."""

    point: Point
    runs: list[WrittenRun] = field(default_factory=list)
    extents: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Each extent touched: its end and its records now."""
    size: int = 0
    syncs: int = 0


class ExtentWriter:
    """Writes groups, rolls extents, and after a failure leaves the extent for good.

    A sync that failed is never repeated on the same file: the kernel may have dropped the pages.
    The next extent's header names the end of the last good group, so what the failed one left
    behind is not read again.
    """

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        *,
        sync: bool,
        extent_bytes_max: int,
        extent_records_max: int,
        run_bytes_max: int,
        after: Point,
        next_extent: int,
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._sync = sync
        self._extent_bytes_max = extent_bytes_max
        self._extent_records_max = extent_records_max
        self._run_bytes_max = run_bytes_max
        self._good = after
        self._next = next_extent
        self._file: AppendFile | None = None
        self._number = 0
        self._seed = 0
        self._offset = 0
        self._laid_end = 0
        """Up to here the file holds zeros behind what was written."""
        self._group_start = 0
        self._records = 0
        self._pieces: list[bytes] = []
        self._written = Written(after)

    def write(self, group: Group) -> Written:
        """Make a group durable. Raise OSError when it is not; the next group starts a fresh
        extent."""
        self._written = Written(self._good)
        self._group_start = self._offset
        try:
            for ledger, gathered in group.runs.items():
                if gathered.size <= self._run_bytes_max:
                    self._add_run(ledger, gathered.first, gathered.entries, gathered.size)
                    continue
                for index, entries, size in cut_entries(gathered.entries, self._run_bytes_max):
                    self._add_run(ledger, gathered.first + index, entries, size)
            for control in group.controls:
                self._add(control.kind, control.ledger, control.number, 0, (control.body,))
            self._flush()
        except OSError:
            self._abandon()
            raise
        self._good = self._written.point = Point(self._number, self._offset)
        return self._written

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # else recovery finds zeros there, and cuts them off
                if self._laid_end > self._offset:
                    self._file.truncate(self._offset)
            self._file.close()
            self._file = None

    def _add_run(self, ledger: int, first: int, entries: Sequence[bytes], size: int) -> None:
        table, count = encode_lengths(entries), len(entries)
        offset = self._add(Kind.RUN, ledger, first, count, (table, b"".join(entries)))
        total = HEADER.size + len(table) + size
        self._written.runs.append(
            _make(WrittenRun, (ledger, first, count, size, self._number, offset, total))
        )

    def _add(
        self, kind: Kind, ledger: int, number: int, count: int, body: tuple[bytes, ...]
    ) -> int:
        """Frame a record; return its offset in the extent now open."""
        body_bytes = checksum = 0
        for piece in body:
            body_bytes += len(piece)
            checksum = crc32c(piece, checksum)
        size = HEADER.size + body_bytes
        self._make_room(size)
        offset = self._offset
        header = encode_header(
            kind,
            ledger,
            number,
            count,
            body_bytes,
            checksum,
            offset=offset,
            group_start=self._group_start,
            seed=self._seed,
        )
        self._pieces.append(header)
        self._pieces.extend(body)
        self._offset = offset + size
        self._records += 1
        self._written.size += size
        return offset

    def _make_room(self, size: int) -> None:
        if self._file is not None:
            is_empty = self._offset == EXTENT_HEADER.size
            fits = self._offset + size <= self._extent_bytes_max
            if is_empty or (fits and self._records < self._extent_records_max):
                return
            self._flush()
            self.close()
            self._open(Point(self._number, self._offset))
        else:
            self._open(self._good)

    def _open(self, after: Point) -> None:
        number = self._next
        self._next += 1
        path = self._directory / extent_name(number)
        self._file = self._disk.create(path)
        self._number = number
        self._file.write([encode_extent_header(number, after)])
        self._file.sync()
        self._disk.sync_directory(self._directory)
        self._written.syncs += 1
        self._seed = extent_seed(number)
        self._offset = self._group_start = self._laid_end = EXTENT_HEADER.size
        self._records = 0
        self._written.extents[number] = (self._offset, 0)

    def _flush(self) -> None:
        assert self._file is not None
        if self._pieces:
            self._file.write(self._pieces)
            self._pieces = []
            if self._sync and self._offset > self._laid_end:
                self._lay_zeros(self._file)
        if self._sync:
            self._file.sync()
            self._written.syncs += 1
        self._written.extents[self._number] = (self._offset, self._records)

    def _lay_zeros(self, file: AppendFile) -> None:
        """The file grows with this group: let it grow for the next small ones as well, whose syncs
        then write data alone, and not what the file system keeps of a file that has grown."""
        self._laid_end = self._offset
        size = self._offset - self._group_start
        wanted = max(_ZEROS_BYTES_MIN, _GROUPS_AHEAD * size)
        room = min(wanted, self._extent_bytes_max - self._offset)
        if size <= _ZEROS_FOR_BYTES_MAX and room > 0:
            with contextlib.suppress(OSError):  # as much as there was room for is laid
                file.lay_zeros(room)
                self._laid_end = self._offset + room

    def _abandon(self) -> None:
        """Leave the failed extent: cut it back when it has a good beginning, else remove it;
        neither is relied on."""
        self._pieces = []
        failed, self._file = self._file, None
        if failed is None:
            return
        with contextlib.suppress(OSError):
            if self._number == self._good.extent:
                failed.truncate(self._good.end)
        with contextlib.suppress(OSError):
            failed.close()
        # The newest first: none may be left that follows one that is gone.
        for number in reversed(range(self._good.extent + 1, self._next)):
            with contextlib.suppress(OSError):
                self._disk.remove(self._directory / extent_name(number))
