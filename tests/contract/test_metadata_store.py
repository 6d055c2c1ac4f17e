"""One suite for every metadata store."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from magnetar.errors import (
    BadRequest,
    DataDirectoryRefused,
    InvalidPath,
    RecordNotEmpty,
    RecordNotFound,
    StoreClosed,
    StoreUnavailable,
    VersionConflict,
)
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.metadata.store import (
    ABSENT,
    ANY_VERSION,
    Change,
    ChangeKind,
    MetadataStore,
)
from magnetar.runtime.clock import SystemClock
from tests.contract.metadata_place import PLACES, Place

Run: TypeAlias = Callable[[Callable[[MetadataStore], Awaitable[None]]], None]


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](tmp_path)


@pytest.fixture
def run(place: Place) -> Run:
    def run_on_store(body: Callable[[MetadataStore], Awaitable[None]]) -> None:
        async def scoped() -> None:
            store = await place.open()
            try:
                await body(store)
            finally:
                await store.close()

        asyncio.run(scoped())

    return run_on_store


def test_a_new_record_has_version_zero_and_its_value(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        assert await store.get("/a/b") is None
        stat = await store.put("/a/b", b"one", expect=ABSENT)
        record = await store.get("/a/b")
        assert record is not None
        assert record.value == b"one"
        assert record.stat == stat
        assert (stat.version, stat.ephemeral, stat.created_by_self) == (0, False, False)
        assert stat.created_ms == stat.modified_ms > 0

    run(body)


def test_an_empty_value_is_a_record(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        await store.put("/a", b"", expect=ABSENT)
        record = await store.get("/a")
        assert record is not None
        assert record.value == b""

    run(body)


def test_creating_what_exists_is_a_conflict(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        await store.put("/a", b"one", expect=ABSENT)
        with pytest.raises(VersionConflict):
            await store.put("/a", b"two", expect=ABSENT)
        record = await store.get("/a")
        assert record is not None
        assert (record.value, record.stat.version) == (b"one", 0)

    run(body)


def test_an_update_needs_the_version_it_read(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        first = await store.put("/a", b"one", expect=ABSENT)
        second = await store.put("/a", b"two", expect=first.version)
        assert second.version > first.version
        assert second.created_ms == first.created_ms
        with pytest.raises(VersionConflict):
            await store.put("/a", b"three", expect=first.version)
        with pytest.raises(VersionConflict):
            await store.put("/missing", b"x", expect=0)
        assert await store.get("/missing") is None
        record = await store.get("/a")
        assert record is not None
        assert record.value == b"two"

    run(body)


def test_any_version_creates_or_replaces(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        first = await store.put("/a", b"one", expect=ANY_VERSION)
        second = await store.put("/a", b"two", expect=ANY_VERSION)
        assert (first.version, second.version > 0) == (0, True)

    run(body)


def test_a_delete_needs_the_version_it_read(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        stat = await store.put("/a", b"one", expect=ABSENT)
        with pytest.raises(VersionConflict):
            await store.delete("/a", expect=stat.version + 1)
        await store.delete("/a", expect=stat.version)
        assert await store.get("/a") is None
        with pytest.raises(RecordNotFound):
            await store.delete("/a", expect=ANY_VERSION)

    run(body)


def test_a_record_with_children_is_not_deleted(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        await store.put("/a", b"", expect=ABSENT)
        await store.put("/a/b/c", b"", expect=ABSENT)
        for path in ("/a", "/a/b"):
            with pytest.raises(RecordNotEmpty):
                await store.delete(path, expect=ANY_VERSION)
        await store.delete("/a/b/c", expect=ANY_VERSION)
        await store.delete("/a", expect=ANY_VERSION)
        assert not await store.exists("/a")

    run(body)


def test_a_parent_without_a_record_exists_and_can_be_listed(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        await store.put("/a/b/c", b"", expect=ABSENT)
        for path in ("/", "/a", "/a/b", "/a/b/c"):
            assert await store.exists(path), path
        assert await store.get("/a/b") is None
        assert await store.children("/a") == ("b",)
        stat = await store.put("/a/b", b"now a record", expect=ABSENT)
        assert stat.version in (0, 1)
        await store.delete("/a/b/c", expect=ANY_VERSION)
        assert await store.exists("/a/b")
        await store.delete("/a/b", expect=ANY_VERSION)
        assert not await store.exists("/a")

    run(body)


def test_children_are_direct_and_sorted(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        names = ["b", "B", "é", "a-1", "a", "日本", "$0", "%2F"]
        for name in names:
            await store.put(f"/dir/{name}/below", b"", expect=ABSENT)
        await store.put("/director/z", b"", expect=ABSENT)
        assert await store.children("/dir") == tuple(sorted(names))
        assert await store.children("/") == ("dir", "director")
        assert await store.children("/nothing") == ()
        assert await store.count_children("/dir") == len(names)
        assert await store.count_children("/") == 2
        assert await store.count_children("/nothing") == 0

    run(body)


def test_scanning_gives_children_with_their_records(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        many = [f"n{index:04d}" for index in range(1200)]
        await asyncio.gather(
            *(store.put(f"/dir/{name}", name.encode(), expect=ABSENT) for name in many)
        )
        await store.put("/dir/n0007/below", b"", expect=ABSENT)
        await store.put("/dir/parent-only/below", b"", expect=ABSENT)
        found = [(name, record.value) async for name, record in store.scan_children("/dir")]
        assert found == [(name, name.encode()) for name in many]
        assert [pair async for pair in store.scan_children("/none")] == []

    run(body)


def test_recursive_deletion_takes_all_below_and_nothing_beside(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        for path in ("/a/b", "/a/b/c/d", "/a/b/e", "/a/b-beside", "/a/b0", "/a/a"):
            await store.put(path, b"", expect=ABSENT)
        await store.delete_recursive("/a/b")
        assert not await store.exists("/a/b")
        assert await store.get("/a/b/c/d") is None
        assert await store.children("/a") == ("a", "b-beside", "b0")
        await store.delete_recursive("/a/b")
        await store.put("/a/b/c/d", b"again", expect=ABSENT)
        assert await store.children("/a/b") == ("c",)

    run(body)


@pytest.mark.parametrize("path", ["", "a", "a/b", "/a/", "//", "/a//b", "/a\0b"])
def test_a_path_that_cannot_be_is_refused(run: Run, path: str) -> None:
    async def body(store: MetadataStore) -> None:
        for call in (
            store.get(path),
            store.exists(path),
            store.children(path),
            store.count_children(path),
            store.put(path, b"", expect=ABSENT),
            store.delete(path, expect=ANY_VERSION),
            store.delete_recursive(path),
            store.put_sequence(path, b"", deltas=[1]),
        ):
            with pytest.raises(InvalidPath):
                await call
        with pytest.raises(InvalidPath):
            store.watch(path, lambda change: None)

    run(body)


def test_the_root_holds_no_record(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        with pytest.raises(InvalidPath):
            await store.put("/", b"", expect=ABSENT)
        assert await store.exists("/")
        assert await store.children("/") == ()

    run(body)


def test_sequence_keys_grow_and_are_never_given_twice(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        first, stat = await store.put_sequence("/seq/x", b"1", deltas=[1])
        assert first == "/seq/x-00000000000000000001"
        assert stat.version == 0
        second, _ = await store.put_sequence("/seq/x", b"2", deltas=[5])
        assert second == "/seq/x-00000000000000000006"
        await store.delete(second, expect=ANY_VERSION)
        third, _ = await store.put_sequence("/seq/x", b"3", deltas=[1])
        assert third == "/seq/x-00000000000000000007"
        other, _ = await store.put_sequence("/seq/y", b"", deltas=[2])
        assert other == "/seq/y-00000000000000000002"
        assert await store.children("/seq") == (
            "x-00000000000000000001",
            "x-00000000000000000007",
            "y-00000000000000000002",
        )

    run(body)


def test_sequence_keys_have_one_number_for_each_delta(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        await store.put_sequence("/x", b"", deltas=[1, 10])
        path, _ = await store.put_sequence("/x", b"", deltas=[1, 0])
        assert path == f"/x-{2:020d}-{10:020d}"

    run(body)


@pytest.mark.parametrize("deltas", [[], [0], [-1], [1, -1]])
def test_sequence_deltas_that_cannot_be_are_refused(run: Run, deltas: list[int]) -> None:
    async def body(store: MetadataStore) -> None:
        with pytest.raises(BadRequest):
            await store.put_sequence("/x", b"", deltas=deltas)

    run(body)


def test_concurrent_sequence_keys_are_all_different(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        made = await asyncio.gather(
            *(store.put_sequence("/seq/x", b"", deltas=[1]) for _ in range(100))
        )
        assert len({path for path, _ in made}) == 100
        assert len(await store.children("/seq")) == 100

    run(body)


def test_of_concurrent_writers_with_one_version_exactly_one_wins(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        stat = await store.put("/a", b"", expect=ABSENT)

        async def try_put(value: bytes) -> bytes | None:
            try:
                await store.put("/a", value, expect=stat.version)
            except VersionConflict:
                return None
            return value

        outcomes = await asyncio.gather(*(try_put(b"%d" % index) for index in range(50)))
        (winner,) = [value for value in outcomes if value is not None]
        record = await store.get("/a")
        assert record is not None
        assert record.value == winner

    run(body)


def test_concurrent_counters_lose_no_increment(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        await store.put("/counter", b"0", expect=ABSENT)

        async def increment() -> None:
            while True:
                record = await store.get("/counter")
                assert record is not None
                value = b"%d" % (int(record.value) + 1)
                try:
                    await store.put("/counter", value, expect=record.stat.version)
                except VersionConflict:
                    continue
                return

        await asyncio.gather(*(increment() for _ in range(30)))
        record = await store.get("/counter")
        assert record is not None
        assert record.value == b"30"

    run(body)


def test_watchers_hear_every_change_in_order_before_the_writer_goes_on(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        heard: list[Change] = []
        store.watch("/a", heard.append)
        await store.put("/a/b/c", b"1", expect=ABSENT)
        assert heard == [
            Change(ChangeKind.CREATED, "/a/b/c"),
            Change(ChangeKind.CHILDREN_CHANGED, "/a/b"),
            Change(ChangeKind.CHILDREN_CHANGED, "/a"),
        ]
        heard.clear()
        await store.put("/a/b/c", b"2", expect=0)
        assert heard == [Change(ChangeKind.MODIFIED, "/a/b/c")]
        heard.clear()
        await store.put("/a/b/d", b"1", expect=ABSENT)
        assert heard == [
            Change(ChangeKind.CREATED, "/a/b/d"),
            Change(ChangeKind.CHILDREN_CHANGED, "/a/b"),
        ]
        heard.clear()
        await store.delete("/a/b/d", expect=ANY_VERSION)
        await store.delete("/a/b/c", expect=ANY_VERSION)
        assert heard == [
            Change(ChangeKind.DELETED, "/a/b/d"),
            Change(ChangeKind.CHILDREN_CHANGED, "/a/b"),
            Change(ChangeKind.DELETED, "/a/b/c"),
            Change(ChangeKind.CHILDREN_CHANGED, "/a/b"),
            Change(ChangeKind.CHILDREN_CHANGED, "/a"),
        ]

    run(body)


def test_a_refused_write_is_told_to_nobody(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        await store.put("/a", b"", expect=ABSENT)
        heard: list[Change] = []
        store.watch("/", heard.append)
        with pytest.raises(VersionConflict):
            await store.put("/a", b"", expect=7)
        with pytest.raises(RecordNotFound):
            await store.delete("/b", expect=ANY_VERSION)
        await store.delete_recursive("/c")
        assert heard == []

    run(body)


def test_recursive_deletion_tells_the_deepest_first(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        for path in ("/a", "/a/b", "/a/b/c", "/a/d"):
            await store.put(path, b"", expect=ABSENT)
        heard: list[Change] = []
        store.watch("/", heard.append)
        await store.delete_recursive("/a")
        deleted = [change.path for change in heard if change.kind is ChangeKind.DELETED]
        assert set(deleted) == {"/a", "/a/b", "/a/b/c", "/a/d"}
        assert deleted.index("/a/b/c") < deleted.index("/a/b") < deleted.index("/a")
        assert Change(ChangeKind.CHILDREN_CHANGED, "/") in heard

    run(body)


def test_a_watcher_hears_its_own_path_and_below_but_no_sibling(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        heard: list[str] = []
        cancel = store.watch("/a/b", lambda change: heard.append(change.path))
        for path in ("/a/b", "/a/b/c", "/a/bc", "/a", "/z"):
            await store.put(path, b"", expect=ABSENT)
        assert [path for path in heard if path.startswith("/a/b/")] == ["/a/b/c"]
        assert set(heard) == {"/a/b", "/a/b/c"}
        heard.clear()
        cancel()
        cancel()
        await store.put("/a/b", b"", expect=ANY_VERSION)
        assert heard == []

    run(body)


def test_a_watcher_that_raises_disturbs_neither_writer_nor_others(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        heard: list[str] = []

        def fail(change: Change) -> None:
            raise RuntimeError("listener")

        store.watch("/a", fail)
        store.watch("/a", lambda change: heard.append(change.path))
        await store.put("/a", b"", expect=ABSENT)
        assert heard == ["/a"]

    run(body)


def test_the_last_change_a_watcher_hears_of_leaves_the_stored_value(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        heard: list[ChangeKind] = []
        store.watch("/a", lambda change: heard.append(change.kind))
        await asyncio.gather(
            *(store.put("/a", b"%d" % index, expect=ANY_VERSION) for index in range(40))
        )
        assert heard == [ChangeKind.CREATED] + [ChangeKind.MODIFIED] * 39

    run(body)


def test_an_ephemeral_record_goes_with_its_session(place: Place) -> None:
    async def body() -> None:
        store = await place.open()
        stat = await store.put("/live/me", b"", expect=ABSENT, ephemeral=True)
        assert (stat.ephemeral, stat.created_by_self) == (True, True)
        changed = await store.put("/live/me", b"x", expect=stat.version)
        assert (changed.ephemeral, changed.created_by_self) == (True, True)
        await store.put("/kept", b"", expect=ABSENT)
        await store.close()
        again = await place.open()
        try:
            assert await again.get("/live/me") is None
            assert not await again.exists("/live")
            assert await again.exists("/kept")
        finally:
            await again.close()

    asyncio.run(body())


def test_another_session_sees_an_ephemeral_record_and_its_end(place: Place) -> None:
    if not place.shared:
        pytest.skip("one session at a time")

    async def body() -> None:
        mine, other = await place.open(), await place.open()
        await mine.put("/live/me", b"", expect=ABSENT, ephemeral=True)
        record = await other.get("/live/me")
        assert record is not None
        assert (record.stat.ephemeral, record.stat.created_by_self) == (True, False)
        gone = asyncio.Event()
        other.watch(
            "/live/me",
            lambda change: gone.set() if change.kind is ChangeKind.DELETED else None,
        )
        await mine.close()
        async with asyncio.timeout(30):
            await gone.wait()
        assert await other.get("/live/me") is None
        await other.close()

    asyncio.run(body())


def test_records_outlive_the_session(place: Place) -> None:
    async def body() -> None:
        store = await place.open()
        first = await store.put("/a/b", b"one", expect=ABSENT)
        await store.put_sequence("/s", b"", deltas=[3])
        await store.close()
        again = await place.open()
        record = await again.get("/a/b")
        assert record is not None
        assert (record.value, record.stat) == (b"one", first)
        path, _ = await again.put_sequence("/s", b"", deltas=[1])
        assert path == f"/s-{4:020d}"
        await again.close()

    asyncio.run(body())


def test_a_closed_store_refuses_everything(place: Place) -> None:
    async def body() -> None:
        store = await place.open()
        await store.close()
        await store.close()
        for call in (
            store.get("/a"),
            store.exists("/a"),
            store.children("/a"),
            store.count_children("/a"),
            store.put("/a", b"", expect=ABSENT),
            store.put_sequence("/a", b"", deltas=[1]),
            store.delete("/a", expect=ANY_VERSION),
            store.delete_recursive("/a"),
            store.sync("/a"),
        ):
            with pytest.raises(StoreClosed):
                await call
        with pytest.raises(StoreClosed):
            _ = [pair async for pair in store.scan_children("/a")]

    asyncio.run(body())


def test_closing_finishes_the_writes_that_were_asked_for(place: Place) -> None:
    async def body() -> None:
        store = await place.open()
        writes = asyncio.gather(
            *(store.put(f"/n/{index:02d}", b"", expect=ABSENT) for index in range(64))
        )
        await asyncio.sleep(0)
        await store.close()
        await writes
        again = await place.open()
        assert len(await again.children("/n")) == 64
        await again.close()

    asyncio.run(body())


def test_many_children_are_listed_whole(run: Run) -> None:
    async def body(store: MetadataStore) -> None:
        names = tuple(f"topic-{index:06d}" for index in range(20_000))
        for start in range(0, len(names), 4_000):
            await asyncio.gather(
                *(
                    store.put(f"/managed/{name}", b"", expect=ABSENT)
                    for name in names[start : start + 4_000]
                )
            )
        assert await store.children("/managed") == names

    run(body)


CRASHING_WRITER = """
import asyncio, sys
from pathlib import Path
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.metadata.store import ABSENT
from magnetar.runtime.clock import SystemClock

async def write(store, first):
    for index in range(first, 10_000_000, 8):
        await store.put(f"/n/{index}", b"v%d" % index, expect=ABSENT)
        sys.stdout.write(f"{index}\\n")
        sys.stdout.flush()

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]), clock=SystemClock())
    await store.put("/live", b"", expect=ABSENT, ephemeral=True)
    await asyncio.gather(*(write(store, first) for first in range(8)))

asyncio.run(main())
"""


def test_an_acknowledged_write_survives_a_killed_process(tmp_path: Path) -> None:
    file = tmp_path / "metadata.db"
    process = subprocess.Popen(
        [sys.executable, "-c", CRASHING_WRITER, str(file)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    with process:
        acknowledged = [int(process.stdout.readline()) for _ in range(200)]
        process.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in process.stdout if line.endswith(b"\n")]

    async def body() -> None:
        store = await SqliteStore.open(file, clock=SystemClock())
        for index in acknowledged:
            record = await store.get(f"/n/{index}")
            assert record is not None, index
            assert record.value == b"v%d" % index
        assert not await store.exists("/live")
        await store.close()

    asyncio.run(body())


FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from magnetar.errors import StoreUnavailable
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.metadata.store import ABSENT
from magnetar.runtime.clock import SystemClock

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]), clock=SystemClock())
    await store.put("/a/b", b"old", expect=ABSENT)
    changes = []
    store.watch("/", changes.append)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    outcomes = await asyncio.gather(
        store.put("/a/c/d", b"small", expect=ABSENT),
        store.put("/big", b"x" * 1_000_000, expect=ABSENT),
        return_exceptions=True,
    )
    assert any(isinstance(outcome, StoreUnavailable) for outcome in outcomes), outcomes
    assert isinstance(outcomes[1], StoreUnavailable), outcomes
    assert await store.get("/big") is None
    assert not any(change.path == "/big" for change in changes), changes
    stored = await store.get("/a/c/d")
    assert (stored is None) == isinstance(outcomes[0], StoreUnavailable)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    if stored is None:
        await store.put("/a/c/d", b"again", expect=ABSENT)
    await store.put("/big", b"x" * 1_000_000, expect=ABSENT)
    assert await store.children("/a") == ("b", "c")
    await store.close()
    print("fine")

asyncio.run(main())
"""


def test_a_write_that_does_not_fit_on_the_disk_is_refused_and_leaves_no_trace(
    tmp_path: Path,
) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "metadata.db")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
    )
    assert finished.stdout == "fine\n", finished.stderr


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "metadata.db"
    file.write_bytes(b"this is not a database, and long enough to be looked at" * 40)

    async def body() -> None:
        with pytest.raises(StoreUnavailable, match=r"metadata\.db"):
            await SqliteStore.open(file, clock=SystemClock())

    asyncio.run(body())


def test_a_file_of_a_later_format_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "metadata.db"
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    async def body() -> None:
        with pytest.raises(DataDirectoryRefused, match="99"):
            await SqliteStore.open(file, clock=SystemClock())

    asyncio.run(body())


def test_a_read_goes_on_while_a_write_waits_for_the_file(tmp_path: Path) -> None:
    file = tmp_path / "metadata.db"

    async def body() -> None:
        store = await SqliteStore.open(file, clock=SystemClock())
        await store.put("/a", b"old", expect=ABSENT)
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # holds the write lock, so the store's write must wait
        writing = asyncio.gather(store.put("/a", b"new", expect=0))
        for _ in range(20):
            record = await store.get("/a")
            assert record is not None
            assert record.value == b"old"
        assert not writing.done()
        other.execute("ROLLBACK")
        other.close()
        await writing
        record = await store.get("/a")
        assert record is not None
        assert record.value == b"new"
        await store.close()

    asyncio.run(body())
