"""/admin/v2/brokers and /admin/v2/broker-stats"""

from __future__ import annotations

from magnetar.admin.request import Call
from magnetar.admin.response import TEXT, text_response
from magnetar.admin.route import Priority, Query, Table
from magnetar.broker.api import BrokerApi
from magnetar.model.permission import AUTHENTICATED, SUPER_USER

TABLE = Table("brokers", "/admin/v2/brokers")
STATS_TABLE = Table("broker_stats", "/admin/v2/broker-stats")


async def list_brokers(api: BrokerApi, call: Call) -> object:
    """Addresses of the brokers that serve."""
    return await api.brokers.list()


async def get_leader(api: BrokerApi, call: Call) -> object:
    """The broker that leads the cluster."""
    return await api.brokers.leader()


async def get_ledger_files(api: BrokerApi, call: Call) -> object:
    """The directory of the ledgers, for readers on the same machine."""
    return api.brokers.ledger_files()


async def get_version(api: BrokerApi, call: Call) -> object:
    """The version this broker runs."""
    return text_response(api.brokers.version)


async def check_health(api: BrokerApi, call: Call) -> object:
    """Produce and read a message on the heartbeat topic."""
    await api.brokers.check_health(call.query("brokerId"))
    return text_response("ok")


async def check_ready(api: BrokerApi, call: Call) -> object:
    """Whether the broker serves, messages that come in too."""
    api.brokers.check_ready()
    return text_response("ok")


async def list_dynamic_names(api: BrokerApi, call: Call) -> object:
    """Configuration keys that can change at run time."""
    return api.brokers.dynamic_names()


async def get_dynamic_values(api: BrokerApi, call: Call) -> object:
    """Configuration values that were changed at run time."""
    return await api.brokers.dynamic_values()


async def get_runtime_values(api: BrokerApi, call: Call) -> object:
    """Every configuration value in force."""
    return api.brokers.runtime_values()


async def get_internal_configuration(api: BrokerApi, call: Call) -> object:
    """Where metadata is kept."""
    return api.brokers.internal_configuration()


async def update_dynamic(api: BrokerApi, call: Call) -> object:
    """Change a configuration value of all brokers."""
    await api.brokers.update_dynamic(call.text("key"), call.text("value"))
    return None


async def delete_dynamic(api: BrokerApi, call: Call) -> object:
    """Go back to the configured value."""
    await api.brokers.delete_dynamic(call.text("key"))
    return None


async def get_owned_namespaces(api: BrokerApi, call: Call) -> object:
    """The bundles a broker owns."""
    return await api.brokers.owned_namespaces(call.text("broker"))


async def check_backlog_quota(api: BrokerApi, call: Call) -> object:
    """Apply the backlog quotas now."""
    await api.brokers.check_backlog_quota()
    return None


async def get_topic_stats(api: BrokerApi, call: Call) -> object:
    """Stats of all loaded topics, by namespace, bundle and domain."""
    return await api.brokers.topic_stats()


async def get_metrics(api: BrokerApi, call: Call) -> object:
    """Numbers of each namespace and of the broker."""
    return api.brokers.metrics()


async def get_load_report(api: BrokerApi, call: Call) -> object:
    """What the broker carries."""
    return await api.brokers.load_report()


TABLE.add("GET", "", list_brokers, SUPER_USER)
TABLE.add("GET", "/{cluster}", list_brokers, SUPER_USER, operation="list_brokers_of_cluster")
TABLE.add("GET", "/leaderBroker", get_leader, SUPER_USER)
# Whoever reads the files reads every topic.
TABLE.add("GET", "/ledger-files", get_ledger_files, SUPER_USER)
TABLE.add("GET", "/version", get_version, AUTHENTICATED, produces=TEXT)
TABLE.add(
    "GET",
    "/health",
    check_health,
    SUPER_USER,
    priority=Priority.P0,
    produces=TEXT,
    query=(Query("brokerId", str), Query("topicVersion", str)),
)
TABLE.add("GET", "/ready", check_ready, AUTHENTICATED, priority=Priority.P0, produces=TEXT)
TABLE.add("GET", "/configuration", list_dynamic_names, SUPER_USER)
TABLE.add("GET", "/configuration/values", get_dynamic_values, SUPER_USER)
TABLE.add("GET", "/configuration/runtime", get_runtime_values, SUPER_USER)
TABLE.add("GET", "/internal-configuration", get_internal_configuration, SUPER_USER)
TABLE.add(
    "POST",
    "/configuration/{key}/{value}",
    update_dynamic,
    SUPER_USER,
    priority=Priority.P2,
    status=200,
)
TABLE.add(
    "DELETE", "/configuration/{key}", delete_dynamic, SUPER_USER, priority=Priority.P2, status=200
)
TABLE.add(
    "GET",
    "/{cluster}/{broker}/ownedNamespaces",
    get_owned_namespaces,
    SUPER_USER,
    priority=Priority.P2,
)
TABLE.add(
    "GET", "/backlog-quota-check", check_backlog_quota, SUPER_USER, priority=Priority.P2, status=204
)
STATS_TABLE.add("GET", "/topics", get_topic_stats, SUPER_USER)
STATS_TABLE.add("GET", "/metrics", get_metrics, SUPER_USER)
STATS_TABLE.add("GET", "/load-report", get_load_report, SUPER_USER)
