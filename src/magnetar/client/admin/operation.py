"""The calls of the admin REST API, written by tools/generate_operation.py from the operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from magnetar.client.admin.transport import (
    Document,
    Grants,
    Ids,
    Names,
    Transport,
    format_optional,
    format_path,
)
from magnetar.client.admin.value import (
    StoredEntry,
    Version,
    Versions,
    decode_entry,
    decode_id,
    decode_ids,
    decode_version,
    decode_versions,
    encode_id,
    format_bare,
    format_namespace,
    format_topic,
)
from magnetar.client.message_id import LATEST_ID, MessageId

if TYPE_CHECKING:
    from magnetar.model.answer.broker import (
        BookieNames,
        BrokersOverview,
        FailureDomain,
        LedgerFiles,
        LedgerRecords,
        LoadReport,
        MetricSums,
        OwnedBundle,
        ReadHold,
    )
    from magnetar.model.answer.log import (
        BacklogAnalysis,
        JobStatus,
        LogStats,
        PartitionedLogStats,
        StoredTopic,
    )
    from magnetar.model.answer.namespace import PolicyOrigin, TopicHashPositions
    from magnetar.model.answer.record import (
        AutoScaleAnswer,
        BookieAnswer,
        BundlesAnswer,
        ClusterAnswer,
        IsolatedBrokerAnswer,
        IsolationPolicyAnswer,
        NamespacePolicies,
        PartitionedMetadata,
        ReachedAnswer,
        ReadPlanAnswer,
        TenantAnswer,
    )
    from magnetar.model.answer.scalable import (
        GroupAnswer,
        MeasuredLoad,
        MigrationCheck,
        PastLayoutChange,
        ScalableExplanation,
        ScalableMetadata,
        ScalablePolicy,
        ScalableTopicStats,
        ScaleDecisionAnswer,
        SegmentAnswer,
        SegmentTopicStats,
    )
    from magnetar.model.answer.schema import SchemaAnswer, SchemaCompatibility, SchemaMetadata
    from magnetar.model.answer.topic import PartitionedTopicStats, TopicStats, TopicTable
    from magnetar.model.answer.transaction import (
        BufferLog,
        BufferStats,
        CoordinatorLog,
        CoordinatorOwner,
        PendingAckLog,
        PendingAckStats,
        PendingAckSums,
        PositionState,
        TransactionAnswer,
        WrittenStats,
    )


class AsyncClusterAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> Names:
        """Names of all clusters."""
        found: Names = await self._transport.get("admin/v2/clusters") or []
        return found

    async def get(self, cluster: str) -> ClusterAnswer:
        """One cluster's addresses."""
        found: ClusterAnswer = await self._transport.get(
            f"admin/v2/clusters/{format_path(cluster)}"
        )
        return found

    async def create(self, cluster: str, data: Mapping[str, Any]) -> None:
        """Make a cluster known."""
        await self._transport.put(f"admin/v2/clusters/{format_path(cluster)}", body=dict(data))

    async def update(self, cluster: str, data: Mapping[str, Any]) -> None:
        """Change a cluster's addresses."""
        await self._transport.post(f"admin/v2/clusters/{format_path(cluster)}", body=dict(data))

    async def delete(self, cluster: str) -> None:
        """Forget a cluster that no namespace uses."""
        await self._transport.delete(f"admin/v2/clusters/{format_path(cluster)}")

    async def peers(self, cluster: str) -> Names:
        """The cluster's peers, if they are set."""
        found: Names = (
            await self._transport.get(f"admin/v2/clusters/{format_path(cluster)}/peers") or []
        )
        return found

    async def set_peers(self, cluster: str, peers: Iterable[str]) -> None:
        """Set the cluster's peers."""
        await self._transport.post(
            f"admin/v2/clusters/{format_path(cluster)}/peers", body=list(peers)
        )

    async def isolation_policies(self, cluster: str) -> dict[str, IsolationPolicyAnswer]:
        """The isolation policies of a cluster, by name."""
        found: dict[str, IsolationPolicyAnswer] = (
            await self._transport.get(
                f"admin/v2/clusters/{format_path(cluster)}/namespaceIsolationPolicies"
            )
            or {}
        )
        return found

    async def isolated_brokers(self, cluster: str) -> Sequence[IsolatedBrokerAnswer]:
        """The brokers of a cluster, and what isolation policies keep for each."""
        found: Sequence[IsolatedBrokerAnswer] = (
            await self._transport.get(
                f"admin/v2/clusters/{format_path(cluster)}/namespaceIsolationPolicies/brokers"
            )
            or []
        )
        return found

    async def isolated_broker(self, cluster: str, broker: str) -> IsolatedBrokerAnswer:
        """What isolation policies keep for a broker."""
        found: IsolatedBrokerAnswer = await self._transport.get(
            f"admin/v2/clusters/{format_path(cluster)}/namespaceIsolationPolicies/brokers/{format_path(broker)}"
        )
        return found

    async def isolation_policy(self, cluster: str, policy: str) -> IsolationPolicyAnswer:
        """One isolation policy of a cluster."""
        found: IsolationPolicyAnswer = await self._transport.get(
            f"admin/v2/clusters/{format_path(cluster)}/namespaceIsolationPolicies/{format_path(policy)}"
        )
        return found

    async def set_isolation_policy(
        self, cluster: str, policy: str, data: Mapping[str, Any]
    ) -> None:
        """Keep brokers for namespaces, and place those anew that this concerns."""
        await self._transport.post(
            f"admin/v2/clusters/{format_path(cluster)}/namespaceIsolationPolicies/{format_path(policy)}",
            body=dict(data),
        )

    async def delete_isolation_policy(self, cluster: str, policy: str) -> None:
        """Remove an isolation policy."""
        await self._transport.delete(
            f"admin/v2/clusters/{format_path(cluster)}/namespaceIsolationPolicies/{format_path(policy)}"
        )

    async def failure_domains(self, cluster: str) -> dict[str, FailureDomain]:
        """All failure domains of a cluster, by name."""
        found: dict[str, FailureDomain] = (
            await self._transport.get(f"admin/v2/clusters/{format_path(cluster)}/failureDomains")
            or {}
        )
        return found

    async def failure_domain(self, cluster: str, domain: str) -> FailureDomain:
        """One failure domain of a cluster."""
        found: FailureDomain = await self._transport.get(
            f"admin/v2/clusters/{format_path(cluster)}/failureDomains/{format_path(domain)}"
        )
        return found

    async def set_failure_domain(
        self, cluster: str, domain: str, *, brokers: Iterable[str] | None = None
    ) -> None:
        """Make or change a failure domain."""
        await self._transport.post(
            f"admin/v2/clusters/{format_path(cluster)}/failureDomains/{format_path(domain)}",
            body={"brokers": list(brokers or ())},
        )

    async def delete_failure_domain(self, cluster: str, domain: str) -> None:
        """Remove a failure domain."""
        await self._transport.delete(
            f"admin/v2/clusters/{format_path(cluster)}/failureDomains/{format_path(domain)}"
        )


class AsyncBrokerAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, cluster: str | None = None) -> Names:
        """Addresses of the brokers that serve."""
        found: Names = (
            await self._transport.get(f"admin/v2/brokers{format_optional(cluster)}") or []
        )
        return found

    async def leader(self) -> dict[str, str]:
        """The broker that leads the cluster."""
        found: dict[str, str] = await self._transport.get("admin/v2/brokers/leaderBroker") or {}
        return found

    async def namespaces(self, cluster: str, broker: str) -> dict[str, OwnedBundle]:
        """The bundles a broker owns."""
        found: dict[str, OwnedBundle] = (
            await self._transport.get(
                f"admin/v2/brokers/{format_path(cluster)}/{format_path(broker)}/ownedNamespaces"
            )
            or {}
        )
        return found

    async def ledger_files(self) -> LedgerFiles:
        """The directory of the ledgers, for readers on the same machine."""
        found: LedgerFiles = await self._transport.get("admin/v2/brokers/ledger-files")
        return found

    async def ledger_records(self, query: Mapping[str, Any]) -> LedgerRecords:
        """The records of ledgers and bookies, for readers that reach the bookies themselves.

        They are answered in base64, by their paths in the metadata store.
        """
        found: LedgerRecords = await self._transport.post(
            "admin/v2/brokers/ledger-records", body=dict(query)
        )
        return found

    async def health(
        self, *, broker_id: str | None = None, topic_version: str | None = None
    ) -> str:
        """Let the broker publish and read a message on its heartbeat topic: `ok`, or a refusal."""
        return (
            (
                await self._transport.call(
                    "GET",
                    "admin/v2/brokers/health",
                    query={"brokerId": broker_id, "topicVersion": topic_version},
                )
            )
            .body.decode()
            .strip()
            .strip('"')
        )

    async def version(self) -> str:
        """The version this broker runs."""
        return (
            (await self._transport.call("GET", "admin/v2/brokers/version"))
            .body.decode()
            .strip()
            .strip('"')
        )

    async def is_ready(self) -> str:
        """Whether the broker serves, messages that come in too: `ok`, or a refusal."""
        return (
            (await self._transport.call("GET", "admin/v2/brokers/ready"))
            .body.decode()
            .strip()
            .strip('"')
        )

    async def dynamic_keys(self) -> Names:
        """Configuration keys that can change at run time."""
        found: Names = await self._transport.get("admin/v2/brokers/configuration") or []
        return found

    async def dynamic_values(self) -> dict[str, str]:
        """Configuration values that were changed at run time."""
        found: dict[str, str] = (
            await self._transport.get("admin/v2/brokers/configuration/values") or {}
        )
        return found

    async def set_dynamic(self, key: str, value: str) -> None:
        """Change a configuration value of all brokers."""
        await self._transport.post(
            f"admin/v2/brokers/configuration/{format_path(key)}/{format_path(value)}"
        )

    async def delete_dynamic(self, key: str) -> None:
        """Go back to the configured value."""
        await self._transport.delete(f"admin/v2/brokers/configuration/{format_path(key)}")

    async def runtime_configuration(self) -> dict[str, str]:
        """Every configuration value in force."""
        found: dict[str, str] = (
            await self._transport.get("admin/v2/brokers/configuration/runtime") or {}
        )
        return found

    async def internal_configuration(self) -> dict[str, str]:
        """Where metadata is kept."""
        found: dict[str, str] = (
            await self._transport.get("admin/v2/brokers/internal-configuration") or {}
        )
        return found

    async def check_backlog_quota(self) -> None:
        """Apply the backlog quotas now."""
        await self._transport.get("admin/v2/brokers/backlog-quota-check")

    async def shutdown(self, *, unloads_per_s_max: int = 0, forced: bool = True) -> None:
        """Stop the broker."""
        await self._transport.post(
            "admin/v2/brokers/shutdown",
            query={"maxConcurrentUnloadPerSec": unloads_per_s_max, "forcedTerminateTopic": forced},
        )

    async def topic_stats(self) -> Document:
        """Stats of all loaded topics, by namespace, bundle and domain."""
        found: Document = await self._transport.get("admin/v2/broker-stats/topics")
        return found

    async def metrics(self) -> Sequence[MetricSums]:
        """Sums over the topics of each namespace."""
        found: Sequence[MetricSums] = (
            await self._transport.get("admin/v2/broker-stats/metrics") or []
        )
        return found

    async def load_report(self) -> LoadReport:
        """What the broker carries."""
        found: LoadReport = await self._transport.get("admin/v2/broker-stats/load-report")
        return found

    async def overview(self) -> BrokersOverview:
        """The brokers at a glance: what topics carry, and what each process costs."""
        found: BrokersOverview = await self._transport.get("console/api/overview")
        return found


class AsyncBookieAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> BookieNames:
        """All bookies of the cluster, also those that are away."""
        found: BookieNames = await self._transport.get("admin/v2/bookies/all")
        return found

    async def racks(self) -> dict[str, dict[str, BookieAnswer]]:
        """The racks of all bookies, by group."""
        found: dict[str, dict[str, BookieAnswer]] = (
            await self._transport.get("admin/v2/bookies/racks-info") or {}
        )
        return found

    async def rack(self, bookie: str) -> BookieAnswer:
        """The rack of a bookie."""
        found: BookieAnswer = await self._transport.get(
            f"admin/v2/bookies/racks-info/{format_path(bookie)}"
        )
        return found

    async def set_rack(self, bookie: str, info: Mapping[str, Any], group: str) -> None:
        """Say on which rack a bookie stands: copies of an entry go to different racks."""
        await self._transport.post(
            f"admin/v2/bookies/racks-info/{format_path(bookie)}",
            body=dict(info),
            query={"group": group},
        )

    async def delete_rack(self, bookie: str) -> None:
        """Forget the rack of a bookie."""
        await self._transport.delete(f"admin/v2/bookies/racks-info/{format_path(bookie)}")


class TenantOperations:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> Names:
        """Names of all tenants, sorted."""
        found: Names = await self._transport.get("admin/v2/tenants") or []
        return found

    async def get(self, tenant: str) -> TenantAnswer:
        """A tenant's admin roles and clusters."""
        found: TenantAnswer = await self._transport.get(f"admin/v2/tenants/{format_path(tenant)}")
        return found

    async def delete(self, tenant: str, *, force: bool = False) -> None:
        """Delete a tenant without namespaces, or with them when forced."""
        await self._transport.delete(
            f"admin/v2/tenants/{format_path(tenant)}", query={"force": force}
        )


class NamespaceOperations:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, tenant: str) -> Names:
        """Namespaces of a tenant."""
        found: Names = await self._transport.get(f"admin/v2/namespaces/{format_path(tenant)}") or []
        return found

    async def grant_on_topics(self, grants: Iterable[Mapping[str, Any]]) -> None:
        """Let roles do things with topics, many at once; all of them exist or nothing changes.

        A grant has `topic`, `role` and `actions`.
        """
        await self._transport.post(
            "admin/v2/namespaces/grantPermissionsOnTopics", body=[dict(each) for each in grants]
        )

    async def revoke_on_topics(self, revocations: Iterable[Mapping[str, Any]]) -> None:
        """Take permissions on topics away from roles, many at once.

        A revocation has `topic` and `role`.
        """
        await self._transport.post(
            "admin/v2/namespaces/revokePermissionsOnTopics",
            body=[dict(each) for each in revocations],
        )

    async def topics(
        self,
        namespace: str,
        *,
        mode: str | None = None,
        include_system: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> Names:
        """Topics of a namespace: persistent ones, the others, or all; whole, by page or by line."""
        found: Names = (
            await self._transport.get(
                f"admin/v2/namespaces/{format_namespace(namespace)}/topics",
                query={
                    "mode": mode,
                    "includeSystemTopic": include_system,
                    "limit": limit,
                    "after": after,
                },
            )
            or []
        )
        return found

    async def get(self, namespace: str) -> NamespacePolicies:
        """All policies of a namespace."""
        found: NamespacePolicies = await self._transport.get(
            f"admin/v2/namespaces/{format_namespace(namespace)}"
        )
        return found

    async def topic_buckets(self, namespace: str) -> int:
        """In how many buckets the metadata of a namespace's topics is kept."""
        found: int = await self._transport.get(
            f"admin/v2/namespaces/{format_namespace(namespace)}/numberOfTopicBuckets"
        )
        return found

    async def rebucket(self, namespace: str, topic_buckets: int) -> None:
        """Refused unless it is the number the namespace was created with."""
        await self._transport.post(
            f"admin/v2/namespaces/{format_namespace(namespace)}/numberOfTopicBuckets",
            body=topic_buckets,
        )

    async def delete(self, namespace: str, *, force: bool = False) -> None:
        """Delete a namespace without topics, or with them when forced."""
        await self._transport.delete(
            f"admin/v2/namespaces/{format_namespace(namespace)}", query={"force": force}
        )

    async def permissions(self, namespace: str) -> Grants:
        """What roles may do in a namespace."""
        found: Grants = (
            await self._transport.get(
                f"admin/v2/namespaces/{format_namespace(namespace)}/permissions"
            )
            or {}
        )
        return found

    async def grant(self, namespace: str, role: str, actions: Iterable[str]) -> None:
        """Let a role do things in a namespace."""
        await self._transport.post(
            f"admin/v2/namespaces/{format_namespace(namespace)}/permissions/{format_path(role)}",
            body=list(actions),
        )

    async def revoke(self, namespace: str, role: str) -> None:
        """Take a role's permissions in a namespace away."""
        await self._transport.delete(
            f"admin/v2/namespaces/{format_namespace(namespace)}/permissions/{format_path(role)}"
        )

    async def subscription_permissions(self, namespace: str) -> Grants:
        """Which roles may use which subscriptions.

        A subscription that is not named may be used by everybody.
        """
        found: Grants = (
            await self._transport.get(
                f"admin/v2/namespaces/{format_namespace(namespace)}/permissions/subscription"
            )
            or {}
        )
        return found

    async def grant_subscription(
        self, namespace: str, subscription: str, roles: Iterable[str]
    ) -> None:
        """Let roles use a subscription."""
        await self._transport.post(
            f"admin/v2/namespaces/{format_namespace(namespace)}/permissions/subscription/{format_path(subscription)}",
            body=list(roles),
        )

    async def revoke_subscription(self, namespace: str, subscription: str, role: str) -> None:
        """Take a subscription away from a role."""
        await self._transport.delete(
            f"admin/v2/namespaces/{format_namespace(namespace)}/permissions/{format_path(subscription)}/{format_path(role)}"
        )

    async def bundles(self, namespace: str) -> BundlesAnswer:
        """The hash ranges of a namespace."""
        found: BundlesAnswer = await self._transport.get(
            f"admin/v2/namespaces/{format_namespace(namespace)}/bundles"
        )
        return found

    async def unload_bundle(
        self, namespace: str, bundle: str, *, destination: str | None = None
    ) -> None:
        """Close all topics of a bundle."""
        await self._transport.put(
            f"admin/v2/namespaces/{format_namespace(namespace)}/{format_path(bundle)}/unload",
            query={"destinationBroker": destination},
        )

    async def split_bundle(
        self,
        namespace: str,
        bundle: str,
        *,
        unload: bool = False,
        algorithm: str | None = None,
        positions: Iterable[str] | None = None,
    ) -> None:
        """Cut a bundle in two, or at several hashes."""
        await self._transport.put(
            f"admin/v2/namespaces/{format_namespace(namespace)}/{format_path(bundle)}/split",
            body=list(positions or ()),
            query={"unload": unload, "splitAlgorithmName": algorithm},
        )

    async def topic_hash_positions(
        self, namespace: str, bundle: str, *, topics: Iterable[str] | None = None
    ) -> TopicHashPositions:
        """The hashes of the topics of a bundle, or of those that are named: where it can be cut."""
        found: TopicHashPositions = await self._transport.get(
            f"admin/v2/namespaces/{format_namespace(namespace)}/{format_path(bundle)}/topicHashPositions",
            query={"topics": list(topics or ())},
        )
        return found

    async def delete_bundle(self, namespace: str, bundle: str, *, force: bool = False) -> None:
        """Delete the topics of a bundle; refused while there are any unless forced."""
        await self._transport.delete(
            f"admin/v2/namespaces/{format_namespace(namespace)}/{format_path(bundle)}",
            query={"force": force},
        )

    async def clear_backlog(
        self, namespace: str, subscription: str | None = None, bundle: str | None = None
    ) -> None:
        """Acknowledge everything in all subscriptions or one, of a namespace or a bundle."""
        await self._transport.post(
            f"admin/v2/namespaces/{format_namespace(namespace)}{format_optional(bundle)}/clearBacklog{format_optional(subscription)}"
        )

    async def unsubscribe(
        self, namespace: str, subscription: str, bundle: str | None = None
    ) -> None:
        """Delete a subscription from every topic of a namespace or a bundle."""
        await self._transport.post(
            f"admin/v2/namespaces/{format_namespace(namespace)}{format_optional(bundle)}/unsubscribe/{format_path(subscription)}"
        )

    async def properties(self, namespace: str) -> dict[str, str]:
        """The namespace's properties."""
        found: dict[str, str] = (
            await self._transport.get(
                f"admin/v2/namespaces/{format_namespace(namespace)}/properties"
            )
            or {}
        )
        return found

    async def set_properties(self, namespace: str, properties: Mapping[str, str]) -> None:
        """Add properties, or replace those of the same name."""
        await self._transport.put(
            f"admin/v2/namespaces/{format_namespace(namespace)}/properties", body=dict(properties)
        )

    async def clear_properties(self, namespace: str) -> None:
        """Remove all properties."""
        await self._transport.delete(
            f"admin/v2/namespaces/{format_namespace(namespace)}/properties"
        )

    async def property(self, namespace: str, key: str) -> str | None:
        """One property."""
        return (
            await self._transport.call(
                "GET",
                f"admin/v2/namespaces/{format_namespace(namespace)}/property/{format_path(key)}",
            )
        ).body.decode().strip('"') or None

    async def set_property(self, namespace: str, key: str, value: str) -> None:
        """Set one property."""
        await self._transport.put(
            f"admin/v2/namespaces/{format_namespace(namespace)}/property/{format_path(key)}/{format_path(value)}"
        )

    async def remove_property(self, namespace: str, key: str) -> str | None:
        """Remove one property; the answer is what it was."""
        return (
            await self._transport.call(
                "DELETE",
                f"admin/v2/namespaces/{format_namespace(namespace)}/property/{format_path(key)}",
            )
        ).body.decode().strip('"') or None

    async def bookie_affinity(self, namespace: str) -> Document | None:
        """The groups of storage nodes the namespace prefers."""
        found: Document | None = await self._transport.get(
            f"admin/v2/namespaces/{format_namespace(namespace)}/persistence/bookieAffinity"
        )
        return found

    async def set_bookie_affinity(self, namespace: str, group: Mapping[str, str]) -> None:
        """Set the groups of storage nodes the namespace prefers."""
        await self._transport.post(
            f"admin/v2/namespaces/{format_namespace(namespace)}/persistence/bookieAffinity",
            body=dict(group),
        )

    async def remove_bookie_affinity(self, namespace: str) -> None:
        """Prefer no storage nodes."""
        await self._transport.delete(
            f"admin/v2/namespaces/{format_namespace(namespace)}/persistence/bookieAffinity"
        )

    async def anti_affinity(self, namespace: str) -> str | None:
        """The group of namespaces that are kept apart."""
        return (
            await self._transport.call(
                "GET", f"admin/v2/namespaces/{format_namespace(namespace)}/antiAffinity"
            )
        ).body.decode().strip('"') or None

    async def set_anti_affinity(self, namespace: str, group: str) -> None:
        """Put the namespace into a group of namespaces that are kept apart."""
        await self._transport.post(
            f"admin/v2/namespaces/{format_namespace(namespace)}/antiAffinity", body=group
        )

    async def remove_anti_affinity(self, namespace: str) -> None:
        """Take the namespace out of its group."""
        await self._transport.delete(
            f"admin/v2/namespaces/{format_namespace(namespace)}/antiAffinity"
        )


class TopicOperations:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def count(self, namespace: str) -> dict[str, int]:
        """How many topics a namespace has, by domain; partitions and system topics count too."""
        found: dict[str, int] = await self._transport.get(
            f"admin/v2/namespaces/{format_namespace(namespace)}/topics/count"
        )
        return found

    async def create(self, topic: str, *, properties: Mapping[str, str] | None = None) -> None:
        """Create a topic without partitions."""
        await self._transport.put(f"admin/v2/{format_topic(topic)}", body=dict(properties or {}))

    async def delete(self, topic: str, *, force: bool = False) -> None:
        """Delete a topic without partitions, or one partition."""
        await self._transport.delete(
            f"admin/v2/{format_topic(topic)}", query={"force": force, "deleteSchema": True}
        )

    async def create_missed_partitions(self, topic: str) -> None:
        """Create the partitions that do not exist yet."""
        await self._transport.post(f"admin/v2/{format_topic(topic)}/createMissedPartitions")

    async def update_partitioned(
        self, topic: str, partitions: int, *, local_only: bool = False, force: bool = False
    ) -> None:
        """Add partitions up to a new number."""
        await self._transport.post(
            f"admin/v2/{format_topic(topic)}/partitions",
            body=partitions,
            query={"updateLocalTopicOnly": local_only, "force": force},
        )

    async def partitioned_metadata(
        self, topic: str, *, may_create: bool = False
    ) -> PartitionedMetadata:
        """How many partitions a topic has; 0 for one without."""
        found: PartitionedMetadata = await self._transport.get(
            f"admin/v2/{format_topic(topic)}/partitions",
            query={"checkAllowAutoCreation": may_create},
        )
        return found

    async def delete_partitioned(self, topic: str, *, force: bool = False) -> None:
        """Delete a topic with all its partitions."""
        await self._transport.delete(
            f"admin/v2/{format_topic(topic)}/partitions",
            query={"force": force, "deleteSchema": True},
        )

    async def properties(self, topic: str) -> dict[str, str]:
        """A topic's properties."""
        found: dict[str, str] = (
            await self._transport.get(f"admin/v2/{format_topic(topic)}/properties") or {}
        )
        return found

    async def update_properties(self, topic: str, properties: Mapping[str, str]) -> None:
        """Add properties, or replace those of the same name."""
        await self._transport.put(
            f"admin/v2/{format_topic(topic)}/properties", body=dict(properties)
        )

    async def remove_property(self, topic: str, key: str) -> None:
        """Remove one property."""
        await self._transport.delete(
            f"admin/v2/{format_topic(topic)}/properties", query={"key": key}
        )

    async def stats(
        self,
        topic: str,
        *,
        precise_backlog: bool = False,
        backlog_size: bool = True,
        earliest_time: bool = False,
        exclude_publishers: bool = False,
        exclude_consumers: bool = False,
    ) -> TopicStats:
        """Stats of a topic without partitions, or of one partition."""
        found: TopicStats = await self._transport.get(
            f"admin/v2/{format_topic(topic)}/stats",
            query={
                "getPreciseBacklog": precise_backlog,
                "subscriptionBacklogSize": backlog_size,
                "getEarliestTimeInBacklog": earliest_time,
                "excludePublishers": exclude_publishers,
                "excludeConsumers": exclude_consumers,
            },
        )
        return found

    async def partitioned_stats(
        self,
        topic: str,
        *,
        per_partition: bool = False,
        precise_backlog: bool = False,
        backlog_size: bool = True,
        earliest_time: bool = False,
        exclude_publishers: bool = False,
        exclude_consumers: bool = False,
    ) -> PartitionedTopicStats:
        """Stats over all partitions."""
        found: PartitionedTopicStats = await self._transport.get(
            f"admin/v2/{format_topic(topic)}/partitioned-stats",
            query={
                "perPartition": per_partition,
                "getPreciseBacklog": precise_backlog,
                "subscriptionBacklogSize": backlog_size,
                "getEarliestTimeInBacklog": earliest_time,
                "excludePublishers": exclude_publishers,
                "excludeConsumers": exclude_consumers,
            },
        )
        return found

    async def internal_stats(self, topic: str, *, metadata: bool = False) -> LogStats:
        """The log behind a topic: ledgers and cursors."""
        found: LogStats = await self._transport.get(
            f"admin/v2/{format_topic(topic)}/internalStats", query={"metadata": metadata}
        )
        return found

    async def partitioned_internal_stats(self, topic: str) -> PartitionedLogStats:
        """The logs behind all partitions."""
        found: PartitionedLogStats = await self._transport.get(
            f"admin/v2/{format_topic(topic)}/partitioned-internalStats"
        )
        return found

    async def internal_info(self, topic: str) -> StoredTopic:
        """What the metadata store keeps of a topic's log."""
        found: StoredTopic = await self._transport.get(
            f"admin/v2/{format_topic(topic)}/internal-info"
        )
        return found

    async def table(
        self,
        *,
        text: str | None = None,
        namespace: str | None = None,
        sort: str | None = None,
        descending: bool = False,
        limit: int | None = None,
    ) -> TopicTable:
        """Some of the topics as rows with numbers, in the order of one of them."""
        found: TopicTable = await self._transport.get(
            "console/api/topics",
            query={
                "text": text,
                "namespace": namespace,
                "sort": sort,
                "descending": descending,
                "limit": limit,
            },
        )
        return found

    async def policy_origins(self, topic: str) -> Sequence[PolicyOrigin]:
        """Every policy of a topic, with the level that its value comes from."""
        found: Sequence[PolicyOrigin] = (
            await self._transport.get(f"console/api/{format_topic(topic)}/policies") or []
        )
        return found

    async def lookup(
        self, topic: str, *, authoritative: bool = False, listener_name: str | None = None
    ) -> dict[str, str]:
        """The addresses of the broker that serves a topic."""
        found: dict[str, str] = (
            await self._transport.get(
                f"lookup/v2/topic/{format_topic(topic)}",
                query={"authoritative": authoritative, "listenerName": listener_name},
            )
            or {}
        )
        return found

    async def bundle_range(self, topic: str) -> str:
        """The hash range of its namespace that holds a topic."""
        return (
            (await self._transport.call("GET", f"lookup/v2/topic/{format_topic(topic)}/bundle"))
            .body.decode()
            .strip()
            .strip('"')
        )

    async def unload(self, topic: str) -> None:
        """Close a topic, so that its clients connect again."""
        await self._transport.put(f"admin/v2/{format_topic(topic)}/unload")

    async def permissions(self, topic: str) -> Grants:
        """What roles may do with a topic."""
        found: Grants = (
            await self._transport.get(f"admin/v2/{format_topic(topic)}/permissions") or {}
        )
        return found

    async def grant(self, topic: str, role: str, actions: Iterable[str]) -> None:
        """Let a role do things with a topic."""
        await self._transport.post(
            f"admin/v2/{format_topic(topic)}/permissions/{format_path(role)}", body=list(actions)
        )

    async def revoke(self, topic: str, role: str) -> None:
        """Take a role's permissions on a topic away."""
        await self._transport.delete(
            f"admin/v2/{format_topic(topic)}/permissions/{format_path(role)}"
        )

    async def last_message_id(self, topic: str) -> MessageId:
        """The id of the last message."""
        return decode_id(await self._transport.get(f"admin/v2/{format_topic(topic)}/lastMessageId"))

    async def message_id_at(self, topic: str, timestamp_ms: int) -> MessageId:
        """The id of the first message published at or after a time."""
        return decode_id(
            await self._transport.get(
                f"admin/v2/{format_topic(topic)}/messageid/{format_path(timestamp_ms)}"
            )
        )

    async def message_id_by_index(self, topic: str, index: int) -> MessageId:
        """The id of a message by its index, where brokers count messages."""
        return decode_id(
            await self._transport.get(
                f"admin/v2/{format_topic(topic)}/getMessageIdByIndex", query={"index": index}
            )
        )

    async def read_entry(self, topic: str, ledger_id: int, entry_id: int) -> StoredEntry:
        """One entry."""
        return decode_entry(
            await self._transport.call(
                "GET",
                f"admin/v2/{format_topic(topic)}/ledger/{format_path(ledger_id)}/entry/{format_path(entry_id)}",
            )
        )

    async def examine(
        self, topic: str, *, initial_position: str = "latest", message_position: int = 1
    ) -> StoredEntry:
        """The nth entry from the start or the end."""
        return decode_entry(
            await self._transport.call(
                "GET",
                f"admin/v2/{format_topic(topic)}/examinemessage",
                query={"initialPosition": initial_position, "messagePosition": message_position},
            )
        )

    async def backlog_size(self, topic: str, position: MessageId) -> int:
        """How many bytes were published after a message id."""
        found: int = await self._transport.put(
            f"admin/v2/{format_topic(topic)}/backlogSize", body=encode_id(position)
        )
        return found

    async def terminate(self, topic: str) -> MessageId:
        """Let nothing more be published; the answer is the last message id."""
        return decode_id(await self._transport.post(f"admin/v2/{format_topic(topic)}/terminate"))

    async def terminate_partitioned(self, topic: str) -> dict[int, MessageId]:
        """Let nothing more be published to any partition."""
        return decode_ids(
            await self._transport.post(f"admin/v2/{format_topic(topic)}/terminate/partitions")
        )

    async def compact(self, topic: str) -> None:
        """Start to compact a topic."""
        await self._transport.put(f"admin/v2/{format_topic(topic)}/compaction")

    async def compaction_status(self, topic: str) -> JobStatus:
        """How the last compaction went."""
        found: JobStatus = await self._transport.get(f"admin/v2/{format_topic(topic)}/compaction")
        return found

    async def offload(self, topic: str, until: MessageId) -> None:
        """Move old data to long-term storage; there is none yet."""
        await self._transport.put(f"admin/v2/{format_topic(topic)}/offload", body=encode_id(until))

    async def offload_status(self, topic: str) -> JobStatus:
        """How the last offload went."""
        found: JobStatus = await self._transport.get(f"admin/v2/{format_topic(topic)}/offload")
        return found

    async def trim(self, topic: str) -> None:
        """Remove what nobody needs any more."""
        await self._transport.post(f"admin/v2/{format_topic(topic)}/trim")

    async def truncate(self, topic: str) -> None:
        """Acknowledge and remove everything."""
        await self._transport.delete(f"admin/v2/{format_topic(topic)}/truncate")


class AsyncSubscriptionAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, topic: str) -> Names:
        """Names of a topic's subscriptions; of all partitions together."""
        found: Names = (
            await self._transport.get(f"admin/v2/{format_topic(topic)}/subscriptions") or []
        )
        return found

    async def create(
        self,
        topic: str,
        subscription: str,
        *,
        position: MessageId | None = None,
        replicated: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create a subscription at a position, at the end unless told."""
        await self._transport.put(
            f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}",
            body={**encode_id(position or LATEST_ID), "properties": dict(properties or {})},
            query={"replicated": replicated},
        )

    async def delete(self, topic: str, subscription: str, *, force: bool = False) -> None:
        """Delete a subscription without consumers, or with them when forced."""
        await self._transport.delete(
            f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}",
            query={"force": force},
        )

    async def reset_to_time(self, topic: str, subscription: str, timestamp_ms: int) -> None:
        """Move a subscription to what was published at or after a time."""
        await self._transport.post(
            f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}/resetcursor/{format_path(timestamp_ms)}"
        )

    async def reset_to_id(
        self, topic: str, subscription: str, position: MessageId, *, excluded: bool = False
    ) -> None:
        """Move a subscription to a message id.

        With `excluded` it is moved behind the message.
        """
        await self._transport.post(
            f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}/resetcursor",
            body={**encode_id(position), "excluded": excluded},
        )

    async def skip(self, topic: str, subscription: str, count: int) -> None:
        """Acknowledge the next entries of the backlog."""
        await self._transport.post(
            f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}/skip/{format_path(count)}"
        )

    async def skip_all(self, topic: str, subscription: str) -> None:
        """Acknowledge the whole backlog."""
        await self._transport.post(
            f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}/skip_all"
        )

    async def expire(self, topic: str, subscription: str, seconds: int) -> None:
        """Acknowledge what is older than some seconds."""
        await self._transport.post(
            f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}/expireMessages/{format_path(seconds)}"
        )

    async def expire_to(
        self, topic: str, subscription: str, position: MessageId, *, excluded: bool = False
    ) -> None:
        """Acknowledge everything up to a message id.

        With `excluded` the message itself stays.
        """
        await self._transport.post(
            f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}/expireMessages",
            body={**encode_id(position), "excluded": excluded},
        )

    async def expire_all(self, topic: str, seconds: int) -> None:
        """Acknowledge what is older than some seconds, in every subscription."""
        await self._transport.post(
            f"admin/v2/{format_topic(topic)}/all_subscription/expireMessages/{format_path(seconds)}"
        )

    async def peek(self, topic: str, subscription: str, place: int) -> StoredEntry:
        """The entry `place` entries ahead, from 1; nothing is acknowledged."""
        return decode_entry(
            await self._transport.call(
                "GET",
                f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}/position/{format_path(place)}",
            )
        )

    async def properties(self, topic: str, subscription: str) -> dict[str, str]:
        """A subscription's properties."""
        found: dict[str, str] = (
            await self._transport.get(
                f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}/properties"
            )
            or {}
        )
        return found

    async def set_properties(
        self, topic: str, subscription: str, properties: Mapping[str, str]
    ) -> None:
        """Replace a subscription's properties."""
        await self._transport.put(
            f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}/properties",
            body=dict(properties),
        )

    async def analyze_backlog(self, topic: str, subscription: str) -> BacklogAnalysis:
        """Count a subscription's backlog entry by entry."""
        found: BacklogAnalysis = await self._transport.post(
            f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}/analyzeBacklog"
        )
        return found

    async def replicated_status(self, topic: str, subscription: str) -> dict[str, bool]:
        """Whether a subscription's state follows the messages to other clusters."""
        found: dict[str, bool] = await self._transport.get(
            f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}/replicatedSubscriptionStatus"
        )
        return found

    async def set_replicated_status(self, topic: str, subscription: str, enabled: bool) -> None:
        """Replicate a subscription, or stop it."""
        await self._transport.post(
            f"admin/v2/{format_topic(topic)}/subscription/{format_path(subscription)}/replicatedSubscriptionStatus",
            body=enabled,
        )


class AsyncSchemaAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, topic: str, version: int | None = None) -> SchemaAnswer:
        """The topic's latest schema, or one of its versions."""
        found: SchemaAnswer = await self._transport.get(
            f"admin/v2/schemas/{format_bare(topic)}/schema{format_optional(version)}"
        )
        return found

    async def get_all(self, topic: str) -> Versions:
        """All versions of the topic's schema."""
        return decode_versions(
            await self._transport.get(f"admin/v2/schemas/{format_bare(topic)}/schemas")
        )

    async def upload(
        self, topic: str, type: str, definition: str, *, properties: Mapping[str, str] | None = None
    ) -> Version:
        """Add a schema if it is compatible."""
        return decode_version(
            await self._transport.post(
                f"admin/v2/schemas/{format_bare(topic)}/schema",
                body={"type": type, "schema": definition, "properties": dict(properties or {})},
            )
        )

    async def delete(self, topic: str, *, force: bool = False) -> Version:
        """Mark the topic's schema as deleted, or remove it when forced."""
        return decode_version(
            await self._transport.delete(
                f"admin/v2/schemas/{format_bare(topic)}/schema", query={"force": force}
            )
        )

    async def check(
        self, topic: str, type: str, definition: str, *, properties: Mapping[str, str] | None = None
    ) -> SchemaCompatibility:
        """Whether a schema could be added."""
        found: SchemaCompatibility = await self._transport.post(
            f"admin/v2/schemas/{format_bare(topic)}/compatibility",
            body={"type": type, "schema": definition, "properties": dict(properties or {})},
        )
        return found

    async def find_version(
        self, topic: str, type: str, definition: str, *, properties: Mapping[str, str] | None = None
    ) -> Version:
        """The version a schema is stored under, or -1."""
        return decode_version(
            await self._transport.post(
                f"admin/v2/schemas/{format_bare(topic)}/version",
                body={"type": type, "schema": definition, "properties": dict(properties or {})},
            )
        )

    async def metadata(self, topic: str) -> SchemaMetadata:
        """Where the versions of the topic's schema are stored."""
        found: SchemaMetadata = await self._transport.get(
            f"admin/v2/schemas/{format_bare(topic)}/metadata"
        )
        return found


class AsyncScalableTopicAdmin:
    """A topic may be named in any domain: `topic://t/n/x`, `persistent://t/n/x` or `t/n/x`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, namespace: str, *, properties: Mapping[str, str] | None = None) -> Names:
        """Scalable topics of a namespace, or those that have all the given properties."""
        found: Names = (
            await self._transport.get(
                f"admin/v2/scalable/{format_namespace(namespace)}",
                query={"property": [f"{key}={value}" for key, value in (properties or {}).items()]},
            )
            or []
        )
        return found

    async def create(
        self, topic: str, *, segments: int = 1, properties: Mapping[str, str] | None = None
    ) -> None:
        """Make a scalable topic of some segments, with properties."""
        await self._transport.put(
            f"admin/v2/scalable/{format_bare(topic)}",
            body=dict(properties or {}),
            query={"numInitialSegments": segments},
        )

    async def metadata(self, topic: str) -> ScalableMetadata:
        """The stored record: layout, properties, policy, the change under way and the past ones."""
        found: ScalableMetadata = await self._transport.get(
            f"admin/v2/scalable/{format_bare(topic)}"
        )
        return found

    async def stats(self, topic: str) -> ScalableTopicStats:
        """What the topic does: segments with rates, subscriptions with backlog and consumers."""
        found: ScalableTopicStats = await self._transport.get(
            f"admin/v2/scalable/{format_bare(topic)}/stats"
        )
        return found

    async def segments(self, topic: str) -> dict[str, SegmentAnswer]:
        """Every segment with its rates and the backlog of each subscription, by id."""
        found: dict[str, SegmentAnswer] = (
            await self._transport.get(f"admin/v2/scalable/{format_bare(topic)}/segments") or {}
        )
        return found

    async def segment_stats(self, topic: str, segment: int) -> SegmentTopicStats:
        """One segment, with all that a regular topic's stats tell."""
        found: SegmentTopicStats = await self._transport.get(
            f"admin/v2/scalable/{format_bare(topic)}/segments/{format_path(segment)}"
        )
        return found

    async def segment_internal_stats(self, topic: str, segment: int) -> LogStats:
        """The log behind one segment: ledgers and cursors."""
        found: LogStats = await self._transport.get(
            f"admin/v2/scalable/{format_bare(topic)}/segments/{format_path(segment)}/internalStats"
        )
        return found

    async def last_sequence_id(self, topic: str, segment: int, producer: str) -> int:
        """The highest sequence id that a segment, sealed or not, has of a producer; -1 for none."""
        found: int = await self._transport.get(
            f"admin/v2/scalable/{format_bare(topic)}/segments/{format_path(segment)}/lastSequenceId",
            query={"producer": producer},
        )
        return found

    async def last_sequence_ids(
        self, topic: str, producer: str, *, segments: Iterable[str] | None = None
    ) -> dict[str, int]:
        """The highest sequence id that each segment, sealed or not, has of a scalable producer.

        Such a producer is named `{producer}-seg-{segment}` on a segment. With `segments`, only
        those are asked.
        """
        found: dict[str, int] = await self._transport.get(
            f"admin/v2/scalable/{format_bare(topic)}/lastSequenceIds",
            query={"producer": producer, "segments": list(segments or ())},
        )
        return found

    async def load(self, topic: str) -> dict[str, MeasuredLoad]:
        """What each active segment carries."""
        found: dict[str, MeasuredLoad] = (
            await self._transport.get(f"admin/v2/scalable/{format_bare(topic)}/load") or {}
        )
        return found

    async def history(self, topic: str) -> Sequence[PastLayoutChange]:
        """The latest changes of the layout, oldest first."""
        found: Sequence[PastLayoutChange] = (
            await self._transport.get(f"admin/v2/scalable/{format_bare(topic)}/history") or []
        )
        return found

    async def explain(self, topic: str) -> ScalableExplanation:
        """Why the topic splits, merges or stays; for each subscription, what waits for what."""
        found: ScalableExplanation = await self._transport.get(
            f"admin/v2/scalable/{format_bare(topic)}/explain"
        )
        return found

    async def decisions(self, topic: str) -> Sequence[ScaleDecisionAnswer]:
        """What the topic decided about scaling itself, lately; oldest first."""
        found: Sequence[ScaleDecisionAnswer] = (
            await self._transport.get(f"admin/v2/scalable/{format_bare(topic)}/decisions") or []
        )
        return found

    async def delete(self, topic: str, *, force: bool = False) -> None:
        """Delete a topic with all its segments; one that is in use only when forced."""
        await self._transport.delete(
            f"admin/v2/scalable/{format_bare(topic)}", query={"force": force}
        )

    async def split(self, topic: str, segment: int, *, at: int | None = None) -> None:
        """Split a segment in its middle, or so that `at` is the first hash of the upper half."""
        await self._transport.post(
            f"admin/v2/scalable/{format_bare(topic)}/split/{format_path(segment)}", query={"at": at}
        )

    async def merge(self, topic: str, left: int, right: int) -> None:
        """Merge two neighbours, in either order."""
        await self._transport.post(
            f"admin/v2/scalable/{format_bare(topic)}/merge/{format_path(left)}/{format_path(right)}"
        )

    async def scale(self, topic: str, segments: int, *, hold_until_ms: int | None = None) -> None:
        """Split or merge until there are so many active segments, and no fewer till some time."""
        await self._transport.post(
            f"admin/v2/scalable/{format_bare(topic)}/scale",
            query={"segments": segments, "holdUntil": hold_until_ms},
        )

    async def prune(self, topic: str) -> Ids:
        """Remove sealed segments that are drained and no longer retained; their ids."""
        found: Ids = await self._transport.post(f"admin/v2/scalable/{format_bare(topic)}/prune")
        return found

    async def properties(self, topic: str) -> dict[str, str]:
        """The topic's properties."""
        found: dict[str, str] = (
            await self._transport.get(f"admin/v2/scalable/{format_bare(topic)}/properties") or {}
        )
        return found

    async def set_properties(self, topic: str, properties: Mapping[str, str]) -> None:
        """Replace the topic's properties: what is not named goes."""
        await self._transport.put(
            f"admin/v2/scalable/{format_bare(topic)}/properties", body=dict(properties)
        )

    async def policy(self, topic: str) -> ScalablePolicy:
        """What is in force for the topic, and where each value of its scaling was set."""
        found: ScalablePolicy = await self._transport.get(
            f"admin/v2/scalable/{format_bare(topic)}/policy"
        )
        return found

    async def auto_scale_policy(self, topic: str) -> AutoScaleAnswer | None:
        """What the topic sets about scaling itself; None when nothing."""
        found: AutoScaleAnswer | None = await self._transport.get(
            f"admin/v2/scalable/{format_bare(topic)}/autoScalePolicy"
        )
        return found

    async def set_auto_scale_policy(self, topic: str, override: Mapping[str, Any]) -> None:
        """Replace what the topic sets about scaling itself."""
        await self._transport.post(
            f"admin/v2/scalable/{format_bare(topic)}/autoScalePolicy", body=dict(override)
        )

    async def remove_auto_scale_policy(self, topic: str) -> None:
        """Let the topic scale itself as its namespace says."""
        await self._transport.delete(f"admin/v2/scalable/{format_bare(topic)}/autoScalePolicy")

    async def subscriptions(self, topic: str) -> dict[str, GroupAnswer]:
        """Subscriptions with kind and backlog, by name."""
        found: dict[str, GroupAnswer] = (
            await self._transport.get(f"admin/v2/scalable/{format_bare(topic)}/subscriptions") or {}
        )
        return found

    async def subscription(self, topic: str, subscription: str) -> GroupAnswer:
        """One subscription: kind, backlog of each segment, what its consumers read and wait for."""
        found: GroupAnswer = await self._transport.get(
            f"admin/v2/scalable/{format_bare(topic)}/subscriptions/{format_path(subscription)}"
        )
        return found

    async def create_subscription(
        self, topic: str, subscription: str, *, kind: str = "STREAM"
    ) -> None:
        """Make a subscription that gets all messages from now on; one that exists stays as it is.

        `kind` is STREAM or QUEUE.
        """
        await self._transport.put(
            f"admin/v2/scalable/{format_bare(topic)}/subscriptions/{format_path(subscription)}",
            query={"type": kind},
        )

    async def delete_subscription(
        self, topic: str, subscription: str, *, force: bool = False
    ) -> None:
        """Delete a subscription from every segment; one with consumers only when forced."""
        await self._transport.delete(
            f"admin/v2/scalable/{format_bare(topic)}/subscriptions/{format_path(subscription)}",
            query={"force": force},
        )

    async def seek(self, topic: str, subscription: str, timestamp_ms: int) -> None:
        """Move a subscription to what was published at or after a time."""
        await self._transport.post(
            f"admin/v2/scalable/{format_bare(topic)}/subscriptions/{format_path(subscription)}/seek",
            query={"timestamp": timestamp_ms},
        )

    async def clear_backlog(self, topic: str, subscription: str) -> None:
        """Acknowledge everything in every segment."""
        await self._transport.post(
            f"admin/v2/scalable/{format_bare(topic)}/subscriptions/{format_path(subscription)}/skip-all"
        )

    async def expire(self, topic: str, subscription: str, seconds: int) -> None:
        """Acknowledge what is older than some seconds, in every segment."""
        await self._transport.post(
            f"admin/v2/scalable/{format_bare(topic)}/subscriptions/{format_path(subscription)}/expireMessages/{format_path(seconds)}"
        )

    async def peek(self, topic: str, segment: int, subscription: str, place: int) -> StoredEntry:
        """The nth unacknowledged entry of one segment, counted from 1; nothing is acknowledged."""
        return decode_entry(
            await self._transport.call(
                "GET",
                f"admin/v2/scalable/{format_bare(topic)}/segments/{format_path(segment)}/subscriptions/{format_path(subscription)}/position/{format_path(place)}",
            )
        )

    async def analyze_backlog(
        self, topic: str, segment: int, subscription: str, *, entries_max: int | None = None
    ) -> BacklogAnalysis:
        """Count the entries and messages that a subscription has not acknowledged of one segment.

        Up to so many entries are read; `aborted` tells that there are more.
        """
        found: BacklogAnalysis = await self._transport.post(
            f"admin/v2/scalable/{format_bare(topic)}/segments/{format_path(segment)}/subscriptions/{format_path(subscription)}/analyzeBacklog",
            query={"entriesMax": entries_max},
        )
        return found

    async def migrate_to_scalable(
        self, topic: str, *, force: bool = False, segments: int | None = None
    ) -> None:
        """Make a regular topic scalable, for ever; `force` locks out clients that cannot follow.

        It gets as many segments as it has partitions, or as a client can take, or `segments`.
        """
        await self._transport.post(
            f"admin/v2/scalable/{format_bare(topic)}/migrate",
            query={"force": force, "segments": segments},
        )

    async def migration_check(self, topic: str, *, segments: int | None = None) -> MigrationCheck:
        """What making a regular topic scalable would do, and what is in its way."""
        found: MigrationCheck = await self._transport.get(
            f"admin/v2/scalable/{format_bare(topic)}/migration-check", query={"segments": segments}
        )
        return found


class AsyncTransactionAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def coordinators(self) -> Sequence[CoordinatorOwner]:
        """The coordinators of the cluster, and where each runs."""
        found: Sequence[CoordinatorOwner] = (
            await self._transport.get("admin/v3/transactions/coordinators") or []
        )
        return found

    async def coordinator_stats(self, *, coordinator_id: int | None = None) -> Document:
        """Of one coordinator, or by number of all."""
        found: Document = await self._transport.get(
            "admin/v3/transactions/coordinatorStats", query={"coordinatorId": coordinator_id}
        )
        return found

    async def coordinator_internal_stats(
        self, coordinator: int, *, metadata: bool = False
    ) -> CoordinatorLog:
        """The journal of a coordinator."""
        found: CoordinatorLog = await self._transport.get(
            f"admin/v3/transactions/coordinatorInternalStats/{format_path(coordinator)}",
            query={"metadata": metadata},
        )
        return found

    async def metadata(self, most: int, least: int) -> TransactionAnswer:
        """A transaction with its topics and subscriptions."""
        found: TransactionAnswer = await self._transport.get(
            f"admin/v3/transactions/transactionMetadata/{format_path(most)}/{format_path(least)}"
        )
        return found

    async def slow(
        self, timeout_ms: int, *, coordinator_id: int | None = None
    ) -> dict[str, TransactionAnswer]:
        """Transactions that have not ended for longer than a time, by id."""
        found: dict[str, TransactionAnswer] = (
            await self._transport.get(
                f"admin/v3/transactions/slowTransactions/{format_path(timeout_ms)}",
                query={"coordinatorId": coordinator_id},
            )
            or {}
        )
        return found

    async def abort(self, most: int, least: int) -> None:
        """Abort a transaction; the broker's log and its metadata keep the role of the caller."""
        await self._transport.post(
            f"admin/v3/transactions/abortTransaction/{format_path(most)}/{format_path(least)}"
        )

    async def scale_coordinators(self, replicas: int) -> None:
        """Let the cluster have more coordinators."""
        await self._transport.post(
            "admin/v3/transactions/transactionCoordinator/replicas", body=replicas
        )

    async def buffer_stats(
        self, topic: str, *, low_water_marks: bool = False, segment_stats: bool = False
    ) -> BufferStats:
        """What a topic hides of transactions."""
        found: BufferStats = await self._transport.get(
            f"admin/v3/transactions/transactionBufferStats/{format_bare(topic)}",
            query={"lowWaterMarks": low_water_marks, "segmentStats": segment_stats},
        )
        return found

    async def buffer_internal_stats(self, topic: str, *, metadata: bool = False) -> BufferLog:
        """The journal in which a topic keeps what it knows of transactions."""
        found: BufferLog = await self._transport.get(
            f"admin/v3/transactions/transactionBufferInternalStats/{format_bare(topic)}",
            query={"metadata": metadata},
        )
        return found

    async def in_buffer_stats(self, topic: str, most: int, least: int) -> WrittenStats:
        """What one transaction has written to a topic."""
        found: WrittenStats = await self._transport.get(
            f"admin/v3/transactions/transactionInBufferStats/{format_bare(topic)}/{format_path(most)}/{format_path(least)}"
        )
        return found

    async def in_pending_ack_stats(
        self, topic: str, subscription: str, most: int, least: int
    ) -> PendingAckStats:
        """What one transaction acknowledges on a subscription."""
        found: PendingAckStats = await self._transport.get(
            f"admin/v3/transactions/transactionInPendingAckStats/{format_bare(topic)}/{format_path(subscription)}/{format_path(most)}/{format_path(least)}"
        )
        return found

    async def pending_ack_stats(
        self, topic: str, subscription: str, *, low_water_marks: bool = False
    ) -> PendingAckSums:
        """What transactions acknowledge on a subscription."""
        found: PendingAckSums = await self._transport.get(
            f"admin/v3/transactions/pendingAckStats/{format_bare(topic)}/{format_path(subscription)}",
            query={"lowWaterMarks": low_water_marks},
        )
        return found

    async def pending_ack_internal_stats(
        self, topic: str, subscription: str, *, metadata: bool = False
    ) -> PendingAckLog:
        """The journal that keeps what transactions acknowledge on a subscription."""
        found: PendingAckLog = await self._transport.get(
            f"admin/v3/transactions/pendingAckInternalStats/{format_bare(topic)}/{format_path(subscription)}",
            query={"metadata": metadata},
        )
        return found

    async def position_stats(
        self,
        topic: str,
        subscription: str,
        ledger_id: int,
        entry_id: int,
        *,
        batch_index: int | None = None,
    ) -> PositionState:
        """Whether a transaction acknowledges an entry, or a message of its batch."""
        found: PositionState = await self._transport.get(
            f"admin/v3/transactions/positionStatsInPendingAck/{format_bare(topic)}/{format_path(subscription)}/{format_path(ledger_id)}/{format_path(entry_id)}",
            query={"batchIndex": batch_index},
        )
        return found


class AsyncReadAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def plan(self, query: Mapping[str, Any]) -> ReadPlanAnswer:
        """What topics hold, part by part: segments or partitions, their ledgers, ends and lag.

        A query has `topics`, or a `namespace` with a `pattern` or `properties`, and may have
        `positions` up to which it has read. With the `version` of an earlier answer, only changes
        are answered, and without topics only whether there are any. It takes the right to
        consume each topic.
        """
        found: ReadPlanAnswer = await self._transport.post("admin/v2/reads/plan", body=dict(query))
        return found

    async def cut(self, query: Mapping[str, Any]) -> Sequence[ReachedAnswer]:
        """How far parts may be read together within a number of messages or bytes, by exact counts.

        Each of the `parts` has a `name`, and `after` and `through` as positions.
        """
        found: Sequence[ReachedAnswer] = (
            await self._transport.post("admin/v2/reads/cut", body=dict(query)) or []
        )
        return found

    async def move_hold(self, hold: str, moves: Iterable[Mapping[str, Any]]) -> Names:
        """Keep what stands behind a position of each part; make the hold where it is missing.

        Parts that are gone are answered.
        """
        found: Names = (
            await self._transport.post(
                f"admin/v2/reads/holds/{format_path(hold)}", body=[dict(each) for each in moves]
            )
            or []
        )
        return found

    async def holds(self, namespace: str) -> dict[str, ReadHold]:
        """The holds on topics of a namespace: their topics, and how many entries each keeps."""
        found: dict[str, ReadHold] = (
            await self._transport.get(f"admin/v2/reads/holds/{format_namespace(namespace)}") or {}
        )
        return found

    async def release_hold(self, namespace: str, hold: str) -> int:
        """End a hold on all topics of a namespace; answer on how many it was."""
        found: int = await self._transport.delete(
            f"admin/v2/reads/holds/{format_namespace(namespace)}/{format_path(hold)}"
        )
        return found
