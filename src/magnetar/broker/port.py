"""Ports with one owner of a broker each: what needs several states a port made of these."""

from __future__ import annotations

from typing import Protocol

from magnetar.broker.authorization import Authorization
from magnetar.broker.broker_call import BrokerCalls
from magnetar.broker.bundle_mover import BundleMover
from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.ownership import Owner, Ownership
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.scalable.service import ScalableService
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.topic_tree import TopicTree
from magnetar.broker.transaction.service import TransactionService
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import MetadataStore
from magnetar.model.limit import Limits
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.watchdog import Watchdog


class Port(Protocol):
    """Some of the owners of a broker."""


class HasAuthorization(Port, Protocol):
    @property
    def authorization(self) -> Authorization: ...


class HasBrokerId(Port, Protocol):
    @property
    def broker_id(self) -> str: ...


class HasBundles(Port, Protocol):
    @property
    def bundles(self) -> BundleMover | None: ...


class HasCalls(Port, Protocol):
    @property
    def calls(self) -> BrokerCalls: ...


class HasCatalog(Port, Protocol):
    @property
    def catalog(self) -> TopicCatalog: ...


class HasClock(Port, Protocol):
    @property
    def clock(self) -> Clock: ...


class HasCluster(Port, Protocol):
    @property
    def cluster(self) -> str: ...


class HasConfiguration(Port, Protocol):
    @property
    def config(self) -> Configuration: ...


class HasLedgers(Port, Protocol):
    @property
    def ledgers(self) -> LedgerStore: ...


class HasLimits(Port, Protocol):
    @property
    def limits(self) -> Limits: ...


class HasOwner(Port, Protocol):
    @property
    def owner(self) -> Owner: ...


class HasOwnership(Port, Protocol):
    @property
    def ownership(self) -> Ownership: ...


class HasPolicies(Port, Protocol):
    @property
    def policies(self) -> PolicyService: ...


class HasResources(Port, Protocol):
    @property
    def resources(self) -> Resources: ...


class HasScalable(Port, Protocol):
    @property
    def scalable(self) -> ScalableService: ...


class HasSchemas(Port, Protocol):
    @property
    def schemas(self) -> SchemaRegistry: ...


class HasStart(Port, Protocol):
    @property
    def started_ms(self) -> int: ...


class HasTransactions(Port, Protocol):
    @property
    def transactions(self) -> TransactionService: ...


class HasTree(Port, Protocol):
    @property
    def store(self) -> MetadataStore: ...
    @property
    def tree(self) -> TopicTree: ...


class HasWatchdog(Port, Protocol):
    @property
    def watchdog(self) -> Watchdog: ...
