"""`magnetar admin brokers`."""

from __future__ import annotations

from typing import Final

from magnetar.cli.command import Argument, Flag, Switch, Verb

_KEY: Final = Flag(("-c", "--config"), "configuration key", required=True)

VERBS: Final = (
    Verb(
        "list",
        "list the brokers of a cluster",
        (Argument("cluster", "name of the cluster", optional=True),),
        lambda a, o: a.brokers.list(o.cluster),
    ),
    Verb("leader-broker", "show the leader", (), lambda a, o: a.brokers.leader()),
    Verb(
        "namespaces",
        "list the bundles a broker owns",
        (
            Argument("cluster", "name of the cluster"),
            Flag(("-u", "--url"), "broker as host:port", required=True),
        ),
        lambda a, o: a.brokers.namespaces(o.cluster, o.url),
    ),
    Verb(
        "healthcheck",
        "let the broker publish and read a message",
        (),
        lambda a, o: a.brokers.health(),
    ),
    Verb("version", "show the broker's version", (), lambda a, o: a.brokers.version()),
    Verb(
        "list-dynamic-config",
        "list the keys that can be changed while a broker runs",
        (),
        lambda a, o: a.brokers.dynamic_keys(),
    ),
    Verb(
        "get-all-dynamic-config",
        "show the keys that were changed while a broker ran",
        (),
        lambda a, o: a.brokers.dynamic_values(),
    ),
    Verb(
        "update-dynamic-config",
        "change a key now",
        (_KEY, Flag(("-v", "--value"), "new value", required=True)),
        lambda a, o: a.brokers.set_dynamic(o.config, o.value),
        shows=False,
    ),
    Verb(
        "delete-dynamic-config",
        "take a change back",
        (_KEY,),
        lambda a, o: a.brokers.delete_dynamic(o.config),
        shows=False,
    ),
    Verb(
        "get-runtime-config",
        "show every key as it is now",
        (),
        lambda a, o: a.brokers.runtime_configuration(),
    ),
    Verb(
        "get-internal-config",
        "show where the broker keeps its data",
        (),
        lambda a, o: a.brokers.internal_configuration(),
    ),
    Verb(
        "backlog-quota-check",
        "check every backlog now",
        (),
        lambda a, o: a.brokers.check_backlog_quota(),
        shows=False,
    ),
    Verb(
        "shutdown",
        "stop the broker",
        (
            Flag(
                ("-m", "--max-concurrent-unload-per-sec"),
                "topics to let go per second, 0 for no limit (0)",
                parse=int,
                default=0,
            ),
            Switch(("-f", "--forced-terminate-topic"), "do not wait for topics"),
        ),
        lambda a, o: a.brokers.shutdown(
            unloads_per_s_max=o.max_concurrent_unload_per_sec, forced=o.forced_terminate_topic
        ),
        shows=False,
    ),
)
