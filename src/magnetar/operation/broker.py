"""Brokers: their health, their configuration, what they carry."""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.broker import (
    LedgerFiles,
    LedgerRecords,
    LoadReport,
    MetricSums,
    OwnedBundle,
)
from magnetar.model.permission import AUTHENTICATED, SUPER_USER
from magnetar.operation.row import (
    TEXT_PLAIN,
    Answer,
    Form,
    Kind,
    Result,
    Table,
    Verb,
    body,
    flag,
    local,
    path,
    query,
)

TABLE: Final = Table("brokers", "/admin/v2/brokers")
_TEXT: Final = (TEXT_PLAIN,)
_CLUSTER: Final = path("cluster", "name of the cluster")
_KEY: Final = path("key", "configuration key", "-c", "--config")
_INDENT: Final = (
    local("indent", Kind.FLAG)
    ._replace(is_ignored=True)
    .asked("accepted; JSON is always indented", "-i", "--indent")
)

TABLE.add(
    "list",
    "GET",
    SUPER_USER,
    "Addresses of the brokers that serve.",
    path("cluster", "name of the cluster", default=None),
    result=Result.NAMES,
    also=("/{cluster}",),
    cli=Verb("list", "list the brokers of a cluster"),
)
TABLE.add(
    "leader",
    "GET /leaderBroker",
    SUPER_USER,
    "The broker that leads the cluster.",
    result=Result.PROPERTIES,
    cli=Verb("leader-broker", "show the leader"),
)
TABLE.add(
    "namespaces",
    "GET /{cluster}/{broker}/ownedNamespaces",
    SUPER_USER,
    "The bundles a broker owns.",
    _CLUSTER,
    path("broker", "broker as host:port", "-u", "--url"),
    result=Answer(OwnedBundle, Form.BY_NAME),
    cli=Verb("namespaces", "list the bundles a broker owns"),
)
# Who reads the files reads every topic.
TABLE.add(
    "ledger_files",
    "GET /ledger-files",
    SUPER_USER,
    "The directory of the ledgers, for readers on the same machine.",
    result=Answer(LedgerFiles),
)
TABLE.add(
    "ledger_records",
    "POST /ledger-records",
    SUPER_USER,
    "The records of ledgers and bookies, for readers that reach the bookies themselves.\n\n"
    "They are answered in base64, by their paths in the metadata store.",
    body("query", Kind.DOCUMENT),
    result=Answer(LedgerRecords),
    status=200,
)
TABLE.add(
    "health",
    "GET /health",
    SUPER_USER,
    "Let the broker publish and read a message on its heartbeat topic: `ok`, or a refusal.",
    query("broker_id"),
    query("topic_version")._replace(is_ignored=True),
    result=Result.TEXT,
    cli=Verb("healthcheck", "let the broker publish and read a message"),
    produces=_TEXT,
)
TABLE.add(
    "version",
    "GET /version",
    AUTHENTICATED,
    "The version this broker runs.",
    result=Result.TEXT,
    cli=Verb("version", "show the broker's version"),
    produces=_TEXT,
)
TABLE.add(
    "is_ready",
    "GET /ready",
    AUTHENTICATED,
    "Whether the broker serves, messages that come in too: `ok`, or a refusal.",
    result=Result.TEXT,
    produces=_TEXT,
)
TABLE.add(
    "dynamic_keys",
    "GET /configuration",
    SUPER_USER,
    "Configuration keys that can change at run time.",
    result=Result.NAMES,
    cli=Verb("list-dynamic-config", "list the keys that can be changed while a broker runs"),
)
TABLE.add(
    "dynamic_values",
    "GET /configuration/values",
    SUPER_USER,
    "Configuration values that were changed at run time.",
    result=Result.PROPERTIES,
    cli=Verb("get-all-dynamic-config", "show the keys that were changed while a broker ran"),
)
TABLE.add(
    "set_dynamic",
    "POST /configuration/{key}/{value}",
    SUPER_USER,
    "Change a configuration value of all brokers.",
    _KEY,
    path("value", "new value", "-v", "--value"),
    cli=Verb("update-dynamic-config", "change a key now"),
    status=200,
)
TABLE.add(
    "delete_dynamic",
    "DELETE /configuration/{key}",
    SUPER_USER,
    "Go back to the configured value.",
    _KEY,
    cli=Verb("delete-dynamic-config", "take a change back"),
    status=200,
)
TABLE.add(
    "runtime_configuration",
    "GET /configuration/runtime",
    SUPER_USER,
    "Every configuration value in force.",
    result=Result.PROPERTIES,
    cli=Verb("get-runtime-config", "show every key as it is now"),
)
TABLE.add(
    "internal_configuration",
    "GET /internal-configuration",
    SUPER_USER,
    "Where metadata is kept.",
    result=Result.PROPERTIES,
    cli=Verb("get-internal-config", "show where the broker keeps its data"),
)
TABLE.add(
    "check_backlog_quota",
    "GET /backlog-quota-check",
    SUPER_USER,
    "Apply the backlog quotas now.",
    cli=Verb("backlog-quota-check", "check every backlog now"),
    status=204,
)
TABLE.compose(
    "shutdown",
    "Stop the broker.",
    query("unloads_per_s_max", Kind.NUMBER, 0)
    .asked(
        "topics to let go per second, 0 for no limit (0)", "-m", "--max-concurrent-unload-per-sec"
    )
    ._replace(wire="maxConcurrentUnloadPerSec"),
    flag("forced", "forcedTerminateTopic", default=True).asked(
        "do not wait for topics", "-f", "--forced-terminate-topic"
    ),
    call="POST /shutdown",
    cli=Verb("shutdown", "stop the broker"),
)

STATS_TABLE: Final = Table("brokers", "/admin/v2/broker-stats")
STATS_TABLE.add(
    "topic_stats",
    "GET /topics",
    SUPER_USER,
    "Stats of all loaded topics, by namespace, bundle and domain.",
    _INDENT,
    result=Result.DOCUMENT,
    cli=Verb("topics", "stats of every loaded topic", group="broker-stats"),
)
STATS_TABLE.add(
    "metrics",
    "GET /metrics",
    SUPER_USER,
    "Sums over the topics of each namespace.",
    _INDENT,
    result=Answer(MetricSums, Form.LIST),
    cli=Verb("monitoring-metrics", "metrics", group="broker-stats"),
)
STATS_TABLE.add(
    "load_report",
    "GET /load-report",
    SUPER_USER,
    "What the broker carries.",
    result=Answer(LoadReport),
    cli=Verb("load-report", "load of the broker", group="broker-stats"),
)
