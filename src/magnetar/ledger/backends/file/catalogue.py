"""The catalogue: a checkpoint of every ledger, and of how far into the journal it reaches.

It is kept twice. Extents go only after both copies do without them, so either is enough.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from crc32c import crc32c

from magnetar.errors import LedgerCorrupt
from magnetar.ledger.backends.file.disk import Disk
from magnetar.ledger.backends.file.ledger import LedgerSnapshot
from magnetar.ledger.backends.file.part import TEMPORARY_SUFFIX

CATALOGUE_NAME: Final = "catalogue"
COPY_NAME: Final = "catalogue.1"
_VERSION: Final = 1
_MAGIC: Final = b"MGNTRcat"
_LEAD: Final = struct.Struct("<8sIQI")
"""Magic, version, body bytes, body checksum."""
_LENGTH: Final = struct.Struct("<I")


class CatalogueHead(msgspec.Struct, frozen=True, array_like=True):
    next_ledger: int
    covered_extent: int
    """Everything before this place in the journal is already in the ledgers below, but for where
    their runs stand."""
    covered_end: int
    extents: list[tuple[int, int]]
    """Number and durable end of each extent that was still needed."""
    sequence: int = 0
    """Grows with every checkpoint."""
    witness: tuple[str, int] | None = None
    """Identity and commits of the metadata."""


class Catalogue(msgspec.Struct, frozen=True):
    head: CatalogueHead
    ledgers: list[LedgerSnapshot]


EMPTY: Final = Catalogue(CatalogueHead(1, 0, 0, []), [])


def encode_catalogue(head: CatalogueHead, ledgers: Iterable[bytes]) -> bytes:
    pieces: list[bytes] = []
    for item in (msgspec.msgpack.encode(head), *ledgers):
        pieces += (_LENGTH.pack(len(item)), item)
    body = b"".join(pieces)
    return _LEAD.pack(_MAGIC, _VERSION, len(body), crc32c(body)) + body


def decode_catalogue(data: bytes, path: Path) -> Catalogue:
    if len(data) < _LEAD.size:
        raise LedgerCorrupt(f"{path}: the file ends inside its header")
    magic, version, body_bytes, checksum = _LEAD.unpack_from(data)
    if magic != _MAGIC or version != _VERSION:
        raise LedgerCorrupt(f"{path}: not a ledger catalogue of format version {_VERSION}")
    body = data[_LEAD.size :]
    if len(body) != body_bytes or crc32c(body) != checksum:
        raise LedgerCorrupt(f"{path}: the body at offset {_LEAD.size} does not match its checksum")
    items = []
    offset = 0
    while offset < len(body):
        (length,) = _LENGTH.unpack_from(body, offset)
        items.append(body[offset + _LENGTH.size : offset + _LENGTH.size + length])
        offset += _LENGTH.size + length
    decoder = msgspec.msgpack.Decoder(LedgerSnapshot)
    return Catalogue(
        msgspec.msgpack.decode(items[0], type=CatalogueHead),
        [decoder.decode(item) for item in items[1:]],
    )


def load_catalogues(disk: Disk, root: Path) -> dict[Path, Catalogue | LedgerCorrupt]:
    """The copies that are there, each with what is wrong with it if anything is."""
    sizes = disk.sizes(root)
    found: dict[Path, Catalogue | LedgerCorrupt] = {}
    for path in (root / CATALOGUE_NAME, root / COPY_NAME):
        if path.name in sizes:
            (data,) = disk.read(path, [(0, sizes[path.name])])
            try:
                found[path] = decode_catalogue(data, path)
            except LedgerCorrupt as damage:
                found[path] = damage
    return found


def store_catalogue(disk: Disk, root: Path, data: bytes) -> None:
    """Replace one copy after the other, each in one step."""
    for name in (CATALOGUE_NAME, COPY_NAME):
        temporary = root / (name + TEMPORARY_SUFFIX)
        file = disk.create(temporary)
        try:
            file.write([data])
            file.sync()
        finally:
            file.close()
        disk.rename(temporary, root / name)
        disk.sync_directory(root)
