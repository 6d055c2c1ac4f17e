from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from magnetar.errors import StoreClosed, StoreUnavailable, VersionConflict
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.metadata.store import ABSENT, ANY_VERSION
from magnetar.runtime.clock import SYSTEM
from magnetar.runtime.worker import ThreadWorker, Workers
from magnetar.testing.worker import InlineWorker


@pytest.mark.parametrize("workers", [ThreadWorker, InlineWorker])
def test_writes_at_once_are_kept_in_order_by_any_worker(tmp_path: Path, workers: Workers) -> None:
    async def body() -> None:
        store = await SqliteStore.open(tmp_path / "m.db", clock=SYSTEM, workers=workers)
        numbers = range(300)
        await asyncio.gather(*(store.put("/n", b"%d" % n, expect=ANY_VERSION) for n in numbers))
        record = await store.get("/n")
        assert record is not None and (record.value, record.stat.version) == (b"299", 299)
        with pytest.raises(VersionConflict):
            await store.put("/n", b"", expect=ABSENT)
        assert await store.children("/") == ("n",)
        await store.close()

    asyncio.run(body())


def test_with_an_inline_worker_no_thread_is_kept(tmp_path: Path) -> None:
    async def body() -> None:
        store = await SqliteStore.open(tmp_path / "m.db", clock=SYSTEM, workers=InlineWorker)
        await store.put("/n", b"1", expect=ABSENT)
        assert not [each for each in threading.enumerate() if each.name.startswith("metadata")]
        await store.close()

    asyncio.run(body())


@pytest.mark.parametrize("workers", [ThreadWorker, InlineWorker])
def test_a_writer_that_fails_for_an_unknown_reason_ends_the_store(
    tmp_path: Path, workers: Workers
) -> None:
    """What it had begun to write is in no known state: nothing is written after it."""

    async def body() -> None:
        store = await SqliteStore.open(tmp_path / "m.db", clock=SYSTEM, workers=workers)
        await store.put("/a", b"1", expect=ABSENT)
        store.exchange(lambda: str(1 // 0), lambda witness: None)
        writes = [store.put(path, b"2", expect=ANY_VERSION) for path in ("/a", "/b", "/c")]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
        with pytest.raises(StoreClosed):
            await store.put("/a", b"3", expect=ANY_VERSION)
        await store.close()
        again = await SqliteStore.open(tmp_path / "m.db", clock=SYSTEM, workers=workers)
        record = await again.get("/a")
        assert record is not None and record.value == b"1"
        await again.close()

    asyncio.run(body())
