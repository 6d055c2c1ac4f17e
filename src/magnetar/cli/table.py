"""The top-level commands, as data: nothing of what they do is imported before one is chosen."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any, Final

from magnetar.cli.command import Argument, Verb, choice, pairs, switch, word
from magnetar.cli.value import parse_pair, parse_seconds

_DATA: Final = Path(os.environ.get("MAGNETAR_DATA", "data"))


def _from_environment(name: str, help: str, variable: str, default: str | None = None) -> Argument:
    key = "MAGNETAR_" + name.lstrip("-").replace("-", "_").upper()
    place = f"{key}, else {default}" if default else key
    return Argument(
        name, f"{help} ({place})", default=os.environ.get(key, default), variable=variable
    )


SERVICE_URL: Final = _from_environment(
    "--url", "broker to connect to", "URL", "pulsar://127.0.0.1:6650"
)
ADMIN_URL: Final = _from_environment(
    "--admin-url", "admin service to call", "URL", "http://127.0.0.1:8080"
)
SECURITY: Final = (
    _from_environment("--token", "token, or where it is: file:PATH, env:NAME", "TOKEN"),
    _from_environment("--basic", "user:password, or where it is: file:PATH", "USER:PASSWORD"),
    _from_environment("--tls-trust", "PEM file of who signs brokers' certificates", "FILE"),
    _from_environment("--tls-cert", "PEM file of a client certificate", "FILE"),
    _from_environment("--tls-key", "PEM file of its key", "FILE"),
    switch("--tls-insecure", "take any certificate of anybody"),
    switch("--tls-any-host", "take a certificate that is of another host"),
)
_OUTPUT: Final = choice("-o --output", "how to print the result (table)", "table", "json")
_JSON: Final = Argument("--json", "the same as -o json", None, stores=("output", "json"))
ADMIN_ARGUMENTS: Final = (
    ADMIN_URL,
    *SECURITY,
    _OUTPUT,
    _JSON,
    Argument("--timeout", "seconds to wait for an answer (30)", float, 30.0),
)
_SERVER_DATA: Final = Argument(
    "--data", "directory of all data (MAGNETAR_DATA, else ./data)", Path, _DATA, variable="DIR"
)
_CONFIG: Final = Argument("--config", "configuration file", Path, variable="FILE")
_SET: Final = pairs("--set", "one configuration key; may be given again")
_METADATA: Final = Argument(
    "--metadata",
    "where metadata is kept: zk://host:port[,…]/chroot (metadataStoreUrl if configured)",
    variable="URL",
)
_SERVER: Final = (
    _SERVER_DATA,
    Argument("--port", "port of the binary protocol (6650)", int),
    Argument("--web-port", "port of the admin service (8080)", int),
    Argument("--bind", "address to listen on (bindAddress if configured, else 127.0.0.1)"),
    _CONFIG,
    _SET,
    _METADATA,
    choice("--log-format", "shape of log lines", "text", "json"),
    choice(
        "--log-level",
        "least important level to log",
        *("debug", "info", "warning", "error"),
        default="info",
    ),
)
_RATE: Final = Argument("-r --rate", "messages per second, 0 for no limit (0)", float, 0.0)
_PAYLOADS: Final = (
    choice("--compression", "compression of payloads", "none", "lz4", "zlib", "zstd", "snappy"),
    choice("--batching", "join messages", "on", "off"),
)
_CONNECTION: Final = (SERVICE_URL, *SECURITY)


def _command(
    name: str,
    help: str,
    *arguments: Argument,
    at: str = "",
    is_group: bool = False,
    examples: tuple[str, ...] = (),
) -> Verb:
    """`at` is where the function that carries it out stands, as module:name below `magnetar.cli`,
    if not `run` in the module of the same name.
    """
    module, _, function = (at or f"{name}:run").partition(":")

    def run(given: Any) -> int:
        code: int = getattr(importlib.import_module(f"magnetar.cli.{module}"), function)(given)
        return code

    return Verb(name, help, arguments, run, is_group=is_group, examples=examples)


COMMANDS: Final = (
    _command(
        "standalone",
        "run a broker with everything it needs in one process",
        *_SERVER,
        Argument(
            "--workers",
            "processes that share the work behind one address; auto: one for each core (1)",
            default="1",
            variable="N",
        ),
        Argument(
            "--worker-port",
            "first port of the workers' own, four for each (free ones)",
            int,
            variable="PORT",
        ),
        at="server:run_standalone",
        examples=(
            "--data data",
            "--port 6651 --web-port 8081 --set maxMessageSize=1048576",
            "--data data --workers auto",
        ),
    ),
    _command(
        "broker",
        "run a broker that shares its metadata store with others",
        *_SERVER,
        choice(
            "--ledgers",
            "where messages are: on the bookies of that store, or in files of --data (bookkeeper)",
            "bookkeeper",
            "files",
        ),
        at="server:run_broker",
        examples=("--metadata zk://localhost:2181/magnetar --data data",),
    ),
    _command(
        "cluster",
        "ZooKeeper, bookies and brokers on this machine: up, status, kill, start, stop",
        is_group=True,
    ),
    _command(
        "admin",
        "ask or change clusters, tenants, namespaces, topics, subscriptions, schemas",
        is_group=True,
    ),
    _command(
        "produce",
        "publish messages from arguments or from standard input",
        word("topic", "topic to publish to", "orders"),
        Argument(
            "-m --message",
            "a message; may be given again; without it every line of standard input is one",
            many=True,
        ),
        Argument("-f --file", "send a whole file as one message", Path, many=True),
        Argument("-k --key", "key of every message"),
        Argument("--key-separator", "the argument of each line before this text is its key"),
        pairs("-p --properties", "a property of every message; may be given again", parse_pair),
        Argument("-s --separator", "also cut each -m or line at this text"),
        _RATE,
        Argument("-n --times", "how often to send everything (1)", int, 1),
        *_PAYLOADS,
        Argument(
            "--schema",
            "what the values are: bytes; string; topic (JSON, written by the topic's newest"
            " schema); json:FILE or avro:FILE (JSON, by the Avro definition in a file) (bytes)",
        ),
        Argument("--event-time", "event time in ms since 1970, or 'now'"),
        Argument("--producer-name", "name of the producer"),
        switch("-q --quiet", "do not print how many messages were sent"),
        *_CONNECTION,
        examples=(
            "orders -m hello -k customer-7",
            """topic://public/default/orders --schema topic -m '{"id": 1, "price": 9.5}'""",
            "orders --schema avro:order.avsc < orders.jsonl",
        ),
    ),
    _command(
        "consume",
        "print the messages of a topic as they come",
        word("topic", "topic to read", "orders"),
        Argument("-s --subscription", "subscription to consume from"),
        switch("--reader", "read without a subscription: nothing is acknowledged"),
        Argument("-n --num", "stop after this many messages, 0 for no end (0)", int, 0),
        Argument(
            "-p --position",
            "where a new subscription or a reader starts: earliest, latest or a message id",
            default="latest",
        ),
        choice(
            "-t --type",
            "type of the subscription",
            *("exclusive", "shared", "failover", "key_shared"),
        ),
        Argument(
            "--format",
            "line to print, with {value} {key} {properties} {id} {publish_time} {event_time}"
            " {topic} ({value})",
            default="{value}",
        ),
        choice("-o --output", "text, or one JSON object per message", "text", "json"),
        switch("--raw", "print values as they are stored, not by the topic's schema"),
        Argument("--timeout", "stop when nothing came for this many seconds", float),
        switch("--follow", "keep waiting for messages (the default without --timeout)"),
        switch("--no-ack", "leave the messages unacknowledged"),
        Argument("--queue-size", "messages to hold in advance (1000)", int, 1000),
        *_CONNECTION,
        examples=(
            "orders --reader -p earliest --timeout 2",
            "topic://public/default/orders -s billing -t shared -n 10",
            "orders -s billing --format '{publish_time} {key} {value}'",
        ),
    ),
    _command(
        "bench",
        "send messages as fast as they go, and tell how fast that is",
        word("topic", "topic to load; topic://… for a scalable one", "orders"),
        Argument("-n --messages", "how many messages (100000)", int, 100_000),
        Argument("-s --size", "bytes of each message (1024)", int, 1024),
        _RATE,
        Argument("--producers", "producers at once (1)", int, 1),
        Argument("--consumers", "consumers at once, 0 for none (0)", int, 0),
        Argument("--keys", "how many different keys, 0 for none (0)", int, 0),
        Argument("--pending", "sends on their way at once (1000)", int, 1000),
        *_PAYLOADS,
        _OUTPUT,
        _JSON,
        *_CONNECTION,
        examples=("topic://public/default/load -n 100000 --producers 2 --consumers 2 --keys 100",),
    ),
    _command(
        "top",
        "a broker and its busiest topics, live",
        choice(
            "--sort", "what the topics are sorted by (in)", "in", "out", "lag", "storage", "name"
        ),
        Argument("--filter", "only topics whose names hold this text", variable="TEXT"),
        Argument("--rows", "topics to show (as many as fit, 30 without a terminal)", int),
        Argument("--interval", "seconds between two looks (2)", parse_seconds, 2.0),
        Argument("-n --times", "stop after so many looks, 0 for no end (0)", int, 0),
        *ADMIN_ARGUMENTS,
        examples=("", "--sort lag --filter acme/", "--times 1 --json"),
    ),
    _command(
        "configuration",
        "the keys of a broker: which do something, their defaults and what they mean",
        Argument("key", "one key; without it all", example="maxMessageSize", in_example=True),
        switch("--acting", "only those that do something"),
        _OUTPUT,
        _JSON,
    ),
    _command(
        "spark",
        "jobs over many topics on Spark: what-if, load-history and more",
        is_group=True,
    ),
    _command(
        "tokens",
        "keys, and the tokens that prove a role",
        is_group=True,
        at="token:run",
    ),
    _command(
        "demo",
        "tell the whole story in a minute: v4, V5, migration, splits, merges, Spark, audit",
        at="server:run_demo",
    ),
    _command(
        "doctor",
        "check the data directory of a broker; all of it when the broker does not run",
        Argument("directory", "data directory (MAGNETAR_DATA, else ./data)", Path, _DATA),
        switch("--repair", "first build a damaged catalogue anew; damaged files are kept"),
        at="server:run_doctor",
        examples=("data", "data --repair"),
    ),
    _command(
        "backup",
        "copy the data directory of a broker, while it runs or not, and check the copy",
        Argument("target", "directory to make", Path, required=True, example="/backup/monday"),
        _SERVER_DATA,
        at="server:run_backup",
        examples=("/backup/monday --data data",),
    ),
    _command(
        "restore",
        "make a data directory from a backup, and check it",
        Argument(
            "backup", "directory that backup made", Path, required=True, example="/backup/monday"
        ),
        _SERVER_DATA,
        at="server:run_restore",
        examples=("/backup/monday --data data",),
    ),
    _command(
        "promote",
        "carry the data directory of a standalone broker into a cluster; message ids stay",
        _SERVER_DATA,
        _METADATA,
        Argument("--cluster", "name of the cluster (the only one that the metadata names)"),
        _CONFIG,
        _SET,
        at="server:run_promote",
        examples=("--data data --metadata zk://localhost:2181/magnetar",),
    ),
    _command(
        "give-back",
        "see that Apache Pulsar may serve a cluster after us; what only we know is written out",
        _METADATA,
        _CONFIG,
        _SET,
        at="server:run_give_back",
        examples=("--metadata zk://localhost:2181/magnetar",),
    ),
    _command(
        "completion",
        "print a completion script for a shell",
        word("shell", "bash, zsh or fish", "bash"),
    ),
    _command(
        "version",
        "print the version",
        at="main:show_version",
    ),
)
