"""Clusters."""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.broker import FailureDomain
from magnetar.model.answer.record import ClusterAnswer, IsolatedBrokerAnswer, IsolationPolicyAnswer
from magnetar.model.permission import AUTHENTICATED, SUPER_USER
from magnetar.operation.row import (
    REQUIRED,
    Answer,
    Form,
    Kind,
    Reader,
    Result,
    Table,
    Verb,
    body,
    field,
    local,
    path,
)

TABLE: Final = Table("clusters", "/admin/v2/clusters")
ONE: Final = TABLE.below("/{cluster}", path("cluster", "name of the cluster"))
_DOMAINS: Final = ONE.below("/failureDomains")
_DOMAIN: Final = _DOMAINS.below(
    "/{domain}", path("domain", "name of the failure domain", "--domain-name")
)
_ISOLATION: Final = "ns-isolation-policy"
_POLICIES: Final = ONE.below("/namespaceIsolationPolicies")
_POLICY: Final = _POLICIES.below("/{policy}", path("policy", "name of the policy"))
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
    result=Answer(ClusterAnswer),
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
_POLICIES.add(
    "isolation_policies",
    "GET",
    SUPER_USER,
    "The isolation policies of a cluster, by name.",
    result=Answer(IsolationPolicyAnswer, Form.BY_NAME),
    cli=Verb("list", "list the isolation policies of a cluster", group=_ISOLATION),
)
# Before the policy of a name, which would be taken for it.
_POLICIES.add(
    "isolated_brokers",
    "GET /brokers",
    SUPER_USER,
    "The brokers of a cluster, and what isolation policies keep for each.",
    result=Answer(IsolatedBrokerAnswer, Form.LIST),
    cli=Verb("brokers", "list the brokers with their isolation policies", group=_ISOLATION),
)
_POLICIES.add(
    "isolated_broker",
    "GET /brokers/{broker}",
    SUPER_USER,
    "What isolation policies keep for a broker.",
    path("broker", "broker as host:port", "--broker"),
    result=Answer(IsolatedBrokerAnswer),
    cli=Verb("broker", "show the isolation policies of a broker", group=_ISOLATION),
)
_POLICY.add(
    "isolation_policy",
    "GET",
    SUPER_USER,
    "One isolation policy of a cluster.",
    result=Answer(IsolationPolicyAnswer),
    cli=Verb("get", "show an isolation policy", group=_ISOLATION),
)
_POLICY.add(
    "set_isolation_policy",
    "POST",
    SUPER_USER,
    "Keep brokers for namespaces, and place those anew that this concerns.",
    body("data", Kind.DOCUMENT, missing="isolation policy data is required"),
    local("namespaces", Kind.NAMES, REQUIRED).asked(
        "regular expressions of namespaces, with commas", "--namespaces"
    ),
    local("primary", Kind.NAMES, REQUIRED).asked(
        "regular expressions of brokers, with commas", "--primary"
    ),
    local("secondary", Kind.NAMES).asked(
        "brokers that are taken while there are too few primary ones", "--secondary"
    ),
    local("auto_failover_policy_type", default=REQUIRED).asked(
        "min_available", "--auto-failover-policy-type"
    ),
    local("auto_failover_policy_params", Kind.PROPERTIES, REQUIRED).asked(
        "min_limit=N,usage_threshold=PERCENT", "--auto-failover-policy-params", reader=Reader.PAIRS
    ),
    local("unload_scope").asked(
        "namespaces to place anew: changed (default), all_matching or none", "--unload-scope"
    ),
    cli=Verb("set", "set an isolation policy", group=_ISOLATION),
)
_POLICY.add(
    "delete_isolation_policy",
    "DELETE",
    SUPER_USER,
    "Remove an isolation policy.",
    cli=Verb("delete", "remove an isolation policy", group=_ISOLATION),
)
# Failure domains are not served here; other brokers have them.
_DOMAINS.compose(
    "failure_domains",
    "All failure domains of a cluster, by name.",
    call="GET",
    result=Answer(FailureDomain, Form.BY_NAME),
    cli=Verb("list-failure-domains", "list the failure domains of a cluster"),
)
_DOMAIN.compose(
    "failure_domain",
    "One failure domain of a cluster.",
    call="GET",
    result=Answer(FailureDomain),
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
