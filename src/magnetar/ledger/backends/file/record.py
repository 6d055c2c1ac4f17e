"""The records of journal extents and settled parts: a header with its own checksum, then a body
with one.

A run's body is a table of entry lengths followed by the entries. Both checksums cover a whole run,
so recovery walks runs and never entries. A header names its own offset and is checksummed under a
seed made of the file's identity, so a stale or copied record is not taken for a live one. It also
says how far behind it its group began: a group is written only after the one before it was synced,
so every byte before the start of a readable record's group had been durable.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from crc32c import crc32c

MAGIC: Final = b"MGr1"
HEADER: Final = struct.Struct("<4sB3xQqIIQIII")
"""Magic, kind, ledger, number, count, body bytes, offset, bytes behind it in its group, body and
header checksums."""

_CHECKED_BYTES: Final = HEADER.size - 4
_CHECKED: Final = struct.Struct("<4sB3xQqIIQII")
_CHECKSUM: Final = struct.Struct("<I")


class Kind(IntEnum):
    RUN = 1
    """Entries; the number is the first one's id."""
    CREATE = 2
    """A ledger; the number is its term, the body its properties."""
    SEAL = 3
    """The number is the last entry's id."""
    DELETE = 4
    FENCE = 5
    """The number is the new term."""
    SETTLE = 6
    """Entries now stand in a part of their own; the body describes it, the number is the part's
    last entry id."""
    INTEND = 7
    """The ledger's deletion is intended (number 1), or no longer (0)."""
    WITNESS = 8
    """How far the metadata had come: the number counts its commits, the body is its identity."""


_KINDS: Final = frozenset(kind.value for kind in Kind)


class Record(NamedTuple):
    """A header found in a file. A body that is cut short or fails its checksum leaves the record
    not intact."""

    offset: int
    kind: int
    ledger: int
    number: int
    entry_count: int
    body_bytes: int
    group_start: int
    intact: bool

    @property
    def size(self) -> int:
        return HEADER.size + self.body_bytes

    @property
    def end(self) -> int:
        return self.offset + HEADER.size + self.body_bytes

    @property
    def payload_bytes(self) -> int:
        return self.body_bytes - 4 * self.entry_count


class Gap(NamedTuple):
    """Bytes from `start` up to `end` that hold no readable header."""

    start: int
    end: int


class Walk(NamedTuple):
    """What a stretch of a file holds. `end` is where it was cut: nothing from there on was ever
    acknowledged."""

    records: list[Record]
    gaps: list[Gap]
    end: int
    mended: list[int]
    """Offsets of headers that had one flipped bit."""


def seed_of(room: bytes, *numbers: int) -> int:
    """The checksum seed of a file: headers moved to another file do not verify."""
    return crc32c(room + struct.pack(f"<{len(numbers)}q", *numbers))


def encode_header(
    kind: int,
    ledger: int,
    number: int,
    count: int,
    body_bytes: int,
    body_checksum: int,
    *,
    offset: int,
    group_start: int,
    seed: int,
) -> bytes:
    checked = _CHECKED.pack(
        MAGIC, kind, ledger, number, count, body_bytes, offset, offset - group_start, body_checksum
    )
    return checked + _CHECKSUM.pack(crc32c(checked, seed))


def encode_lengths(entries: Sequence[bytes]) -> bytes:
    lengths = array("I", map(len, entries))
    if sys.byteorder == "big":
        lengths.byteswap()
    return lengths.tobytes()


def split_entries(body: bytes, count: int) -> list[bytes]:
    """Take a verified run's body apart. Raise ValueError when its table contradicts its size."""
    lengths = array("I")
    lengths.frombytes(memoryview(body)[: 4 * count])
    if sys.byteorder == "big":
        lengths.byteswap()
    ends = list(accumulate(lengths, initial=4 * count))
    if len(lengths) != count or ends[-1] != len(body):
        raise ValueError("the length table contradicts the run's size")
    return [body[start:end] for start, end in pairwise(ends)]


def decode_body(
    data: bytes, *, ledger: int, number: int, offset: int, seed: int
) -> tuple[int, bytes]:
    """Return the entry count and the body of a run read by its index. Raise ValueError unless it is
    that run."""
    if len(data) < HEADER.size:
        raise ValueError("the file ends inside the record")
    magic, kind, found, first, count, body_bytes, place, _, body_checksum, checksum = (
        HEADER.unpack_from(data)
    )
    if magic != MAGIC or crc32c(memoryview(data)[:_CHECKED_BYTES], seed) != checksum:
        header = mend_header(data[: HEADER.size], offset, seed)
        if header is None:
            raise ValueError("the header does not match its checksum")
        _, kind, found, first, count, body_bytes, place, _, body_checksum, _ = HEADER.unpack(header)
    if (kind, found, first, place) != (Kind.RUN, ledger, number, offset):
        raise ValueError("the header belongs to another run")
    body = data[HEADER.size :]
    if len(body) != body_bytes or crc32c(body) != body_checksum:
        raise ValueError("the body does not match its checksum")
    return count, body


def walk_records(
    data: bytes | bytearray, *, seed: int, start: int, end: int, durable_end: int
) -> Walk:
    """Find every record between `start` and `end`.

    Below `durable_end`, or before the group of the last intact record, trouble is damage and is
    reported. After both it is a torn write: everything from the first trouble on is left out.
    """
    records: list[Record] = []
    gaps: list[Gap] = []
    mended: list[int] = []
    view = memoryview(data)
    present = min(end, len(data))
    offset = start
    while offset < present:
        record = _decode_record(view, offset, present, seed)
        if record is None:
            record = _mend_record(view, offset, present, seed)
            if record is not None:
                mended.append(offset)
        if record is None:
            following = _find_record(data, view, offset + 1, present, seed)
            gaps.append(Gap(offset, following))
            offset = following
        else:
            records.append(record)
            offset = record.end
    if offset < end:
        gaps.append(Gap(offset, end))
    proof = next((record.group_start for record in reversed(records) if record.intact), 0)
    certain = max(proof, durable_end)
    troubles = [gap.start for gap in gaps] + [
        record.offset for record in records if not record.intact
    ]
    cut = min((place for place in troubles if place >= certain), default=end)
    return Walk(
        records=[record for record in records if record.offset < cut],
        gaps=[gap for gap in gaps if gap.start < cut],
        end=cut,
        mended=[offset for offset in mended if offset < cut],
    )


def mend_header(header: bytes, offset: int, seed: int) -> bytes | None:
    """The header with its one flipped bit put right; None when that is not what is wrong with it,
    or nothing is.

    The checksum tells any two headers apart that differ in a few bits, so at most one repair fits.
    """
    if len(header) < HEADER.size:
        return None
    magic, *_, place, _, _, _ = HEADER.unpack(header)
    wrong = int.from_bytes(magic, "big") ^ int.from_bytes(MAGIC, "big")
    if wrong.bit_count() + (place ^ offset).bit_count() > 1 or is_header(header, offset, seed):
        return None
    mended = bytearray(header)
    for position in range(8 * HEADER.size):
        mended[position // 8] ^= 1 << position % 8
        candidate = bytes(mended)
        if is_header(candidate, offset, seed):
            return candidate
        mended[position // 8] ^= 1 << position % 8
    return None


def is_header(header: bytes | memoryview, offset: int, seed: int) -> bool:
    """Whether this is an undamaged header that was written at `offset`."""
    magic, kind, *_, place, _, _, checksum = HEADER.unpack_from(header)
    return (
        magic == MAGIC
        and place == offset
        and crc32c(header[:_CHECKED_BYTES], seed) == checksum
        and kind in _KINDS
    )


def _decode_record(view: memoryview, offset: int, end: int, seed: int) -> Record | None:
    body_start = offset + HEADER.size
    if body_start > end or not is_header(view[offset:body_start], offset, seed):
        return None
    return _take_record(view[offset:body_start], view, offset, end)


def _mend_record(view: memoryview, offset: int, end: int, seed: int) -> Record | None:
    header = mend_header(bytes(view[offset : min(end, offset + HEADER.size)]), offset, seed)
    return None if header is None else _take_record(header, view, offset, end)


def _take_record(header: bytes | memoryview, view: memoryview, offset: int, end: int) -> Record:
    _, kind, ledger, number, count, body_bytes, _, behind, body_checksum, _ = HEADER.unpack(header)
    body_start = offset + HEADER.size
    body_end = body_start + body_bytes
    intact = body_end <= end and crc32c(view[body_start:body_end]) == body_checksum
    return Record(offset, kind, ledger, number, count, body_bytes, offset - behind, intact)


def _find_record(data: bytes | bytearray, view: memoryview, start: int, end: int, seed: int) -> int:
    """The offset of the next readable header, or `end`."""
    for offset in _places_of_magic(data, start, end):
        if _decode_record(view, offset, end, seed) is not None:
            return offset
    return end


def _places_of_magic(data: bytes | bytearray, start: int, end: int) -> Iterator[int]:
    place = data.find(MAGIC, start, end)
    while place >= 0:
        yield place
        place = data.find(MAGIC, place + 1, end)
