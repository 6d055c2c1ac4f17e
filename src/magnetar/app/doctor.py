"""Looking over a stopped data directory: is everything there, whole, and claimed by somebody."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from magnetar.app.directory import (
    FORMAT_VERSION,
    DataDirectory,
    inspecting,
    load_identity,
    read_format,
)
from magnetar.broker.ownership import TERM_PATH
from magnetar.broker.topic_tree import BucketCount
from magnetar.errors import DataDirectoryRefused, InvalidName, LedgerCorrupt, RecordUnreadable
from magnetar.ledger.backends.file.check import check_ledgers
from magnetar.ledger.backends.file.disk import SystemDisk
from magnetar.ledger.backends.file.ledger import FileLedger
from magnetar.ledger.backends.file.recovery import examine
from magnetar.metadata.backends.sqlite_tree import read_children, read_record
from magnetar.model.chain_path import CHAINS, bucket_of, chain_path, without_bucket
from magnetar.model.document import decode_document
from magnetar.model.name import TopicDomain, parse_topic
from magnetar.wire.schema import decode_locator
from magnetar.wire.storage import decode_cursor, decode_log

SCHEMAS: Final = "/schemas"


@dataclass(slots=True)
class Diagnosis:
    """Faults need somebody; notes put themselves right or take up space only."""

    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """What was looked at and found."""


@dataclass(frozen=True, slots=True)
class _Reference:
    """A record that counts on a ledger."""

    ledger: int
    path: str


@dataclass(frozen=True, slots=True)
class _Named:
    """What the metadata knows of the ledgers: those it counts on, and its last owner's term."""

    references: list[_Reference]
    term: int


def run(directory: Path) -> int:
    """Print what was found; 0 when nothing is wrong, 1 when something is."""
    diagnosis = examine_directory(directory)
    for sentence in diagnosis.seen:
        print(f"ok     {sentence}")
    for sentence in diagnosis.notes:
        print(f"note   {sentence}")
    for sentence in diagnosis.faults:
        print(f"FAULT  {sentence}")
    return 1 if diagnosis.faults else 0


def examine_directory(path: Path) -> Diagnosis:
    """Look without changing anything; a process inside keeps the doctor out."""
    diagnosis = Diagnosis()
    try:
        with inspecting(path) as directory:
            diagnosis.seen.append(f"{path} is not in use")
            version = read_format(path)
            if version != FORMAT_VERSION:
                found = "no format" if version is None else f"format {version}"
                diagnosis.faults.append(f"{path} has {found}, not format {FORMAT_VERSION}")
                return diagnosis
            diagnosis.seen.append(f"the format is {version}")
            _examine_contents(directory, diagnosis)
    except DataDirectoryRefused as refusal:
        diagnosis.faults.append(refusal.sentence)
    return diagnosis


def _examine_contents(directory: DataDirectory, diagnosis: Diagnosis) -> None:
    if not directory.metadata_file.exists() and not directory.ledger_folder.exists():
        diagnosis.seen.append("nothing was ever stored here")
        return
    if load_identity(directory) is not None:
        _examine_ledgers(directory.ledger_folder, diagnosis)
        diagnosis.notes.append(
            "the metadata is on a store that brokers share; it was not looked at"
        )
        return
    named = _examine_metadata(directory.metadata_file, diagnosis)
    ledgers = _examine_ledgers(directory.ledger_folder, diagnosis)
    if named is None or ledgers is None:
        return
    references = named.references
    highest = max((ledger.term for ledger in ledgers.values()), default=0)
    if highest > named.term:
        diagnosis.faults.append(
            f"{directory.metadata_file}: the metadata is older than the ledgers:"
            f" it has seen {named.term} starts, the ledgers {highest}"
        )
    for reference in references:
        if reference.ledger not in ledgers:
            diagnosis.faults.append(f"{reference.path}: ledger {reference.ledger} is missing")
    claimed = {reference.ledger for reference in references}
    chains = {without_bucket(reference.path) for reference in references}
    for ledger, properties in sorted((each.id, each.properties) for each in ledgers.values()):
        if ledger not in claimed and not _is_compacted(properties, chains):
            owner = properties.get("chain") or properties.get("pulsar/schemaId")
            made_for = f", made for {owner}," if owner else ""
            diagnosis.notes.append(f"ledger {ledger}{made_for} belongs to nobody")


def _is_compacted(properties: Mapping[str, str], chains: set[str]) -> bool:
    """A compacted ledger is named inside the ledger of a cursor; its topic answers for it."""
    if properties.get("kind") != "compacted":
        return False
    try:
        return chain_path(parse_topic(properties.get("topic", "")), 1) in chains
    except InvalidName:
        return False


def _examine_metadata(file: Path, diagnosis: Diagnosis) -> _Named | None:
    if not file.exists():
        diagnosis.faults.append(f"{file} is missing")
        return None
    try:
        with closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            complaints = [row[0] for row in connection.execute("PRAGMA integrity_check")]
            if complaints != ["ok"]:
                diagnosis.faults += [f"{file}: {complaint}" for complaint in complaints]
                return None
            references = list(_read_references(connection, diagnosis))
            term = read_record(connection, TERM_PATH)
    except sqlite3.DatabaseError as error:
        diagnosis.faults.append(f"{file}: {error}")
        return None
    diagnosis.seen.append(f"the metadata is whole; it names {len(references)} ledgers")
    return _Named(references, 0 if term is None else int(term.value))


def _examine_ledgers(folder: Path, diagnosis: Diagnosis) -> dict[int, FileLedger] | None:
    if not folder.is_dir():
        diagnosis.faults.append(f"{folder} is missing")
        return None
    findings = check_ledgers(folder)
    for finding in findings:
        (diagnosis.notes if finding.is_harmless else diagnosis.faults).append(str(finding))
    try:
        ledgers = examine(folder, SystemDisk()).ledgers
    except LedgerCorrupt:
        return None  # the check has said so already
    if all(finding.is_harmless for finding in findings):
        diagnosis.seen.append(f"{len(ledgers)} ledgers are whole")
    return ledgers


def _read_references(connection: sqlite3.Connection, diagnosis: Diagnosis) -> Iterator[_Reference]:
    for path, value in _walk(connection, CHAINS):
        try:
            yield from _decode_chain_record(path, value)
            _check_bucket(connection, path, diagnosis)
        except RecordUnreadable as refusal:
            diagnosis.faults.append(f"{path}: {refusal.sentence}")
    for path, value in _walk(connection, SCHEMAS):
        try:
            for entry in decode_locator(value):
                yield _Reference(entry.position.ledger_id, path)
        except RecordUnreadable as refusal:
            diagnosis.faults.append(f"{path}: {refusal.sentence}")


def _decode_chain_record(path: str, value: bytes) -> Iterator[_Reference]:
    """Without its bucket a topic is four components deep, a segment five; a cursor stands one below
    its topic.
    """
    parts = without_bucket(path).removeprefix(f"{CHAINS}/").split("/")
    depth = 5 if len(parts) > 2 and parts[2] == TopicDomain.SEGMENT.value else 4
    if len(parts) == depth:
        for ledger in decode_log(value).ledgers:
            yield _Reference(ledger.ledger_id, path)
    elif len(parts) == depth + 1:
        cursor = decode_cursor(value)
        if cursor.ledger_id >= 0:
            yield _Reference(cursor.ledger_id, path)


def _check_bucket(connection: sqlite3.Connection, path: str, diagnosis: Diagnosis) -> None:
    """A topic outside the bucket that its name tells is there, but no broker finds it."""
    parts = path.split("/")
    if len(parts) < 6:
        return
    kept = read_record(connection, "/".join(parts[:4]))
    buckets = 1 if kept is None else decode_document(kept.value, BucketCount).numberOfTopicBuckets
    bare = without_bucket(path).split("/")
    wanted = [] if buckets == 1 else [f"${bucket_of(bare[5], buckets)}"]
    if [*bare[:5], *wanted, *bare[5:]] != parts:
        diagnosis.faults.append(f"{path}: not in the bucket of its name, of {buckets}")


def _walk(connection: sqlite3.Connection, path: str) -> Iterator[tuple[str, bytes]]:
    """Every record below the path."""
    for name in read_children(connection, path):
        child = f"{path}/{name}"
        record = read_record(connection, child)
        if record is not None:
            yield child, record.value
        yield from _walk(connection, child)
