"""A broker put together from its parts, and closed."""

from __future__ import annotations

from itertools import count
from typing import Final

from magnetar.broker.activity import Activity
from magnetar.broker.authentication import make_authenticator
from magnetar.broker.authorization import Authorization
from magnetar.broker.broker_call import BrokerCalls, BrokerLink, NoBrokers
from magnetar.broker.bundle_mover import BundleMover
from magnetar.broker.bundle_ownership import BundleOwnership
from magnetar.broker.catalog import AnyTopic, TopicCatalog
from magnetar.broker.client_limit import ConnectionLimit, RequestLimit
from magnetar.broker.connection import Connections
from magnetar.broker.foreign import ForeignTransactions
from magnetar.broker.loaded_topic import TopicsElsewhere
from magnetar.broker.log_record import plan_packing
from magnetar.broker.other_broker import OtherBrokers
from magnetar.broker.ownership import Owner, Ownership
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.revocation import Revocation
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.broker.scalable.service import ScalableService
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.stored_configuration import StoredConfiguration
from magnetar.broker.topic_host import TopicHost
from magnetar.broker.topic_log import TopicLogs
from magnetar.broker.topic_tree import TopicTree
from magnetar.broker.topiclist import TopicLists
from magnetar.broker.topicpolicy.contract import PolicyHost
from magnetar.broker.transaction.service import TransactionService
from magnetar.broker.unread import UnreadBytes
from magnetar.broker.upkeep import Upkeep
from magnetar.errors import TooManyRequests
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.message_tally import TallyPace
from magnetar.ledger.pace import CursorPace
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import MetadataStore
from magnetar.model.limit import make_limits
from magnetar.model.name import TopicDomain, TopicName
from magnetar.model.scalable import BrokerAddress
from magnetar.rules.bundle import Bundle
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.task import TaskScope
from magnetar.runtime.watchdog import Watchdog

_FIRST_INSTANCE: Final = 1_000_000
"""Brokers of Apache Pulsar count their starts from 0 in the same cluster, and clients keep their
generated names when they go from one broker to another."""


class Service:
    """The owners a broker is made of. Each was given what it needs of the others."""

    def __init__(
        self,
        config: Configuration,
        clock: Clock,
        *,
        store: MetadataStore,
        ledgers: LedgerStore,
        resources: Resources,
        policies: PolicyService,
        schemas: SchemaRegistry,
        ownership: Ownership,
        owner: Owner,
        cache: EntryCache,
        link: BrokerLink | None = None,
    ) -> None:
        self.config: Final = config
        self.limits: Final = make_limits(config.get)
        self.clock: Final = clock
        self.store: Final = store
        self.ledgers: Final = ledgers
        self.resources: Final = resources
        self.tree: Final = TopicTree(
            store,
            resources.namespaces,
            plan_packing(config),
            is_apache_readable=ledgers.is_apache_readable,
        )
        self.policies: Final = policies
        self.schemas: Final = schemas
        self.authorization: Final = Authorization(config, resources)
        self.connection_limit: Final = ConnectionLimit(config)
        self.lookup_limit: Final = RequestLimit(
            lambda: config.maxConcurrentLookupRequest,
            TooManyRequests,
            "Too many lookups are under way",
        )
        self.unread: Final = UnreadBytes(self.limits)
        self.watchdog: Final = Watchdog(warn_ms=self.limits.loop_held_ms)
        self.ownership: Final = ownership
        self.calls: Final = BrokerCalls(ownership, link or NoBrokers(), clock)
        self.owner: Final = owner
        self.authentication: Final = make_authenticator(config, clock)
        self.cluster: Final = config.clusterName or "standalone"
        self.started_ms: Final = clock.now_ms()
        self.tasks: Final = TaskScope("broker")
        self.activity: Final = Activity()
        self.connections: Final = Connections()
        scalable = ScalableRecords(
            store, clock=clock, is_apache_readable=ledgers.is_apache_readable
        )
        self.topic_lists: Final = TopicLists(self.tasks, clock)
        self._end_following = [self.activity.follow(store)]
        if ownership.is_shared:
            self._end_following.append(self.topic_lists.follow(store))
        self._names = count()
        number = owner.term + (_FIRST_INSTANCE if isinstance(ownership, BundleOwnership) else 0)
        self._name_prefix = f"{self.cluster}-{number}"
        elsewhere = (
            TopicsElsewhere(OtherBrokers(self.calls, ownership, clock=clock))
            if isinstance(ownership, BundleOwnership)
            else None
        )
        self.catalog: Final = TopicCatalog(
            TopicHost(
                clock,
                self.tasks,
                config,
                self.limits,
                ledgers,
                owner.broker_id,
                self.activity,
                lambda: store.has_session,
            ),
            resources=resources,
            logs=TopicLogs(
                clock,
                ledgers,
                self.tree,
                cache,
                CursorPace(clock),
                TallyPace(clock),
            ),
            policies=policies,
            ownership=ownership,
            scalable=scalable,
            watchers=self.topic_lists,
            list_elsewhere=None if elsewhere is None else elsewhere.non_persistent,
        )
        if elsewhere is not None:
            elsewhere.offer(self.calls, self.catalog)
        self.bundles: Final = (
            BundleMover(ownership, resources.namespaces, self._close_bundle, clock=clock)
            if isinstance(ownership, BundleOwnership)
            else None
        )
        """Moves bundles between brokers that share their ledgers; None in other brokers."""
        self.upkeep: Final = Upkeep(config, clock, self.catalog, policies, resources.partitioned)
        self.scalable: Final = ScalableService(
            self.catalog,
            scalable,
            config=config,
            clock=clock,
            tasks=self.tasks,
            store=store,
            resources=resources,
            policies=policies,
            schemas=schemas,
            owner=owner,
            calls=self.calls,
            cluster=self.cluster,
            watchers=self.topic_lists,
            place=None if self.bundles is None else self.bundles.prepare,
        )
        self.catalog.listeners.append(self.scalable.reports)
        self.catalog.guards.append(self.scalable.guard)
        self.transactions: Final = TransactionService(
            self.catalog,
            self.calls,
            resources.partitioned,
            config=config,
            limits=self.limits,
            clock=clock,
            tasks=self.tasks,
            store=store,
            ledgers=ledgers,
            foreign=ForeignTransactions(store, ledgers, self.tree)
            if ledgers.is_apache_readable
            else None,
        )
        self.catalog.open_transactions = self.transactions.open_topic
        self.revocation: Final = Revocation(
            self.connections, self.authorization, resources, config, self.tasks, clock=clock
        )
        self.stored_configuration: Final = StoredConfiguration(
            config, store, self.tasks, clock=clock, catch_up=self.revocation.catch_up
        )
        policies.start(
            PolicyHost(
                clock=clock,
                resources=resources,
                schemas=schemas,
                topics=self.catalog,
                calls=self.calls,
                cluster=self.cluster,
                producer_name=self._name_prefix,
                namespaces_in_use=policies.in_force.namespaces_in_use,
            )
        )

    @property
    def broker_id(self) -> str:
        return self.owner.broker_id

    @property
    def closing(self) -> bool:
        return self.catalog.closing

    def next_producer_name(self) -> str:
        return f"{self._name_prefix}-{next(self._names)}"

    async def attach_topic(self, name: TopicName, *, may_create: bool = True) -> AnyTopic:
        """The topic a client attaches to: a segment, or a regular one."""
        if name.domain is TopicDomain.SEGMENT:
            return await self.scalable.attach_segment(name)
        return await self.catalog.attach_topic(name, may_create=may_create)

    async def _close_bundle(self, bundle: Bundle, address: BrokerAddress | None) -> None:
        """Controllers first: they would load the segments again."""
        await self.scalable.leave(bundle)
        await self.catalog.unload_bundle(bundle, address)

    async def close(self) -> None:
        """Tell every client to go elsewhere, make everything durable, end the connections."""
        self.catalog.closing = True
        for end in self._end_following:
            end()
        self.stored_configuration.close()
        self.revocation.close()
        await self.scalable.close()
        await self.catalog.close_topics()
        await self.transactions.close()
        for connection in self.connections:
            connection.close()
        await self.tasks.close()
        self.authentication.close()
        # Those that were still being loaded when the first round began.
        await self.catalog.close_topics()
        self.schemas.close()
