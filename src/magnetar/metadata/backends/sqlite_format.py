"""The file's tables, and how damage to them is found.

Every row carries a checksum over all of it. The witness, a single row, holds the sum of all
checksums, so a row that is lost, doubled or moved to another path is found as well. It also counts
commits, under an identity that no other file has, and keeps what the ledger store last said of
itself: two stores that know each other's last commit notice when either is replaced by an old copy.
"""

from __future__ import annotations

import random
import sqlite3
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from magnetar.errors import DataDirectoryRefused, RecordUnreadable

FORMAT: Final = 2
_COMPLAINTS_MAX: Final = 20
_ONE: Final = 1 << 32
"""Added to every checksum in the sum, which thereby counts the rows too."""

# A row without a value is a parent that holds no record; it goes when its last child goes. The
# clustered key makes the children of a path neighbours on disk, already sorted.
_SCHEMA: Final = (
    """CREATE TABLE node (
        parent TEXT NOT NULL, name TEXT NOT NULL, value BLOB, version INTEGER NOT NULL,
        created_ms INTEGER NOT NULL, modified_ms INTEGER NOT NULL, ephemeral INTEGER NOT NULL,
        checksum INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (parent, name)) WITHOUT ROWID""",
    "CREATE INDEX node_ephemeral ON node (parent, name) WHERE ephemeral = 1",
    "CREATE TABLE sequence (prefix TEXT PRIMARY KEY, counters TEXT NOT NULL) WITHOUT ROWID",
)
_WITNESS: Final = """CREATE TABLE witness (
    id INTEGER PRIMARY KEY CHECK (id = 1), identity TEXT NOT NULL, commits INTEGER NOT NULL,
    digest INTEGER NOT NULL, ledgers TEXT NOT NULL, checksum INTEGER NOT NULL)"""
_UPGRADE: Final = (
    "ALTER TABLE node ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0",
    "UPDATE node SET version = -1, created_ms = 0, modified_ms = 0, ephemeral = 0"
    " WHERE value IS NULL",
    "UPDATE node SET checksum ="
    " checksum_of(parent, name, value, version, created_ms, modified_ms, ephemeral)",
)


@dataclass(frozen=True, slots=True)
class Witness:
    identity: str
    commits: int
    digest: int
    ledgers: str
    """What the ledger store said of itself at the last commit; empty when it said nothing."""


def connect(file: str, *, writes: bool) -> sqlite3.Connection:
    # One thread at a time uses a connection, but the one that closes it is another.
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    try:
        if writes:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        else:
            connection.execute("PRAGMA query_only = 1")
    except BaseException:
        connection.close()
        raise
    return connection


def checksum_row(
    parent: str,
    name: str,
    value: bytes | None,
    version: int,
    created_ms: int,
    modified_ms: int,
    ephemeral: int,
) -> int:
    kind = "parent" if value is None else "record"
    head = f"{parent}/{name}\0{version} {created_ms} {modified_ms} {ephemeral} {kind}"
    return crc32c(value or b"", crc32c(head.encode()))


def checksum_sequence(prefix: str, counters: str) -> int:
    return crc32c(f"{prefix}\0{counters}".encode())


def add_to_digest(digest: int, *, removed: int | None = None, added: int | None = None) -> int:
    """The sum after a row's checksum was replaced, taken away or added."""
    if removed is not None:
        digest -= removed + _ONE
    if added is not None:
        digest += added + _ONE
    return digest


def check_row(path: str, parent: str, name: str, row: tuple[object, ...]) -> None:
    """Raise RecordUnreadable unless a row, from its value to its checksum, matches its checksum."""
    *fields, stored = row
    try:
        found = checksum_row(parent, name, *fields)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = -1  # not even of the types that were written
    if found != stored:
        raise RecordUnreadable(f"The metadata record at {path} does not match its checksum")


def prepare(connection: sqlite3.Connection, file: str, chance: random.Random) -> Witness:
    """Make or upgrade the tables, check all of them, and return the witness.

    Raise DataDirectoryRefused when the format is unknown or anything is damaged.
    """
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > FORMAT:
        raise DataDirectoryRefused(
            f"{file} has metadata format {found}; this version knows up to {FORMAT}"
        )
    if found:
        _refuse(file, check_pages(connection))
    if found < FORMAT:
        _make(connection, str(uuid.UUID(int=chance.getrandbits(128), version=4)), is_new=found == 0)
    witness = load_witness(connection)
    _refuse(file, check_rows(connection, witness))
    assert witness is not None
    return witness


def check_pages(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(f"PRAGMA quick_check({_COMPLAINTS_MAX})").fetchall()
    return [str(row[0]) for row in rows if row[0] != "ok"]


def check_rows(connection: sqlite3.Connection, witness: Witness | None) -> list[str]:
    """What is wrong with the rows of a file of this format; the first few of it."""
    complaints: list[str] = []
    if witness is None:
        complaints.append("its witness, the row that counts commits, is missing or damaged")
    digest = 0
    rows = connection.execute(
        "SELECT parent, name, value, version, created_ms, modified_ms, ephemeral, checksum"
        " FROM node"
    )
    for parent, name, value, version, created_ms, modified_ms, ephemeral, checksum in rows:
        try:
            found = checksum_row(parent, name, value, version, created_ms, modified_ms, ephemeral)
        except (TypeError, ValueError):
            found = -1
        if found != checksum:
            complaints.append(f"the record at {parent}/{name} does not match its checksum")
            if len(complaints) >= _COMPLAINTS_MAX:
                return complaints
        digest += found + _ONE
    for checksum in _sequence_checksums(connection):
        digest += checksum + _ONE
    if witness is not None and not complaints and digest != witness.digest:
        complaints.append("records are missing, or there are more than were written")
    return complaints


def load_witness(connection: sqlite3.Connection) -> Witness | None:
    """None when there is none that can be believed."""
    row = connection.execute(
        "SELECT identity, commits, digest, ledgers, checksum FROM witness WHERE id = 1"
    ).fetchone()
    if row is None:
        return None
    witness = Witness(*row[:4])
    return witness if _checksum_witness(witness) == row[4] else None


def store_witness(connection: sqlite3.Connection, witness: Witness) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO witness VALUES (1, ?, ?, ?, ?, ?)",
        (
            witness.identity,
            witness.commits,
            witness.digest,
            witness.ledgers,
            _checksum_witness(witness),
        ),
    )


def _checksum_witness(witness: Witness) -> int:
    text = f"{witness.identity} {witness.commits} {witness.digest} {witness.ledgers}"
    return crc32c(text.encode())


def _make(connection: sqlite3.Connection, identity: str, *, is_new: bool) -> None:
    """One transaction: a crash leaves the file as it was or as it is to be."""
    connection.create_function("checksum_of", 7, checksum_row, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in (*(_SCHEMA if is_new else _UPGRADE), _WITNESS):
            connection.execute(statement)
        (digest,) = connection.execute(
            "SELECT coalesce(sum(checksum + ?), 0) FROM node", (_ONE,)
        ).fetchone()
        digest += sum(checksum + _ONE for checksum in _sequence_checksums(connection))
        store_witness(connection, Witness(identity, 0, digest, ""))
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _sequence_checksums(connection: sqlite3.Connection) -> Iterator[int]:
    for prefix, counters in connection.execute("SELECT prefix, counters FROM sequence"):
        yield checksum_sequence(prefix, counters)


def _refuse(file: str, complaints: list[str]) -> None:
    if complaints:
        more = f" (and {len(complaints) - 1} more)" if len(complaints) > 1 else ""
        raise DataDirectoryRefused(
            f"{file} is damaged: {complaints[0]}{more}; nothing was changed."
            " Bring the data directory back from a backup; `magnetar doctor` lists the damage"
        )
