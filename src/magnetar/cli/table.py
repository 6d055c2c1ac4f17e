"""The top-level commands, as data: nothing of what they do is imported before one is chosen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from magnetar.cli.command import Argument, Flag, Part, Switch
from magnetar.cli.value import parse_pair

DEFAULT_SERVICE_URL: Final = "pulsar://127.0.0.1:6650"
DEFAULT_ADMIN_URL: Final = "http://127.0.0.1:8080"

SERVICE_URL: Final = Flag(
    ("--url",),
    f"broker to connect to (MAGNETAR_URL, else {DEFAULT_SERVICE_URL})",
    default=os.environ.get("MAGNETAR_URL", DEFAULT_SERVICE_URL),
    variable="URL",
)


def _from_environment(name: str, help: str, variable: str) -> Flag:
    key = "MAGNETAR_" + name.lstrip("-").replace("-", "_").upper()
    return Flag((name,), f"{help} ({key})", default=os.environ.get(key), variable=variable)


SECURITY: Final[tuple[Part, ...]] = (
    _from_environment("--token", "token, or where it is: file:PATH, env:NAME", "TOKEN"),
    _from_environment("--basic", "user:password, or where it is: file:PATH", "USER:PASSWORD"),
    _from_environment("--tls-trust", "PEM file of who signs brokers' certificates", "FILE"),
    _from_environment("--tls-cert", "PEM file of a client certificate", "FILE"),
    _from_environment("--tls-key", "PEM file of its key", "FILE"),
    Switch(("--tls-insecure",), "take any certificate of anybody"),
    Switch(("--tls-any-host",), "take a certificate that is of another host"),
)
ADMIN_PARTS: Final[tuple[Part, ...]] = (
    Flag(
        ("--admin-url",),
        f"admin service to call (MAGNETAR_ADMIN_URL, else {DEFAULT_ADMIN_URL})",
        default=os.environ.get("MAGNETAR_ADMIN_URL", DEFAULT_ADMIN_URL),
        variable="URL",
    ),
    *SECURITY,
    Flag(
        ("-o", "--output"),
        "how to print the result (table)",
        default="table",
        choices=("table", "json"),
    ),
    Flag(("--timeout",), "seconds to wait for an answer (30)", parse=float, default=30.0),
)


SERVER: Final[tuple[Part, ...]] = (
    Flag(
        ("--data",),
        "directory of all data (MAGNETAR_DATA, else ./data)",
        parse=Path,
        default=Path(os.environ.get("MAGNETAR_DATA", "data")),
        variable="DIR",
    ),
    Flag(("--port",), "port of the binary protocol (6650)", parse=int),
    Flag(("--web-port",), "port of the admin service (8080)", parse=int),
    Flag(("--bind",), "address to listen on (bindAddress if configured, else 127.0.0.1)"),
    Flag(("--config",), "configuration file", parse=Path, variable="FILE"),
    Flag(
        ("--set",),
        "one configuration key; may be given again",
        many=True,
        variable="KEY=VALUE",
    ),
    Flag(
        ("--metadata",),
        "where metadata is kept: zk://host:port[,…]/chroot (metadataStoreUrl if configured)",
        variable="URL",
    ),
    Flag(("--log-format",), "shape of log lines", choices=("text", "json"), default="text"),
    Flag(
        ("--log-level",),
        "least important level to log",
        choices=("debug", "info", "warning", "error"),
        default="info",
    ),
)


class Command(NamedTuple):
    name: str
    help: str
    module: str
    function: str = "run"
    parts: tuple[Part, ...] = ()
    takes_words: bool = False
    """Whether the command reads the rest of the line itself."""


COMMANDS: Final[tuple[Command, ...]] = (
    Command(
        "standalone",
        "run a broker with everything it needs in one process",
        "magnetar.cli.standalone",
        parts=SERVER,
    ),
    Command(
        "broker",
        "run a broker that shares its metadata store with others",
        "magnetar.cli.member",
        parts=SERVER,
    ),
    Command(
        "admin",
        "ask or change clusters, tenants, namespaces, topics, subscriptions, schemas",
        "magnetar.cli.admin",
        takes_words=True,
    ),
    Command(
        "produce",
        "publish messages from arguments or from standard input",
        "magnetar.cli.produce",
        parts=(
            Argument("topic", "topic to publish to"),
            Flag(
                ("-m", "--message"),
                "a message; may be given again; without it every line of standard input is one",
                many=True,
            ),
            Flag(("-f", "--file"), "send a whole file as one message", parse=Path, many=True),
            Flag(("-k", "--key"), "key of every message"),
            Flag(("--key-separator",), "the part of each line before this text is its key"),
            Flag(
                ("-p", "--properties"),
                "a property of every message; may be given again",
                parse=parse_pair,
                many=True,
                variable="KEY=VALUE",
            ),
            Flag(("-s", "--separator"), "also cut each -m or line at this text"),
            Flag(("-r", "--rate"), "messages per second, 0 for no limit (0)", float, default=0.0),
            Flag(("-n", "--times"), "how often to send everything (1)", parse=int, default=1),
            Flag(
                ("--compression",),
                "compression of payloads",
                choices=("none", "lz4", "zlib", "zstd", "snappy"),
                default="none",
            ),
            Flag(("--batching",), "join messages", choices=("on", "off"), default="on"),
            Flag(
                ("--schema",),
                "what the values are: bytes; string; topic (JSON, written by the topic's newest"
                " schema); json:FILE or avro:FILE (JSON, by the Avro definition in a file) (bytes)",
            ),
            Flag(("--event-time",), "event time in ms since 1970, or 'now'"),
            Flag(("--producer-name",), "name of the producer"),
            Switch(("-q", "--quiet"), "do not print how many messages were sent"),
            SERVICE_URL,
            *SECURITY,
        ),
    ),
    Command(
        "consume",
        "print the messages of a topic as they come",
        "magnetar.cli.consume",
        parts=(
            Argument("topic", "topic to read"),
            Flag(("-s", "--subscription"), "subscription to consume from"),
            Switch(("--reader",), "read without a subscription: nothing is acknowledged"),
            Flag(
                ("-n", "--num"), "stop after this many messages, 0 for no end (0)", int, default=0
            ),
            Flag(
                ("-p", "--position"),
                "where a new subscription or a reader starts: earliest, latest or a message id",
                default="latest",
            ),
            Flag(
                ("-t", "--type"),
                "type of the subscription",
                choices=("exclusive", "shared", "failover", "key_shared"),
                default="exclusive",
            ),
            Flag(
                ("--format",),
                "line to print, with {value} {key} {properties} {id} {publish_time} {event_time}"
                " {topic} ({value})",
                default="{value}",
            ),
            Flag(
                ("-o", "--output"),
                "text, or one JSON object per message",
                choices=("text", "json"),
                default="text",
            ),
            Switch(("--raw",), "print values as they are stored, not by the topic's schema"),
            Flag(("--timeout",), "stop when nothing came for this many seconds", parse=float),
            Switch(("--follow",), "keep waiting for messages (the default without --timeout)"),
            Switch(("--no-ack",), "leave the messages unacknowledged"),
            Flag(("--queue-size",), "messages to hold in advance (1000)", int, default=1000),
            SERVICE_URL,
            *SECURITY,
        ),
    ),
    Command(
        "bench",
        "send messages as fast as they go, and tell how fast that is",
        "magnetar.cli.bench",
        parts=(
            Argument("topic", "topic to load; topic://… for a scalable one"),
            Flag(("-n", "--messages"), "how many messages (100000)", parse=int, default=100_000),
            Flag(("-s", "--size"), "bytes of each message (1024)", parse=int, default=1024),
            Flag(("-r", "--rate"), "messages per second, 0 for no limit (0)", float, default=0.0),
            Flag(("--producers",), "producers at once (1)", parse=int, default=1),
            Flag(("--consumers",), "consumers at once, 0 for none (0)", parse=int, default=0),
            Flag(("--keys",), "how many different keys, 0 for none (0)", parse=int, default=0),
            Flag(("--pending",), "sends on their way at once (1000)", parse=int, default=1000),
            Flag(
                ("--compression",),
                "compression of payloads",
                choices=("none", "lz4", "zlib", "zstd", "snappy"),
                default="none",
            ),
            Flag(("--batching",), "join messages", choices=("on", "off"), default="on"),
            Flag(
                ("-o", "--output"),
                "how to print the result (table)",
                default="table",
                choices=("table", "json"),
            ),
            SERVICE_URL,
            *SECURITY,
        ),
    ),
    Command(
        "configuration",
        "the keys of a broker: which do something, their defaults and what they mean",
        "magnetar.cli.configuration",
        parts=(
            Argument("key", "one key; without it all", optional=True),
            Switch(("--acting",), "only those that do something"),
            Flag(
                ("-o", "--output"),
                "how to print the result (table)",
                default="table",
                choices=("table", "json"),
            ),
        ),
    ),
    Command(
        "spark",
        "jobs over many topics on Spark: what-if, load-history and more",
        "magnetar.cli.spark",
        takes_words=True,
    ),
    Command(
        "tokens",
        "keys, and the tokens that prove a role",
        "magnetar.cli.token",
        takes_words=True,
    ),
    Command(
        "demo",
        "tell the whole story in a minute: v4, V5, migration, splits, merges, Spark, audit",
        "magnetar.cli.demo",
    ),
    Command(
        "doctor",
        "check the data directory of a broker; all of it when the broker does not run",
        "magnetar.cli.doctor",
        parts=(
            Argument(
                "directory",
                "data directory (MAGNETAR_DATA, else ./data)",
                parse=Path,
                optional=True,
                default=Path(os.environ.get("MAGNETAR_DATA", "data")),
            ),
            Switch(("--repair",), "first build a damaged catalogue anew; damaged files are kept"),
        ),
    ),
    Command(
        "completion",
        "print a completion script for a shell",
        "magnetar.cli.completion",
        parts=(Argument("shell", "bash, zsh or fish"),),
    ),
    Command("version", "print the version", "magnetar.cli.version"),
)


def find_command(name: str) -> Command | None:
    return next((command for command in COMMANDS if command.name == name), None)
