"""A broker on its stores that answers at its sockets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from magnetar.admin.application import Application
from magnetar.admin.relay import Relay
from magnetar.admin.server import serving as serving_http
from magnetar.admin.table import make_application
from magnetar.app.listener import Listeners
from magnetar.app.process import descriptor_limit
from magnetar.app.storage import Storage
from magnetar.app.tls import Contexts
from magnetar.broker.administration.web import Administration
from magnetar.broker.binary_server import BinaryServer
from magnetar.broker.broker_call import BrokerLink
from magnetar.broker.handler import make_handlers
from magnetar.broker.node import open_node
from magnetar.broker.ownership import Owner
from magnetar.broker.service import Service
from magnetar.model.position import Term
from magnetar.runtime.accept import accepting
from magnetar.runtime.clock import Clock
from magnetar.runtime.usage import read_usage


async def open_broker(
    stack: AsyncExitStack,
    storage: Storage,
    clock: Clock,
    *,
    make_owner: Callable[[Term], Owner],
    link: BrokerLink,
    cluster_owner: Owner | None = None,
    on_joined: Callable[[], Awaitable[object]] | None = None,
    hands_over: bool = True,
) -> Service:
    """Closed with the stack; see `open_node`."""
    service = await open_node(
        stack,
        storage.settings,
        clock,
        store=storage.stores.local,
        shared=storage.stores.configuration,
        ledgers=storage.ledgers,
        found=storage.found,
        home=storage.home,
        make_owner=make_owner,
        link=link,
        read_usage=read_usage,
        cluster_owner=cluster_owner,
        on_joined=on_joined,
        hands_over=hands_over,
    )
    service.connection_limit.fit(descriptor_limit())
    stack.enter_context(service.watchdog.running())
    if storage.watch is not None:
        service.tasks.start(storage.watch(), name="watch the disk")
    return service


async def open_doors(
    stack: AsyncExitStack,
    service: Service,
    contexts: Contexts,
    listeners: Sequence[Listeners],
    relay: Relay | None = None,
) -> Application:
    """Answer at these sockets, until the stack is closed."""
    api = Administration(service)
    handlers = make_handlers(service)
    for each in listeners:
        for listener, context in ((each.plain, None), (each.secure, contexts.broker)):
            if listener is not None:
                server = BinaryServer(service, handlers, context)
                await stack.enter_async_context(accepting(listener, server.serve))
    # The web ports open last: after the first answer of one everything can be used.
    application = make_application(api)
    application.relay = relay
    for each in listeners:
        for web, context in ((each.web_secure, contexts.web), (each.web, None)):
            if web is not None:
                await stack.enter_async_context(
                    serving_http(application, web, limit=api.web, tls=context)
                )
    return application
