"""Calls that are known and not served: each says so instead of pretending there is no such path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from magnetar.admin.request import Call
from magnetar.admin.route import Handler, Priority, Table
from magnetar.broker.api import BrokerApi
from magnetar.errors import FeatureNotSupported
from magnetar.model.permission import (
    AUTHENTICATED,
    NAMESPACE_ADMIN,
    SUPER_USER,
    TOPIC_CONSUME,
    TOPIC_POLICY,
    Need,
)

TABLE = Table("unsupported", "")

_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_CLUSTER: Final = "/admin/v2/clusters/{cluster}"
_ALL: Final = ("GET", "PUT", "POST", "DELETE")
_ROWS: Final[Sequence[tuple[str, Need, str, tuple[str, ...]]]] = (
    ("Cluster migration", SUPER_USER, f"{_CLUSTER}/migrate", ("GET", "POST")),
    ("Failure domains", SUPER_USER, f"{_CLUSTER}/failureDomains", ("GET",)),
    (
        "Failure domains",
        SUPER_USER,
        f"{_CLUSTER}/failureDomains/{{name}}",
        ("GET", "POST", "DELETE"),
    ),
    ("Isolation policies", SUPER_USER, f"{_CLUSTER}/namespaceIsolationPolicies", ("GET",)),
    (
        "Isolation policies",
        SUPER_USER,
        f"{_CLUSTER}/namespaceIsolationPolicies/{{name}}",
        ("GET", "POST", "DELETE"),
    ),
    (
        "Isolation policies",
        SUPER_USER,
        f"{_CLUSTER}/namespaceIsolationPolicies/brokers/{{name}}",
        ("GET",),
    ),
    ("Shutdown over REST", SUPER_USER, "/admin/v2/brokers/shutdown", ("POST",)),
    ("MBean stats", SUPER_USER, "/admin/v2/broker-stats/mbeans", ("GET",)),
    ("Allocator stats", SUPER_USER, "/admin/v2/broker-stats/allocator-stats/{name}", ("GET",)),
    ("Pending bookie operations", SUPER_USER, "/admin/v2/broker-stats/bookieops", ("GET",)),
    ("Bookies", SUPER_USER, "/admin/v2/bookies/all", ("GET",)),
    ("Bookies", SUPER_USER, "/admin/v2/bookies/racks-info", ("GET",)),
    ("Bookies", SUPER_USER, "/admin/v2/bookies/racks-info/{name}", ("GET", "POST", "DELETE")),
    ("Resource quotas", SUPER_USER, "/admin/v2/resource-quotas", ("GET", "POST")),
    (
        "Resource quotas",
        SUPER_USER,
        "/admin/v2/resource-quotas/{tenant}/{namespace}/{bundle}",
        ("GET", "POST", "DELETE"),
    ),
    ("Resource groups", SUPER_USER, "/admin/v2/resourcegroups", ("GET",)),
    ("Resource groups", SUPER_USER, "/admin/v2/resourcegroups/{name}", ("GET", "PUT", "DELETE")),
    ("Resource groups", NAMESPACE_ADMIN, f"{_NAMESPACE}/resourcegroup", ("GET", "DELETE")),
    ("Resource groups", NAMESPACE_ADMIN, f"{_NAMESPACE}/resourcegroup/{{name}}", ("POST",)),
    (
        "Anti-affinity groups of a cluster",
        SUPER_USER,
        "/admin/v2/namespaces/{cluster}/antiAffinity/{group}",
        ("GET",),
    ),
    ("Namespace migration", SUPER_USER, f"{_NAMESPACE}/migration", ("POST",)),
    ("Offloaded ledgers", NAMESPACE_ADMIN, f"{_NAMESPACE}/scanOffloadedLedgers", ("GET",)),
    (
        "Topic hash positions",
        NAMESPACE_ADMIN,
        f"{_NAMESPACE}/{{bundle}}/topicHashPositions",
        ("GET",),
    ),
    ("Offline backlog", TOPIC_CONSUME, f"{_TOPIC}/backlog", ("GET",)),
    ("Message ids by index", TOPIC_CONSUME, f"{_TOPIC}/getMessageIdByIndex", ("GET",)),
    ("Shadow topics", TOPIC_POLICY, f"{_TOPIC}/shadowTopics", ("GET", "PUT", "DELETE")),
    (
        "Replicated subscriptions",
        TOPIC_CONSUME,
        f"{_TOPIC}/subscription/{{subscription}}/replicatedSubscriptionStatus",
        ("POST",),
    ),
)
# Whole interfaces that are not served, whatever stands below them.
_TREES: Final = (
    ("Functions", "/admin/v3/functions"),
    ("Sources", "/admin/v3/sources"),
    ("Sinks", "/admin/v3/sinks"),
    ("Packages", "/admin/v3/packages"),
    ("Transactions", "/admin/v3/transactions"),
    ("The functions worker", "/admin/v2/worker"),
    ("The functions worker", "/admin/v2/worker-stats"),
    ("Producing and consuming over REST", "/topics"),
)
_DEPTH_MAX: Final = 7


def _refuser(feature: str) -> Handler:
    async def refuse(api: BrokerApi, call: Call) -> object:
        raise FeatureNotSupported(f"{feature}: not supported by this broker")

    refuse.__doc__ = f"{feature}: not supported."
    return refuse


def _add(feature: str, need: Need, path: str, methods: Sequence[str]) -> None:
    handler = _refuser(feature)
    for method in methods:
        operation = f"{method.lower()}{path}"
        TABLE.add(
            method, path, handler, need, operation=operation, priority=Priority.P2, status=501
        )


for each_feature, each_need, each_path, each_methods in _ROWS:
    _add(each_feature, each_need, each_path, each_methods)
for each_feature, each_path in _TREES:
    for depth in range(_DEPTH_MAX):
        parts = "".join(f"/{{part{index}}}" for index in range(depth))
        _add(each_feature, AUTHENTICATED, each_path + parts, _ALL)
