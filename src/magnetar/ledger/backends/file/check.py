"""Checking a stopped store without changing it."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from magnetar.errors import LedgerCorrupt
from magnetar.ledger.backends.file.catalogue import CATALOGUE_NAME
from magnetar.ledger.backends.file.disk import Disk, SystemDisk
from magnetar.ledger.backends.file.finding import Finding, FindingKind
from magnetar.ledger.backends.file.ledger import FileLedger, Part
from magnetar.ledger.backends.file.part import (
    SEALED_DIRECTORY,
    check_index,
    load_description,
    read_part,
)
from magnetar.ledger.backends.file.recovery import examine
from magnetar.ledger.backends.file.witness import LedgerWitness


def check_ledgers(
    path: Path, seen: LedgerWitness | None = None, *, disk: Disk | None = None
) -> list[Finding]:
    """Verify every checksum of the store in directory `path`; report damage, gaps, torn tails and
    leftovers.

    The store must not be open in any process meanwhile. `seen` is what the metadata has seen of it.
    """
    disk = disk or SystemDisk()
    try:
        examined = examine(path, disk, seen=seen)
    except LedgerCorrupt as error:
        return [Finding(FindingKind.DAMAGE, path / CATALOGUE_NAME, 0, error.sentence)]
    findings = list(examined.findings)
    if examined.shortfall is not None:
        sentence = f"the end of the journal is lost: {examined.shortfall}"
        findings.append(Finding(FindingKind.MISSING, path, 0, sentence))
    for ledger in examined.ledgers.values():
        for part in ledger.parts:
            findings += _check_part(disk, path / SEALED_DIRECTORY, ledger, part)
        for hole in ledger.holes:
            sentence = f"entries {hole.first} to {hole.end - 1} of ledger {ledger.id} are lost"
            findings.append(
                Finding(FindingKind.MISSING, path, 0, f"{sentence}: {hole.place}", ledger.id)
            )
        if ledger.damage is not None:
            sentence = f"ledger {ledger.id} cannot be read from entry {ledger.damage.first} on"
            findings.append(
                Finding(
                    FindingKind.MISSING, path, 0, f"{sentence}: {ledger.damage.place}", ledger.id
                )
            )
    return findings


def _check_part(disk: Disk, directory: Path, ledger: FileLedger, part: Part) -> list[Finding]:
    file = directory / part.name(ledger.id)
    try:
        description = load_description(disk, file)
        found = (description.ledger, description.first, description.count, description.length)
        if found != (ledger.id, part.first, part.last - part.first + 1, part.length):
            sentence = "the file describes another part than the catalogue"
            return [Finding(FindingKind.DAMAGE, file, 0, sentence, ledger.id)]
        flaw = check_index(
            disk, file, part.size, ledger=ledger.id, first=part.first, end=part.last + 1
        )
        deque(read_part(disk, file, part.size, part.first), maxlen=0)
    except FileNotFoundError:
        return []  # the examination has said so already
    except LedgerCorrupt as error:
        return [Finding(FindingKind.DAMAGE, file, 0, error.sentence, ledger.id)]
    return [] if flaw is None else [Finding(FindingKind.MENDED, file, 0, flaw, ledger.id)]
