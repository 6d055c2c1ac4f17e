"""Ports of the administration: the few owners of a broker that a function needs.

A function with one need takes the owner itself (`registry.py`). Those that share several take a
port that names exactly these; `tests/tidy/test_layering.py` keeps ports small.
"""

from __future__ import annotations

from typing import Protocol

from magnetar.broker.activity import Activity
from magnetar.broker.authentication.authenticator import Authenticator
from magnetar.broker.connection import Connections
from magnetar.broker.handler.topic import TopicSource
from magnetar.broker.port import (
    HasAuthorization,
    HasBrokerId,
    HasBundles,
    HasCalls,
    HasCatalog,
    HasClock,
    HasCluster,
    HasConfiguration,
    HasLedgers,
    HasLimits,
    HasOwner,
    HasOwnership,
    HasPolicies,
    HasResources,
    HasScalable,
    HasSchemas,
    HasStart,
    HasTransactions,
    HasTree,
    HasWatchdog,
)


class TopicOwners(HasCatalog, HasResources, HasScalable, Protocol):
    """Of what finds a topic by its name: a regular one, a partitioned one, a scalable one."""


class VisibilityOwners(HasAuthorization, HasResources, Protocol):
    """Of what a caller may see."""


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


class NamespaceOwners(BoundaryOwners, HasCluster, HasLedgers, Protocol):
    """Of what a new namespace is checked against."""


class TopicSettings(TopicOwners, HasConfiguration, Protocol):
    """Of topics, and of what the configuration allows for them."""


class TopicTraces(TopicOwners, HasPolicies, HasSchemas, Protocol):
    """Of everything that is kept of a topic beside its log."""


class NamespaceContents(TopicTraces, HasConfiguration, HasBundles, HasTree, Protocol):
    """Of everything that goes with a namespace."""


class PolicyOwners(HasCluster, HasPolicies, HasResources, Protocol):
    """Of what says something about a policy."""


class PolicySettings(TopicSettings, PolicyOwners, Protocol):
    """Of the policies of topics and namespaces."""


class PropertyOwners(TopicOwners, HasLimits, Protocol):
    """Of topics, and of the limits of their properties."""


class LookupOwners(TopicOwners, HasOwnership, Protocol):
    """Of topics, and of the brokers that serve them."""


class ListOwners(TopicSettings, HasTree, Protocol):
    """Of the names of topics."""


class QueryOwners(TopicOwners, HasAuthorization, HasCalls, HasClock, HasTree, Protocol):
    """Of the topics that a query may read."""


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


class CoordinatorOwners(HasCalls, HasCatalog, HasClock, HasTransactions, Protocol):
    """Of the coordinators of transactions."""


class HealthOwners(HasBrokerId, HasCatalog, HasClock, Protocol):
    """Of what a broker checks of itself."""

    @property
    def closing(self) -> bool: ...


class LoadOwners(BundleMoves, HasClock, HasCluster, HasStart, Protocol):
    """Of what a broker reports of its load."""


class ProcessOwners(HasCatalog, HasClock, HasLedgers, HasScalable, HasStart, HasWatchdog, Protocol):
    """Of what a broker shows of its process."""

    @property
    def connections(self) -> Connections: ...


class ViewOwners(ProcessOwners, HasBrokerId, HasCalls, HasOwnership, Protocol):
    """Of what all brokers show."""


class SessionOwners(HasAuthorization, HasBrokerId, HasCluster, Protocol):
    """Of who asks, and of what answers."""

    @property
    def authentication(self) -> Authenticator: ...
