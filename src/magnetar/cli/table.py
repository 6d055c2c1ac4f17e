"""The top-level commands, as data: nothing of what they do is imported before one is chosen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from magnetar.cli.command import Argument, Part, flag, switch
from magnetar.cli.value import parse_pair

_SERVICE: Final = "pulsar://127.0.0.1:6650"
_ADMIN: Final = "http://127.0.0.1:8080"
_DATA: Final = Path(os.environ.get("MAGNETAR_DATA", "data"))


def _from_environment(name: str, help: str, variable: str, default: str | None = None) -> Part:
    key = "MAGNETAR_" + name.lstrip("-").replace("-", "_").upper()
    place = f"{key}, else {default}" if default else key
    return flag(name, f"{help} ({place})", default=os.environ.get(key, default), variable=variable)


SERVICE_URL: Final = _from_environment("--url", "broker to connect to", "URL", _SERVICE)
ADMIN_URL: Final = _from_environment("--admin-url", "admin service to call", "URL", _ADMIN)
SECURITY: Final[tuple[Part, ...]] = (
    _from_environment("--token", "token, or where it is: file:PATH, env:NAME", "TOKEN"),
    _from_environment("--basic", "user:password, or where it is: file:PATH", "USER:PASSWORD"),
    _from_environment("--tls-trust", "PEM file of who signs brokers' certificates", "FILE"),
    _from_environment("--tls-cert", "PEM file of a client certificate", "FILE"),
    _from_environment("--tls-key", "PEM file of its key", "FILE"),
    switch("--tls-insecure", "take any certificate of anybody"),
    switch("--tls-any-host", "take a certificate that is of another host"),
)
_OUTPUT: Final = flag(
    "-o --output", "how to print the result (table)", default="table", choices=("table", "json")
)
ADMIN_PARTS: Final[tuple[Part, ...]] = (
    ADMIN_URL,
    *SECURITY,
    _OUTPUT,
    flag("--timeout", "seconds to wait for an answer (30)", float, 30.0),
)
_SERVER: Final[tuple[Part, ...]] = (
    flag(
        "--data", "directory of all data (MAGNETAR_DATA, else ./data)", Path, _DATA, variable="DIR"
    ),
    flag("--port", "port of the binary protocol (6650)", int),
    flag("--web-port", "port of the admin service (8080)", int),
    flag("--bind", "address to listen on (bindAddress if configured, else 127.0.0.1)"),
    flag("--config", "configuration file", Path, variable="FILE"),
    flag("--set", "one configuration key; may be given again", many=True, variable="KEY=VALUE"),
    flag(
        "--metadata",
        "where metadata is kept: zk://host:port[,…]/chroot (metadataStoreUrl if configured)",
        variable="URL",
    ),
    flag("--log-format", "shape of log lines", default="text", choices=("text", "json")),
    flag(
        "--log-level",
        "least important level to log",
        default="info",
        choices=("debug", "info", "warning", "error"),
    ),
)
_RATE: Final = flag("-r --rate", "messages per second, 0 for no limit (0)", float, 0.0)
_PAYLOADS: Final[tuple[Part, ...]] = (
    flag(
        "--compression",
        "compression of payloads",
        default="none",
        choices=("none", "lz4", "zlib", "zstd", "snappy"),
    ),
    flag("--batching", "join messages", default="on", choices=("on", "off")),
)
_CONNECTION: Final = (SERVICE_URL, *SECURITY)


class Command(NamedTuple):
    name: str
    help: str
    place: str
    """The function that carries it out, as module:name below `magnetar.cli`."""
    parts: tuple[Part, ...] | None = ()
    """None where the command reads the rest of the line itself."""


COMMANDS: Final[tuple[Command, ...]] = (
    Command(
        "standalone",
        "run a broker with everything it needs in one process",
        "server:run_standalone",
        _SERVER,
    ),
    Command(
        "broker",
        "run a broker that shares its metadata store with others",
        "server:run_broker",
        _SERVER,
    ),
    Command(
        "admin",
        "ask or change clusters, tenants, namespaces, topics, subscriptions, schemas",
        "admin:run",
        None,
    ),
    Command(
        "produce",
        "publish messages from arguments or from standard input",
        "produce:run",
        (
            Argument("topic", "topic to publish to"),
            flag(
                "-m --message",
                "a message; may be given again; without it every line of standard input is one",
                many=True,
            ),
            flag("-f --file", "send a whole file as one message", Path, many=True),
            flag("-k --key", "key of every message"),
            flag("--key-separator", "the part of each line before this text is its key"),
            flag(
                "-p --properties",
                "a property of every message; may be given again",
                parse_pair,
                many=True,
                variable="KEY=VALUE",
            ),
            flag("-s --separator", "also cut each -m or line at this text"),
            _RATE,
            flag("-n --times", "how often to send everything (1)", int, 1),
            *_PAYLOADS,
            flag(
                "--schema",
                "what the values are: bytes; string; topic (JSON, written by the topic's newest"
                " schema); json:FILE or avro:FILE (JSON, by the Avro definition in a file) (bytes)",
            ),
            flag("--event-time", "event time in ms since 1970, or 'now'"),
            flag("--producer-name", "name of the producer"),
            switch("-q --quiet", "do not print how many messages were sent"),
            *_CONNECTION,
        ),
    ),
    Command(
        "consume",
        "print the messages of a topic as they come",
        "consume:run",
        (
            Argument("topic", "topic to read"),
            flag("-s --subscription", "subscription to consume from"),
            switch("--reader", "read without a subscription: nothing is acknowledged"),
            flag("-n --num", "stop after this many messages, 0 for no end (0)", int, 0),
            flag(
                "-p --position",
                "where a new subscription or a reader starts: earliest, latest or a message id",
                default="latest",
            ),
            flag(
                "-t --type",
                "type of the subscription",
                default="exclusive",
                choices=("exclusive", "shared", "failover", "key_shared"),
            ),
            flag(
                "--format",
                "line to print, with {value} {key} {properties} {id} {publish_time} {event_time}"
                " {topic} ({value})",
                default="{value}",
            ),
            flag(
                "-o --output",
                "text, or one JSON object per message",
                default="text",
                choices=("text", "json"),
            ),
            switch("--raw", "print values as they are stored, not by the topic's schema"),
            flag("--timeout", "stop when nothing came for this many seconds", float),
            switch("--follow", "keep waiting for messages (the default without --timeout)"),
            switch("--no-ack", "leave the messages unacknowledged"),
            flag("--queue-size", "messages to hold in advance (1000)", int, 1000),
            *_CONNECTION,
        ),
    ),
    Command(
        "bench",
        "send messages as fast as they go, and tell how fast that is",
        "bench:run",
        (
            Argument("topic", "topic to load; topic://… for a scalable one"),
            flag("-n --messages", "how many messages (100000)", int, 100_000),
            flag("-s --size", "bytes of each message (1024)", int, 1024),
            _RATE,
            flag("--producers", "producers at once (1)", int, 1),
            flag("--consumers", "consumers at once, 0 for none (0)", int, 0),
            flag("--keys", "how many different keys, 0 for none (0)", int, 0),
            flag("--pending", "sends on their way at once (1000)", int, 1000),
            *_PAYLOADS,
            _OUTPUT,
            *_CONNECTION,
        ),
    ),
    Command(
        "configuration",
        "the keys of a broker: which do something, their defaults and what they mean",
        "configuration:run",
        (
            Argument("key", "one key; without it all", optional=True),
            switch("--acting", "only those that do something"),
            _OUTPUT,
        ),
    ),
    Command(
        "spark", "jobs over many topics on Spark: what-if, load-history and more", "spark:run", None
    ),
    Command("tokens", "keys, and the tokens that prove a role", "token:run", None),
    Command(
        "demo",
        "tell the whole story in a minute: v4, V5, migration, splits, merges, Spark, audit",
        "server:run_demo",
    ),
    Command(
        "doctor",
        "check the data directory of a broker; all of it when the broker does not run",
        "server:run_doctor",
        (
            Argument(
                "directory",
                "data directory (MAGNETAR_DATA, else ./data)",
                parse=Path,
                optional=True,
                default=_DATA,
            ),
            switch("--repair", "first build a damaged catalogue anew; damaged files are kept"),
        ),
    ),
    Command(
        "completion",
        "print a completion script for a shell",
        "completion:run",
        (Argument("shell", "bash, zsh or fish"),),
    ),
    Command("version", "print the version", "main:show_version"),
)
