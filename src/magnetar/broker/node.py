"""A broker put together from its parts: stores, ownership, topics, and what runs beside them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final, Protocol

from magnetar.broker.balancer import Balancer
from magnetar.broker.broker_call import BrokerLink
from magnetar.broker.bundle_mover import BundleMover
from magnetar.broker.ledger_sweep import NamedLedgers
from magnetar.broker.load_report import BrokerLoadReporter
from magnetar.broker.membership import Home, Membership, join, join_bundles, take_instance
from magnetar.broker.ownership import Owner, Ownership, SoleOwnership, take_term
from magnetar.broker.policy import PolicyService
from magnetar.broker.port import HasCatalog, HasClock, HasConfiguration, HasTree
from magnetar.broker.resource import Resources
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.seed import seed_cluster
from magnetar.broker.service import Service
from magnetar.errors import BrokerError, StoreClosed, StoreUnavailable
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.lock import Lock
from magnetar.metadata.store import MetadataStore
from magnetar.model.limit import make_limits
from magnetar.model.position import LedgerId, Term
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope
from magnetar.runtime.usage import ProcessUsage
from magnetar.runtime.worker import ThreadWorker, Workers

_MIB: Final = 1 << 20
_CACHE_MIB: Final = 256
_SWEEP_DELAY_S: Final = 10
_ROUND_S_MIN: Final = 0.1

_log = Logger(__name__)


async def open_node(
    stack: AsyncExitStack,
    settings: Configuration,
    clock: Clock,
    *,
    store: MetadataStore,
    shared: MetadataStore,
    ledgers: LedgerStore,
    home: Home | None,
    make_owner: Callable[[Term], Owner],
    workers: Workers = ThreadWorker,
    link: BrokerLink | None = None,
    read_usage: Callable[[], ProcessUsage] = ProcessUsage,
    found: Sequence[LedgerId] | None = None,
    cluster_owner: Owner | None = None,
    on_joined: Callable[[], Awaitable[object]] | None = None,
    hands_over: bool = True,
) -> Service:
    """A broker that is ready for connections; it is closed with the stack, the stores are not.

    `store` keeps the cluster's records, `shared` those of all clusters. With a `home`, other
    brokers are on the same store, and each namespace belongs to one of them. With ledgers that
    brokers share, each bundle of a namespace belongs to one of them, at times to another. `link`
    carries calls to them, `read_usage` tells what the process uses of its machine.

    `found` are ledgers that were there before and that this broker alone made; None: all of a store
    that is its own. `cluster_owner` is how the cluster is reached as a whole, if not by this
    broker. `on_joined` is awaited once the broker is listed, before it owns anything. A broker that
    hands nothing over ends together with the others.
    """
    resources = Resources(store, shared, clock=clock)
    ownership: Ownership
    membership = None
    if found is None and not ledgers.is_shared:
        found = await ledgers.ledgers()
    if found is None:
        term = await take_instance(store)
    else:
        above = await _highest_term(ledgers, found)
        term = await take_term(store, above=above)
    owner = make_owner(term)
    if ledgers.is_shared:
        membership = await join_bundles(stack, store, owner, resources, settings, clock=clock)
        ownership = membership.ownership
        if on_joined is not None:
            await on_joined()
    else:
        ownership = SoleOwnership(owner)
        if home is not None:
            ownership = await join(
                stack,
                store,
                owner,
                home,
                clock=clock,
                next_term=lambda: take_term(store, above=above),
                is_known=resources.namespaces.exists,
            )
    await seed_cluster(resources, settings.clusterName or "standalone", cluster_owner or owner)
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
            store,
            ledgers,
            clock,
            legacy_json=settings.schemaJsonAllowLegacyJacksonFormat,
            limits=make_limits(settings.get),
            workers=workers,
        ),
        ownership=ownership,
        owner=owner,
        cache=_make_cache(settings),
        link=link,
    )
    stack.push_async_callback(service.close)
    service.upkeep.start(service.tasks)
    service.scalable.start()
    service.transactions.start()
    if found is not None:  # else others' ledgers are there before their records
        named = NamedLedgers(service.tree, service.schemas.storage, ledgers)
        sweep = _sweep_later(named, found, owner.term, clock)
        service.tasks.start(sweep, name="sweep ledgers")
    await service.stored_configuration.open()
    if membership is not None:
        _start_balancing(service, membership, read_usage)
        if hands_over:
            assert service.bundles is not None, "brokers that share ledgers have bundles"
            stack.push_async_callback(_leave, service.bundles, membership.registration)
    return service


class BalanceOwners(HasCatalog, HasClock, HasConfiguration, HasTree, Protocol):
    """Port of what a broker reports and balances."""

    @property
    def tasks(self) -> TaskScope: ...


def _start_balancing(
    owners: BalanceOwners, membership: Membership, read_usage: Callable[[], ProcessUsage]
) -> None:
    """Report what this broker carries, and balance the cluster while it leads."""
    config, clock, tasks = owners.config, owners.clock, owners.tasks
    reporter = BrokerLoadReporter(
        membership.registration,
        membership.ownership,
        owners.catalog.topics,
        read_usage,
        config=config,
        clock=clock,
    )
    balancer = Balancer(
        owners.store,
        membership.ownership,
        membership.placement,
        membership.boundaries,
        config=config,
        clock=clock,
    )

    async def repeat(seconds: Callable[[], float], act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await clock.sleep(max(_ROUND_S_MIN, seconds()))
            try:
                await act()
            except BrokerError as failure:
                _log.warning("load not balanced", reason=failure.sentence)

    tasks.start(
        repeat(lambda: config.loadBalancerReportUpdateMinIntervalMillis / 1000, reporter.report),
        name="report load",
    )
    tasks.start(
        repeat(lambda: config.loadBalancerSheddingIntervalMinutes * 60, balancer.run),
        name="balance load",
    )


async def _leave(bundles: BundleMover, registration: Lock) -> None:
    """Be listed no longer, then hand the bundles over while clients are still served."""
    try:
        await registration.release()
        await bundles.leave_all()
    except (StoreUnavailable, StoreClosed) as failure:
        _log.warning("left without a word to the other brokers", reason=failure.sentence)


def _make_cache(settings: Configuration) -> EntryCache:
    cache = EntryCache(0)

    def resize() -> None:
        cache.bytes_max = (settings.managedLedgerCacheSizeMB or _CACHE_MIB) * _MIB

    settings.listen(("managedLedgerCacheSizeMB",), resize)
    resize()
    return cache


async def _sweep_later(
    named: NamedLedgers, found: Sequence[LedgerId], term: Term, clock: Clock
) -> None:
    """After clients that waited for the broker have been served."""
    await clock.sleep(_SWEEP_DELAY_S)
    await named.sweep(found, term=term)


async def _highest_term(ledgers: LedgerStore, found: Sequence[LedgerId]) -> int:
    return max([(await ledgers.describe(each)).term for each in found], default=0)
