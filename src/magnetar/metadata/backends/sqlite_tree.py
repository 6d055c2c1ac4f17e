"""The tree as rows, and each operation as a few statements inside a transaction that the
file opens.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from magnetar.errors import RecordNotEmpty, RecordNotFound, VersionConflict
from magnetar.metadata.backends.sqlite_format import (
    Witness,
    add_to_digest,
    check_row,
    checksum_row,
    checksum_sequence,
    connect,
    prepare,
    store_witness,
)
from magnetar.metadata.path import ROOT, child_of, name_of, parent_of
from magnetar.metadata.sequence import advance, format_sequence
from magnetar.metadata.store import ABSENT, ANY_VERSION, Change, ChangeKind, Record, Stat

_DIRECTORIES_MAX: Final = 65_536


_Row: TypeAlias = tuple[bytes, int, int, int, int, int]
"""Value, version, created_ms, modified_ms, ephemeral, checksum."""


def read_record(connection: sqlite3.Connection, path: str) -> Record | None:
    """Raise RecordUnreadable when it does not match its checksum."""
    row = _read_row(connection, path)
    return None if row is None else _record(row)


def _read_row(connection: sqlite3.Connection, path: str) -> _Row | None:
    key = (parent_of(path), name_of(path))
    row: _Row | None = connection.execute(
        "SELECT value, version, created_ms, modified_ms, ephemeral, checksum"
        " FROM node WHERE parent = ? AND name = ? AND value IS NOT NULL",
        key,
    ).fetchone()
    if row is not None:
        check_row(path, *key, row)
    return row


def read_exists(connection: sqlite3.Connection, path: str) -> bool:
    if path == ROOT:
        return True
    found = connection.execute(
        "SELECT 1 FROM node WHERE parent = ? AND name = ?", (parent_of(path), name_of(path))
    ).fetchone()
    return found is not None


def read_children(connection: sqlite3.Connection, path: str) -> tuple[str, ...]:
    # One row of joined names: a row each would hand the interpreter lock back and forth per child.
    (joined,) = connection.execute(
        "SELECT group_concat(name, '/') FROM"
        " (SELECT name FROM node WHERE parent = ? ORDER BY name)",
        (path,),
    ).fetchone()
    return () if joined is None else tuple(sorted(joined.split("/")))


def read_count(connection: sqlite3.Connection, path: str) -> int:
    (count,) = connection.execute("SELECT count(*) FROM node WHERE parent = ?", (path,)).fetchone()
    return int(count)


def read_page(
    connection: sqlite3.Connection, path: str, after: str, limit: int
) -> list[tuple[str, Record]]:
    rows = connection.execute(
        "SELECT name, value, version, created_ms, modified_ms, ephemeral, checksum FROM node"
        " WHERE parent = ? AND name > ? AND value IS NOT NULL ORDER BY name LIMIT ?",
        (path, after, limit),
    ).fetchall()
    for name, *row in rows:
        check_row(child_of(path, name), path, name, tuple(row))
    return [(row[0], _record(row[1:])) for row in rows]


def _record(row: _Row) -> Record:
    value, version, created_ms, modified_ms, ephemeral, _ = row
    return Record(value, Stat(version, created_ms, modified_ms, bool(ephemeral), False))


def _checksum_parent(path: str) -> int:
    """Of the row of a mere parent."""
    return checksum_row(parent_of(path), name_of(path), None, -1, 0, 0, 0)


class SqliteTree:
    """The one writer's side.

    Every operation refuses before it changes anything; `changes` collects what to tell. Which
    session made an ephemeral record is known in memory alone: it goes with the process at the
    latest. What is returned does not tell whose it is.
    """

    def __init__(self, file: str, chance: random.Random) -> None:
        self._connection = connect(file, writes=True)
        self._directories: set[str] = set()
        self._is_counted = True
        self._is_ending = False
        self.owners: Final[dict[str, int]] = {}
        """The sessions of ephemeral records; other threads may look a path up."""
        self._owned_before: list[tuple[str, int | None]] = []
        self.changes: list[Change] = []
        self.ledgers: Callable[[], str] = lambda: self.witness.ledgers
        """What the ledger store says of itself now; the witness keeps it."""
        try:
            self.witness = prepare(self._connection, file, chance)
            self._digest = self.witness.digest
            # Their session is over: one process at a time opens the file.
            if self._ephemerals():
                self.begin()
                self.end_sessions()
                self.commit()
        except BaseException:
            self._connection.close()
            raise

    def begin(self) -> None:
        self.changes = []
        self._is_counted = True
        self._is_ending = False
        self._owned_before = []
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        witness = self.witness
        if self.changes or self._is_ending:
            commits = witness.commits + self._is_counted
            witness = Witness(witness.identity, commits, self._digest, self.ledgers())
            store_witness(self._connection, witness)
        self._connection.execute("COMMIT")
        self.witness = witness

    def rollback(self) -> None:
        self.changes = []
        self._directories.clear()
        self._digest = self.witness.digest
        for path, owner in reversed(self._owned_before):
            self._set_owner(path, owner)
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def put(self, path: str, value: bytes, expect: int, owner: int | None, now_ms: int) -> Stat:
        """The record is ephemeral when it is made by an owner."""
        was = _read_row(self._connection, path)
        version = ABSENT if was is None else was[1]
        if expect not in (ANY_VERSION, version):
            raise VersionConflict(f"Version of {path} is {version}, expected {expect}")
        if was is None:
            self.changes.append(Change(ChangeKind.CREATED, path))
            self._link(path)
            stat = Stat(0, now_ms, now_ms, owner is not None, False)
            self._own(path, owner)
            self._fill(path, value, stat, _checksum_parent(path))
            return stat
        self.changes.append(Change(ChangeKind.MODIFIED, path))
        _, _, created_ms, _, is_ephemeral, checksum = was
        stat = Stat(version + 1, created_ms, now_ms, bool(is_ephemeral), False)
        self._fill(path, value, stat, checksum)
        return stat

    def _fill(self, path: str, value: bytes, stat: Stat, was: int) -> None:
        """Write a row that is there; `was` is its checksum so far."""
        key = (parent_of(path), name_of(path))
        fields = (value, stat.version, stat.created_ms, stat.modified_ms, int(stat.ephemeral))
        checksum = checksum_row(key[0], key[1], *fields)
        self._connection.execute(
            "UPDATE node SET value = ?, version = ?, created_ms = ?, modified_ms = ?,"
            " ephemeral = ?, checksum = ? WHERE parent = ? AND name = ?",
            (*fields, checksum, *key),
        )
        self._digest = add_to_digest(self._digest, removed=was, added=checksum)

    def put_sequence(
        self, prefix: str, value: bytes, deltas: Sequence[int], owner: int | None, now_ms: int
    ) -> tuple[str, Stat]:
        row = self._connection.execute(
            "SELECT counters FROM sequence WHERE prefix = ?", (prefix,)
        ).fetchone()
        numbers = advance(() if row is None else json.loads(row[0]), deltas)
        path = format_sequence(prefix, numbers[: len(deltas)])
        stat = self.put(path, value, ABSENT, owner, now_ms)
        counters = json.dumps(numbers)
        self._connection.execute(
            "INSERT INTO sequence VALUES (?, ?)"
            " ON CONFLICT (prefix) DO UPDATE SET counters = excluded.counters",
            (prefix, counters),
        )
        self._digest = add_to_digest(
            self._digest,
            removed=None if row is None else checksum_sequence(prefix, row[0]),
            added=checksum_sequence(prefix, counters),
        )
        return path, stat

    def delete(self, path: str, expect: int) -> None:
        record = read_record(self._connection, path)
        if record is not None and expect not in (ANY_VERSION, record.stat.version):
            raise VersionConflict(f"Version of {path} is {record.stat.version}, expected {expect}")
        if self._has_children(path):
            raise RecordNotEmpty(f"{path} has children")
        if record is None:
            raise RecordNotFound(f"No record at {path}")
        self.changes.append(Change(ChangeKind.DELETED, path))
        self._unlink(path)

    def delete_recursive(self, path: str) -> None:
        if not read_exists(self._connection, path):
            return
        # Everything below has a parent that is the path or starts with the path and a slash; "0"
        # follows "/".
        below = (path, f"{path}/", f"{path}0")
        rows = self._connection.execute(
            "SELECT parent, name, value IS NOT NULL, checksum FROM node"
            " WHERE parent = ? OR (parent >= ? AND parent < ?)",
            below,
        ).fetchall()
        own = self._holds_record(path)
        self._connection.execute(
            "DELETE FROM node WHERE parent = ? OR (parent >= ? AND parent < ?)", below
        )
        deepest_first = sorted(rows, key=lambda row: str(row[0]).count("/"), reverse=True)
        for parent, name, holds_record, checksum in deepest_first:
            self._digest = add_to_digest(self._digest, removed=checksum)
            self._directories.discard(child_of(parent, name))
            if holds_record:
                self._own(child_of(parent, name), None)
                self.changes.append(Change(ChangeKind.DELETED, child_of(parent, name)))
        for parent in dict.fromkeys(row[0] for row in deepest_first):
            self.changes.append(Change(ChangeKind.CHILDREN_CHANGED, parent))
        if own:
            self.changes.append(Change(ChangeKind.DELETED, path))
        self._unlink(path)

    def end_session(self, session: int) -> None:
        """Drop what goes with one session."""
        for path in [path for path, owner in self.owners.items() if owner == session]:
            self.changes.append(Change(ChangeKind.DELETED, path))
            self._unlink(path)

    def end_sessions(self) -> None:
        """Drop what goes with any session, and let the witness note how the ledgers stand.

        That alone is not counted as a commit: a file from before it is as good as one from after
        it, and the ledgers may have been closed already.
        """
        self._is_counted = bool(self.changes)
        self._is_ending = True
        for path in self._ephemerals():
            self.changes.append(Change(ChangeKind.DELETED, path))
            self._unlink(path)

    def _own(self, path: str, owner: int | None) -> None:
        if owner is not None or path in self.owners:
            self._owned_before.append((path, self.owners.get(path)))
            self._set_owner(path, owner)

    def _set_owner(self, path: str, owner: int | None) -> None:
        if owner is None:
            self.owners.pop(path, None)
        else:
            self.owners[path] = owner

    def _ephemerals(self) -> list[str]:
        rows = self._connection.execute(
            "SELECT parent, name FROM node INDEXED BY node_ephemeral WHERE ephemeral = 1"
        ).fetchall()
        return [child_of(parent, name) for parent, name in rows]

    def _link(self, path: str) -> None:
        """Make sure there is a row for the path and for each of its parents."""
        directory = parent_of(path)
        while path != ROOT and path not in self._directories:
            parent = parent_of(path)
            added = self._connection.execute(
                "INSERT INTO node VALUES (?, ?, NULL, -1, 0, 0, 0, ?)"
                " ON CONFLICT (parent, name) DO NOTHING",
                (parent, name_of(path), _checksum_parent(path)),
            ).rowcount
            if not added:
                break
            self._digest = add_to_digest(self._digest, added=_checksum_parent(path))
            self.changes.append(Change(ChangeKind.CHILDREN_CHANGED, parent))
            path = parent
        if len(self._directories) >= _DIRECTORIES_MAX:
            self._directories.clear()
        self._directories.add(directory)

    def _unlink(self, path: str) -> None:
        """Remove the row, or keep it as a mere parent; then remove parents left with nothing in
        them.
        """
        self._own(path, None)
        while path != ROOT:
            key = (parent_of(path), name_of(path))
            (checksum,) = self._connection.execute(
                "SELECT checksum FROM node WHERE parent = ? AND name = ?", key
            ).fetchone()
            if self._has_children(path):
                bare = _checksum_parent(path)
                self._connection.execute(
                    "UPDATE node SET value = NULL, version = -1, created_ms = 0, modified_ms = 0,"
                    " ephemeral = 0, checksum = ? WHERE parent = ? AND name = ?",
                    (bare, *key),
                )
                self._digest = add_to_digest(self._digest, removed=checksum, added=bare)
                return
            self._connection.execute("DELETE FROM node WHERE parent = ? AND name = ?", key)
            self._digest = add_to_digest(self._digest, removed=checksum)
            self._directories.discard(path)
            path = parent_of(path)
            self.changes.append(Change(ChangeKind.CHILDREN_CHANGED, path))
            if self._has_children(path) or path == ROOT or self._holds_record(path):
                return

    def _holds_record(self, path: str) -> bool:
        found = self._connection.execute(
            "SELECT 1 FROM node WHERE parent = ? AND name = ? AND value IS NOT NULL",
            (parent_of(path), name_of(path)),
        ).fetchone()
        return found is not None

    def _has_children(self, path: str) -> bool:
        found = self._connection.execute(
            "SELECT 1 FROM node WHERE parent = ? LIMIT 1", (path,)
        ).fetchone()
        return found is not None
