"""Clusters."""

from __future__ import annotations

from typing import Final

from magnetar.model.permission import AUTHENTICATED, SUPER_USER
from magnetar.operation.row import Kind, Result, Table, Verb, body, field, local, path

TABLE: Final = Table("clusters", "/admin/v2/clusters")
_CLUSTER: Final = path("cluster", "name of the cluster")
_DOMAIN: Final = path("domain", "name of the failure domain", "--domain-name")
_DOMAINS: Final = "/{cluster}/failureDomains"
_DATA: Final = (
    body("data", Kind.DOCUMENT, missing="cluster data is required"),
    local("url").asked("admin address", "--url"),
    local("url_secure").asked("admin address with TLS", "--url-secure"),
    local("broker_url").asked("broker address", "--broker-url"),
    local("broker_url_secure").asked("broker address with TLS", "--broker-url-secure"),
    local("proxy_url").asked("address of a proxy in front of the brokers", "--proxy-url"),
)

TABLE.add(
    "list",
    "GET",
    "",
    AUTHENTICATED,
    "Names of all clusters.",
    local("current", Kind.FLAG).asked("mark the cluster that answers", "-c", "--current"),
    result=Result.NAMES,
    cli=Verb("list", "list clusters"),
)
TABLE.add(
    "get",
    "GET",
    "/{cluster}",
    SUPER_USER,
    "One cluster's addresses.",
    _CLUSTER,
    result=Result.DOCUMENT,
    cli=Verb("get", "show a cluster"),
)
TABLE.add(
    "create",
    "PUT",
    "/{cluster}",
    SUPER_USER,
    "Make a cluster known.",
    _CLUSTER,
    *_DATA,
    status=200,
    cli=Verb("create", "add a cluster"),
)
TABLE.add(
    "update",
    "POST",
    "/{cluster}",
    SUPER_USER,
    "Change a cluster's addresses.",
    _CLUSTER,
    *_DATA,
    status=200,
    cli=Verb("update", "change a cluster"),
)
TABLE.add(
    "delete",
    "DELETE",
    "/{cluster}",
    SUPER_USER,
    "Forget a cluster that no namespace uses.",
    _CLUSTER,
    local("all", Kind.FLAG).asked("with all its tenants, namespaces and topics", "-a", "--all"),
    cli=Verb("delete", "remove a cluster"),
)
TABLE.add(
    "peers",
    "GET",
    "/{cluster}/peers",
    SUPER_USER,
    "The cluster's peers, if they are set.",
    _CLUSTER,
    result=Result.NAMES,
    cli=Verb("get-peer-clusters", "list the peers of a cluster"),
)
TABLE.add(
    "set_peers",
    "POST",
    "/{cluster}/peers",
    SUPER_USER,
    "Set the cluster's peers.",
    _CLUSTER,
    body("peers", Kind.NAMES).asked("names, with commas", "--peer-clusters"),
    cli=Verb("update-peer-clusters", "set the peers of a cluster"),
)
# Failure domains are not served here; other brokers have them.
TABLE.compose(
    "failure_domains",
    "All failure domains of a cluster, by name.",
    _CLUSTER,
    method="GET",
    path=_DOMAINS,
    result=Result.TABLE,
    cli=Verb("list-failure-domains", "list the failure domains of a cluster"),
)
TABLE.compose(
    "failure_domain",
    "One failure domain of a cluster.",
    _CLUSTER,
    _DOMAIN,
    method="GET",
    path=f"{_DOMAINS}/{{domain}}",
    result=Result.DOCUMENT,
    cli=Verb("get-failure-domain", "show a failure domain"),
)
TABLE.compose(
    "set_failure_domain",
    "Make or change a failure domain.",
    _CLUSTER,
    _DOMAIN,
    field("brokers", Kind.NAMES).asked("brokers, with commas", "--broker-list"),
    method="POST",
    path=f"{_DOMAINS}/{{domain}}",
    cli=Verb("create-failure-domain", "add a failure domain", ("update-failure-domain",)),
)
TABLE.compose(
    "delete_failure_domain",
    "Remove a failure domain.",
    _CLUSTER,
    _DOMAIN,
    method="DELETE",
    path=f"{_DOMAINS}/{{domain}}",
    cli=Verb("delete-failure-domain", "remove a failure domain"),
)
