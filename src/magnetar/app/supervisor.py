"""Several broker processes on one data directory: starts them, keeps their metadata, carries what
they say to each other, and starts again what dies.

The sockets belong to the supervisor, so that they stay while a worker is started again: clients
that come in the meantime wait. What a worker that died had registered stays for a while too, and
the worker finds it again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from magnetar.app.directory import DataDirectory, holding, holding_stores, read_spread, widen_spread
from magnetar.app.exposure import check_exposure
from magnetar.app.ledger_number import LedgerNumbers
from magnetar.app.listener import Listeners, Ports, describe_owner, open_listeners, plan_ports
from magnetar.app.order import (
    ADMIT,
    CALLS,
    JOINED,
    NUMBER,
    OPENED,
    ORDER,
    READY,
    REFUSED,
    REST,
    STOP,
    Order,
)
from magnetar.app.process import raise_descriptor_limit
from magnetar.app.tls import open_contexts
from magnetar.errors import InvalidConfiguration, MagnetarError, StoreUnavailable
from magnetar.ledger.backends.joint import PREFIX as LEDGERS
from magnetar.ledger.backends.joint import STORES_MAX
from magnetar.metadata.backends.link import PREFIX as METADATA
from magnetar.metadata.backends.link import StoreKeeper
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.model.position import Term
from magnetar.runtime.backoff import Backoff
from magnetar.runtime.clock import Clock, SystemClock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.event_loop import new_loop
from magnetar.runtime.link import Link
from magnetar.runtime.log import Logger, configure_logs
from magnetar.runtime.task import TaskScope
from magnetar.runtime.usage import count_cores

AUTO: Final = "auto"
_SESSION_S: Final = 10.0
"""How long what a dead worker registered waits for the worker to come back."""
_PEER_S_MAX: Final = 30.0
"""How long a request waits for a worker that is started again."""
_STOP_S_MAX: Final = 60.0
_STABLE_S: Final = 60.0
"""One that lived so long is started again at once, others after longer and longer waits."""
_RESTART_S: Final = 0.1
_RESTART_S_MAX: Final = 30.0
_PORTS_EACH: Final = len(Ports._fields)
_WORKER: Final = (sys.executable, "-m", "magnetar.app.worker")

_log = Logger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """What all workers are started with."""

    directory: DataDirectory
    settings: Configuration
    workers: int
    host: str
    config: Path | None
    overrides: Sequence[str]
    log_format: str
    log_level: str
    command: Sequence[str] = _WORKER
    """A worker's process, but for the number of its end of the link."""


@dataclass(slots=True, eq=False)
class Worker:
    number: int
    own: Final[Listeners]
    process: asyncio.subprocess.Process | None = None
    link: Link | None = None
    keeper: StoreKeeper | None = None
    opened: Final[asyncio.Event] = field(default_factory=asyncio.Event)
    """Its ledgers can be asked for."""
    joined: Final[asyncio.Event] = field(default_factory=asyncio.Event)
    """It was listed among the brokers, in this life or an earlier one."""
    ready: Final[asyncio.Event] = field(default_factory=asyncio.Event)
    broker_id: str = ""
    refusal: str = ""
    """Why it does not start."""


def parse_workers(text: str) -> int:
    """Raise InvalidConfiguration for anything but a number of processes, or `auto`."""
    if text == AUTO:
        return min(count_cores(), STORES_MAX)
    if not text.isdecimal() or not 1 <= int(text) <= STORES_MAX:
        raise InvalidConfiguration(
            f"--workers is a number from 1 to {STORES_MAX}, or {AUTO} for one on each core; not"
            f" {text!r}"
        )
    return int(text)


def check_settings(settings: Configuration) -> None:
    """Raise InvalidConfiguration for what several processes cannot keep."""
    if settings.metadataStoreUrl:
        raise InvalidConfiguration(
            "workers share the metadata of one data directory: with metadataStoreUrl start brokers"
            " one by one (magnetar broker), several on a host with ports of their own"
        )
    if settings.advertisedListeners:
        raise InvalidConfiguration(
            "advertisedListeners names one address of a broker, and each worker has its own: leave"
            " it out, or start one worker"
        )


def plan_worker_ports(shared: Ports, first: int | None, number: int) -> Ports:
    """Where a worker is reached by itself: free ports, or its four from `first` on."""
    base = None if first is None else first + _PORTS_EACH * number
    return Ports(
        *(
            None if port is None else 0 if base is None else base + index
            for index, port in enumerate(shared)
        )
    )


def plan_keeps(count: int, workers: int, number: int) -> list[int]:
    """The stores of a worker: its own, and those of workers that are not started any more."""
    return list(range(number, count, workers))


class Supervisor:
    def __init__(
        self, plan: Plan, store: SqliteStore, shared: Listeners, own: Sequence[Listeners]
    ) -> None:
        self._plan = plan
        self._store = store
        self._shared = shared
        self._clock: Clock = SystemClock()
        self._numbers = LedgerNumbers(store)
        self._workers = [Worker(number, each) for number, each in enumerate(own)]
        self._tasks = TaskScope("supervisor")
        self._is_stopping = False
        self._is_admitting = False

    async def start(self, stop_requested: asyncio.Event) -> bool:
        """Return when all workers serve, and false when `stop_requested` was set before; raise
        InvalidConfiguration with the words of a worker that refused to start.
        """
        keeping = [
            self._tasks.start(self._keep(each), name=f"worker {each.number}")
            for each in self._workers
        ]
        ready = self._tasks.start(self._await_ready(), name="workers ready")
        stopping = self._tasks.start(stop_requested.wait(), name="stop")
        await asyncio.wait({ready, stopping, *keeping}, return_when=asyncio.FIRST_COMPLETED)
        if stop_requested.is_set():
            return False
        if not ready.done():
            refused = next((each for each in self._workers if each.refusal), None)
            raise InvalidConfiguration(
                "a worker ended while it started; the log says why"
                if refused is None
                else f"worker {refused.number} does not start: {refused.refusal}"
            )
        self._is_admitting = True
        for each in self._workers:
            if each.link is not None:
                each.link.tell(ADMIT)
        return True

    async def _await_ready(self) -> None:
        for each in self._workers:
            await each.ready.wait()

    async def stop(self) -> None:
        """Let all workers end cleanly; those that do not in time are killed."""
        self._is_stopping = True
        for each in self._workers:
            if not each.ready.is_set():
                self._kill(each)  # it waits for others, and has nothing to end
            elif each.link is not None:
                each.link.tell(STOP)
        try:
            async with self._clock.timeout(_STOP_S_MAX):
                for each in self._workers:
                    if each.process is not None:
                        await each.process.wait()
        except TimeoutError:
            _log.error("workers did not stop in time and are killed")
        for each in self._workers:
            self._kill(each)
        await self._tasks.close()
        for each in self._workers:
            if each.link is not None:
                await each.link.close()

    # ------------------------------------------------------------------ processes

    async def _keep(self, worker: Worker) -> None:
        """Start a worker again whenever it ends; return when it never came to serve."""
        backoff = Backoff(_RESTART_S, _RESTART_S_MAX, self._clock.chance)
        while not self._is_stopping:
            started_s = self._clock.monotonic()
            code = await self._run(worker)
            if self._is_stopping or not (self._is_admitting or worker.broker_id):
                return
            _log.error(
                "worker not started, tried again"
                if code is None
                else "worker ended, started again",
                worker=worker.number,
                code=code,
                reason=worker.refusal,
            )
            if self._clock.monotonic() - started_s > _STABLE_S:
                backoff.reset()
            await self._clock.sleep(backoff.next_s())

    async def _run(self, worker: Worker) -> int | None:
        """One life of a worker; its exit code, or None when the system let no process begin."""
        worker.refusal = worker.broker_id = ""
        link = Link(
            self._clock,
            serve=partial(self._serve, worker),
            on_notice=partial(self._on_notice, worker),
        )
        keeper = StoreKeeper(self._store.open_session(), link)
        try:
            process = await self._begin(worker, link, keeper)
        except OSError as error:  # no memory, process or descriptor is left: that passes
            worker.refusal = f"no process can be started: {error}"
            await link.close()
            await keeper.end()  # nothing was registered through it
            return None
        code = await process.wait()
        served = worker.broker_id
        worker.opened.clear()
        worker.ready.clear()
        await link.close()
        self._tasks.start(self._end_session(keeper), name="end session")
        worker.broker_id = served
        return code

    async def _begin(
        self, worker: Worker, link: Link, keeper: StoreKeeper
    ) -> asyncio.subprocess.Process:
        """Start its process, with the other end of the link; raise OSError when that fails."""
        near, far = socket.socketpair()
        with far:
            await link.open(near)
            worker.link, worker.keeper = link, keeper
            files = [far, *_sockets(worker.own), *_sockets(self._shared)]
            worker.process = await asyncio.create_subprocess_exec(
                *self._plan.command,
                str(far.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[each.fileno() for each in files],
            )
        return worker.process

    async def _end_session(self, keeper: StoreKeeper) -> None:
        if not self._is_stopping:
            await self._clock.sleep(_SESSION_S)
        await keeper.end()

    def _kill(self, worker: Worker) -> None:
        if worker.process is not None and worker.process.returncode is None:
            with suppress(ProcessLookupError):
                worker.process.kill()

    def _order(self, worker: Worker) -> Order:
        plan = self._plan
        return Order(
            number=worker.number,
            workers=plan.workers,
            keeps=plan_keeps(plan.directory.spread.count, plan.workers, worker.number),
            data=str(plan.directory.path),
            host=plan.host,
            own=_numbers(worker.own),
            shared=_numbers(self._shared),
            config=None if plan.config is None else str(plan.config),
            overrides=list(plan.overrides),
            log_format=plan.log_format,
            log_level=plan.log_level,
        )

    # ------------------------------------------------------------------ links

    def _on_notice(self, worker: Worker, name: str, body: bytes) -> None:
        if name == OPENED:
            worker.opened.set()
        elif name == READY:
            worker.broker_id = body.decode()
            worker.ready.set()
            if self._is_admitting and worker.link is not None:
                worker.link.tell(ADMIT)
        else:
            assert name == REFUSED, f"workers do not tell {name}"
            worker.refusal = body.decode()

    async def _serve(self, worker: Worker, name: str, body: bytes) -> bytes:
        if name.startswith(METADATA):
            assert worker.keeper is not None
            return await worker.keeper.serve(name, body)
        if name.startswith(LEDGERS):
            store = int(name.removeprefix(LEDGERS).partition("/")[0])
            return await self._ask_keeper(self._workers[store % len(self._workers)], name, body)
        if name.startswith((CALLS, REST)):
            return await self._ask_peer(name.split("/")[1], name, body)
        if name == JOINED:
            worker.joined.set()
            for each in self._workers:
                await each.joined.wait()
            return b""
        if name == NUMBER:
            number = await self._numbers.take(int(msgspec.msgpack.decode(body)))
            return msgspec.msgpack.encode(number)
        assert name == ORDER, f"workers do not ask for {name}"
        return msgspec.msgpack.encode(self._order(worker))

    async def _ask_keeper(self, worker: Worker, name: str, body: bytes) -> bytes:
        """What is asked of ledgers may be asked twice: a worker that dies meanwhile is waited for.

        Raise StoreUnavailable when it does not come back in time.
        """
        try:
            async with self._clock.timeout(_PEER_S_MAX):
                while True:
                    await worker.opened.wait()
                    link = worker.link
                    assert link is not None, "what is open has a link"
                    try:
                        return await link.ask(name, body)
                    except StoreUnavailable:
                        if not link.is_lost:
                            raise
                    await self._clock.sleep(0)
        except TimeoutError:
            raise StoreUnavailable(f"{name}: worker {worker.number} does not run") from None

    async def _ask_peer(self, broker_id: str, name: str, body: bytes) -> bytes:
        """Raise StoreUnavailable for a worker that does not serve now."""
        for worker in self._workers:
            if worker.broker_id == broker_id and worker.ready.is_set():
                assert worker.link is not None, "what is ready has a link"
                return await worker.link.ask(name, body)
        raise StoreUnavailable(f"Broker {broker_id} does not serve at present")


def _sockets(listeners: Listeners) -> list[socket.socket]:
    all_kinds = (listeners.plain, listeners.secure, listeners.web, listeners.web_secure)
    return [each for each in all_kinds if each is not None]


def _numbers(listeners: Listeners) -> list[int | None]:
    all_kinds = (listeners.plain, listeners.secure, listeners.web, listeners.web_secure)
    return [None if each is None else each.fileno() for each in all_kinds]


async def supervise(
    plan: Plan, port: int | None, web_port: int | None, worker_port: int | None
) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop_requested = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop_requested.set)
    clock, settings = SystemClock(), plan.settings
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(holding(plan.directory.path, clock))
        spread = widen_spread(directory, plan.workers)
        # Workers of a supervisor that was killed end by themselves; they may have the ports still.
        with holding_stores(directory, range(spread.count), clock):
            pass
        ports = plan_ports(settings, port, web_port)
        shared = open_listeners(plan.host, ports)
        stack.callback(shared.close)
        own = []
        for number in range(plan.workers):
            own.append(open_listeners(plan.host, plan_worker_ports(ports, worker_port, number)))
            stack.callback(own[-1].close)
        store = await SqliteStore.open(directory.metadata_file, clock=clock)
        stack.push_async_callback(store.close)
        supervisor = Supervisor(plan, store, shared, own)
        stack.push_async_callback(supervisor.stop)
        if await supervisor.start(stop_requested):
            owner = describe_owner(settings, plan.host, shared.ports, Term(0))
            _log.info(
                "ready",
                service=" ".join(filter(None, (owner.service_url, owner.service_url_tls))),
                admin=" ".join(filter(None, (owner.web_url, owner.web_url_tls))),
                data=plan.directory.path,
                workers=plan.workers,
            )
        await stop_requested.wait()
        _log.info("stopping")
    _log.info("stopped")


def run(
    *,
    data: Path,
    workers: int,
    port: int | None,
    web_port: int | None,
    worker_port: int | None,
    bind: str | None,
    config: Path | None,
    overrides: Sequence[str],
    log_format: str,
    log_level: str,
) -> int:
    """Run the workers until SIGTERM or SIGINT; return the exit code."""
    os.umask(0o077)
    raise_descriptor_limit()
    configure_logs(level=log_level, as_json=log_format == "json")
    try:
        settings = Configuration.load(config, overrides, standalone=True)
        for name, reason in settings.inert_settings().items():
            _log.warning("setting has no effect in this broker", key=name, reason=reason)
        check_settings(settings)
        host = bind or settings.bindAddress or "127.0.0.1"
        check_exposure(settings, host)
        open_contexts(settings, SystemClock())
        plan = Plan(
            DataDirectory(data), settings, workers, host, config, overrides, log_format, log_level
        )
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(supervise(plan, port, web_port, worker_port))
    except MagnetarError as refusal:
        print(f"magnetar: {refusal.sentence}", file=sys.stderr)
        return 1
    return 0


def start(*, workers: str, worker_port: int | None, **options: Any) -> int | None:
    """Run the workers that are asked for, and one at least for what workers have written; return
    the exit code, or None where a broker in this process will do.
    """
    try:
        count = parse_workers(workers)
    except InvalidConfiguration as refusal:
        print(f"magnetar: {refusal.sentence}", file=sys.stderr)
        return 1
    if count > 1 or read_spread(options["data"]).count > 1:
        return run(workers=count, worker_port=worker_port, **options)
    return None
