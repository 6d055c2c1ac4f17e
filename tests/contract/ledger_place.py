"""Every ledger store, opened anew for a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias, cast

import pytest

from magnetar.ledger.backends.file import Disk, open_file_store
from magnetar.ledger.backends.joint import (
    JointLedgerStore,
    LedgerKeeper,
    make_ledger_id,
    number_above,
)
from magnetar.ledger.store import LedgerStore
from magnetar.runtime.task import TaskScope
from magnetar.testing.memory_ledger import MemoryLedgerStore
from magnetar.testing.simulation.disk import SimulatedDisk
from tests.contract.bookkeeper_place import bookkeeper_store
from tests.unit.ledger.file_place import BY_HAND

Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[LedgerStore]]

ON_BOOKIES: Final = pytest.param("bookkeeper", marks=pytest.mark.xdist_group("bookkeeper"))


def opening_of(name: str, path: Path) -> Opening:
    if name == "bookkeeper":
        return bookkeeper_store
    if name == "memory":
        return memory_store
    if name == "joint":
        return partial(joint_store, path)
    if "simulated" in name:
        return partial(file_store, Path("/ledgers"), disk=SimulatedDisk(Random(0)))
    return partial(file_store, path / "ledgers", sync=name == "file")


@asynccontextmanager
async def memory_store() -> AsyncIterator[LedgerStore]:
    store = MemoryLedgerStore()
    yield store
    await store.close()


@asynccontextmanager
async def file_store(
    path: Path, *, sync: bool = True, disk: Disk | None = None
) -> AsyncIterator[LedgerStore]:
    store = await open_file_store(path, sync=sync, disk=disk, policy=BY_HAND)
    yield store
    await store.close()


@asynccontextmanager
async def joint_store(path: Path) -> AsyncIterator[LedgerStore]:
    """Made by one process, and all else asked for by another."""
    numbers = count(1)
    async with TaskScope("joint") as tasks:
        opened: list[JointLedgerStore] = []
        keepers: list[LedgerKeeper] = []

        async def ask(name: str, body: bytes) -> bytes:
            return await keepers[int(name.split("/")[1])].serve(name, body)

        for number in range(2):

            async def take_id(above: int, number: int = number) -> int:
                return make_ledger_id(max(next(numbers), number_above(above)), number)

            store = await open_file_store(path / str(number), policy=BY_HAND, take_id=take_id)
            keepers.append(LedgerKeeper({number: store}))
            opened.append(
                JointLedgerStore(store, {number: store}, ask=ask, count=2, first=0, tasks=tasks)
            )
        yield cast(LedgerStore, ReadElsewhere(*opened))
        for joint in opened:
            await joint.close()


class ReadElsewhere:
    """Creates in one process of two; the other is asked for all that it is not the writer's."""

    def __init__(self, maker: JointLedgerStore, other: JointLedgerStore) -> None:
        self._maker, self._other = maker, other

    def __getattr__(self, name: str) -> Any:
        at_maker = ("create", "ledgers", "close", "commit_soon", "join", "queued_bytes", "trouble")
        return getattr(self._maker if name in at_maker else self._other, name)
