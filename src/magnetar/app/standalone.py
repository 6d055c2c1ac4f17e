"""One process that is a whole cluster: metadata, ledgers, binary protocol and admin interface."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from magnetar.admin.server import open_socket
from magnetar.admin.server import serving as serving_http
from magnetar.admin.table import make_application
from magnetar.app.directory import holding
from magnetar.app.seed import seed_cluster
from magnetar.broker.api import BrokerApi
from magnetar.broker.connection import Connection
from magnetar.broker.handler import HANDLERS
from magnetar.broker.ownership import Owner, SoleOwnership, parse_listeners, take_term
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.service import Service
from magnetar.broker.upkeep import Upkeep
from magnetar.errors import InvalidConfiguration, MagnetarError
from magnetar.ledger.backends.file import Disk, FilePolicy, open_file_store
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Log, configure_logs

_log = Log(__name__)

_MIB: Final = 1 << 20
_CACHE_MIB: Final = 256
_GC_THRESHOLD: Final = 50_000


@dataclass(frozen=True, slots=True)
class Server:
    """A broker that answers."""

    port: int
    web_port: int
    service: Service


@asynccontextmanager
async def serving(
    *,
    data: Path,
    port: int | None = None,
    web_port: int | None = None,
    bind: str | None = None,
    config: Path | None = None,
    overrides: Sequence[str] = (),
    disk: Disk | None = None,
    files: FilePolicy | None = None,
) -> AsyncIterator[Server]:
    """Run a broker until the end of the block; port 0 takes a free one. Leaving drains.

    `disk` and `files` are for tests: what the ledgers lie on, and how soon they are settled.
    """
    settings = Configuration.load(config, overrides, standalone=True)
    for name in settings.inert_settings():
        _log.warning("setting has no effect in this broker", key=name)
    clock = SystemClock()
    host = bind or settings.bindAddress or "127.0.0.1"
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(holding(data, clock))
        listener = _listen(host, settings.brokerServicePort if port is None else port)
        stack.callback(listener.close)
        web = _free_port(host, settings.webServicePort if web_port is None else web_port)
        store = await SqliteStore.open(directory.metadata_file, clock=clock)
        stack.push_async_callback(store.close)
        ledgers = await open_file_store(
            directory.ledger_folder, sync=settings.journalSyncData, disk=disk, policy=files
        )
        stack.push_async_callback(ledgers.close)
        resources = Resources(store, store, clock=clock)
        term = await take_term(store, above=await _highest_term(ledgers))
        owner = _make_owner(settings, host, listener, web, term)
        await seed_cluster(resources, settings.clusterName or "standalone", owner)
        policies = PolicyService(resources, settings, clock=clock)
        stack.push_async_callback(policies.close)
        service = Service(
            settings,
            clock,
            store=store,
            ledgers=ledgers,
            resources=resources,
            policies=policies,
            schemas=SchemaRegistry(
                store, ledgers, clock, legacy_json=settings.schemaJsonAllowLegacyJacksonFormat
            ),
            ownership=SoleOwnership(owner),
            owner=owner,
            cache=EntryCache((settings.managedLedgerCacheSizeMB or _CACHE_MIB) * _MIB),
        )
        stack.push_async_callback(service.close)
        Upkeep(service).start()
        service.scalable.start()
        service.tasks.start(service.sweep_ledgers(await ledgers.ledgers()), name="sweep ledgers")
        api = BrokerApi(service)
        await api.apply_stored_configuration()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(service, HANDLERS), sock=listener)
        stack.callback(server.close)
        # The web port opens last: whoever polls it may use everything from the first answer on.
        bound = await stack.enter_async_context(serving_http(make_application(api), host, web))
        yield Server(listener.getsockname()[1], bound, service)
        service.closing = True


def _listen(host: str, port: int | None) -> socket.socket:
    try:
        return open_socket(host, port or 0)
    except OSError as error:
        raise InvalidConfiguration(f"cannot listen on {host}:{port}: {error.strerror}") from None


def _free_port(host: str, port: int | None) -> int:
    """The port itself, or a free one for 0: its number is part of what the broker tells about
    itself.
    """
    with _listen(host, port) as probe:
        bound: int = probe.getsockname()[1]
        return bound


async def _highest_term(ledgers: LedgerStore) -> int:
    return max([(await ledgers.describe(each)).term for each in await ledgers.ledgers()], default=0)


def _make_owner(
    settings: Configuration, host: str, listener: socket.socket, web_port: int, term: int
) -> Owner:
    advertised = settings.advertisedAddress or (socket.gethostname() if host == "0.0.0.0" else host)
    port = listener.getsockname()[1]
    return Owner(
        broker_id=f"{advertised}:{web_port}",
        service_url=f"pulsar://{advertised}:{port}",
        web_url=f"http://{advertised}:{web_port}",
        term=term,  # type: ignore[arg-type]
        is_self=True,
        listeners=parse_listeners(settings.advertisedListeners),
    )


async def _serve_until_told(options: dict[str, object]) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    async with serving(**options) as server:  # type: ignore[arg-type]
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD, 20, 50)
        _log.info(
            "ready",
            service=server.service.service_url,
            admin=server.service.web_url,
            data=options["data"],
        )
        await told.wait()
        _log.info("stopping")
    _log.info("stopped")


def run(
    *,
    data: Path,
    port: int | None,
    web_port: int | None,
    bind: str | None,
    config: Path | None,
    overrides: Sequence[str],
    log_format: str = "text",
    log_level: str = "info",
) -> int:
    """Run the broker until SIGTERM or SIGINT; return the exit code."""
    configure_logs(level=log_level, as_json=log_format == "json")
    options: dict[str, object] = {
        "data": data,
        "port": port,
        "web_port": web_port,
        "bind": bind,
        "config": config,
        "overrides": overrides,
    }
    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(_serve_until_told(options))
    except MagnetarError as refusal:
        print(f"magnetar: {refusal.sentence}", file=sys.stderr)
        return 1
    return 0


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
