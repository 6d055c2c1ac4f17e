"""One process that is a whole cluster: metadata, ledgers, binary protocol and admin interface."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from magnetar.app.broker_link import HttpBrokerLink
from magnetar.app.directory import holding
from magnetar.app.exposure import check_exposure
from magnetar.app.listener import describe_owner, open_listeners, plan_ports
from magnetar.app.opening import open_broker, open_doors
from magnetar.app.process import freeze_garbage, raise_descriptor_limit
from magnetar.app.reserve import free_bytes
from magnetar.app.storage import open_own, open_shared
from magnetar.app.tls import open_contexts
from magnetar.broker.service import Service
from magnetar.errors import MagnetarError
from magnetar.ledger.backends.file import Disk, FilePolicy
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.event_loop import new_loop
from magnetar.runtime.log import Logger, configure_logs

_log = Logger(__name__)

FILES: Final = "files"
BOOKKEEPER: Final = "bookkeeper"


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
        contexts = open_contexts(settings, clock)
        listeners = open_listeners(host, plan_ports(settings, port, web_port))
        stack.callback(listeners.close)
        ports = listeners.ports
        if directory is None:
            storage = await open_shared(stack, settings, clock=clock)
        else:
            storage = await open_own(
                stack, settings, directory, clock=clock, disk=disk, policy=files, room=room
            )
        link = HttpBrokerLink(storage.settings, clock)
        stack.push_async_callback(link.close)
        service = await open_broker(
            stack,
            storage,
            clock,
            make_owner=lambda term: describe_owner(settings, host, ports, term),
            link=link,
        )
        await open_doors(stack, service, contexts, [listeners])
        yield Server(ports.plain or 0, ports.web or 0, service)
        service.catalog.closing = True


async def _serve_until_told(options: dict[str, object]) -> None:
    stop_requested = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_requested.set)
    async with serving(**options) as server:  # type: ignore[arg-type]
        freeze_garbage()
        owner = server.service.owner
        key = "data" if options["ledgers"] == FILES else "ledgers"
        place = {key: options[key]}
        _log.info(
            "ready",
            service=" ".join(filter(None, (owner.service_url, owner.service_url_tls))),
            admin=" ".join(filter(None, (owner.web_url, owner.web_url_tls))),
            **place,
        )
        await stop_requested.wait()
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
    raise_descriptor_limit()
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
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_serve_until_told(options))
    except MagnetarError as refusal:
        print(f"magnetar: {refusal.sentence}", file=sys.stderr)
        return 1
    return 0
