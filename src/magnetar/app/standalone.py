"""One process that is a whole cluster: metadata, ledgers, binary protocol and admin interface."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from magnetar.admin.server import bind_socket, open_socket
from magnetar.admin.server import serving as serving_http
from magnetar.admin.table import make_application
from magnetar.app.broker_link import HttpBrokerLink
from magnetar.app.directory import holding
from magnetar.app.exposure import check_exposure
from magnetar.app.reserve import free_bytes
from magnetar.app.storage import open_own, open_shared
from magnetar.app.tls import check_tls, open_broker_tls, open_web_tls
from magnetar.broker.administration.web import Administration
from magnetar.broker.door import BinaryDoor
from magnetar.broker.handler import make_handlers
from magnetar.broker.node import open_node
from magnetar.broker.ownership import Owner, parse_listeners
from magnetar.broker.service import Service
from magnetar.errors import InvalidConfiguration, MagnetarError
from magnetar.ledger.backends.file import Disk, FilePolicy
from magnetar.model.position import Term
from magnetar.runtime.accept import accepting
from magnetar.runtime.clock import Clock, SystemClock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger, configure_logs
from magnetar.runtime.usage import read_usage

_log = Logger(__name__)

FILES: Final = "files"
BOOKKEEPER: Final = "bookkeeper"
_GC_THRESHOLD: Final = 50_000
_DESCRIPTORS_MAX: Final = 1 << 20


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
    standalone: bool = True,
    ledgers: str = FILES,
    disk: Disk | None = None,
    files: FilePolicy | None = None,
    room: Callable[[Path], int] = free_bytes,
) -> AsyncIterator[Server]:
    """Run a broker until the end of the block; port 0 takes a free one. Leaving drains.

    With its ledgers on bookies it keeps nothing in `data`, which is not made.
    `disk`, `files` and `room` are for tests: what the ledgers lie on, how soon they are settled,
    and how much room there is for the data.
    """
    settings = Configuration.load(config, overrides, standalone=standalone)
    for name, reason in settings.inert_settings().items():
        _log.warning("setting has no effect in this broker", key=name, reason=reason)
    clock = SystemClock()
    host = bind or settings.bindAddress or "127.0.0.1"
    check_exposure(settings, host)
    async with AsyncExitStack() as stack:
        is_shared = ledgers == BOOKKEEPER
        directory = None if is_shared else stack.enter_context(holding(data, clock))
        doors = _open_doors(settings, clock, host, port, web_port)
        stack.callback(doors.close)
        if directory is None:
            storage = await open_shared(stack, settings, clock=clock)
        else:
            storage = await open_own(
                stack, settings, directory, clock=clock, disk=disk, policy=files, room=room
            )
        link = HttpBrokerLink(storage.settings, clock)
        stack.push_async_callback(link.close)
        service = await open_node(
            stack,
            storage.settings,
            clock,
            store=storage.stores.local,
            shared=storage.stores.configuration,
            ledgers=storage.ledgers,
            home=storage.home,
            make_owner=lambda term: _make_owner(settings, host, doors, term),
            link=link,
            read_usage=read_usage,
        )
        service.connection_limit.fit(_descriptor_limit())
        stack.enter_context(service.watchdog.running())
        if storage.watch is not None:
            service.tasks.start(storage.watch(), name="watch the disk")
        api = Administration(service)
        handlers = make_handlers(service)
        for listener, tls in ((doors.plain, None), (doors.secure, doors.secure_tls)):
            if listener is not None:
                door = BinaryDoor(service, handlers, tls)
                await stack.enter_async_context(accepting(listener, door.serve))
        # The web ports open last: whoever polls one may use everything from the first answer on.
        application = make_application(api)
        for web, web_tls in ((doors.web_secure, doors.web_tls), (doors.web, None)):
            if web is not None:
                await stack.enter_async_context(
                    serving_http(application, web, limit=api.web, tls=web_tls)
                )
        yield Server(_port_of(doors.plain) or 0, _port_of(doors.web) or 0, service)
        service.catalog.closing = True


@dataclass(frozen=True, slots=True)
class _Doors:
    """The sockets of the binary protocol and of HTTP, each with and without TLS.

    Those of HTTP are bound but do not listen yet: their numbers are part of what the broker says of
    itself, and no other process may take them meanwhile.
    """

    plain: socket.socket | None
    secure: socket.socket | None
    secure_tls: ssl.SSLContext | None
    web: socket.socket | None
    web_secure: socket.socket | None
    web_tls: ssl.SSLContext | None

    def close(self) -> None:
        for listener in (self.plain, self.secure, self.web, self.web_secure):
            if listener is not None:
                listener.close()


def _open_doors(
    settings: Configuration, clock: Clock, host: str, port: int | None, web_port: int | None
) -> _Doors:
    plain = settings.brokerServicePort if port is None else port
    web = settings.webServicePort if web_port is None else web_port
    check_tls(settings, has_plain=plain is not None, has_web=web is not None)
    secure_tls = open_broker_tls(settings, clock)
    web_tls = open_web_tls(settings, clock)
    web_secure = settings.webServicePortTls
    return _Doors(
        plain=None if plain is None else _open(open_socket, host, plain),
        secure=None
        if secure_tls is None
        else _open(open_socket, host, settings.brokerServicePortTls),
        secure_tls=secure_tls,
        web=None if web is None else _open(bind_socket, host, web),
        web_secure=None if web_secure is None else _open(bind_socket, host, web_secure),
        web_tls=web_tls,
    )


def _port_of(listener: socket.socket | None) -> int | None:
    return None if listener is None else int(listener.getsockname()[1])


def _open(make: Callable[[str, int], socket.socket], host: str, port: int | None) -> socket.socket:
    try:
        return make(host, port or 0)
    except OSError as error:
        raise InvalidConfiguration(f"cannot listen on {host}:{port}: {error.strerror}") from None


def _make_owner(settings: Configuration, host: str, doors: _Doors, term: Term) -> Owner:
    is_anywhere = host == "0.0.0.0"  # nosec B104
    advertised = settings.advertisedAddress or (socket.gethostname() if is_anywhere else host)
    # Certificates name hosts, seldom addresses.
    named = "localhost" if advertised == "127.0.0.1" else advertised

    def url(scheme: str, port: int | None, at: str = advertised) -> str:
        return "" if port is None else f"{scheme}://{at}:{port}"

    return Owner(
        broker_id=f"{advertised}:{_port_of(doors.web or doors.web_secure)}",
        service_url=url("pulsar", _port_of(doors.plain)),
        web_url=url("http", _port_of(doors.web)),
        term=term,
        is_self=True,
        listeners=parse_listeners(settings.advertisedListeners),
        service_url_tls=url("pulsar+ssl", _port_of(doors.secure), named),
        web_url_tls=url("https", _port_of(doors.web_secure), named),
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
        owner = server.service.owner
        key = "data" if options["ledgers"] == FILES else "ledgers"
        place = {key: options[key]}
        _log.info(
            "ready",
            service=" ".join(filter(None, (owner.service_url, owner.service_url_tls))),
            admin=" ".join(filter(None, (owner.web_url, owner.web_url_tls))),
            **place,
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
    standalone: bool = True,
    ledgers: str = FILES,
    log_format: str = "text",
    log_level: str = "info",
) -> int:
    """Run the broker until SIGTERM or SIGINT; return the exit code."""
    os.umask(0o077)  # whatever the broker writes is its user's alone
    _raise_descriptor_limit()
    configure_logs(level=log_level, as_json=log_format == "json")
    options: dict[str, object] = {
        "data": data,
        "port": port,
        "web_port": web_port,
        "bind": bind,
        "config": config,
        "overrides": overrides,
        "standalone": standalone,
        "ledgers": ledgers,
    }
    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(_serve_until_told(options))
    except MagnetarError as refusal:
        print(f"magnetar: {refusal.sentence}", file=sys.stderr)
        return 1
    return 0


def _raise_descriptor_limit() -> None:
    """As many connections as the system allows: the usual soft limit is for programs that may use
    `select`.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = _DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_MAX)
    if _descriptor_limit() < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _descriptor_limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else soft


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
