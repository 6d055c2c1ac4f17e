"""`magnetar admin clusters`."""

from __future__ import annotations

from typing import Any, Final

from magnetar.cli.command import Argument, Flag, Options, Switch, Verb
from magnetar.cli.value import parse_list

CLUSTER: Final = Argument("cluster", "name of the cluster")
_DOMAIN: Final = Flag(("--domain-name",), "name of the failure domain", required=True)
_BROKERS: Final = Flag(("--broker-list",), "brokers, with commas", parse=parse_list)
_DATA: Final = (
    Flag(("--url",), "admin address"),
    Flag(("--url-secure",), "admin address with TLS"),
    Flag(("--broker-url",), "broker address"),
    Flag(("--broker-url-secure",), "broker address with TLS"),
    Flag(("--proxy-url",), "address of a proxy in front of the brokers"),
)


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


def _update(admin: Any, options: Options) -> None:
    admin.clusters.update(options.cluster, admin.clusters.get(options.cluster) | _data(options))


def _delete(admin: Any, options: Options) -> None:
    if options.all:
        for tenant in admin.tenants.list():
            for namespace in admin.namespaces.list(tenant):
                for topic in admin.topics.list_partitioned(namespace):
                    admin.topics.delete_partitioned(topic, force=True)
                for topic in admin.topics.list(namespace):
                    admin.topics.delete(topic, force=True)
                admin.namespaces.delete(namespace)
            admin.tenants.delete(tenant)
    admin.clusters.delete(options.cluster)


def _set_domain(admin: Any, options: Options) -> None:
    brokers = options.broker_list or []
    admin.clusters.set_failure_domain(options.cluster, options.domain_name, brokers)


VERBS: Final = (
    Verb(
        "list",
        "list clusters",
        (Switch(("-c", "--current"), "mark the cluster that answers"),),
        _list,
    ),
    Verb("get", "show a cluster", (CLUSTER,), lambda a, o: a.clusters.get(o.cluster)),
    Verb(
        "create",
        "add a cluster",
        (CLUSTER, *_DATA),
        lambda a, o: a.clusters.create(o.cluster, _data(o)),
        shows=False,
    ),
    Verb("update", "change a cluster", (CLUSTER, *_DATA), _update, shows=False),
    Verb(
        "delete",
        "remove a cluster",
        (CLUSTER, Switch(("-a", "--all"), "with all its tenants, namespaces and topics")),
        _delete,
        shows=False,
    ),
    Verb(
        "get-peer-clusters",
        "list the peers of a cluster",
        (CLUSTER,),
        lambda a, o: a.clusters.peers(o.cluster),
    ),
    Verb(
        "update-peer-clusters",
        "set the peers of a cluster",
        (
            CLUSTER,
            Flag(("--peer-clusters",), "names, with commas", parse=parse_list, required=True),
        ),
        lambda a, o: a.clusters.set_peers(o.cluster, o.peer_clusters),
        shows=False,
    ),
    Verb(
        "list-failure-domains",
        "list the failure domains of a cluster",
        (CLUSTER,),
        lambda a, o: a.clusters.failure_domains(o.cluster),
    ),
    Verb(
        "get-failure-domain",
        "show a failure domain",
        (CLUSTER, _DOMAIN),
        lambda a, o: a.clusters.failure_domain(o.cluster, o.domain_name),
    ),
    Verb(
        "create-failure-domain",
        "add a failure domain",
        (CLUSTER, _DOMAIN, _BROKERS),
        _set_domain,
        aliases=("update-failure-domain",),
        shows=False,
    ),
    Verb(
        "delete-failure-domain",
        "remove a failure domain",
        (CLUSTER, _DOMAIN),
        lambda a, o: a.clusters.delete_failure_domain(o.cluster, o.domain_name),
        shows=False,
    ),
)
