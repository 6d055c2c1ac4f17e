"""How a broker takes its place among those that share its metadata store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

import msgspec

from magnetar import __version__
from magnetar.broker import lease
from magnetar.broker.broker_directory import BROKERS, LEADER, BrokerDirectory
from magnetar.broker.bundle_boundary import Boundaries
from magnetar.broker.bundle_ownership import BundleOwnership
from magnetar.broker.bundle_record import describe_listeners
from magnetar.broker.lease import DirectoryRecord, NamespaceOwnership, directory_path
from magnetar.broker.ownership import Owner
from magnetar.broker.placement import Placement
from magnetar.broker.resource import Resources
from magnetar.errors import LockBusy, RecordNotFound
from magnetar.metadata.election import Election
from magnetar.metadata.lock import Lock, Locks
from magnetar.metadata.store import ANY_VERSION, MetadataStore
from magnetar.model.load import BrokerReport
from magnetar.model.name import NamespaceName
from magnetar.model.position import Term
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration

_INSTANCES: Final = "/counters/producer-name/magnetar"


@dataclass(frozen=True, slots=True)
class Home:
    """A data directory as shared metadata knows it."""

    identity: str
    path: str


@dataclass(frozen=True, slots=True)
class Membership:
    """The place of a broker among those that share ledgers too."""

    ownership: BundleOwnership
    registration: Lock
    """Lists the broker, with what it carries."""
    placement: Placement
    boundaries: Boundaries


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
    await _register(stack, store, me, _describe(me), clock)
    await ownership.resume()
    return ownership


async def join_bundles(
    stack: AsyncExitStack,
    store: MetadataStore,
    me: Owner,
    resources: Resources,
    settings: Configuration,
    *,
    clock: Clock,
) -> Membership:
    """Take part in owning the bundles of all namespaces: any broker can serve any topic."""
    report = make_report(me, settings, started_ms=clock.now_ms())
    value = msgspec.json.encode(report)
    registration, election = await _register(stack, store, me, value, clock)
    directory = BrokerDirectory(store, election, clock=clock)
    stack.callback(directory.close)
    placement = Placement(directory, resources.isolation, cluster_of(settings), clock=clock)
    boundaries = Boundaries(resources.namespaces, lambda: settings.defaultNumberOfNamespaceBundles)
    ownership = BundleOwnership(
        store,
        me,
        directory,
        clock=clock,
        boundaries=boundaries,
        choose=placement.choose,
        choose_for_idle=placement.choose_for_idle,
    )
    stack.push_async_callback(ownership.close)
    return Membership(ownership, registration, placement, boundaries)


def cluster_of(settings: Configuration) -> str:
    return settings.clusterName or "standalone"


async def take_instance(store: MetadataStore) -> Term:
    """A number that no start of any broker of the cluster had before."""
    path, _ = await store.put_sequence(_INSTANCES, b"", deltas=(1,), ephemeral=True)
    return Term(int(path.rpartition("-")[2]))


def make_report(me: Owner, settings: Configuration, *, started_ms: int) -> BrokerReport:
    """What a broker tells of itself before it carries anything."""
    return BrokerReport(
        brokerId=me.broker_id,
        webServiceUrl=me.web_url or None,
        webServiceUrlTls=me.web_url_tls or None,
        pulsarServiceUrl=me.service_url or None,
        pulsarServiceUrlTls=me.service_url_tls or None,
        persistentTopicsEnabled=settings.enablePersistentTopics,
        nonPersistentTopicsEnabled=settings.enableNonPersistentTopics,
        brokerVersionString=__version__,
        advertisedListeners=describe_listeners(me),
        startTimestamp=started_ms,
        lastUpdate=started_ms,
    )


async def _register(
    stack: AsyncExitStack, store: MetadataStore, me: Owner, value: bytes, clock: Clock
) -> tuple[Lock, Election]:
    """Be listed among the brokers while the session lives, and take part in choosing a leader."""
    locks = Locks(store, clock=clock)
    stack.push_async_callback(locks.close)
    path = f"{BROKERS}/{me.broker_id}"
    try:
        lock = await locks.acquire(path, value)
    except LockBusy:
        # The address is ours: we listen on it. What is left is of a process that was here before.
        try:
            await store.delete(path, expect=ANY_VERSION)
        except RecordNotFound:
            pass
        lock = await locks.acquire(path, value)
    proposal = msgspec.json.encode({"brokerId": me.broker_id, "serviceUrl": me.web_url})
    election = Election(store, LEADER, proposal, clock=clock)
    stack.push_async_callback(election.close)
    await election.elect()
    return lock, election


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
            "advertisedListeners": lease.describe_listeners(me),
        }
    )
