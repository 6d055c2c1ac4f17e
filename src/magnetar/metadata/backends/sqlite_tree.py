"""The tree as rows, and each operation as a few statements inside a transaction somebody else
opens.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Final

from magnetar.errors import (
    DataDirectoryRefused,
    RecordNotEmpty,
    RecordNotFound,
    VersionConflict,
)
from magnetar.metadata.path import ROOT, child_of, name_of, parent_of
from magnetar.metadata.sequence import advance, format_sequence
from magnetar.metadata.store import ABSENT, ANY_VERSION, Change, ChangeKind, Record, Stat

_FORMAT: Final = 1
_DIRECTORIES_MAX: Final = 65_536

# A row without a value is a parent that holds no record; it goes when its last child goes. The
# clustered key makes the children of a path neighbours on disk, already sorted.
_SCHEMA: Final = (
    """CREATE TABLE node (
        parent TEXT NOT NULL, name TEXT NOT NULL, value BLOB, version INTEGER NOT NULL,
        created_ms INTEGER NOT NULL, modified_ms INTEGER NOT NULL, ephemeral INTEGER NOT NULL,
        PRIMARY KEY (parent, name)) WITHOUT ROWID""",
    "CREATE INDEX node_ephemeral ON node (parent, name) WHERE ephemeral = 1",
    "CREATE TABLE sequence (prefix TEXT PRIMARY KEY, counters TEXT NOT NULL) WITHOUT ROWID",
    f"PRAGMA user_version = {_FORMAT}",
)


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


def read_record(connection: sqlite3.Connection, path: str) -> Record | None:
    row = connection.execute(
        "SELECT value, version, created_ms, modified_ms, ephemeral FROM node"
        " WHERE parent = ? AND name = ? AND value IS NOT NULL",
        (parent_of(path), name_of(path)),
    ).fetchone()
    return None if row is None else _record(row)


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
        "SELECT name, value, version, created_ms, modified_ms, ephemeral FROM node"
        " WHERE parent = ? AND name > ? AND value IS NOT NULL ORDER BY name LIMIT ?",
        (path, after, limit),
    ).fetchall()
    return [(row[0], _record(row[1:])) for row in rows]


def _record(row: tuple[bytes, int, int, int, int]) -> Record:
    value, version, created_ms, modified_ms, ephemeral = row
    return Record(value, Stat(version, created_ms, modified_ms, bool(ephemeral), bool(ephemeral)))


class SqliteTree:
    """The one writer's side.

    Every operation refuses before it changes anything; `changes` collects what to tell.
    """

    def __init__(self, file: str) -> None:
        self._connection = connect(file, writes=True)
        self._directories: set[str] = set()
        self.changes: list[Change] = []
        try:
            self._prepare(file)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, file: str) -> None:
        (found,) = self._connection.execute("PRAGMA user_version").fetchone()
        if found > _FORMAT:
            raise DataDirectoryRefused(
                f"{file} has metadata format {found}; this version knows up to {_FORMAT}"
            )
        if found == 0:
            self.begin()
            for statement in _SCHEMA:
                self._connection.execute(statement)
            self.commit()
        # Whoever made them is gone: one process at a time opens the file.
        if self._ephemerals():
            self.begin()
            self.drop_ephemerals()
            self.commit()

    def begin(self) -> None:
        self.changes = []
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        self.changes = []
        self._directories.clear()
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def put(self, path: str, value: bytes, expect: int, ephemeral: bool, now_ms: int) -> Stat:
        record = read_record(self._connection, path)
        version = ABSENT if record is None else record.stat.version
        if expect not in (ANY_VERSION, version):
            raise VersionConflict(f"Version of {path} is {version}, expected {expect}")
        key = (parent_of(path), name_of(path))
        if record is not None:
            self._connection.execute(
                "UPDATE node SET value = ?, version = ?, modified_ms = ?"
                " WHERE parent = ? AND name = ?",
                (value, version + 1, now_ms, *key),
            )
            self.changes.append(Change(ChangeKind.MODIFIED, path))
            was = record.stat
            return Stat(version + 1, was.created_ms, now_ms, was.ephemeral, was.created_by_self)
        self.changes.append(Change(ChangeKind.CREATED, path))
        self._link(path)
        self._connection.execute(
            "UPDATE node SET value = ?, version = 0, created_ms = ?, modified_ms = ?, ephemeral = ?"
            " WHERE parent = ? AND name = ?",
            (value, now_ms, now_ms, int(ephemeral), *key),
        )
        return Stat(0, now_ms, now_ms, ephemeral, ephemeral)

    def put_sequence(
        self, prefix: str, value: bytes, deltas: Sequence[int], ephemeral: bool, now_ms: int
    ) -> tuple[str, Stat]:
        row = self._connection.execute(
            "SELECT counters FROM sequence WHERE prefix = ?", (prefix,)
        ).fetchone()
        numbers = advance(() if row is None else json.loads(row[0]), deltas)
        path = format_sequence(prefix, numbers[: len(deltas)])
        stat = self.put(path, value, ABSENT, ephemeral, now_ms)
        self._connection.execute(
            "INSERT INTO sequence VALUES (?, ?)"
            " ON CONFLICT (prefix) DO UPDATE SET counters = excluded.counters",
            (prefix, json.dumps(numbers)),
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
            "SELECT parent, name, value IS NOT NULL FROM node"
            " WHERE parent = ? OR (parent >= ? AND parent < ?)",
            below,
        ).fetchall()
        own = read_record(self._connection, path) is not None
        self._connection.execute(
            "DELETE FROM node WHERE parent = ? OR (parent >= ? AND parent < ?)", below
        )
        deepest_first = sorted(rows, key=lambda row: str(row[0]).count("/"), reverse=True)
        for parent, name, holds_record in deepest_first:
            self._directories.discard(child_of(parent, name))
            if holds_record:
                self.changes.append(Change(ChangeKind.DELETED, child_of(parent, name)))
        for parent in dict.fromkeys(row[0] for row in deepest_first):
            self.changes.append(Change(ChangeKind.CHILDREN_CHANGED, parent))
        if own:
            self.changes.append(Change(ChangeKind.DELETED, path))
        self._unlink(path)

    def drop_ephemerals(self) -> None:
        for path in self._ephemerals():
            self.changes.append(Change(ChangeKind.DELETED, path))
            self._unlink(path)

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
                "INSERT INTO node VALUES (?, ?, NULL, -1, 0, 0, 0)"
                " ON CONFLICT (parent, name) DO NOTHING",
                (parent, name_of(path)),
            ).rowcount
            if not added:
                break
            self.changes.append(Change(ChangeKind.CHILDREN_CHANGED, parent))
            path = parent
        if len(self._directories) >= _DIRECTORIES_MAX:
            self._directories.clear()
        self._directories.add(directory)

    def _unlink(self, path: str) -> None:
        """Remove the row, or keep it as a mere parent; then remove parents left with nothing in
        them.
        """
        while path != ROOT:
            key = (parent_of(path), name_of(path))
            if self._has_children(path):
                self._connection.execute(
                    "UPDATE node SET value = NULL, version = -1, ephemeral = 0"
                    " WHERE parent = ? AND name = ?",
                    key,
                )
                return
            self._connection.execute("DELETE FROM node WHERE parent = ? AND name = ?", key)
            self._directories.discard(path)
            path = parent_of(path)
            self.changes.append(Change(ChangeKind.CHILDREN_CHANGED, path))
            if self._has_children(path) or path == ROOT:
                return
            if read_record(self._connection, path) is not None:
                return

    def _has_children(self, path: str) -> bool:
        found = self._connection.execute(
            "SELECT 1 FROM node WHERE parent = ? LIMIT 1", (path,)
        ).fetchone()
        return found is not None
