"""One of several broker processes on a data directory; its supervisor starts it.

It has a store of ledgers of its own, and its metadata, its peers and its orders over a link to the
supervisor. When the supervisor is gone the process ends at once: another one may be on its way, and
whatever was acknowledged is in the files.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from magnetar.admin import relay
from magnetar.app.directory import DataDirectory, holding_stores
from magnetar.app.listener import Listeners, describe_owner
from magnetar.app.opening import open_broker, open_doors
from magnetar.app.order import (
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
from magnetar.app.process import freeze_garbage, raise_descriptor_limit
from magnetar.app.storage import open_joint
from magnetar.app.tls import open_contexts
from magnetar.broker.broker_call import BrokerCalls, Reply, Request
from magnetar.broker.ownership import Owner
from magnetar.broker.service import Service
from magnetar.errors import MagnetarError, ServiceNotReady, StoreUnavailable
from magnetar.ledger.backends import joint
from magnetar.metadata.backends.link import PREFIX as METADATA
from magnetar.metadata.backends.link import LinkStore
from magnetar.model.position import Term
from magnetar.runtime.clock import Clock, SystemClock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.event_loop import new_loop
from magnetar.runtime.link import Link, Serve, Told
from magnetar.runtime.log import Logger, configure_logs

_ORPHANED: Final = 70
_ASK_S_MAX: Final = 60.0
"""Longer than the supervisor waits for a worker that it starts again."""
_BUNDLES: Final = 16
"""For each worker, of a namespace that is made: so many can be shared out evenly."""

_log = Logger(__name__)
_encode: Final = msgspec.msgpack.Encoder().encode


class PeerLink:
    """Carries calls and requests to the other workers."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def send(self, owner: Owner, call: str, request: Request) -> Reply:
        body = await self._ask(f"{CALLS}{owner.broker_id}/{call}", _encode(request))
        return msgspec.msgpack.decode(body, type=Reply)

    async def relay(self, broker_id: str, forwarded: relay.Forwarded) -> relay.Answered:
        body = await self._ask(f"{REST}{broker_id}", _encode(forwarded))
        return msgspec.msgpack.decode(body, type=relay.Answered)

    async def _ask(self, name: str, body: bytes) -> bytes:
        try:
            return await self._link.ask(name, body, deadline_s=_ASK_S_MAX)
        except StoreUnavailable as failure:
            raise ServiceNotReady(failure.sentence) from None


class Answers:
    """What other workers ask of this one, as far as it has come."""

    def __init__(self) -> None:
        self._by_head: dict[str, Serve] = {}

    def add(self, prefix: str, serve: Serve) -> None:
        self._by_head[prefix] = serve

    async def serve(self, name: str, body: bytes) -> bytes:
        serve = self._by_head.get(name.partition("/")[0] + "/")
        if serve is None:
            raise StoreUnavailable(f"{name}: the worker is still starting")
        return await serve(name, body)


async def _answer_call(calls: BrokerCalls, name: str, body: bytes) -> bytes:
    call = name.rpartition("/")[2]
    request = msgspec.msgpack.decode(body, type=Request)
    return _encode(await calls.answer(call, request))


async def _answer_request(application: relay.AsgiApplication, name: str, body: bytes) -> bytes:
    forwarded = msgspec.msgpack.decode(body, type=relay.Forwarded)
    return _encode(await relay.answer(application, forwarded))


@asynccontextmanager
async def working(
    order: Order, link: Link, admitted: asyncio.Event, clock: Clock
) -> AsyncIterator[Service]:
    """Serve until the end of the block, at the address that all share once `admitted` is set."""
    config = None if order.config is None else Path(order.config)
    loaded = Configuration.load(config, order.overrides, standalone=True)
    bundles = max(loaded.defaultNumberOfNamespaceBundles, _BUNDLES * order.workers)
    settings = loaded.replace(defaultNumberOfNamespaceBundles=bundles)
    contexts = open_contexts(settings, clock)
    own, shared = _take_listeners(order.own), _take_listeners(order.shared)
    answers, peers = Answers(), PeerLink(link)
    link.serve = answers.serve

    async def take_number(above: int) -> int:
        found = await link.ask(NUMBER, _encode(above), deadline_s=_ASK_S_MAX)
        return int(msgspec.msgpack.decode(found))

    async with AsyncExitStack() as stack:
        for each in (own, shared):
            stack.callback(each.close)
        directory = DataDirectory(Path(order.data))
        stack.enter_context(holding_stores(directory, order.keeps, clock))
        store = LinkStore(link, deadline_s=settings.metadataStoreOperationTimeoutSeconds)
        stack.push_async_callback(store.close)
        link.on_notice = _split_notices(store.on_notice, link.on_notice)
        storage, keeper = await open_joint(
            stack,
            settings,
            directory,
            store,
            number=order.number,
            keeps=order.keeps,
            ask=partial(link.ask, deadline_s=_ASK_S_MAX),
            take_number=take_number,
            clock=clock,
        )
        answers.add(joint.PREFIX, keeper.serve)
        link.tell(OPENED)
        service = await open_broker(
            stack,
            storage,
            clock,
            make_owner=lambda term: describe_owner(settings, order.host, own.ports, term),
            link=peers,
            cluster_owner=describe_owner(settings, order.host, shared.ports, Term(0)),
            on_joined=partial(link.ask, JOINED),
            hands_over=False,
        )
        answers.add(CALLS, partial(_answer_call, service.calls))
        application = await open_doors(stack, service, contexts, [own], peers.relay)
        answers.add(REST, partial(_answer_request, application))
        link.tell(READY, service.broker_id.encode())
        await admitted.wait()
        await open_doors(stack, service, contexts, [_admit(order, shared)], peers.relay)
        yield service
        service.catalog.closing = True


def _split_notices(of_metadata: Told, others: Told | None) -> Told:
    def on_notice(name: str, body: bytes) -> None:
        if name.startswith(METADATA):
            of_metadata(name, body)
        elif others is not None:
            others(name, body)

    return on_notice


def _admit(order: Order, shared: Listeners) -> Listeners:
    """The first worker alone answers over HTTP at the shared address: what a page shows of a broker
    is then of one, and what it asks of topics is carried to their owners.
    """
    return shared if order.number == 0 else Listeners(shared.plain, shared.secure)


def _take_listeners(numbers: list[int | None]) -> Listeners:
    return Listeners(
        *(None if number is None else socket.socket(fileno=number) for number in numbers)
    )


async def _work(stream: socket.socket) -> int:
    clock = SystemClock()
    admitted, stop_requested = asyncio.Event(), asyncio.Event()

    def on_notice(name: str, body: bytes) -> None:
        if name == STOP:
            stop_requested.set()
        admitted.set()  # no worker that stops waits to be admitted

    link = Link(
        clock,
        on_notice=on_notice,
        on_lost=lambda: os._exit(_ORPHANED),
    )
    await link.open(stream)
    order = msgspec.msgpack.decode(await link.ask(ORDER, deadline_s=_ASK_S_MAX), type=Order)
    configure_logs(
        level=order.log_level,
        as_json=order.log_format == "json",
        fields={"worker": order.number},
    )
    code = 0
    try:
        async with working(order, link, admitted, clock):
            freeze_garbage()
            await stop_requested.wait()
    except MagnetarError as refusal:
        link.tell(REFUSED, refusal.sentence.encode())
        code = 1
    link.on_lost = None
    await link.close()
    return code


def main(arguments: list[str]) -> int:
    os.umask(0o077)
    raise_descriptor_limit()
    # A signal to the whole group is for the supervisor, which stops its workers in order.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_work(socket.socket(fileno=int(arguments[0]))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
