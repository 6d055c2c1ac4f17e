"""Making a stopped store usable again where a start is refused."""

from __future__ import annotations

from pathlib import Path

from magnetar.errors import LedgerCorrupt
from magnetar.ledger.backends.file.catalogue import (
    CATALOGUE_NAME,
    COPY_NAME,
    CatalogueHead,
    encode_catalogue,
    load_catalogues,
    store_catalogue,
)
from magnetar.ledger.backends.file.disk import Disk, SystemDisk
from magnetar.ledger.backends.file.recovery import Examined, examine
from magnetar.ledger.backends.file.witness import LedgerWitness


def rebuild_catalogue(path: Path, seen: LedgerWitness | None) -> list[str]:
    """Write the catalogue of the store in directory `path` anew where a copy of it is damaged, or
    where the end of the journal is lost; say what was done. Damaged files are kept under another
    name.
    """
    disk = SystemDisk()
    copies = load_catalogues(disk, path)
    damaged = [file for file, copy in copies.items() if isinstance(copy, LedgerCorrupt)]
    is_rebuilt = len(damaged) == len(copies)
    examined = examine(path, disk, seen=seen, rebuild=True)
    if examined.is_new or not (examined.is_mended or examined.shortfall):
        return []
    done = [f"kept {file} as {_set_aside(disk, file).name}" for file in damaged]
    _store(disk, path, examined)
    source = "the journal and the settled ledgers" if is_rebuilt else "its other copy"
    if examined.shortfall is None:
        done.append(
            f"wrote {path / CATALOGUE_NAME} and {COPY_NAME} anew from {source}:"
            f" {len(examined.ledgers)} ledgers"
        )
    else:
        done.append(
            f"accepted that the end of the journal is lost ({examined.shortfall}): ledgers that may"
            " have lost entries there say so when they are read"
        )
    return done


def _set_aside(disk: Disk, file: Path) -> Path:
    taken = disk.sizes(file.parent)
    number = 1
    while f"{file.name}.damaged-{number}" in taken:
        number += 1
    target = file.with_name(f"{file.name}.damaged-{number}")
    disk.rename(file, target)
    return target


def _store(disk: Disk, path: Path, examined: Examined) -> None:
    head = CatalogueHead(
        next_ledger=examined.next_ledger,
        covered_extent=examined.point.extent,
        covered_end=examined.point.end,
        extents=examined.usage.ends(without=()),
        sequence=examined.sequence + 1,
        witness=examined.witness,
    )
    encoded = [ledger.encoded() for ledger in examined.ledgers.values()]
    store_catalogue(disk, path, encode_catalogue(head, encoded))
