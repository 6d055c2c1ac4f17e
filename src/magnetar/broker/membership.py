"""How a broker takes its place among those that share its metadata store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import msgspec

from magnetar import __version__
from magnetar.broker.administration.broker import BROKERS, LEADER
from magnetar.broker.lease import (
    DirectoryRecord,
    NamespaceOwnership,
    describe_listeners,
    directory_path,
)
from magnetar.broker.ownership import Owner
from magnetar.errors import LockBusy, RecordNotFound
from magnetar.metadata.election import Election
from magnetar.metadata.lock import Locks
from magnetar.metadata.store import ANY_VERSION, MetadataStore
from magnetar.model.name import NamespaceName
from magnetar.model.position import Term
from magnetar.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Home:
    """A data directory as shared metadata knows it."""

    identity: str
    path: str


async def store_home(store: MetadataStore, home: Home, broker_id: str = "") -> None:
    record = DirectoryRecord(path=home.path, brokerId=broker_id)
    value = msgspec.json.encode(record)
    await store.put(directory_path(home.identity), value, expect=ANY_VERSION)


async def join(
    stack: AsyncExitStack,
    store: MetadataStore,
    me: Owner,
    home: Home,
    *,
    clock: Clock,
    next_term: Callable[[], Awaitable[Term]],
    is_known: Callable[[NamespaceName], Awaitable[bool]],
) -> NamespaceOwnership:
    """Own the namespaces whose topics are in this directory, and know who owns the others."""
    ownership = NamespaceOwnership(
        store,
        me,
        home.identity,
        clock=clock,
        next_term=next_term,
        is_known=is_known,
    )
    stack.push_async_callback(ownership.close)
    await store_home(store, home, me.broker_id)
    await _register(stack, store, me, clock)
    await ownership.resume()
    return ownership


async def _register(stack: AsyncExitStack, store: MetadataStore, me: Owner, clock: Clock) -> None:
    """Be listed among the brokers while the session lives, and take part in choosing a leader."""
    locks = Locks(store, clock=clock)
    stack.push_async_callback(locks.close)
    path, value = f"{BROKERS}/{me.broker_id}", _describe(me)
    try:
        await locks.acquire(path, value)
    except LockBusy:
        # The address is ours: we listen on it. What is left is of a process that was here before.
        try:
            await store.delete(path, expect=ANY_VERSION)
        except RecordNotFound:
            pass
        await locks.acquire(path, value)
    proposal = msgspec.json.encode({"brokerId": me.broker_id, "serviceUrl": me.web_url})
    election = Election(store, LEADER, proposal, clock=clock)
    stack.push_async_callback(election.close)
    await election.elect()


def _describe(me: Owner) -> bytes:
    """Pulsar's names for what other brokers and tools want to know."""
    return msgspec.json.encode(
        {
            "brokerId": me.broker_id,
            "webServiceUrl": me.web_url,
            "webServiceUrlTls": me.web_url_tls,
            "pulsarServiceUrl": me.service_url,
            "pulsarServiceUrlTls": me.service_url_tls,
            "persistentTopicsEnabled": True,
            "nonPersistentTopicsEnabled": True,
            "brokerVersionString": __version__,
            "protocols": {},
            "advertisedListeners": describe_listeners(me),
        }
    )
