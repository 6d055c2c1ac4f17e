"""Where the metadata suites run: one place per backend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Protocol

from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.metadata.backends.zookeeper import ZookeeperStore
from magnetar.metadata.store import MetadataStore
from magnetar.runtime.clock import SystemClock
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


PLACES: Mapping[str, Callable[[Path], Place]] = {
    "memory": MemoryPlace,
    "sqlite": SqlitePlace,
    "zookeeper": ZookeeperPlace,
    "simulated": SimulatedPlace,
}
