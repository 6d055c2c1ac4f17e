"""How a broker takes its place among those that share its metadata store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import msgspec

from magnetar import __version__
from magnetar.app.directory import DataDirectory, load_identity, store_identity
from magnetar.app.metadata import Stores
from magnetar.broker.administration.broker import BROKERS, LEADER
from magnetar.broker.lease import (
    DirectoryRecord,
    NamespaceOwnership,
    describe_listeners,
    directory_path,
)
from magnetar.broker.ownership import Owner
from magnetar.errors import DataDirectoryRefused, LockBusy, RecordNotFound
from magnetar.metadata.election import Election
from magnetar.metadata.lock import Locks
from magnetar.metadata.store import ANY_VERSION, MetadataStore
from magnetar.model.name import NamespaceName
from magnetar.model.position import Term
from magnetar.runtime.clock import Clock


async def settle_identity(
    stores: Stores, directory: DataDirectory, *, has_ledgers: bool
) -> str | None:
    """The name of the directory in a store that brokers share; None when it has its own.

    Raise DataDirectoryRefused when the two do not belong together: ledgers that the metadata does
    not name would be taken for garbage.
    """
    identity = load_identity(directory)
    if not stores.is_shared:
        if identity is not None:
            raise DataDirectoryRefused(
                f"{directory.path} was written with its metadata on a shared store;"
                " name it with --metadata or metadataStoreUrl"
            )
        return None
    if identity is None:
        if has_ledgers or directory.metadata_file.exists():
            raise DataDirectoryRefused(
                f"{directory.path} was written with its metadata in {directory.metadata_file};"
                " start it without a metadata address, or give it an empty directory"
            )
        identity = store_identity(directory)
    if await stores.local.get(directory_path(identity)) is None:
        if has_ledgers:
            raise DataDirectoryRefused(
                f"the metadata store does not know {directory.path}: it is another one than the"
                " directory was written with, or it was lost"
            )
        await _note(stores.local, identity, DirectoryRecord(path=str(directory.path.absolute())))
    return identity


async def _note(store: MetadataStore, identity: str, record: DirectoryRecord) -> None:
    await store.put(directory_path(identity), msgspec.json.encode(record), expect=ANY_VERSION)


async def join(
    stack: AsyncExitStack,
    store: MetadataStore,
    me: Owner,
    directory: DataDirectory,
    identity: str,
    *,
    clock: Clock,
    next_term: Callable[[], Awaitable[Term]],
    is_known: Callable[[NamespaceName], Awaitable[bool]],
    on_moved: Callable[[NamespaceName], None],
) -> NamespaceOwnership:
    """Own the namespaces whose topics are in this directory, and know who owns the others."""
    ownership = NamespaceOwnership(
        store,
        me,
        identity,
        clock=clock,
        next_term=next_term,
        is_known=is_known,
        on_moved=on_moved,
    )
    stack.push_async_callback(ownership.close)
    record = DirectoryRecord(path=str(directory.path.absolute()), brokerId=me.broker_id)
    await _note(store, identity, record)
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
