"""The commands of `magnetar admin clusters` that do more than one call."""

from __future__ import annotations

from typing import Any, Final

from magnetar.cli.command import Options
from magnetar.cli.derive import Own


def _data(options: Options) -> dict[str, Any]:
    data = {
        "serviceUrl": options.url,
        "serviceUrlTls": options.url_secure,
        "brokerServiceUrl": options.broker_url,
        "brokerServiceUrlTls": options.broker_url_secure,
        "proxyServiceUrl": options.proxy_url,
    }
    return {key: value for key, value in data.items() if value is not None}


def _list(admin: Any, options: Options) -> list[str]:
    names: list[str] = admin.clusters.list()
    if not options.current:
        return names
    current = admin.brokers.runtime_configuration().get("clusterName")
    return [f"{name}(*)" if name == current else name for name in names]


def _create(admin: Any, options: Options) -> None:
    admin.clusters.create(options.cluster, _data(options))


def _update(admin: Any, options: Options) -> None:
    admin.clusters.update(options.cluster, admin.clusters.get(options.cluster) | _data(options))


def _delete(admin: Any, options: Options) -> None:
    if options.all:
        admin.clusters.get(options.cluster)  # refused before anything of another one is deleted
        for tenant in admin.tenants.list():
            for namespace in admin.namespaces.list(tenant):
                for topic in admin.topics.list_partitioned(namespace):
                    admin.topics.delete_partitioned(topic, force=True)
                for topic in admin.topics.list(namespace):
                    admin.topics.delete(topic, force=True)
                admin.namespaces.delete(namespace)
            admin.tenants.delete(tenant)
    admin.clusters.delete(options.cluster)


OWN: Final[Own] = {
    "clusters.list": _list,
    "clusters.create": _create,
    "clusters.update": _update,
    "clusters.delete": _delete,
}
