"""Migrations that meet an error which the broker does not know."""

from __future__ import annotations

import asyncio
import logging

import pytest

from magnetar.broker.exposition import render_metrics
from magnetar.errors import Conflict, MigrationFailed
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.store import Stat
from magnetar.model.migration import LOCKS, PREPARATIONS, lock_path, preparation_path
from magnetar.model.scalable import topic_path
from tests.unit.broker.broker_place import Place, run
from tests.unit.broker.scalable.migration_place import (
    REGULAR,
    TOPIC,
    live,
    make_regular,
    migrate,
    parts,
)


class BrokenStore(MemoryStore):
    """Fails below some paths with an error that no contract names."""

    def __init__(self, tree: MemoryTree) -> None:
        super().__init__(tree)
        self.puts: str | None = None
        self.deletes: str | None = None
        self.faults = 0

    def _fail(self, path: str, prefix: str | None) -> None:
        if prefix is not None and path.startswith(prefix):
            self.faults += 1
            raise OSError(5, "Input/output error")

    async def put(self, path: str, value: bytes, *, expect: int, ephemeral: bool = False) -> Stat:
        self._fail(path, self.puts)
        return await super().put(path, value, expect=expect, ephemeral=ephemeral)

    async def delete(self, path: str, *, expect: int) -> None:
        self._fail(path, self.deletes)
        await super().delete(path, expect=expect)


def broken(place: Place) -> BrokenStore:
    assert isinstance(place.service.store, BrokenStore)
    return place.service.store


@pytest.mark.parametrize(
    "puts",
    [
        lock_path(TOPIC),
        preparation_path(TOPIC),
        "/managed-ledgers/shop/eu/segment",
        topic_path(TOPIC),
    ],
)
@pytest.mark.parametrize("deletes", [None, "/magnetar/migrations", "/magnetar/migration-locks"])
def test_every_error_answers_the_caller_and_a_second_attempt_succeeds(
    puts: str, deletes: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(place: Place) -> None:
        store = broken(place)
        await make_regular(place, 2)
        store.puts, store.deletes = puts, deletes
        async with asyncio.timeout(10):
            with pytest.raises(MigrationFailed, match="unexpected OSError") as failed:
                await place.service.scalable.migrations.run(TOPIC)
        assert store.faults and REGULAR in failed.value.sentence
        logged = [each for each in caplog.records if each.getMessage() == "migration failed"]
        assert [each.exc_info is not None for each in logged] == [True]
        store.puts = store.deletes = None
        for part in parts(REGULAR, 2):
            assert (await live(place, part)).log.record.terminated is None
        await migrate(place)
        assert (await place.service.scalable.records.require(TOPIC)).intent is None
        assert await store.children(f"{PREPARATIONS}/shop/eu") == ()
        assert await store.children(f"{LOCKS}/shop/eu") == ()

    with caplog.at_level(logging.ERROR):
        run(body, make_store=BrokenStore)


def test_migrations_are_counted_by_their_outcome() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        broken(place).puts = topic_path(TOPIC)
        with pytest.raises(MigrationFailed):
            await place.service.scalable.migrations.run(TOPIC)
        broken(place).puts = None
        await migrate(place)
        for _ in range(2):
            with pytest.raises(Conflict, match="already scalable"):
                await migrate(place)
        lines = (await render_metrics(place.service)).splitlines()
        counts = [each for each in lines if each.startswith("magnetar_migrations_total{")]
        found = {each.split('outcome="')[1].split('"')[0]: each.split()[-1] for each in counts}
        assert found == {"migrated": "1", "refused": "2", "failed": "1"}

    run(body, make_store=BrokenStore)
