"""Brokers of one cluster as simulated processes, each with a disk that outlives it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from magnetar.broker.administration.topic_part import find_topic_parts
from magnetar.broker.broker_call import Reply, Request
from magnetar.broker.connection import Connection
from magnetar.broker.handler import make_handlers
from magnetar.broker.membership import Home
from magnetar.broker.node import open_node
from magnetar.broker.ownership import Owner
from magnetar.broker.service import Service
from magnetar.errors import BrokerError, ServiceNotReady
from magnetar.ledger.backends.bookkeeper import BookkeeperLedgerStore, BookkeeperPolicy
from magnetar.ledger.backends.file import FilePolicy, open_file_store
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import ABSENT, Change
from magnetar.model.position import Term
from magnetar.runtime.configuration import Configuration
from magnetar.testing.simulation.bookie import ROOT, SimulatedBookie
from magnetar.testing.simulation.disk import SimulatedDisk
from magnetar.testing.simulation.history import Fault, History, Stored
from magnetar.testing.simulation.loop import Process, VirtualClock, VirtualLoop
from magnetar.testing.simulation.metadata import SESSION_S, MetadataServer, SimulatedStore
from magnetar.testing.simulation.network import Address, Network
from magnetar.testing.simulation.tap import Tap
from magnetar.testing.simulation.worker import SimulatedWorkers

T = TypeVar("T")

PORT: Final = 6650
_CALL_DELAY_S: Final = (0.001, 0.02)
_FILES: Final = FilePolicy(
    extent_bytes_max=16 * 1024,
    extent_records_max=60,
    settle_after_s=0.5,
    retry_after_s=1.0,
    journal_records_max=200,
    journal_extents_max=4,
    garbage_bytes_min=8 * 1024,
)
"""Small, so that a short run meets full extents, settled parts and an overfull journal."""
_BOOKIES: Final = BookkeeperPolicy(
    timeout_s=4.0, connect_timeout_s=2.0, quarantine_s=5.0, speculative_read_s=0.5
)
_SHORT_SESSION_S: Final = 5.0
"""Where bundles move, so that a short run sees sessions that end."""
_SILENCE_S: Final = 5.0
_NOTICE_S: Final = (0.001, 0.05)
"""After how long a process that was paused learns that its connections ended."""
_RESTART_S: Final = 1.0


class _Recorder:
    """Notes every change of the metadata."""

    def __init__(self, server: MetadataServer, history: History) -> None:
        self._tree = server.tree
        self._history = history

    def on_changes(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if change.kind != "ChildrenChanged":
                node = self._tree.get(change.path)
                self._history.add(Stored(change.path, b"" if node is None else node.value))


class SimulatedBroker:
    """A place where a broker runs, and its disk; the process may be killed and started again."""

    def __init__(self, cluster: Cluster, name: str, random: Random) -> None:
        self._cluster = cluster
        self._loop = cluster.loop
        self._random = random
        self.name = name
        self.disk = SimulatedDisk(random)
        self.process: Process | None = None
        self.store: SimulatedStore | None = None
        self.service: Service | None = None
        self._workers: SimulatedWorkers | None = None
        self._starts = 0

    @property
    def url(self) -> str:
        return f"pulsar://{self.name}:{PORT}"

    @property
    def is_running(self) -> bool:
        return self.process is not None

    def start(self) -> None:
        if self.process is None:
            self._starts += 1
            skew_ms = self._random.randint(-400, 400)
            self.process = Process(self.name, skew_ms=skew_ms)
            task = self._loop.spawn(self.process, self._run(self.process), f"broker {self.name}")
            task.add_done_callback(self._on_ended)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        """A broker that cannot start ends, and is started again after a while."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, BrokerError):
            self._cluster.history.add(Fault(f"{self.name} cannot start: {error}"))
            self._loop.call_later(_RESTART_S, self.start, context=contextvars.Context())
            self.kill(power=False)
        elif error is not None:
            raise error

    def kill(self, *, power: bool) -> None:
        """End the process between two of its steps; without power its disk loses what was not
        synced, and its peers get no end of the connection.
        """
        process, self.process = self.process, None
        if process is None:
            return
        if power and self._workers is not None:
            self._workers.lose_power()
        self.service = self.store = self._workers = None
        self._cluster.network.on_killed(process, silently=power)
        self._loop.kill(process)
        self._cluster.graves.append(process)
        if power:
            self.disk.cut_power()

    def pause(self) -> bool:
        """Stop the process where it stands; False if there is none, or it is stopped."""
        process, store = self.process, self.store
        if process is None or store is None or process.is_paused:
            return False
        self._cluster.history.add(Fault(f"{self.name} stands still"))
        self._loop.pause(process)
        store.disconnect(is_noticed=False)
        return True

    def resume(self) -> None:
        process, store = self.process, self.store
        if process is None or store is None or not process.is_paused:
            return

        async def reconnect() -> None:
            await asyncio.sleep(self._random.uniform(*_NOTICE_S))
            store.reconnect()

        self._loop.resume(process)
        self._loop.spawn(process, reconnect(), "reconnect")
        self._cluster.history.add(Fault(f"{self.name} goes on", is_late=True))

    async def _run(self, process: Process) -> None:
        cluster = self._cluster
        clock = VirtualClock(self._loop, process)
        self.store = store = cluster.metadata.open(process)
        self._workers = workers = SimulatedWorkers(self._loop, self.disk)
        settings = Configuration.load(None, cluster.settings, standalone=False)
        async with AsyncExitStack() as stack:
            ledgers = await self._open_ledgers(clock, store, workers)
            stack.push_async_callback(ledgers.close)
            service = await open_node(
                stack,
                settings,
                clock,
                store=store,
                shared=store,
                ledgers=ledgers,
                home=None if cluster.bookies else Home(f"home-{self.name}", f"/{self.name}"),
                make_owner=self._make_owner,
                workers=workers,
                link=SimulatedLink(cluster, process),
            )
            find_topic_parts(service)
            handlers = make_handlers(service)
            cluster.network.listen(
                Address(self.name, PORT),
                lambda: Connection(service, handlers),
                watch=partial(Tap, cluster.history, f"{self.name}.{self._starts}"),
            )
            self.service = service
            await self._loop.create_future()

    async def _open_ledgers(
        self, clock: VirtualClock, store: SimulatedStore, workers: SimulatedWorkers
    ) -> LedgerStore:
        """In files of its own, or on the bookies that the brokers share."""
        if not self._cluster.bookies:
            path = Path(f"/{self.name}")
            return await open_file_store(
                path, clock=clock, disk=self.disk, policy=_FILES, workers=workers
            )
        ledgers = BookkeeperLedgerStore(store, store.take_number, clock=clock, policy=_BOOKIES)
        await ledgers.open()
        return ledgers

    def _make_owner(self, term: Term) -> Owner:
        return Owner(f"{self.name}:8080", self.url, f"http://{self.name}:8080", term, True)

    async def call(self, operation: Callable[[Service], Awaitable[T]]) -> T:
        """An operator's call: it and its answer cross the network, and may be lost with the
        process.
        """
        await asyncio.sleep(self._random.uniform(*_CALL_DELAY_S))
        process, service = self.process, self.service
        if process is None or service is None:
            raise ServiceNotReady(f"{self.name} does not answer")
        answer: asyncio.Future[T] = self._loop.create_future()

        async def serve() -> None:
            try:
                result = await operation(service)
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(result)

        def on_killed() -> None:
            if not answer.done():
                answer.set_exception(ServiceNotReady(f"{self.name} was killed"))

        process.on_killed.append(on_killed)
        self._loop.spawn(process, serve(), "operation")
        return await answer


class SimulatedLink:
    """Calls between brokers, over the network."""

    def __init__(self, cluster: Cluster, process: Process) -> None:
        self._cluster = cluster
        self._process = process

    async def send(self, owner: Owner, call: str, request: Request) -> Reply:
        for broker in self._cluster.brokers:
            if broker.url == owner.service_url and broker.process is not None:
                if self._cluster.network.is_parted(self._process, broker.process):
                    await asyncio.sleep(_SILENCE_S)
                    break
                return await broker.call(lambda service: service.calls.answer(call, request))
        raise ServiceNotReady(f"{owner.broker_id} does not answer")


class Cluster:
    def __init__(
        self,
        loop: VirtualLoop,
        random: Random,
        history: History,
        *,
        brokers: int,
        settings: Iterable[str],
        bookies: int = 0,
    ) -> None:
        """With bookies the brokers share what they store, and bundles move among them."""
        self.loop = loop
        self.history = history
        self.settings = tuple(settings)
        self.network = Network(loop, random)
        self.metadata = MetadataServer(
            loop,
            random,
            VirtualClock(loop, Process("metadata")),
            _SHORT_SESSION_S if bookies else SESSION_S,
        )
        self.metadata.tree.attach(_Recorder(self.metadata, history))  # type: ignore[arg-type]
        self.brokers = [
            SimulatedBroker(self, f"b{number}", random) for number in range(1, brokers + 1)
        ]
        self.graves: list[Process] = []
        """Killed processes: their tasks are kept, so that none of their code runs again."""

        self.bookies = [
            SimulatedBookie(
                loop, self.network, self.metadata, self.graves, f"bookie{number}", random
            )
            for number in range(1, bookies + 1)
        ]
        if bookies:
            self.metadata.tree.put(f"{ROOT}/INSTANCEID", b"simulation", ABSENT, None)

    @property
    def servers(self) -> list[SimulatedBroker | SimulatedBookie]:
        return [*self.bookies, *self.brokers]

    @property
    def service_url(self) -> str:
        return "pulsar://" + ",".join(f"{each.name}:{PORT}" for each in self.brokers)

    def start(self) -> None:
        for server in self.servers:
            server.start()

    async def wait_ready(self) -> None:
        while not all(each.service is not None for each in self.brokers):
            await asyncio.sleep(0.05)
