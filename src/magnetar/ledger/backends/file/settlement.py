"""Settling: copying what the journal holds of a ledger into a part of its own. Runs in a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from magnetar.errors import LedgerCorrupt
from magnetar.ledger.backends.file.disk import Disk
from magnetar.ledger.backends.file.extent import extent_name, extent_seed
from magnetar.ledger.backends.file.index import RunIndex, RunPlace
from magnetar.ledger.backends.file.ledger import FileLedger, Part
from magnetar.ledger.backends.file.part import (
    SEALED_DIRECTORY,
    TEMPORARY_SUFFIX,
    PartDescription,
    PartWriter,
)
from magnetar.ledger.backends.file.record import decode_body

JOURNAL_DIRECTORY: Final = "journal"
_CHUNK_BYTES: Final = 1024 * 1024
"""What is copied at once. So little gets the memory of the chunk before; more is given back to the
system and taken from it again, which costs more than the copy.
"""


class SettlingStopped(Exception):
    """The store is closing; nothing was settled."""


class Errand(NamedTuple):
    """One part to be made, from a snapshot of the ledger's index."""

    description: PartDescription
    runs: RunIndex


def plan_errand(ledger: FileLedger, through: int | None = None) -> Errand:
    """Settle what is durable now, all of it or up to an extent of the journal. A ledger that is
    sealed and never had a part gets one whole file."""
    first = ledger.settled_last + 1
    runs = ledger.runs.copy(through) if ledger.runs is not None else RunIndex(first)
    is_final = ledger.sealed and runs.end == ledger.last + 1
    return Errand(
        PartDescription(
            ledger=ledger.id,
            term=ledger.term,
            part=-1 if is_final and not ledger.parts else len(ledger.parts),
            first=first,
            count=runs.end - first,
            length=runs.payload_bytes,
            final=is_final,
            properties=ledger.properties,
        ),
        runs,
    )


def settle_parts(
    disk: Disk, root: Path, errands: Sequence[Errand], is_stopping: Callable[[], bool]
) -> list[Part | LedgerCorrupt]:
    """Make the parts durable under their names. A damaged run refuses its own ledger only; OSError
    refuses all."""
    directory = root / SEALED_DIRECTORY
    outcomes: list[Part | LedgerCorrupt] = []
    written: list[tuple[Path, Path]] = []
    try:
        for errand in errands:
            name = _part_of(errand, 0).name(errand.description.ledger)
            temporary = directory / (name + TEMPORARY_SUFFIX)
            written.append((temporary, directory / name))
            try:
                outcomes.append(_copy(disk, root, errand, temporary, is_stopping))
            except LedgerCorrupt as error:
                outcomes.append(error)
                disk.remove(temporary)
                written.pop()
        for temporary, path in written:
            disk.rename(temporary, path)
        disk.sync_directory(directory)
    except (OSError, SettlingStopped):
        for temporary, _ in written:
            with contextlib.suppress(OSError):
                disk.remove(temporary)
        raise
    return outcomes


def _part_of(errand: Errand, size: int) -> Part:
    description = errand.description
    return Part(
        number=description.part,
        first=description.first,
        last=description.first + description.count - 1,
        length=description.length,
        size=size,
        final=description.final,
    )


def _copy(
    disk: Disk, root: Path, errand: Errand, temporary: Path, is_stopping: Callable[[], bool]
) -> Part:
    file = disk.create(temporary)
    try:
        writer = PartWriter(file, errand.description)
        for chunk in _chunks(errand.runs):
            if is_stopping():
                raise SettlingStopped
            _copy_chunk(disk, root, errand.description.ledger, chunk, writer)
        return _part_of(errand, writer.finish())
    finally:
        file.close()


def _copy_chunk(
    disk: Disk, root: Path, ledger: int, chunk: list[RunPlace], writer: PartWriter
) -> None:
    extent = chunk[0].extent
    path = root / JOURNAL_DIRECTORY / extent_name(extent)
    seed = extent_seed(extent)
    for run, data in zip(
        chunk, disk.read(path, [(run.offset, run.size) for run in chunk]), strict=True
    ):
        try:
            count, body = decode_body(
                data, ledger=ledger, number=run.first, offset=run.offset, seed=seed
            )
        except ValueError as error:
            raise LedgerCorrupt(f"{path} at offset {run.offset}: {error}") from None
        writer.add(count, body)


def _chunks(runs: RunIndex) -> Iterator[list[RunPlace]]:
    """Runs of one extent each, about a megabyte at a time."""
    for _, group in groupby(runs, key=lambda run: run.extent):
        chunk: list[RunPlace] = []
        size = 0
        for run in group:
            chunk.append(run)
            size += run.size
            if size >= _CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk
