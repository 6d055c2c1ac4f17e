"""The blocking admin client, written by tools/generate_admin.py from the async one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from magnetar.client.admin.composed import AsyncNamespaceAdmin, AsyncTenantAdmin, AsyncTopicAdmin
from magnetar.client.admin.network import Network, SocketNetwork, iterate, run
from magnetar.client.admin.operation import (
    AsyncBookieAdmin,
    AsyncBrokerAdmin,
    AsyncClusterAdmin,
    AsyncReadAdmin,
    AsyncScalableTopicAdmin,
    AsyncSchemaAdmin,
    AsyncSubscriptionAdmin,
    AsyncTransactionAdmin,
)
from magnetar.client.admin.policy import AsyncTopicPolicyAdmin
from magnetar.client.admin.service import AsyncAdmin
from magnetar.client.admin.transport import Document, Grants, Ids, Names
from magnetar.client.admin.value import StoredEntry, Version, Versions
from magnetar.client.authentication import Authentication, Tls
from magnetar.client.message_id import MessageId

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


class ClusterAdmin:
    def __init__(self, inner: AsyncClusterAdmin) -> None:
        self._inner = inner

    def list(self) -> Names:
        """Names of all clusters."""
        return run(self._inner.list())

    def get(self, cluster: str) -> ClusterAnswer:
        """One cluster's addresses."""
        return run(self._inner.get(cluster))

    def create(self, cluster: str, data: Mapping[str, Any]) -> None:
        """Make a cluster known."""
        run(self._inner.create(cluster, data))

    def update(self, cluster: str, data: Mapping[str, Any]) -> None:
        """Change a cluster's addresses."""
        run(self._inner.update(cluster, data))

    def delete(self, cluster: str) -> None:
        """Forget a cluster that no namespace uses."""
        run(self._inner.delete(cluster))

    def peers(self, cluster: str) -> Names:
        """The cluster's peers, if they are set."""
        return run(self._inner.peers(cluster))

    def set_peers(self, cluster: str, peers: Iterable[str]) -> None:
        """Set the cluster's peers."""
        run(self._inner.set_peers(cluster, peers))

    def isolation_policies(self, cluster: str) -> dict[str, IsolationPolicyAnswer]:
        """The isolation policies of a cluster, by name."""
        return run(self._inner.isolation_policies(cluster))

    def isolated_brokers(self, cluster: str) -> Sequence[IsolatedBrokerAnswer]:
        """The brokers of a cluster, and what isolation policies keep for each."""
        return run(self._inner.isolated_brokers(cluster))

    def isolated_broker(self, cluster: str, broker: str) -> IsolatedBrokerAnswer:
        """What isolation policies keep for a broker."""
        return run(self._inner.isolated_broker(cluster, broker))

    def isolation_policy(self, cluster: str, policy: str) -> IsolationPolicyAnswer:
        """One isolation policy of a cluster."""
        return run(self._inner.isolation_policy(cluster, policy))

    def set_isolation_policy(self, cluster: str, policy: str, data: Mapping[str, Any]) -> None:
        """Keep brokers for namespaces, and place those anew that this concerns."""
        run(self._inner.set_isolation_policy(cluster, policy, data))

    def delete_isolation_policy(self, cluster: str, policy: str) -> None:
        """Remove an isolation policy."""
        run(self._inner.delete_isolation_policy(cluster, policy))

    def failure_domains(self, cluster: str) -> dict[str, FailureDomain]:
        """All failure domains of a cluster, by name."""
        return run(self._inner.failure_domains(cluster))

    def failure_domain(self, cluster: str, domain: str) -> FailureDomain:
        """One failure domain of a cluster."""
        return run(self._inner.failure_domain(cluster, domain))

    def set_failure_domain(
        self, cluster: str, domain: str, *, brokers: Iterable[str] | None = None
    ) -> None:
        """Make or change a failure domain."""
        run(self._inner.set_failure_domain(cluster, domain, brokers=brokers))

    def delete_failure_domain(self, cluster: str, domain: str) -> None:
        """Remove a failure domain."""
        run(self._inner.delete_failure_domain(cluster, domain))


class BookieAdmin:
    def __init__(self, inner: AsyncBookieAdmin) -> None:
        self._inner = inner

    def list(self) -> BookieNames:
        """All bookies of the cluster, also those that are away."""
        return run(self._inner.list())

    def racks(self) -> dict[str, dict[str, BookieAnswer]]:
        """The racks of all bookies, by group."""
        return run(self._inner.racks())

    def rack(self, bookie: str) -> BookieAnswer:
        """The rack of a bookie."""
        return run(self._inner.rack(bookie))

    def set_rack(self, bookie: str, info: Mapping[str, Any], group: str) -> None:
        """Say on which rack a bookie stands: copies of an entry go to different racks."""
        run(self._inner.set_rack(bookie, info, group))

    def delete_rack(self, bookie: str) -> None:
        """Forget the rack of a bookie."""
        run(self._inner.delete_rack(bookie))


class BrokerAdmin:
    def __init__(self, inner: AsyncBrokerAdmin) -> None:
        self._inner = inner

    def list(self, cluster: str | None = None) -> Names:
        """Addresses of the brokers that serve."""
        return run(self._inner.list(cluster))

    def leader(self) -> dict[str, str]:
        """The broker that leads the cluster."""
        return run(self._inner.leader())

    def namespaces(self, cluster: str, broker: str) -> dict[str, OwnedBundle]:
        """The bundles a broker owns."""
        return run(self._inner.namespaces(cluster, broker))

    def ledger_files(self) -> LedgerFiles:
        """The directory of the ledgers, for readers on the same machine."""
        return run(self._inner.ledger_files())

    def ledger_records(self, query: Mapping[str, Any]) -> LedgerRecords:
        """The records of ledgers and bookies, for readers that reach the bookies themselves.

        They are answered in base64, by their paths in the metadata store.
        """
        return run(self._inner.ledger_records(query))

    def health(self, *, broker_id: str | None = None, topic_version: str | None = None) -> str:
        """Let the broker publish and read a message on its heartbeat topic: `ok`, or a refusal."""
        return run(self._inner.health(broker_id=broker_id, topic_version=topic_version))

    def version(self) -> str:
        """The version this broker runs."""
        return run(self._inner.version())

    def is_ready(self) -> str:
        """Whether the broker serves, messages that come in too: `ok`, or a refusal."""
        return run(self._inner.is_ready())

    def dynamic_keys(self) -> Names:
        """Configuration keys that can change at run time."""
        return run(self._inner.dynamic_keys())

    def dynamic_values(self) -> dict[str, str]:
        """Configuration values that were changed at run time."""
        return run(self._inner.dynamic_values())

    def set_dynamic(self, key: str, value: str) -> None:
        """Change a configuration value of all brokers."""
        run(self._inner.set_dynamic(key, value))

    def delete_dynamic(self, key: str) -> None:
        """Go back to the configured value."""
        run(self._inner.delete_dynamic(key))

    def runtime_configuration(self) -> dict[str, str]:
        """Every configuration value in force."""
        return run(self._inner.runtime_configuration())

    def internal_configuration(self) -> dict[str, str]:
        """Where metadata is kept."""
        return run(self._inner.internal_configuration())

    def check_backlog_quota(self) -> None:
        """Apply the backlog quotas now."""
        run(self._inner.check_backlog_quota())

    def shutdown(self, *, unloads_per_s_max: int = 0, forced: bool = True) -> None:
        """Stop the broker."""
        run(self._inner.shutdown(unloads_per_s_max=unloads_per_s_max, forced=forced))

    def topic_stats(self) -> Document:
        """Stats of all loaded topics, by namespace, bundle and domain."""
        return run(self._inner.topic_stats())

    def metrics(self) -> Sequence[MetricSums]:
        """Sums over the topics of each namespace."""
        return run(self._inner.metrics())

    def load_report(self) -> LoadReport:
        """What the broker carries."""
        return run(self._inner.load_report())

    def overview(self) -> BrokersOverview:
        """The brokers at a glance: what topics carry, and what each process costs."""
        return run(self._inner.overview())


class TenantAdmin:
    def __init__(self, inner: AsyncTenantAdmin) -> None:
        self._inner = inner

    def create(
        self, tenant: str, *, admin_roles: Iterable[str] = (), allowed_clusters: Iterable[str] = ()
    ) -> None:
        """Without `allowed_clusters` the tenant may use every cluster there is."""
        run(self._inner.create(tenant, admin_roles=admin_roles, allowed_clusters=allowed_clusters))

    def update(
        self,
        tenant: str,
        *,
        admin_roles: Iterable[str] | None = None,
        allowed_clusters: Iterable[str] | None = None,
    ) -> None:
        """Change what is given and keep the rest."""
        run(self._inner.update(tenant, admin_roles=admin_roles, allowed_clusters=allowed_clusters))

    def list(self) -> Names:
        """Names of all tenants, sorted."""
        return run(self._inner.list())

    def get(self, tenant: str) -> TenantAnswer:
        """A tenant's admin roles and clusters."""
        return run(self._inner.get(tenant))

    def delete(self, tenant: str, *, force: bool = False) -> None:
        """Delete a tenant without namespaces, or with them when forced."""
        run(self._inner.delete(tenant, force=force))


class NamespaceAdmin:
    def __init__(self, inner: AsyncNamespaceAdmin) -> None:
        self._inner = inner

    def create(
        self,
        namespace: str,
        *,
        clusters: Iterable[str] = (),
        bundles: int = 0,
        topic_buckets: int | None = None,
    ) -> None:
        run(
            self._inner.create(
                namespace, clusters=clusters, bundles=bundles, topic_buckets=topic_buckets
            )
        )

    def policy(self, namespace: str, key: str) -> Any:
        """One setting by its name (`retention`, `message-ttl`…); None when unset."""
        return run(self._inner.policy(namespace, key))

    def set_policy(self, /, namespace: str, key: str, value: Any, **query: Any) -> None:
        run(self._inner.set_policy(namespace, key, value, **query))

    def remove_policy(self, /, namespace: str, key: str, **query: Any) -> None:
        run(self._inner.remove_policy(namespace, key, **query))

    def unload(
        self, namespace: str, *, bundle: str | None = None, destination: str | None = None
    ) -> None:
        run(self._inner.unload(namespace, bundle=bundle, destination=destination))

    def list(self, tenant: str) -> Names:
        """Namespaces of a tenant."""
        return run(self._inner.list(tenant))

    def grant_on_topics(self, grants: Iterable[Mapping[str, Any]]) -> None:
        """Let roles do things with topics, many at once; all of them exist or nothing changes.

        A grant has `topic`, `role` and `actions`.
        """
        run(self._inner.grant_on_topics(grants))

    def revoke_on_topics(self, revocations: Iterable[Mapping[str, Any]]) -> None:
        """Take permissions on topics away from roles, many at once.

        A revocation has `topic` and `role`.
        """
        run(self._inner.revoke_on_topics(revocations))

    def topics(
        self,
        namespace: str,
        *,
        mode: str | None = None,
        include_system: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> Names:
        """Topics of a namespace: persistent ones, the others, or all; whole, by page or by line."""
        return run(
            self._inner.topics(
                namespace, mode=mode, include_system=include_system, limit=limit, after=after
            )
        )

    def get(self, namespace: str) -> NamespacePolicies:
        """All policies of a namespace."""
        return run(self._inner.get(namespace))

    def topic_buckets(self, namespace: str) -> int:
        """In how many buckets the metadata of a namespace's topics is kept."""
        return run(self._inner.topic_buckets(namespace))

    def rebucket(self, namespace: str, topic_buckets: int) -> None:
        """Refused unless it is the number the namespace was created with."""
        run(self._inner.rebucket(namespace, topic_buckets))

    def delete(self, namespace: str, *, force: bool = False) -> None:
        """Delete a namespace without topics, or with them when forced."""
        run(self._inner.delete(namespace, force=force))

    def permissions(self, namespace: str) -> Grants:
        """What roles may do in a namespace."""
        return run(self._inner.permissions(namespace))

    def grant(self, namespace: str, role: str, actions: Iterable[str]) -> None:
        """Let a role do things in a namespace."""
        run(self._inner.grant(namespace, role, actions))

    def revoke(self, namespace: str, role: str) -> None:
        """Take a role's permissions in a namespace away."""
        run(self._inner.revoke(namespace, role))

    def subscription_permissions(self, namespace: str) -> Grants:
        """Which roles may use which subscriptions.

        A subscription that is not named may be used by everybody.
        """
        return run(self._inner.subscription_permissions(namespace))

    def grant_subscription(self, namespace: str, subscription: str, roles: Iterable[str]) -> None:
        """Let roles use a subscription."""
        run(self._inner.grant_subscription(namespace, subscription, roles))

    def revoke_subscription(self, namespace: str, subscription: str, role: str) -> None:
        """Take a subscription away from a role."""
        run(self._inner.revoke_subscription(namespace, subscription, role))

    def bundles(self, namespace: str) -> BundlesAnswer:
        """The hash ranges of a namespace."""
        return run(self._inner.bundles(namespace))

    def unload_bundle(self, namespace: str, bundle: str, *, destination: str | None = None) -> None:
        """Close all topics of a bundle."""
        run(self._inner.unload_bundle(namespace, bundle, destination=destination))

    def split_bundle(
        self,
        namespace: str,
        bundle: str,
        *,
        unload: bool = False,
        algorithm: str | None = None,
        positions: Iterable[str] | None = None,
    ) -> None:
        """Cut a bundle in two, or at several hashes."""
        run(
            self._inner.split_bundle(
                namespace, bundle, unload=unload, algorithm=algorithm, positions=positions
            )
        )

    def topic_hash_positions(
        self, namespace: str, bundle: str, *, topics: Iterable[str] | None = None
    ) -> TopicHashPositions:
        """The hashes of the topics of a bundle, or of those that are named: where it can be cut."""
        return run(self._inner.topic_hash_positions(namespace, bundle, topics=topics))

    def delete_bundle(self, namespace: str, bundle: str, *, force: bool = False) -> None:
        """Delete the topics of a bundle; refused while there are any unless forced."""
        run(self._inner.delete_bundle(namespace, bundle, force=force))

    def clear_backlog(
        self, namespace: str, subscription: str | None = None, bundle: str | None = None
    ) -> None:
        """Acknowledge everything in all subscriptions or one, of a namespace or a bundle."""
        run(self._inner.clear_backlog(namespace, subscription, bundle))

    def unsubscribe(self, namespace: str, subscription: str, bundle: str | None = None) -> None:
        """Delete a subscription from every topic of a namespace or a bundle."""
        run(self._inner.unsubscribe(namespace, subscription, bundle))

    def properties(self, namespace: str) -> dict[str, str]:
        """The namespace's properties."""
        return run(self._inner.properties(namespace))

    def set_properties(self, namespace: str, properties: Mapping[str, str]) -> None:
        """Add properties, or replace those of the same name."""
        run(self._inner.set_properties(namespace, properties))

    def clear_properties(self, namespace: str) -> None:
        """Remove all properties."""
        run(self._inner.clear_properties(namespace))

    def property(self, namespace: str, key: str) -> str | None:
        """One property."""
        return run(self._inner.property(namespace, key))

    def set_property(self, namespace: str, key: str, value: str) -> None:
        """Set one property."""
        run(self._inner.set_property(namespace, key, value))

    def remove_property(self, namespace: str, key: str) -> str | None:
        """Remove one property; the answer is what it was."""
        return run(self._inner.remove_property(namespace, key))

    def bookie_affinity(self, namespace: str) -> Document | None:
        """The groups of storage nodes the namespace prefers."""
        return run(self._inner.bookie_affinity(namespace))

    def set_bookie_affinity(self, namespace: str, group: Mapping[str, str]) -> None:
        """Set the groups of storage nodes the namespace prefers."""
        run(self._inner.set_bookie_affinity(namespace, group))

    def remove_bookie_affinity(self, namespace: str) -> None:
        """Prefer no storage nodes."""
        run(self._inner.remove_bookie_affinity(namespace))

    def anti_affinity(self, namespace: str) -> str | None:
        """The group of namespaces that are kept apart."""
        return run(self._inner.anti_affinity(namespace))

    def set_anti_affinity(self, namespace: str, group: str) -> None:
        """Put the namespace into a group of namespaces that are kept apart."""
        run(self._inner.set_anti_affinity(namespace, group))

    def remove_anti_affinity(self, namespace: str) -> None:
        """Take the namespace out of its group."""
        run(self._inner.remove_anti_affinity(namespace))


class TopicAdmin:
    def __init__(self, inner: AsyncTopicAdmin) -> None:
        self._inner = inner

    def list(
        self,
        namespace: str,
        *,
        domain: str | None = None,
        bundle: str | None = None,
        include_system: bool = False,
    ) -> Names:
        """Full names, each partition on its own; both domains unless one is named."""
        return run(
            self._inner.list(namespace, domain=domain, bundle=bundle, include_system=include_system)
        )

    def list_partitioned(self, namespace: str, *, include_system: bool = False) -> Names:
        return run(self._inner.list_partitioned(namespace, include_system=include_system))

    def stream(
        self,
        namespace: str,
        *,
        domain: str | None = None,
        bundle: str | None = None,
        include_system: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> Iterator[str]:
        """Full names as the broker finds them, never all in memory; at most `limit`.

        The order is that of the broker's buckets. `after` is a full name where an earlier listing
        stopped; it need not exist any more.
        """
        return iterate(
            self._inner.stream(
                namespace,
                domain=domain,
                bundle=bundle,
                include_system=include_system,
                after=after,
                limit=limit,
            )
        )

    def page(
        self,
        namespace: str,
        *,
        limit: int,
        domain: str | None = None,
        bundle: str | None = None,
        include_system: bool = False,
        after: str | None = None,
    ) -> Names:
        """At most `limit` names, in the order of `stream`; the next page is after the last one."""
        return run(
            self._inner.page(
                namespace,
                limit=limit,
                domain=domain,
                bundle=bundle,
                include_system=include_system,
                after=after,
            )
        )

    def create_partitioned(
        self, topic: str, partitions: int, *, properties: Mapping[str, str] | None = None
    ) -> None:
        run(self._inner.create_partitioned(topic, partitions, properties=properties))

    def partitioned_lookup(self, topic: str) -> dict[str, str]:
        """The broker's URL of each partition; of the topic itself when it has none."""
        return run(self._inner.partitioned_lookup(topic))

    def count(self, namespace: str) -> dict[str, int]:
        """How many topics a namespace has, by domain; partitions and system topics count too."""
        return run(self._inner.count(namespace))

    def create(self, topic: str, *, properties: Mapping[str, str] | None = None) -> None:
        """Create a topic without partitions."""
        run(self._inner.create(topic, properties=properties))

    def delete(self, topic: str, *, force: bool = False) -> None:
        """Delete a topic without partitions, or one partition."""
        run(self._inner.delete(topic, force=force))

    def create_missed_partitions(self, topic: str) -> None:
        """Create the partitions that do not exist yet."""
        run(self._inner.create_missed_partitions(topic))

    def update_partitioned(
        self, topic: str, partitions: int, *, local_only: bool = False, force: bool = False
    ) -> None:
        """Add partitions up to a new number."""
        run(self._inner.update_partitioned(topic, partitions, local_only=local_only, force=force))

    def partitioned_metadata(self, topic: str, *, may_create: bool = False) -> PartitionedMetadata:
        """How many partitions a topic has; 0 for one without."""
        return run(self._inner.partitioned_metadata(topic, may_create=may_create))

    def delete_partitioned(self, topic: str, *, force: bool = False) -> None:
        """Delete a topic with all its partitions."""
        run(self._inner.delete_partitioned(topic, force=force))

    def properties(self, topic: str) -> dict[str, str]:
        """A topic's properties."""
        return run(self._inner.properties(topic))

    def update_properties(self, topic: str, properties: Mapping[str, str]) -> None:
        """Add properties, or replace those of the same name."""
        run(self._inner.update_properties(topic, properties))

    def remove_property(self, topic: str, key: str) -> None:
        """Remove one property."""
        run(self._inner.remove_property(topic, key))

    def stats(
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
        return run(
            self._inner.stats(
                topic,
                precise_backlog=precise_backlog,
                backlog_size=backlog_size,
                earliest_time=earliest_time,
                exclude_publishers=exclude_publishers,
                exclude_consumers=exclude_consumers,
            )
        )

    def partitioned_stats(
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
        return run(
            self._inner.partitioned_stats(
                topic,
                per_partition=per_partition,
                precise_backlog=precise_backlog,
                backlog_size=backlog_size,
                earliest_time=earliest_time,
                exclude_publishers=exclude_publishers,
                exclude_consumers=exclude_consumers,
            )
        )

    def internal_stats(self, topic: str, *, metadata: bool = False) -> LogStats:
        """The log behind a topic: ledgers and cursors."""
        return run(self._inner.internal_stats(topic, metadata=metadata))

    def partitioned_internal_stats(self, topic: str) -> PartitionedLogStats:
        """The logs behind all partitions."""
        return run(self._inner.partitioned_internal_stats(topic))

    def internal_info(self, topic: str) -> StoredTopic:
        """What the metadata store keeps of a topic's log."""
        return run(self._inner.internal_info(topic))

    def table(
        self,
        *,
        text: str | None = None,
        namespace: str | None = None,
        sort: str | None = None,
        descending: bool = False,
        limit: int | None = None,
    ) -> TopicTable:
        """Some of the topics as rows with numbers, in the order of one of them."""
        return run(
            self._inner.table(
                text=text, namespace=namespace, sort=sort, descending=descending, limit=limit
            )
        )

    def policy_origins(self, topic: str) -> Sequence[PolicyOrigin]:
        """Every policy of a topic, with the level that its value comes from."""
        return run(self._inner.policy_origins(topic))

    def lookup(
        self, topic: str, *, authoritative: bool = False, listener_name: str | None = None
    ) -> dict[str, str]:
        """The addresses of the broker that serves a topic."""
        return run(
            self._inner.lookup(topic, authoritative=authoritative, listener_name=listener_name)
        )

    def bundle_range(self, topic: str) -> str:
        """The hash range of its namespace that holds a topic."""
        return run(self._inner.bundle_range(topic))

    def unload(self, topic: str) -> None:
        """Close a topic, so that its clients connect again."""
        run(self._inner.unload(topic))

    def permissions(self, topic: str) -> Grants:
        """What roles may do with a topic."""
        return run(self._inner.permissions(topic))

    def grant(self, topic: str, role: str, actions: Iterable[str]) -> None:
        """Let a role do things with a topic."""
        run(self._inner.grant(topic, role, actions))

    def revoke(self, topic: str, role: str) -> None:
        """Take a role's permissions on a topic away."""
        run(self._inner.revoke(topic, role))

    def last_message_id(self, topic: str) -> MessageId:
        """The id of the last message."""
        return run(self._inner.last_message_id(topic))

    def message_id_at(self, topic: str, timestamp_ms: int) -> MessageId:
        """The id of the first message published at or after a time."""
        return run(self._inner.message_id_at(topic, timestamp_ms))

    def message_id_by_index(self, topic: str, index: int) -> MessageId:
        """The id of a message by its index, where brokers count messages."""
        return run(self._inner.message_id_by_index(topic, index))

    def read_entry(self, topic: str, ledger_id: int, entry_id: int) -> StoredEntry:
        """One entry."""
        return run(self._inner.read_entry(topic, ledger_id, entry_id))

    def examine(
        self, topic: str, *, initial_position: str = "latest", message_position: int = 1
    ) -> StoredEntry:
        """The nth entry from the start or the end."""
        return run(
            self._inner.examine(
                topic, initial_position=initial_position, message_position=message_position
            )
        )

    def backlog_size(self, topic: str, position: MessageId) -> int:
        """How many bytes were published after a message id."""
        return run(self._inner.backlog_size(topic, position))

    def terminate(self, topic: str) -> MessageId:
        """Let nothing more be published; the answer is the last message id."""
        return run(self._inner.terminate(topic))

    def terminate_partitioned(self, topic: str) -> dict[int, MessageId]:
        """Let nothing more be published to any partition."""
        return run(self._inner.terminate_partitioned(topic))

    def compact(self, topic: str) -> None:
        """Start to compact a topic."""
        run(self._inner.compact(topic))

    def compaction_status(self, topic: str) -> JobStatus:
        """How the last compaction went."""
        return run(self._inner.compaction_status(topic))

    def offload(self, topic: str, until: MessageId) -> None:
        """Move old data to long-term storage; there is none yet."""
        run(self._inner.offload(topic, until))

    def offload_status(self, topic: str) -> JobStatus:
        """How the last offload went."""
        return run(self._inner.offload_status(topic))

    def trim(self, topic: str) -> None:
        """Remove what nobody needs any more."""
        run(self._inner.trim(topic))

    def truncate(self, topic: str) -> None:
        """Acknowledge and remove everything."""
        run(self._inner.truncate(topic))


class ScalableTopicAdmin:
    """A topic may be named in any domain: `topic://t/n/x`, `persistent://t/n/x` or `t/n/x`."""

    def __init__(self, inner: AsyncScalableTopicAdmin) -> None:
        self._inner = inner

    def list(self, namespace: str, *, properties: Mapping[str, str] | None = None) -> Names:
        """Scalable topics of a namespace, or those that have all the given properties."""
        return run(self._inner.list(namespace, properties=properties))

    def create(
        self, topic: str, *, segments: int = 1, properties: Mapping[str, str] | None = None
    ) -> None:
        """Make a scalable topic of some segments, with properties."""
        run(self._inner.create(topic, segments=segments, properties=properties))

    def metadata(self, topic: str) -> ScalableMetadata:
        """The stored record: layout, properties, policy, the change under way and the past ones."""
        return run(self._inner.metadata(topic))

    def stats(self, topic: str) -> ScalableTopicStats:
        """What the topic does: segments with rates, subscriptions with backlog and consumers."""
        return run(self._inner.stats(topic))

    def segments(self, topic: str) -> dict[str, SegmentAnswer]:
        """Every segment with its rates and the backlog of each subscription, by id."""
        return run(self._inner.segments(topic))

    def segment_stats(self, topic: str, segment: int) -> SegmentTopicStats:
        """One segment, with all that a regular topic's stats tell."""
        return run(self._inner.segment_stats(topic, segment))

    def segment_internal_stats(self, topic: str, segment: int) -> LogStats:
        """The log behind one segment: ledgers and cursors."""
        return run(self._inner.segment_internal_stats(topic, segment))

    def last_sequence_id(self, topic: str, segment: int, producer: str) -> int:
        """The highest sequence id that a segment, sealed or not, has of a producer; -1 for none."""
        return run(self._inner.last_sequence_id(topic, segment, producer))

    def last_sequence_ids(
        self, topic: str, producer: str, *, segments: Iterable[str] | None = None
    ) -> dict[str, int]:
        """The highest sequence id that each segment, sealed or not, has of a scalable producer.

        Such a producer is named `{producer}-seg-{segment}` on a segment. With `segments`, only
        those are asked.
        """
        return run(self._inner.last_sequence_ids(topic, producer, segments=segments))

    def load(self, topic: str) -> dict[str, MeasuredLoad]:
        """What each active segment carries."""
        return run(self._inner.load(topic))

    def history(self, topic: str) -> Sequence[PastLayoutChange]:
        """The latest changes of the layout, oldest first."""
        return run(self._inner.history(topic))

    def explain(self, topic: str) -> ScalableExplanation:
        """Why the topic splits, merges or stays; for each subscription, what waits for what."""
        return run(self._inner.explain(topic))

    def decisions(self, topic: str) -> Sequence[ScaleDecisionAnswer]:
        """What the topic decided about scaling itself, lately; oldest first."""
        return run(self._inner.decisions(topic))

    def delete(self, topic: str, *, force: bool = False) -> None:
        """Delete a topic with all its segments; one that is in use only when forced."""
        run(self._inner.delete(topic, force=force))

    def split(self, topic: str, segment: int, *, at: int | None = None) -> None:
        """Split a segment in its middle, or so that `at` is the first hash of the upper half."""
        run(self._inner.split(topic, segment, at=at))

    def merge(self, topic: str, left: int, right: int) -> None:
        """Merge two neighbours, in either order."""
        run(self._inner.merge(topic, left, right))

    def scale(self, topic: str, segments: int, *, hold_until_ms: int | None = None) -> None:
        """Split or merge until there are so many active segments, and no fewer till some time."""
        run(self._inner.scale(topic, segments, hold_until_ms=hold_until_ms))

    def prune(self, topic: str) -> Ids:
        """Remove sealed segments that are drained and no longer retained; their ids."""
        return run(self._inner.prune(topic))

    def properties(self, topic: str) -> dict[str, str]:
        """The topic's properties."""
        return run(self._inner.properties(topic))

    def set_properties(self, topic: str, properties: Mapping[str, str]) -> None:
        """Replace the topic's properties: what is not named goes."""
        run(self._inner.set_properties(topic, properties))

    def policy(self, topic: str) -> ScalablePolicy:
        """What is in force for the topic, and where each value of its scaling was set."""
        return run(self._inner.policy(topic))

    def auto_scale_policy(self, topic: str) -> AutoScaleAnswer | None:
        """What the topic sets about scaling itself; None when nothing."""
        return run(self._inner.auto_scale_policy(topic))

    def set_auto_scale_policy(self, topic: str, override: Mapping[str, Any]) -> None:
        """Replace what the topic sets about scaling itself."""
        run(self._inner.set_auto_scale_policy(topic, override))

    def remove_auto_scale_policy(self, topic: str) -> None:
        """Let the topic scale itself as its namespace says."""
        run(self._inner.remove_auto_scale_policy(topic))

    def subscriptions(self, topic: str) -> dict[str, GroupAnswer]:
        """Subscriptions with kind and backlog, by name."""
        return run(self._inner.subscriptions(topic))

    def subscription(self, topic: str, subscription: str) -> GroupAnswer:
        """One subscription: kind, backlog of each segment, what its consumers read and wait for."""
        return run(self._inner.subscription(topic, subscription))

    def create_subscription(self, topic: str, subscription: str, *, kind: str = "STREAM") -> None:
        """Make a subscription that gets all messages from now on; one that exists stays as it is.

        `kind` is STREAM or QUEUE.
        """
        run(self._inner.create_subscription(topic, subscription, kind=kind))

    def delete_subscription(self, topic: str, subscription: str, *, force: bool = False) -> None:
        """Delete a subscription from every segment; one with consumers only when forced."""
        run(self._inner.delete_subscription(topic, subscription, force=force))

    def seek(self, topic: str, subscription: str, timestamp_ms: int) -> None:
        """Move a subscription to what was published at or after a time."""
        run(self._inner.seek(topic, subscription, timestamp_ms))

    def clear_backlog(self, topic: str, subscription: str) -> None:
        """Acknowledge everything in every segment."""
        run(self._inner.clear_backlog(topic, subscription))

    def expire(self, topic: str, subscription: str, seconds: int) -> None:
        """Acknowledge what is older than some seconds, in every segment."""
        run(self._inner.expire(topic, subscription, seconds))

    def peek(self, topic: str, segment: int, subscription: str, place: int) -> StoredEntry:
        """The nth unacknowledged entry of one segment, counted from 1; nothing is acknowledged."""
        return run(self._inner.peek(topic, segment, subscription, place))

    def analyze_backlog(
        self, topic: str, segment: int, subscription: str, *, entries_max: int | None = None
    ) -> BacklogAnalysis:
        """Count the entries and messages that a subscription has not acknowledged of one segment.

        Up to so many entries are read; `aborted` tells that there are more.
        """
        return run(
            self._inner.analyze_backlog(topic, segment, subscription, entries_max=entries_max)
        )

    def migrate_to_scalable(
        self, topic: str, *, force: bool = False, segments: int | None = None
    ) -> None:
        """Make a regular topic scalable, for ever; `force` locks out clients that cannot follow.

        It gets as many segments as it has partitions, or as a client can take, or `segments`.
        """
        run(self._inner.migrate_to_scalable(topic, force=force, segments=segments))

    def migration_check(self, topic: str, *, segments: int | None = None) -> MigrationCheck:
        """What making a regular topic scalable would do, and what is in its way."""
        return run(self._inner.migration_check(topic, segments=segments))


class SubscriptionAdmin:
    def __init__(self, inner: AsyncSubscriptionAdmin) -> None:
        self._inner = inner

    def list(self, topic: str) -> Names:
        """Names of a topic's subscriptions; of all partitions together."""
        return run(self._inner.list(topic))

    def create(
        self,
        topic: str,
        subscription: str,
        *,
        position: MessageId | None = None,
        replicated: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create a subscription at a position, at the end unless told."""
        run(
            self._inner.create(
                topic, subscription, position=position, replicated=replicated, properties=properties
            )
        )

    def delete(self, topic: str, subscription: str, *, force: bool = False) -> None:
        """Delete a subscription without consumers, or with them when forced."""
        run(self._inner.delete(topic, subscription, force=force))

    def reset_to_time(self, topic: str, subscription: str, timestamp_ms: int) -> None:
        """Move a subscription to what was published at or after a time."""
        run(self._inner.reset_to_time(topic, subscription, timestamp_ms))

    def reset_to_id(
        self, topic: str, subscription: str, position: MessageId, *, excluded: bool = False
    ) -> None:
        """Move a subscription to a message id.

        With `excluded` it is moved behind the message.
        """
        run(self._inner.reset_to_id(topic, subscription, position, excluded=excluded))

    def skip(self, topic: str, subscription: str, count: int) -> None:
        """Acknowledge the next entries of the backlog."""
        run(self._inner.skip(topic, subscription, count))

    def skip_all(self, topic: str, subscription: str) -> None:
        """Acknowledge the whole backlog."""
        run(self._inner.skip_all(topic, subscription))

    def expire(self, topic: str, subscription: str, seconds: int) -> None:
        """Acknowledge what is older than some seconds."""
        run(self._inner.expire(topic, subscription, seconds))

    def expire_to(
        self, topic: str, subscription: str, position: MessageId, *, excluded: bool = False
    ) -> None:
        """Acknowledge everything up to a message id.

        With `excluded` the message itself stays.
        """
        run(self._inner.expire_to(topic, subscription, position, excluded=excluded))

    def expire_all(self, topic: str, seconds: int) -> None:
        """Acknowledge what is older than some seconds, in every subscription."""
        run(self._inner.expire_all(topic, seconds))

    def peek(self, topic: str, subscription: str, place: int) -> StoredEntry:
        """The entry `place` entries ahead, from 1; nothing is acknowledged."""
        return run(self._inner.peek(topic, subscription, place))

    def properties(self, topic: str, subscription: str) -> dict[str, str]:
        """A subscription's properties."""
        return run(self._inner.properties(topic, subscription))

    def set_properties(self, topic: str, subscription: str, properties: Mapping[str, str]) -> None:
        """Replace a subscription's properties."""
        run(self._inner.set_properties(topic, subscription, properties))

    def analyze_backlog(self, topic: str, subscription: str) -> BacklogAnalysis:
        """Count a subscription's backlog entry by entry."""
        return run(self._inner.analyze_backlog(topic, subscription))

    def replicated_status(self, topic: str, subscription: str) -> dict[str, bool]:
        """Whether a subscription's state follows the messages to other clusters."""
        return run(self._inner.replicated_status(topic, subscription))

    def set_replicated_status(self, topic: str, subscription: str, enabled: bool) -> None:
        """Replicate a subscription, or stop it."""
        run(self._inner.set_replicated_status(topic, subscription, enabled))


class SchemaAdmin:
    def __init__(self, inner: AsyncSchemaAdmin) -> None:
        self._inner = inner

    def get(self, topic: str, version: int | None = None) -> SchemaAnswer:
        """The topic's latest schema, or one of its versions."""
        return run(self._inner.get(topic, version))

    def get_all(self, topic: str) -> Versions:
        """All versions of the topic's schema."""
        return run(self._inner.get_all(topic))

    def upload(
        self, topic: str, type: str, definition: str, *, properties: Mapping[str, str] | None = None
    ) -> Version:
        """Add a schema if it is compatible."""
        return run(self._inner.upload(topic, type, definition, properties=properties))

    def delete(self, topic: str, *, force: bool = False) -> Version:
        """Mark the topic's schema as deleted, or remove it when forced."""
        return run(self._inner.delete(topic, force=force))

    def check(
        self, topic: str, type: str, definition: str, *, properties: Mapping[str, str] | None = None
    ) -> SchemaCompatibility:
        """Whether a schema could be added."""
        return run(self._inner.check(topic, type, definition, properties=properties))

    def find_version(
        self, topic: str, type: str, definition: str, *, properties: Mapping[str, str] | None = None
    ) -> Version:
        """The version a schema is stored under, or -1."""
        return run(self._inner.find_version(topic, type, definition, properties=properties))

    def metadata(self, topic: str) -> SchemaMetadata:
        """Where the versions of the topic's schema are stored."""
        return run(self._inner.metadata(topic))


class TopicPolicyAdmin:
    """What is set on a topic itself, local or (`is_global`) for every cluster."""

    def __init__(self, inner: AsyncTopicPolicyAdmin) -> None:
        self._inner = inner

    def get(
        self,
        topic: str,
        key: str,
        *,
        applied: bool = False,
        is_global: bool = False,
        subscription: str = "",
    ) -> Any:
        """None when unset; `applied` looks further up, to the namespace and the broker.

        With a `subscription` it is the `subscription-dispatch-rate` of that one alone.
        """
        return run(
            self._inner.get(
                topic, key, applied=applied, is_global=is_global, subscription=subscription
            )
        )

    def set(
        self,
        /,
        topic: str,
        key: str,
        value: Any,
        *,
        is_global: bool = False,
        subscription: str = "",
        **query: Any,
    ) -> None:
        run(
            self._inner.set(
                topic, key, value, is_global=is_global, subscription=subscription, **query
            )
        )

    def remove(
        self,
        /,
        topic: str,
        key: str,
        *,
        is_global: bool = False,
        subscription: str = "",
        **query: Any,
    ) -> None:
        run(self._inner.remove(topic, key, is_global=is_global, subscription=subscription, **query))

    def backend(self, namespace: str) -> Mapping[str, str]:
        """What keeps the policies of a namespace's topics (`backend`), and why (`reason`)."""
        return run(self._inner.backend(namespace))

    def delete(self, topic: str) -> None:
        """Remove every setting of the topic; works even when the topic is gone."""
        run(self._inner.delete(topic))


class TransactionAdmin:
    def __init__(self, inner: AsyncTransactionAdmin) -> None:
        self._inner = inner

    def coordinators(self) -> Sequence[CoordinatorOwner]:
        """The coordinators of the cluster, and where each runs."""
        return run(self._inner.coordinators())

    def coordinator_stats(self, *, coordinator_id: int | None = None) -> Document:
        """Of one coordinator, or by number of all."""
        return run(self._inner.coordinator_stats(coordinator_id=coordinator_id))

    def coordinator_internal_stats(
        self, coordinator: int, *, metadata: bool = False
    ) -> CoordinatorLog:
        """The journal of a coordinator."""
        return run(self._inner.coordinator_internal_stats(coordinator, metadata=metadata))

    def metadata(self, most: int, least: int) -> TransactionAnswer:
        """A transaction with its topics and subscriptions."""
        return run(self._inner.metadata(most, least))

    def slow(
        self, timeout_ms: int, *, coordinator_id: int | None = None
    ) -> dict[str, TransactionAnswer]:
        """Transactions that have not ended for longer than a time, by id."""
        return run(self._inner.slow(timeout_ms, coordinator_id=coordinator_id))

    def abort(self, most: int, least: int) -> None:
        """Abort a transaction; the broker's log and its metadata keep the role of the caller."""
        run(self._inner.abort(most, least))

    def scale_coordinators(self, replicas: int) -> None:
        """Let the cluster have more coordinators."""
        run(self._inner.scale_coordinators(replicas))

    def buffer_stats(
        self, topic: str, *, low_water_marks: bool = False, segment_stats: bool = False
    ) -> BufferStats:
        """What a topic hides of transactions."""
        return run(
            self._inner.buffer_stats(
                topic, low_water_marks=low_water_marks, segment_stats=segment_stats
            )
        )

    def buffer_internal_stats(self, topic: str, *, metadata: bool = False) -> BufferLog:
        """The journal in which a topic keeps what it knows of transactions."""
        return run(self._inner.buffer_internal_stats(topic, metadata=metadata))

    def in_buffer_stats(self, topic: str, most: int, least: int) -> WrittenStats:
        """What one transaction has written to a topic."""
        return run(self._inner.in_buffer_stats(topic, most, least))

    def in_pending_ack_stats(
        self, topic: str, subscription: str, most: int, least: int
    ) -> PendingAckStats:
        """What one transaction acknowledges on a subscription."""
        return run(self._inner.in_pending_ack_stats(topic, subscription, most, least))

    def pending_ack_stats(
        self, topic: str, subscription: str, *, low_water_marks: bool = False
    ) -> PendingAckSums:
        """What transactions acknowledge on a subscription."""
        return run(
            self._inner.pending_ack_stats(topic, subscription, low_water_marks=low_water_marks)
        )

    def pending_ack_internal_stats(
        self, topic: str, subscription: str, *, metadata: bool = False
    ) -> PendingAckLog:
        """The journal that keeps what transactions acknowledge on a subscription."""
        return run(self._inner.pending_ack_internal_stats(topic, subscription, metadata=metadata))

    def position_stats(
        self,
        topic: str,
        subscription: str,
        ledger_id: int,
        entry_id: int,
        *,
        batch_index: int | None = None,
    ) -> PositionState:
        """Whether a transaction acknowledges an entry, or a message of its batch."""
        return run(
            self._inner.position_stats(
                topic, subscription, ledger_id, entry_id, batch_index=batch_index
            )
        )


class ReadAdmin:
    def __init__(self, inner: AsyncReadAdmin) -> None:
        self._inner = inner

    def plan(self, query: Mapping[str, Any]) -> ReadPlanAnswer:
        """What topics hold, part by part: segments or partitions, their ledgers, ends and lag.

        A query has `topics`, or a `namespace` with a `pattern` or `properties`, and may have
        `positions` up to which it has read. With the `version` of an earlier answer, only changes
        are answered, and without topics only whether there are any. It takes the right to
        consume each topic.
        """
        return run(self._inner.plan(query))

    def cut(self, query: Mapping[str, Any]) -> Sequence[ReachedAnswer]:
        """How far parts may be read together within a number of messages or bytes, by exact counts.

        Each of the `parts` has a `name`, and `after` and `through` as positions.
        """
        return run(self._inner.cut(query))

    def move_hold(self, hold: str, moves: Iterable[Mapping[str, Any]]) -> Names:
        """Keep what stands behind a position of each part; make the hold where it is missing.

        Parts that are gone are answered.
        """
        return run(self._inner.move_hold(hold, moves))

    def holds(self, namespace: str) -> dict[str, ReadHold]:
        """The holds on topics of a namespace: their topics, and how many entries each keeps."""
        return run(self._inner.holds(namespace))

    def release_hold(self, namespace: str, hold: str) -> int:
        """End a hold on all topics of a namespace; answer on how many it was."""
        return run(self._inner.release_hold(namespace, hold))


class _Core(AsyncAdmin):
    def _make_network(self) -> Network:
        return SocketNetwork()


class AdminClient:
    """The admin REST API over HTTP connections that stay open; a context manager.

    Threads may share it. A refused call raises an AdminError with the status and the broker's
    reason; a broker that cannot be reached raises AdminUnreachable.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        authentication: Authentication | None = None,
        tls: Tls | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._inner = _Core(
            url, token=token, authentication=authentication, tls=tls, timeout=timeout
        )
        self.clusters = ClusterAdmin(self._inner.clusters)
        self.bookies = BookieAdmin(self._inner.bookies)
        self.brokers = BrokerAdmin(self._inner.brokers)
        self.tenants = TenantAdmin(self._inner.tenants)
        self.namespaces = NamespaceAdmin(self._inner.namespaces)
        self.topics = TopicAdmin(self._inner.topics)
        self.scalable_topics = ScalableTopicAdmin(self._inner.scalable_topics)
        self.subscriptions = SubscriptionAdmin(self._inner.subscriptions)
        self.schemas = SchemaAdmin(self._inner.schemas)
        self.topic_policies = TopicPolicyAdmin(self._inner.topic_policies)
        self.transactions = TransactionAdmin(self._inner.transactions)
        self.reads = ReadAdmin(self._inner.reads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        return self._inner.url

    def close(self) -> None:
        """Calls under way finish; later ones raise AlreadyClosedError."""
        run(self._inner.close())
