"""The commands of `magnetar admin` that do more than call one method of the client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

from magnetar import AdminNotFound, ConfigurationError, MessageId
from magnetar.cli.command import Options, UsageError, read_file
from magnetar.cli.derive import Own, Run
from magnetar.cli.describe import describe


# Clusters
def _cluster_data(options: Options) -> dict[str, Any]:
    data = {
        "serviceUrl": options.url,
        "serviceUrlTls": options.url_secure,
        "brokerServiceUrl": options.broker_url,
        "brokerServiceUrlTls": options.broker_url_secure,
        "proxyServiceUrl": options.proxy_url,
    }
    return {key: value for key, value in data.items() if value is not None}


def _list_clusters(admin: Any, options: Options) -> list[str]:
    names: list[str] = admin.clusters.list()
    if not options.current:
        return names
    current = admin.brokers.runtime_configuration().get("clusterName")
    return [f"{name}(*)" if name == current else name for name in names]


def _delete_cluster(admin: Any, options: Options) -> None:
    if options.all:
        namespaces = _find_namespaces(admin, options.cluster)
        for tenant, names in namespaces.items():
            for namespace in names:
                _delete_topics(admin, namespace)
                admin.namespaces.delete(namespace)
            admin.tenants.delete(tenant)
    admin.clusters.delete(options.cluster)


def _find_namespaces(admin: Any, cluster: str) -> dict[str, list[str]]:
    """By tenant. What would refuse the end of it all refuses its beginning: nothing comes back."""
    admin.clusters.get(cluster)
    if policies := _find_any(admin.clusters.isolation_policies, cluster):
        raise ConfigurationError(f"{cluster} has isolation policies: {', '.join(policies)}")
    found = {tenant: admin.namespaces.list(tenant) for tenant in admin.tenants.list()}
    for namespace in chain.from_iterable(found.values()):
        clusters = admin.namespaces.policy(namespace, "clusters")
        if len(clusters or ()) > 1:
            raise ConfigurationError(f"{namespace} is replicated to {', '.join(clusters)}")
    return found


def _find_any(find: Callable[[str], Iterable[str]], name: str) -> list[str]:
    """Some brokers refuse what has none, or do not know of such things at all."""
    try:
        return [*find(name)]
    except AdminNotFound:
        return []


def _delete_topics(admin: Any, namespace: str) -> None:
    """Scalable ones go with their segments. A namespace with any partitioned one is not deleted."""
    for topic in _find_any(admin.scalable_topics.list, namespace):
        admin.scalable_topics.delete(topic, force=True)
    for topic in admin.topics.list_partitioned(namespace, include_system=True):
        admin.topics.delete_partitioned(topic, force=True)
    for topic in admin.topics.list(namespace):
        admin.topics.delete(topic, force=True)


def _isolation_policy(admin: Any, options: Options) -> dict[str, Any]:
    data = {
        "namespaces": options.namespaces,
        "primary": options.primary,
        "secondary": options.secondary or [],
        "auto_failover_policy": {
            "policy_type": options.auto_failover_policy_type,
            "parameters": dict(options.auto_failover_policy_params),
        },
        "unload_scope": options.unload_scope,
    }
    return {key: value for key, value in data.items() if value is not None}


# Bookies
def _bookie_info(admin: Any, options: Options) -> dict[str, str]:
    if not options.rack.strip().strip("/"):
        raise UsageError("magnetar: a rack has a name")
    info = {"rack": options.rack, "hostname": options.hostname}
    return {key: value for key, value in info.items() if value is not None}


# Topics
def _offload(admin: Any, options: Options) -> str:
    """Move whole ledgers until what stays is below the size."""
    stats = admin.topics.internal_stats(options.topic)
    ledgers = stats["ledgers"]
    if ledgers:
        ledgers[-1]["size"] = stats["currentLedgerSize"]
    kept = 0
    for place in range(len(ledgers) - 1, -1, -1):
        kept += ledgers[place]["size"]
        if kept > options.size_threshold and place < len(ledgers) - 1:
            admin.topics.offload(options.topic, MessageId(ledgers[place + 1]["ledgerId"], 0))
            return f"moving everything before ledger {ledgers[place + 1]['ledgerId']}"
    return "nothing to move"


def _set_deduplication(enabled: bool) -> Run:
    return lambda a, o: a.topic_policies.set(o.topic, "deduplication", enabled)


# Subscriptions
def _move(to_id: str, id: str, to_time: str, time: str) -> Run:
    """By a message or a time: the two methods, and the options that ask for them."""

    def run(admin: Any, options: Options) -> None:
        given, place = vars(options), (options.topic, options.subscription)
        if given[id] is not None:
            move = getattr(admin.subscriptions, to_id)
            move(*place, given[id], excluded=options.exclude_reset_position)
        elif given[time] is not None:
            getattr(admin.subscriptions, to_time)(*place, given[time])
        else:
            raise UsageError(f"magnetar: give one of --{id} and --{time}")

    return run


def _properties(admin: Any, options: Options) -> dict[str, str]:
    if not options.property and not options.clear:
        raise UsageError("magnetar: give --property, or --clear to remove all")
    return {} if options.clear else dict(options.property)


def _choose_enabled(admin: Any, options: Options) -> bool:
    if options.enable == options.disable:
        raise UsageError("magnetar: give one of --enable and --disable")
    return bool(options.enable)


# Schemas
def _schema(options: Options) -> dict[str, Any]:
    path = Path(options.filename)
    try:
        document = json.loads(read_file(path))
        return {
            "type": document["type"],
            "definition": document["schema"],
            "properties": document.get("properties", {}),
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f'magnetar: {path} is not JSON with "type" and "schema"') from None


def _get_schema(admin: Any, options: Options) -> Any:
    if options.version is not None and options.all_version:
        raise UsageError("magnetar: give one of --version and --all-version")
    if options.all_version:
        return admin.schemas.get_all(options.topic)
    return admin.schemas.get(options.topic, version=options.version)


OWN: Final[Mapping[str, Own]] = {
    "clusters.list": Own(_list_clusters),
    "clusters.create": Own(build=lambda a, o: _cluster_data(o)),
    "clusters.update": Own(build=lambda a, o: a.clusters.get(o.cluster) | _cluster_data(o)),
    "clusters.delete": Own(_delete_cluster),
    "topics.describe": Own(describe),
    "clusters.set_isolation_policy": Own(build=_isolation_policy),
    "bookies.set_rack": Own(build=_bookie_info),
    "topics.lookup": Own(lambda a, o: a.topics.lookup(o.topic)["brokerUrl"]),
    "topics.enable_deduplication": Own(_set_deduplication(True)),
    "topics.disable_deduplication": Own(_set_deduplication(False)),
    "topics.offload_beyond": Own(_offload),
    "subscriptions.reset": Own(_move("reset_to_id", "messageId", "reset_to_time", "time")),
    "subscriptions.expire_by": Own(_move("expire_to", "position", "expire", "expireTime")),
    "subscriptions.set_properties": Own(build=_properties),
    "subscriptions.set_replicated_status": Own(build=_choose_enabled),
    "schemas.get": Own(_get_schema),
    "schemas.upload": Own(lambda a, o: {"version": a.schemas.upload(o.topic, **_schema(o))}),
    "schemas.check": Own(lambda a, o: a.schemas.check(o.topic, **_schema(o))),
}
