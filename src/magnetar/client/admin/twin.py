"""The admin client for asyncio: every method of the blocking one, under the same name.

A thread of its own carries the calls out, one after the other, as the blocking client would. So the
paths, bodies and refusals of the REST API are known in one place, and the event loop never waits.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

from magnetar.client.admin.broker import BrokerAdmin
from magnetar.client.admin.cluster import ClusterAdmin
from magnetar.client.admin.namespace import NamespaceAdmin
from magnetar.client.admin.policy import TopicPolicyAdmin
from magnetar.client.admin.scalable import ScalableAdmin
from magnetar.client.admin.schema import SchemaAdmin
from magnetar.client.admin.service import AdminClient
from magnetar.client.admin.subscription import SubscriptionAdmin
from magnetar.client.admin.tenant import TenantAdmin
from magnetar.client.admin.topic import TopicAdmin
from magnetar.client.authentication import Authentication
from magnetar.client.tls import TlsPolicy

A = TypeVar("A")
R = TypeVar("R")
P = ParamSpec("P")

_END: Final = object()


class _Group(Generic[A]):
    """One kind of thing, on the thread of its client."""

    def __init__(self, blocking: A, thread: ThreadPoolExecutor) -> None:
        self._blocking = blocking
        self._thread = thread

    async def _call(self, function: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)


def _twin(
    blocking: Callable[Concatenate[A, P], R],
) -> Callable[Concatenate[_Group[A], P], Coroutine[Any, Any, R]]:
    @wraps(blocking)
    async def call(group: _Group[A], /, *given: P.args, **named: P.kwargs) -> R:
        return await group._call(partial(blocking, group._blocking, *given, **named))

    return call


def _stream(
    blocking: Callable[Concatenate[A, P], Iterator[R]],
) -> Callable[Concatenate[_Group[A], P], AsyncIterator[R]]:
    """What is listed one by one is fetched so too."""

    @wraps(blocking)
    async def listing(group: _Group[A], /, *given: P.args, **named: P.kwargs) -> AsyncIterator[R]:
        found = blocking(group._blocking, *given, **named)
        while (one := await group._call(partial(next, found, _END))) is not _END:
            yield one

    return listing


class AsyncClusterAdmin(_Group[ClusterAdmin]):
    create = _twin(ClusterAdmin.create)
    delete = _twin(ClusterAdmin.delete)
    delete_failure_domain = _twin(ClusterAdmin.delete_failure_domain)
    failure_domain = _twin(ClusterAdmin.failure_domain)
    failure_domains = _twin(ClusterAdmin.failure_domains)
    get = _twin(ClusterAdmin.get)
    list = _twin(ClusterAdmin.list)
    peers = _twin(ClusterAdmin.peers)
    set_failure_domain = _twin(ClusterAdmin.set_failure_domain)
    set_peers = _twin(ClusterAdmin.set_peers)
    update = _twin(ClusterAdmin.update)


class AsyncBrokerAdmin(_Group[BrokerAdmin]):
    check_backlog_quota = _twin(BrokerAdmin.check_backlog_quota)
    delete_dynamic = _twin(BrokerAdmin.delete_dynamic)
    dynamic_keys = _twin(BrokerAdmin.dynamic_keys)
    dynamic_values = _twin(BrokerAdmin.dynamic_values)
    health = _twin(BrokerAdmin.health)
    internal_configuration = _twin(BrokerAdmin.internal_configuration)
    is_ready = _twin(BrokerAdmin.is_ready)
    leader = _twin(BrokerAdmin.leader)
    ledger_files = _twin(BrokerAdmin.ledger_files)
    list = _twin(BrokerAdmin.list)
    load_report = _twin(BrokerAdmin.load_report)
    metrics = _twin(BrokerAdmin.metrics)
    namespaces = _twin(BrokerAdmin.namespaces)
    runtime_configuration = _twin(BrokerAdmin.runtime_configuration)
    set_dynamic = _twin(BrokerAdmin.set_dynamic)
    shutdown = _twin(BrokerAdmin.shutdown)
    topic_stats = _twin(BrokerAdmin.topic_stats)
    version = _twin(BrokerAdmin.version)


class AsyncTenantAdmin(_Group[TenantAdmin]):
    create = _twin(TenantAdmin.create)
    delete = _twin(TenantAdmin.delete)
    get = _twin(TenantAdmin.get)
    list = _twin(TenantAdmin.list)
    update = _twin(TenantAdmin.update)


class AsyncNamespaceAdmin(_Group[NamespaceAdmin]):
    bundles = _twin(NamespaceAdmin.bundles)
    clear_backlog = _twin(NamespaceAdmin.clear_backlog)
    clear_properties = _twin(NamespaceAdmin.clear_properties)
    create = _twin(NamespaceAdmin.create)
    delete = _twin(NamespaceAdmin.delete)
    get = _twin(NamespaceAdmin.get)
    grant = _twin(NamespaceAdmin.grant)
    grant_subscription = _twin(NamespaceAdmin.grant_subscription)
    list = _twin(NamespaceAdmin.list)
    permissions = _twin(NamespaceAdmin.permissions)
    policy = _twin(NamespaceAdmin.policy)
    properties = _twin(NamespaceAdmin.properties)
    property = _twin(NamespaceAdmin.property)
    rebucket = _twin(NamespaceAdmin.rebucket)
    remove_policy = _twin(NamespaceAdmin.remove_policy)
    remove_property = _twin(NamespaceAdmin.remove_property)
    revoke = _twin(NamespaceAdmin.revoke)
    revoke_subscription = _twin(NamespaceAdmin.revoke_subscription)
    set_policy = _twin(NamespaceAdmin.set_policy)
    set_properties = _twin(NamespaceAdmin.set_properties)
    set_property = _twin(NamespaceAdmin.set_property)
    split_bundle = _twin(NamespaceAdmin.split_bundle)
    subscription_permissions = _twin(NamespaceAdmin.subscription_permissions)
    topic_buckets = _twin(NamespaceAdmin.topic_buckets)
    topics = _twin(NamespaceAdmin.topics)
    unload = _twin(NamespaceAdmin.unload)
    unsubscribe = _twin(NamespaceAdmin.unsubscribe)


class AsyncTopicAdmin(_Group[TopicAdmin]):
    backlog_size = _twin(TopicAdmin.backlog_size)
    bundle_range = _twin(TopicAdmin.bundle_range)
    compact = _twin(TopicAdmin.compact)
    compaction_status = _twin(TopicAdmin.compaction_status)
    count = _twin(TopicAdmin.count)
    create = _twin(TopicAdmin.create)
    create_missed_partitions = _twin(TopicAdmin.create_missed_partitions)
    create_partitioned = _twin(TopicAdmin.create_partitioned)
    delete = _twin(TopicAdmin.delete)
    delete_partitioned = _twin(TopicAdmin.delete_partitioned)
    examine = _twin(TopicAdmin.examine)
    grant = _twin(TopicAdmin.grant)
    internal_info = _twin(TopicAdmin.internal_info)
    internal_stats = _twin(TopicAdmin.internal_stats)
    last_message_id = _twin(TopicAdmin.last_message_id)
    list = _twin(TopicAdmin.list)
    list_partitioned = _twin(TopicAdmin.list_partitioned)
    lookup = _twin(TopicAdmin.lookup)
    message_id_at = _twin(TopicAdmin.message_id_at)
    message_id_by_index = _twin(TopicAdmin.message_id_by_index)
    offload = _twin(TopicAdmin.offload)
    offload_status = _twin(TopicAdmin.offload_status)
    page = _twin(TopicAdmin.page)
    partitioned_internal_stats = _twin(TopicAdmin.partitioned_internal_stats)
    partitioned_lookup = _twin(TopicAdmin.partitioned_lookup)
    partitioned_metadata = _twin(TopicAdmin.partitioned_metadata)
    partitioned_stats = _twin(TopicAdmin.partitioned_stats)
    permissions = _twin(TopicAdmin.permissions)
    properties = _twin(TopicAdmin.properties)
    read_entry = _twin(TopicAdmin.read_entry)
    remove_property = _twin(TopicAdmin.remove_property)
    revoke = _twin(TopicAdmin.revoke)
    stats = _twin(TopicAdmin.stats)
    stream = _stream(TopicAdmin.stream)
    terminate = _twin(TopicAdmin.terminate)
    terminate_partitioned = _twin(TopicAdmin.terminate_partitioned)
    trim = _twin(TopicAdmin.trim)
    truncate = _twin(TopicAdmin.truncate)
    unload = _twin(TopicAdmin.unload)
    update_partitioned = _twin(TopicAdmin.update_partitioned)
    update_properties = _twin(TopicAdmin.update_properties)


class AsyncScalableAdmin(_Group[ScalableAdmin]):
    auto_scale_policy = _twin(ScalableAdmin.auto_scale_policy)
    clear_backlog = _twin(ScalableAdmin.clear_backlog)
    create = _twin(ScalableAdmin.create)
    create_subscription = _twin(ScalableAdmin.create_subscription)
    decisions = _twin(ScalableAdmin.decisions)
    delete = _twin(ScalableAdmin.delete)
    delete_subscription = _twin(ScalableAdmin.delete_subscription)
    expire = _twin(ScalableAdmin.expire)
    explain = _twin(ScalableAdmin.explain)
    history = _twin(ScalableAdmin.history)
    last_sequence_id = _twin(ScalableAdmin.last_sequence_id)
    list = _twin(ScalableAdmin.list)
    load = _twin(ScalableAdmin.load)
    merge = _twin(ScalableAdmin.merge)
    metadata = _twin(ScalableAdmin.metadata)
    migrate_to_scalable = _twin(ScalableAdmin.migrate_to_scalable)
    migration_check = _twin(ScalableAdmin.migration_check)
    peek = _twin(ScalableAdmin.peek)
    analyze_backlog = _twin(ScalableAdmin.analyze_backlog)
    policy = _twin(ScalableAdmin.policy)
    properties = _twin(ScalableAdmin.properties)
    prune = _twin(ScalableAdmin.prune)
    remove_auto_scale_policy = _twin(ScalableAdmin.remove_auto_scale_policy)
    scale = _twin(ScalableAdmin.scale)
    seek = _twin(ScalableAdmin.seek)
    segment_internal_stats = _twin(ScalableAdmin.segment_internal_stats)
    segment_stats = _twin(ScalableAdmin.segment_stats)
    segments = _twin(ScalableAdmin.segments)
    set_auto_scale_policy = _twin(ScalableAdmin.set_auto_scale_policy)
    set_properties = _twin(ScalableAdmin.set_properties)
    split = _twin(ScalableAdmin.split)
    stats = _twin(ScalableAdmin.stats)
    subscription = _twin(ScalableAdmin.subscription)
    subscriptions = _twin(ScalableAdmin.subscriptions)


class AsyncSubscriptionAdmin(_Group[SubscriptionAdmin]):
    analyze_backlog = _twin(SubscriptionAdmin.analyze_backlog)
    create = _twin(SubscriptionAdmin.create)
    delete = _twin(SubscriptionAdmin.delete)
    expire = _twin(SubscriptionAdmin.expire)
    expire_all = _twin(SubscriptionAdmin.expire_all)
    expire_to = _twin(SubscriptionAdmin.expire_to)
    list = _twin(SubscriptionAdmin.list)
    peek = _twin(SubscriptionAdmin.peek)
    properties = _twin(SubscriptionAdmin.properties)
    replicated_status = _twin(SubscriptionAdmin.replicated_status)
    reset_to_id = _twin(SubscriptionAdmin.reset_to_id)
    reset_to_time = _twin(SubscriptionAdmin.reset_to_time)
    set_properties = _twin(SubscriptionAdmin.set_properties)
    set_replicated_status = _twin(SubscriptionAdmin.set_replicated_status)
    skip = _twin(SubscriptionAdmin.skip)
    skip_all = _twin(SubscriptionAdmin.skip_all)


class AsyncSchemaAdmin(_Group[SchemaAdmin]):
    check = _twin(SchemaAdmin.check)
    delete = _twin(SchemaAdmin.delete)
    find_version = _twin(SchemaAdmin.find_version)
    get = _twin(SchemaAdmin.get)
    get_all = _twin(SchemaAdmin.get_all)
    metadata = _twin(SchemaAdmin.metadata)
    upload = _twin(SchemaAdmin.upload)


class AsyncTopicPolicyAdmin(_Group[TopicPolicyAdmin]):
    backend = _twin(TopicPolicyAdmin.backend)
    delete = _twin(TopicPolicyAdmin.delete)
    get = _twin(TopicPolicyAdmin.get)
    remove = _twin(TopicPolicyAdmin.remove)
    set = _twin(TopicPolicyAdmin.set)


class AsyncAdmin:
    """Calls over one HTTP connection, in their order; an async context manager."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        authentication: Authentication | None = None,
        tls: TlsPolicy | ssl.SSLContext | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._blocking = AdminClient(
            url, token=token, authentication=authentication, tls=tls, timeout=timeout
        )
        thread = ThreadPoolExecutor(1, thread_name_prefix="magnetar admin")
        self._thread = thread
        self.clusters = AsyncClusterAdmin(self._blocking.clusters, thread)
        self.brokers = AsyncBrokerAdmin(self._blocking.brokers, thread)
        self.tenants = AsyncTenantAdmin(self._blocking.tenants, thread)
        self.namespaces = AsyncNamespaceAdmin(self._blocking.namespaces, thread)
        self.topics = AsyncTopicAdmin(self._blocking.topics, thread)
        self.scalable_topics = AsyncScalableAdmin(self._blocking.scalable_topics, thread)
        self.subscriptions = AsyncSubscriptionAdmin(self._blocking.subscriptions, thread)
        self.schemas = AsyncSchemaAdmin(self._blocking.schemas, thread)
        self.topic_policies = AsyncTopicPolicyAdmin(self._blocking.topic_policies, thread)

    @property
    def url(self) -> str:
        return self._blocking.url

    async def close(self) -> None:
        """After the calls under way; what comes later is refused."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._blocking.close)
        self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
