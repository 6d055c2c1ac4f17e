"""The file of the metadata: what was changed behind its back is refused, an older one upgraded."""

from __future__ import annotations

import asyncio
import logging
import resource
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from magnetar.errors import DataDirectoryRefused, RecordUnreadable, StoreUnavailable
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.metadata.store import ABSENT, ANY_VERSION
from magnetar.runtime.clock import SystemClock

FORMAT_1 = """
CREATE TABLE node (
    parent TEXT NOT NULL, name TEXT NOT NULL, value BLOB, version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL, modified_ms INTEGER NOT NULL, ephemeral INTEGER NOT NULL,
    PRIMARY KEY (parent, name)) WITHOUT ROWID;
CREATE INDEX node_ephemeral ON node (parent, name) WHERE ephemeral = 1;
CREATE TABLE sequence (prefix TEXT PRIMARY KEY, counters TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO node VALUES ('/', 'a', NULL, -1, 7, 7, 0);
INSERT INTO node VALUES ('/a', 'b', x'0102', 3, 10, 20, 0);
INSERT INTO node VALUES ('/a', 'gone', x'', 0, 10, 20, 1);
INSERT INTO sequence VALUES ('/q', '[4]');
PRAGMA user_version = 1;
"""


def with_store(file: Path, body: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def main() -> None:
        store = await SqliteStore.open(file, clock=SystemClock())
        try:
            await body(store)
        finally:
            await store.close()

    asyncio.run(main())


async def look(store: SqliteStore) -> None:
    pass


async def change(store: SqliteStore) -> None:
    """Everything that a row can go through."""
    await store.put("/a/b", b"one", expect=ABSENT)
    await store.put("/a/b", b"two", expect=0)
    await store.put("/a/b/c/d", b"deep", expect=ABSENT)
    await store.put("/a/b/c", b"", expect=ABSENT)
    await store.delete("/a/b/c/d", expect=ANY_VERSION)
    await store.put("/x/y/z", b"z", expect=ABSENT)
    await store.put("/x/y", b"y", expect=ABSENT)
    await store.put("/x/y/w/v", b"v", expect=ABSENT)
    await store.delete_recursive("/x/y")
    await store.put("/e/f", b"f", expect=ABSENT, ephemeral=True)
    for _ in range(3):
        await store.put_sequence("/q/n", b"q", deltas=[1, 2])
    await store.put("/p/q", b"q", expect=ABSENT)
    await store.put("/p", b"p", expect=ABSENT)
    await store.delete("/p/q", expect=0)


def edit(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        assert connection.execute(statement).rowcount == 1


def test_whatever_was_written_is_found_whole_at_the_next_start(tmp_path: Path) -> None:
    file = tmp_path / "metadata.db"
    for _ in range(2):
        with_store(file, change if not file.exists() else look)

    async def check(store: SqliteStore) -> None:
        record = await store.get("/a/b")
        assert record is not None
        assert (record.value, record.stat.version) == (b"two", 1)

    with_store(file, check)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE node SET value = x'7477ff' WHERE name = 'b'",
        "UPDATE node SET version = version + 1 WHERE name = 'b'",
        "UPDATE node SET modified_ms = modified_ms + 1 WHERE name = 'b'",
        "UPDATE node SET ephemeral = 1 WHERE name = 'b'",
        "UPDATE node SET name = 'bb' WHERE name = 'b'",
        "UPDATE node SET name = 'other' WHERE name = 'p'",
        "UPDATE node SET value = 'text' WHERE name = 'b'",
        "DELETE FROM node WHERE name = 'p'",
        "UPDATE sequence SET counters = '[1, 1]'",
        "UPDATE witness SET commits = commits - 1",
        "UPDATE witness SET ledgers = 'x'",
        "DELETE FROM witness",
    ],
)
def test_a_row_that_was_changed_behind_the_store_is_refused_with_the_name_of_the_file(
    tmp_path: Path, statement: str
) -> None:
    file = tmp_path / "metadata.db"
    with_store(file, change)
    edit(file, statement)
    before = file.read_bytes()
    with pytest.raises(DataDirectoryRefused, match=str(file)):
        with_store(file, look)
    assert file.read_bytes() == before


def test_a_record_that_changes_while_the_store_is_open_is_not_believed(tmp_path: Path) -> None:
    file = tmp_path / "metadata.db"

    async def body(store: SqliteStore) -> None:
        await store.put("/a/b", b"one", expect=ABSENT)
        edit(file, "UPDATE node SET value = x'00' WHERE name = 'b'")
        with pytest.raises(RecordUnreadable, match="/a/b does not match its checksum"):
            await store.get("/a/b")
        with pytest.raises(RecordUnreadable):
            await store.put("/a/b", b"two", expect=0)
        with pytest.raises(RecordUnreadable):
            [each async for each in store.scan_children("/a")]

    with_store(file, body)


def test_a_file_of_the_first_format_is_upgraded_in_place(tmp_path: Path) -> None:
    file = tmp_path / "metadata.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(FORMAT_1)

    async def check(store: SqliteStore) -> None:
        record = await store.get("/a/b")
        assert record is not None
        assert (record.value, record.stat.version, record.stat.created_ms) == (b"\1\2", 3, 10)
        assert await store.get("/a/gone") is None
        path, _ = await store.put_sequence("/q", b"", deltas=[1])
        assert path.endswith("5")
        await store.put("/a", b"a", expect=ABSENT)

    with_store(file, check)
    with_store(file, look)
    edit(file, "UPDATE node SET value = x'00' WHERE name = 'b'")
    with pytest.raises(DataDirectoryRefused):
        with_store(file, look)


def test_commits_are_counted_under_one_identity_and_keep_what_the_ledgers_say(
    tmp_path: Path,
) -> None:
    file = tmp_path / "metadata.db"
    told: list[tuple[str, int]] = []

    async def write(store: SqliteStore) -> None:
        said = iter(("first", "second", "last", "last"))
        store.exchange(
            lambda: next(said), lambda witness: told.append((witness.identity, witness.commits))
        )
        await store.put("/a", b"", expect=ABSENT)
        with pytest.raises(Exception, match="Version"):
            await store.put("/a", b"", expect=7)
        await store.put("/b", b"", expect=ABSENT)
        assert store.witness.ledgers == "second"

    with_store(file, write)
    assert [commits for _, commits in told] == [0, 1, 2]
    assert len({identity for identity, _ in told}) == 1

    async def check(store: SqliteStore) -> None:
        assert (store.witness.identity, store.witness.commits) == told[-1]
        assert store.witness.ledgers == "last"

    with_store(file, check)


def test_a_write_that_fails_is_logged_now_and_then(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "metadata.db"

    async def body(store: SqliteStore) -> None:
        await store.put("/a", b"kept", expect=ABSENT)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))  # the disk takes nothing more
        try:
            for _ in range(3):
                with pytest.raises(StoreUnavailable, match=str(file)):
                    await store.put("/b", b"refused" * 1_000, expect=ABSENT)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await store.put("/b", b"taken", expect=ABSENT)

    with caplog.at_level(logging.ERROR):
        with_store(file, body)
    complaints = [record for record in caplog.records if record.msg == "%s"]
    assert [record.args for record in complaints] == [("metadata write failed",)]
    with_store(file, look)


def test_a_store_closes_on_a_full_disk_and_the_next_start_drops_what_was_ephemeral(
    tmp_path: Path,
) -> None:
    file = tmp_path / "metadata.db"

    async def fail_to_close() -> None:
        store = await SqliteStore.open(file, clock=SystemClock())
        await store.put("/a", b"kept", expect=ABSENT)
        await store.put("/e", b"goes", expect=ABSENT, ephemeral=True)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
        try:
            await store.close()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    async def check(store: SqliteStore) -> None:
        assert await store.get("/e") is None
        assert await store.get("/a") is not None

    asyncio.run(fail_to_close())
    with_store(file, check)
