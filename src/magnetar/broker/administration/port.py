"""Ports of the administration: the few owners of a broker that a function needs.

A function with one need takes the owner itself (`registry.py`). Those that share several take a
port that names exactly these; `tests/tidy/test_layering.py` keeps ports small.
"""

from __future__ import annotations

from typing import Protocol

from magnetar.broker.activity import Activity
from magnetar.broker.authorization import Authorization
from magnetar.broker.broker_call import BrokerCalls
from magnetar.broker.bundle_mover import BundleMover
from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.handler.topic import TopicSource
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


class Port(Protocol):
    """Some of the owners of a broker."""


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


class HasTree(Port, Protocol):
    @property
    def store(self) -> MetadataStore: ...
    @property
    def tree(self) -> TopicTree: ...


class TopicOwners(HasCatalog, HasResources, HasScalable, Protocol):
    """Of what finds a topic by its name: a regular one, a partitioned one, a scalable one."""


class SightOwners(HasResources, Protocol):
    """Of what a caller may see."""

    @property
    def authorization(self) -> Authorization: ...


class LogOwners(HasResources, HasTree, Protocol):
    """Of the stored records of logs."""


class BoundaryOwners(HasConfiguration, HasResources, Protocol):
    """Of the bundles that a namespace has."""


class BundleOwners(BoundaryOwners, HasCatalog, Protocol):
    """Of the topics that lie in a bundle."""


class BundleMoves(BundleOwners, HasBundles, HasBrokerId, HasOwner, HasOwnership, Protocol):
    """Of bundles that go from broker to broker."""


class IsolationOwners(BoundaryOwners, HasBundles, HasCluster, Protocol):
    """Of the brokers that bundles may lie at."""


class NamespaceOwners(BoundaryOwners, HasCluster, Protocol):
    """Of what a new namespace is checked against."""

    @property
    def ledgers(self) -> LedgerStore: ...


class TopicSettings(TopicOwners, HasConfiguration, Protocol):
    """Of topics, and of what the configuration allows for them."""


class TopicTraces(TopicOwners, HasPolicies, HasSchemas, Protocol):
    """Of everything that is kept of a topic beside its log."""


class NamespaceContents(TopicTraces, HasConfiguration, HasBundles, HasTree, Protocol):
    """Of everything that goes with a namespace."""


class PolicySettings(TopicSettings, HasCluster, HasPolicies, Protocol):
    """Of the policies of topics and namespaces."""


class PropertyOwners(TopicOwners, Protocol):
    """Of topics, and of the limits of their properties."""

    @property
    def limits(self) -> Limits: ...


class LookupOwners(TopicOwners, HasOwnership, Protocol):
    """Of topics, and of the brokers that serve them."""


class ListOwners(TopicSettings, HasTree, Protocol):
    """Of the names of topics."""


class QueryOwners(TopicOwners, HasCalls, HasClock, HasTree, Protocol):
    """Of the topics that a query may read."""

    @property
    def authorization(self) -> Authorization: ...


class PeerOwners(TopicOwners, HasCalls, HasClock, Protocol):
    """Of topics here and at other brokers."""


class MessageOwners(PeerOwners, HasSchemas, TopicSource, Protocol):
    """Of the messages of topics."""

    def next_producer_name(self) -> str: ...


class PartitionOwners(PeerOwners, HasBundles, Protocol):
    """Of partitions, each where it is served."""


class PartSources(HasCalls, HasCatalog, HasClock, HasOwnership, HasStart, HasTree, Protocol):
    """Of the parts of topics that queries read."""

    @property
    def activity(self) -> Activity: ...


class CoordinatorOwners(HasCalls, HasCatalog, HasClock, Protocol):
    """Of the coordinators of transactions."""

    @property
    def transactions(self) -> TransactionService: ...


class HealthOwners(HasBrokerId, HasCatalog, HasClock, Protocol):
    """Of what a broker checks of itself."""

    @property
    def closing(self) -> bool: ...


class LoadOwners(BundleMoves, HasClock, HasCluster, HasStart, Protocol):
    """Of what a broker reports of its load."""
