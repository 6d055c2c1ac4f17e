"""Where the metadata suites run: one place per backend."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Protocol

from magnetar.metadata.backends.link import LinkStore, StoreKeeper
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.metadata.backends.zookeeper import ZookeeperStore
from magnetar.metadata.store import MetadataStore
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.link import Link
from magnetar.testing.simulation.loop import Process
from magnetar.testing.simulation.metadata import MetadataServer
from magnetar.testing.zookeeper import shared_zookeeper


class Place(Protocol):
    """Something several stores can be opened on, one after the other or at the same time."""

    shared: bool
    """Whether several sessions may be open at once."""

    async def open(self) -> MetadataStore: ...


class MemoryPlace:
    shared = True

    def __init__(self, folder: Path) -> None:
        self.tree = MemoryTree(SystemClock())

    async def open(self) -> MetadataStore:
        return MemoryStore(self.tree)


class SqlitePlace:
    shared = False

    def __init__(self, folder: Path) -> None:
        self.file = folder / "metadata.db"

    async def open(self) -> MetadataStore:
        return await SqliteStore.open(self.file, clock=SystemClock())


class ZookeeperPlace:
    shared = True

    def __init__(self, folder: Path) -> None:
        self.url = shared_zookeeper().new_url()

    async def open(self) -> MetadataStore:
        return await ZookeeperStore.open(self.url)


class SimulatedPlace:
    """The store of simulated brokers, here on a loop that waits in earnest."""

    shared = True

    def __init__(self, folder: Path) -> None:
        self._server: MetadataServer | None = None

    async def open(self) -> MetadataStore:
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = MetadataServer(loop, Random(0), SystemClock())
        return self._server.open(Process("broker"))


class LinkPlace:
    """A file that one side of each link keeps, and sessions at the others."""

    shared = True

    def __init__(self, folder: Path) -> None:
        self._file = folder / "metadata.db"
        self._store: SqliteStore | None = None
        self._sessions = 0

    async def open(self) -> MetadataStore:
        if self._store is None:
            self._store = await SqliteStore.open(self._file, clock=SystemClock())
        self._sessions += 1
        return await LinkedStore.join(self, self._store)

    async def leave(self) -> None:
        self._sessions -= 1
        if not self._sessions and self._store is not None:
            store, self._store = self._store, None
            await store.close()


class LinkedStore(LinkStore):
    """Closes both ends of its link, and the file when it was the last."""

    @classmethod
    async def join(cls, place: LinkPlace, store: SqliteStore) -> LinkedStore:
        near, far = socket.socketpair()
        ends = Link(SystemClock()), Link(SystemClock())
        joined = cls(ends[0])
        joined._ends, joined._place = ends, place
        ends[0].on_notice, ends[0].on_lost = joined.on_notice, joined.on_lost
        keeper = StoreKeeper(store.open_session(), ends[1])
        ends[1].serve = keeper.serve
        await ends[0].open(near)
        await ends[1].open(far)
        return joined

    _ends: tuple[Link, Link]
    _place: LinkPlace

    async def close(self) -> None:
        if not self._ends[0].is_lost:
            await super().close()
            for end in self._ends:
                await end.close()
            await self._place.leave()


PLACES: Mapping[str, Callable[[Path], Place]] = {
    "link": LinkPlace,
    "memory": MemoryPlace,
    "sqlite": SqlitePlace,
    "zookeeper": ZookeeperPlace,
    "simulated": SimulatedPlace,
}
