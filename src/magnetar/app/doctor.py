"""Looking over a data directory: is everything there, whole, and named by the right record."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from magnetar.app.directory import (
    FORMAT_VERSION,
    UPGRADED,
    DataDirectory,
    inspecting,
    load_identity,
    read_format,
    read_spread,
    repairing,
)
from magnetar.app.storage import find_older_metadata
from magnetar.broker.ownership import TERM_PATH
from magnetar.broker.resource import POLICIES
from magnetar.broker.topic_tree import BucketCount
from magnetar.cli.progress import show_bytes
from magnetar.errors import DataDirectoryRefused, InvalidName, LedgerCorrupt, RecordUnreadable
from magnetar.ledger.backends.file.check import check_ledgers
from magnetar.ledger.backends.file.disk import SystemDisk
from magnetar.ledger.backends.file.rebuild import rebuild_catalogue
from magnetar.ledger.backends.file.recovery import Examined, examine
from magnetar.ledger.backends.file.settlement import JOURNAL_DIRECTORY
from magnetar.ledger.backends.file.witness import LedgerWitness, parse_witness
from magnetar.ledger.belonging import UseKind, parse_use
from magnetar.ledger.orphan import describe_owner, is_garbage
from magnetar.metadata.backends.sqlite_format import (
    Witness,
    check_pages,
    check_rows,
    load_witness,
)
from magnetar.metadata.backends.sqlite_tree import read_children, read_record
from magnetar.model.document import decode_document
from magnetar.model.log_path import (
    JOURNALS,
    LOGS,
    bucket_of,
    is_journal,
    journal_path,
    log_path,
    without_bucket,
)
from magnetar.model.name import TopicDomain, encode_local, parse_topic
from magnetar.model.policy import Policies
from magnetar.model.tenancy import TenantInfo
from magnetar.runtime.clock import SystemClock
from magnetar.wire.schema import decode_locator
from magnetar.wire.storage import decode_cursor, decode_log

SCHEMAS: Final = "/schemas"
Report: TypeAlias = Callable[[int], None]


@dataclass(slots=True)
class Diagnosis:
    """Faults need an operator; notes mend themselves or only take up space."""

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
    witness: Witness


def run(directory: Path, *, repair: bool = False) -> int:
    """Print what was found; 0 when nothing is wrong, 1 when something is."""
    diagnosis = Diagnosis()
    if repair:
        try:
            diagnosis.seen += repair_directory(directory)
        except DataDirectoryRefused as refusal:
            diagnosis.faults.append(refusal.sentence)
    if not diagnosis.faults:
        with show_bytes("checked", check_bytes(directory)) as progress:
            found = examine_directory(directory, progress.add)
        diagnosis.seen += found.seen
        diagnosis.notes += found.notes
        diagnosis.faults += found.faults
    for sentence in diagnosis.seen:
        print(f"ok     {sentence}")
    for sentence in diagnosis.notes:
        print(f"note   {sentence}")
    for sentence in diagnosis.faults:
        print(f"FAULT  {sentence}")
    return 1 if diagnosis.faults else 0


def repair_directory(path: Path) -> list[str]:
    """Make the ledgers usable again where a start is refused; say what was done.

    Raise DataDirectoryRefused when a process is inside. Metadata is not repaired: what it does not
    say is known to nothing else.
    """
    with repairing(path, SystemClock()) as directory:
        seen = None
        if directory.metadata_file.exists():
            try:
                with closing(_open_metadata(directory.metadata_file)) as connection:
                    seen = _seen_of(load_witness(connection))
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                pass  # the examination names it
        done: list[str] = []
        for number, folder in enumerate(directory.ledger_folders):
            if folder.is_dir():
                done += rebuild_catalogue(folder, None if number else seen)
        return done or ["there was nothing to repair"]


class _ReportingDisk(SystemDisk):
    """Says how much was read."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def read(self, path: Path, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        found = super().read(path, spans)
        self._report(sum(map(len, found)))
        return found

    def load(self, path: Path, into: bytearray) -> None:
        super().load(path, into)
        self._report(len(into))


def check_bytes(path: Path) -> int:
    """About how much an examination reads: the ledgers, and the journal once more."""
    return sum(
        measure(folder) + measure(folder / JOURNAL_DIRECTORY)
        for folder in DataDirectory(path).ledger_folders
    )


def measure(path: Path) -> int:
    """The bytes of all files below; a broker may remove one meanwhile."""
    size = 0
    for each in path.rglob("*"):
        with suppress(FileNotFoundError):
            size += each.stat().st_size if each.is_file() else 0
    return size


def ignore(size: int) -> None:
    """No progress is shown."""


def examine_directory(path: Path, report: Report = ignore) -> Diagnosis:
    """Look without changing anything. What a broker inside is writing is not looked at. `report`
    is given the number of bytes that were read, again and again.
    """
    diagnosis = Diagnosis()
    try:
        with inspecting(path) as holder:
            version = read_format(path)
            if version not in (FORMAT_VERSION, *UPGRADED):
                found = "no format" if version is None else f"format {version}"
                diagnosis.faults.append(f"{path} has {found}, not format {FORMAT_VERSION}")
                return diagnosis
            if holder is None:
                diagnosis.seen.append(f"{path} is not in use")
            else:
                diagnosis.notes.append(
                    f"{path} is in use by {holder}: the metadata was checked, the ledgers were not;"
                    " stop the broker to check all of it"
                )
            if version == FORMAT_VERSION:
                diagnosis.seen.append(f"the format is {version}")
                stores = read_spread(path).count
                if stores > 1:
                    diagnosis.seen.append(f"{stores} workers have written here, a store each")
            else:
                diagnosis.notes.append(
                    f"the format is {version}; the next start makes it {FORMAT_VERSION}, and this"
                    " check is for that one"
                )
                return diagnosis
            disk = _ReportingDisk(report)
            _examine_contents(DataDirectory(path), diagnosis, disk, is_stopped=holder is None)
    except DataDirectoryRefused as refusal:
        diagnosis.faults.append(refusal.sentence)
    return diagnosis


def _examine_contents(
    directory: DataDirectory, diagnosis: Diagnosis, disk: SystemDisk, *, is_stopped: bool
) -> None:
    if not directory.metadata_file.exists() and not directory.ledger_folder.exists():
        diagnosis.seen.append("nothing was ever stored here")
        return
    if load_identity(directory) is not None:
        if is_stopped:
            _examine_ledgers(directory.ledger_folder, None, diagnosis, disk)
        diagnosis.notes.append(
            "the metadata is on a store that brokers share; it was not looked at"
        )
        return
    named = _examine_metadata(directory.metadata_file, diagnosis)
    if not is_stopped:
        return
    # What the metadata has seen of ledgers is of the time with one store.
    seen = None if named is None else _seen_of(named.witness)
    examined = [
        _examine_ledgers(folder, None if number else seen, diagnosis, disk)
        for number, folder in enumerate(directory.ledger_folders)
    ]
    whole = [each for each in examined if each is not None]
    if named is not None and len(whole) == len(examined):
        _compare(directory, named, whole, diagnosis)


def _compare(
    directory: DataDirectory, named: _Named, stores: Sequence[Examined], diagnosis: Diagnosis
) -> None:
    """What the metadata and the ledgers say of each other."""
    ledgers = {number: each for store in stores for number, each in store.ledgers.items()}
    complaint = find_older_metadata(directory.metadata_file, named.witness, stores[0].witness)
    highest = max((ledger.term for ledger in ledgers.values()), default=0)
    if complaint is None and highest > named.term:
        complaint = (
            f"{directory.metadata_file}: the metadata is older than the ledgers:"
            f" it has seen {named.term} starts, the ledgers {highest}"
        )
    if complaint is not None:
        diagnosis.faults.append(complaint)
    for reference in named.references:
        ledger = ledgers.get(reference.ledger)
        if ledger is None:
            diagnosis.faults.append(f"{reference.path}: ledger {reference.ledger} is missing")
        elif not _is_owner(reference.path, ledger.properties):
            owner = describe_owner(ledger.info)
            diagnosis.faults.append(
                f"{reference.path}: ledger {reference.ledger} was made for {owner}"
            )
    claimed = {reference.ledger for reference in named.references}
    logs = {without_bucket(reference.path) for reference in named.references}
    for number in sorted(ledgers.keys() - claimed):
        info = ledgers[number].info
        if _is_compacted(info.properties, logs):
            continue
        owner = describe_owner(info)
        if is_garbage(info):
            diagnosis.notes.append(
                f"ledger {number}, made for {owner}, is named by no record and will be removed"
            )
        else:
            diagnosis.faults.append(
                f"ledger {number}, made for {owner}, holds {info.last + 1} entries and is named by"
                " no record: metadata was lost, or a broker before this version left it behind"
            )


def _is_owner(path: str, properties: Mapping[str, str]) -> bool:
    """Whether the record at a path is one that a ledger was made for, or it does not say."""
    use = parse_use(properties)
    if use is None:
        return True
    if use.kind is UseKind.SCHEMA:
        return path == f"{SCHEMAS}/{use.owner}"
    try:
        is_other = is_journal(use.owner)
        expected = journal_path(use.owner) if is_other else log_path(parse_topic(use.owner), 1)
    except InvalidName:
        return True
    if use.cursor:
        expected = f"{expected}/{encode_local(use.cursor)}"
    return without_bucket(path) == expected


def _is_compacted(properties: Mapping[str, str], logs: set[str]) -> bool:
    """A compacted ledger is named inside the ledger of a cursor; its topic answers for it."""
    use = parse_use(properties)
    if use is None or use.kind is not UseKind.COMPACTED:
        return False
    try:
        return log_path(parse_topic(use.owner), 1) in logs
    except InvalidName:
        return False


def _examine_metadata(file: Path, diagnosis: Diagnosis) -> _Named | None:
    if not file.exists():
        diagnosis.faults.append(f"{file} is missing")
        return None
    try:
        with closing(_open_metadata(file)) as connection:
            connection.execute("BEGIN")  # all of it as of one moment
            complaints = check_pages(connection)
            witness = None
            if not complaints:
                witness = load_witness(connection)
                complaints = check_rows(connection, witness)
            if complaints:
                diagnosis.faults += [f"{file}: {complaint}" for complaint in complaints]
                return None
            assert witness is not None
            references = list(_read_references(connection, diagnosis))
            _check_policies(connection, diagnosis)
            term = read_record(connection, TERM_PATH)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        diagnosis.faults.append(f"{file}: {error}")
        return None
    diagnosis.seen.append(f"the metadata is whole; it names {len(references)} ledgers")
    return _Named(references, 0 if term is None else int(term.value), witness)


def _open_metadata(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)


def _seen_of(witness: Witness | None) -> LedgerWitness | None:
    return None if witness is None else parse_witness(witness.ledgers)


def _check_policies(connection: sqlite3.Connection, diagnosis: Diagnosis) -> None:
    """A broker that cannot read its policies does not start."""
    for path, value in _walk(connection, POLICIES):
        kind = TenantInfo if path.count("/") == POLICIES.count("/") + 1 else Policies
        if path.count("/") > POLICIES.count("/") + 2:
            continue
        try:
            decode_document(value, kind)
        except RecordUnreadable as refusal:
            diagnosis.faults.append(f"{path}: {refusal.sentence}")


def _examine_ledgers(
    folder: Path, seen: LedgerWitness | None, diagnosis: Diagnosis, disk: SystemDisk
) -> Examined | None:
    if not folder.is_dir():
        diagnosis.faults.append(f"{folder} is missing")
        return None
    findings = check_ledgers(folder, seen, disk=disk)
    for finding in findings:
        (diagnosis.notes if finding.is_harmless else diagnosis.faults).append(str(finding))
    try:
        examined = examine(folder, disk, seen=seen)
    except LedgerCorrupt:
        return None  # the check has said so already
    if all(finding.is_harmless for finding in findings):
        diagnosis.seen.append(f"{len(examined.ledgers)} ledgers are whole")
    return examined


def _read_references(connection: sqlite3.Connection, diagnosis: Diagnosis) -> Iterator[_Reference]:
    for path, value in _walk(connection, LOGS):
        try:
            yield from _decode_log_record(path, value)
            _check_bucket(connection, path, diagnosis)
        except RecordUnreadable as refusal:
            diagnosis.faults.append(f"{path}: {refusal.sentence}")
    for path, value in _walk(connection, JOURNALS):
        try:
            yield from _decode_journal_record(path, value)
        except RecordUnreadable as refusal:
            diagnosis.faults.append(f"{path}: {refusal.sentence}")
    for path, value in _walk(connection, SCHEMAS):
        try:
            for entry in decode_locator(value):
                yield _Reference(entry.position.ledger_id, path)
        except RecordUnreadable as refusal:
            diagnosis.faults.append(f"{path}: {refusal.sentence}")


def _decode_log_record(path: str, value: bytes) -> Iterator[_Reference]:
    """Without its bucket a topic is four components deep, a segment five; a cursor stands one below
    its topic.
    """
    parts = without_bucket(path).removeprefix(f"{LOGS}/").split("/")
    depth = 5 if len(parts) > 2 and parts[2] == TopicDomain.SEGMENT.value else 4
    if len(parts) == depth:
        for ledger in decode_log(value).ledgers:
            yield _Reference(ledger.ledger_id, path)
    elif len(parts) == depth + 1:
        cursor = decode_cursor(value)
        if cursor.ledger_id >= 0:
            yield _Reference(cursor.ledger_id, path)


def _decode_journal_record(path: str, value: bytes) -> Iterator[_Reference]:
    """Of a coordinator or a participant of transactions, or of the cursor of its journal."""
    kind, *below = path.removeprefix(f"{JOURNALS}/").split("/")
    if kind not in ("coordinator", "participant"):
        return
    if len(below) == 1:
        for ledger in decode_log(value).ledgers:
            yield _Reference(ledger.ledger_id, path)
    elif (cursor := decode_cursor(value)).ledger_id >= 0:
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
