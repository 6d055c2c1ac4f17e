"""Clusters."""

from __future__ import annotations

from typing import Final

from magnetar.model.permission import AUTHENTICATED, SUPER_USER
from magnetar.operation.row import Kind, Result, Table, Verb, body, field, local, path

TABLE: Final = Table("clusters", "/admin/v2/clusters")
ONE: Final = TABLE.below("/{cluster}", path("cluster", "name of the cluster"))
_DOMAINS: Final = ONE.below("/failureDomains")
_DOMAIN: Final = _DOMAINS.below(
    "/{domain}", path("domain", "name of the failure domain", "--domain-name")
)
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
    AUTHENTICATED,
    "Names of all clusters.",
    local("current", Kind.FLAG).asked("mark the cluster that answers", "-c", "--current"),
    result=Result.NAMES,
    cli=Verb("list", "list clusters"),
)
ONE.add(
    "get",
    "GET",
    SUPER_USER,
    "One cluster's addresses.",
    result=Result.DOCUMENT,
    cli=Verb("get", "show a cluster"),
)
ONE.add(
    "create",
    "PUT",
    SUPER_USER,
    "Make a cluster known.",
    *_DATA,
    status=200,
    cli=Verb("create", "add a cluster"),
)
ONE.add(
    "update",
    "POST",
    SUPER_USER,
    "Change a cluster's addresses.",
    *_DATA,
    status=200,
    cli=Verb("update", "change a cluster"),
)
ONE.add(
    "delete",
    "DELETE",
    SUPER_USER,
    "Forget a cluster that no namespace uses.",
    local("all", Kind.FLAG).asked("with all its tenants, namespaces and topics", "-a", "--all"),
    cli=Verb("delete", "remove a cluster"),
)
ONE.add(
    "peers",
    "GET /peers",
    SUPER_USER,
    "The cluster's peers, if they are set.",
    result=Result.NAMES,
    cli=Verb("get-peer-clusters", "list the peers of a cluster"),
)
ONE.add(
    "set_peers",
    "POST /peers",
    SUPER_USER,
    "Set the cluster's peers.",
    body("peers", Kind.NAMES).asked("names, with commas", "--peer-clusters"),
    cli=Verb("update-peer-clusters", "set the peers of a cluster"),
)
# Failure domains are not served here; other brokers have them.
_DOMAINS.compose(
    "failure_domains",
    "All failure domains of a cluster, by name.",
    call="GET",
    result=Result.TABLE,
    cli=Verb("list-failure-domains", "list the failure domains of a cluster"),
)
_DOMAIN.compose(
    "failure_domain",
    "One failure domain of a cluster.",
    call="GET",
    result=Result.DOCUMENT,
    cli=Verb("get-failure-domain", "show a failure domain"),
)
_DOMAIN.compose(
    "set_failure_domain",
    "Make or change a failure domain.",
    field("brokers", Kind.NAMES).asked("brokers, with commas", "--broker-list"),
    call="POST",
    cli=Verb("create-failure-domain", "add a failure domain", ("update-failure-domain",)),
)
_DOMAIN.compose(
    "delete_failure_domain",
    "Remove a failure domain.",
    call="DELETE",
    cli=Verb("delete-failure-domain", "remove a failure domain"),
)
