"""What is stored of clusters, tenants and partitioned topics, and grants that come many at once.

Field names and shapes are those of Pulsar's JSON.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from magnetar.model.permission import AuthAction
from magnetar.model.policy import Int32


class PartitionedTopicMetadata(Struct, frozen=True, kw_only=True):
    """0 partitions: not a partitioned topic."""

    partitions: Int32 = 0
    deleted: bool = False
    properties: dict[str, str] | None = None


class TenantInfo(Struct, frozen=True, kw_only=True):
    adminRoles: tuple[str, ...] = ()
    allowedClusters: tuple[str, ...] = ()


class ClusterData(Struct, frozen=True, kw_only=True):
    """Where a cluster is reached, and how brokers of other clusters authenticate to it."""

    serviceUrl: str | None = None
    serviceUrlTls: str | None = None
    brokerServiceUrl: str | None = None
    brokerServiceUrlTls: str | None = None
    proxyServiceUrl: str | None = None
    proxyProtocol: str | None = None
    authenticationPlugin: str | None = None
    authenticationParameters: str | None = None
    peerClusterNames: tuple[str, ...] | None = None
    brokerClientTlsEnabled: bool = False
    tlsAllowInsecureConnection: bool = False
    brokerClientTlsEnabledWithKeyStore: bool = False
    brokerClientTlsTrustStoreType: str | None = None
    brokerClientTlsTrustStore: str | None = None
    brokerClientTlsTrustStorePassword: str | None = None
    brokerClientTlsKeyStoreType: str | None = None
    brokerClientTlsKeyStore: str | None = None
    brokerClientTlsKeyStorePassword: str | None = None
    brokerClientTrustCertsFilePath: str | None = None
    brokerClientKeyFilePath: str | None = None
    brokerClientCertificateFilePath: str | None = None
    brokerClientSslFactoryPlugin: str | None = None
    brokerClientSslFactoryPluginParams: str | None = None
    listenerName: str | None = None


class TopicGrant(Struct, frozen=True, kw_only=True):
    """One of many grants that are asked for at once."""

    topic: str
    role: str
    actions: Sequence[AuthAction]


class TopicRevocation(Struct, frozen=True, kw_only=True):
    topic: str
    role: str
