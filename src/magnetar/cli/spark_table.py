"""The jobs of `magnetar spark`, as data."""

from __future__ import annotations

from typing import Final, NamedTuple

from magnetar.cli.command import TOPIC, Argument, Flag, Part, Switch
from magnetar.cli.table import ADMIN_PARTS, SECURITY, SERVICE_URL
from magnetar.cli.value import parse_duration_ms, parse_duration_s


class Job(NamedTuple):
    name: str
    help: str
    parts: tuple[Part, ...]


SHARED: Final[tuple[Part, ...]] = (
    Flag(("--master",), "Spark to run on, such as spark://host:7077 (local[*])"),
    Flag(("--conf",), "a setting of Spark; may be given again", many=True, variable="KEY=VALUE"),
    Switch(("-q", "--quiet"), "do not print how far it has come"),
)

_ADMIN_URL: Final = ADMIN_PARTS[0]
_OUTPUT: Final = Flag(("--output",), "folder for the results", required=True, variable="DIR")

_CLUSTER: Final[tuple[Part, ...]] = (_ADMIN_URL, *SECURITY)

JOBS: Final[tuple[Job, ...]] = (
    Job(
        "load-history",
        "sample the load of all segments and the changes of layouts into Parquet",
        (
            _OUTPUT,
            Flag(
                ("--interval",), "time between two looks (60s)", parse_duration_ms, default=60_000
            ),
            Flag(
                ("--flush",),
                "what is sampled in this time goes into one file (10m)",
                parse_duration_ms,
                default=600_000,
            ),
            Flag(("--for",), "stop after this time (never)", parse_duration_s, variable="TIME"),
            Flag(
                ("--namespace",),
                "only topics of this namespace; may be given again (all)",
                many=True,
            ),
            *_CLUSTER,
        ),
    ),
    Job(
        "what-if",
        "replay load history under many auto-scale policies and recommend one",
        (
            Argument("history", "folder that load-history wrote, or Parquet like it"),
            _OUTPUT,
            Flag(
                ("--grid",),
                "values to try: a policy's field, scale or mergeRatio; may be given again"
                " (scale, mergeRatio and mergeWindowSeconds: 100 policies)",
                many=True,
                variable="NAME=VALUE,…",
            ),
            Flag(("--base",), "JSON file with the policy in force (defaults)", variable="FILE"),
            Flag(
                ("--overload",),
                "what a segment can carry, such as msgRateIn=10000; may be given again"
                " (where the policy in force splits)",
                many=True,
                variable="RATE=LIMIT",
            ),
            Flag(
                ("--price",),
                "hours of a segment that an overloadedHour, a change or a flap is worth"
                " (10, 0.1, 1); may be given again",
                many=True,
                variable="NAME=HOURS",
            ),
            Flag(("--tick",), "time between two looks (that between samples)", parse_duration_ms),
            Flag(
                ("--flap",),
                "a change undone sooner is a flap (1h)",
                parse_duration_ms,
                default=3_600_000,
            ),
        ),
    ),
    Job(
        "migration-plan",
        "say which regular topics can become scalable, what is in the way, in which waves to go",
        (
            _OUTPUT,
            Flag(("--wave-topics",), "topics of a wave at most (50)", parse=int, default=50),
            Flag(
                ("--wave-backlog",),
                "entries that a wave leaves to read at most (10000000)",
                parse=int,
                default=10_000_000,
            ),
            Flag(
                ("--topic-seconds",), "what migrating one topic takes (1)", parse=float, default=1.0
            ),
            Flag(
                ("--namespace",),
                "only topics of this namespace; may be given again (all)",
                many=True,
            ),
            *_CLUSTER,
        ),
    ),
    Job(
        "order-audit",
        "check a topic's whole history for lost, repeated and reordered messages",
        (
            TOPIC,
            Flag(("--output",), "folder for all faults, as Parquet", variable="DIR"),
            Flag(
                ("--counter",),
                "what numbers the messages of a key: property:NAME, value or value:FIELD;"
                " or sequence: what producers number themselves (sequence)",
                default="sequence",
            ),
            Flag(("--first",), "the number of the first message of every key", parse=int),
            Flag(
                ("--expected",),
                "Parquet with how many messages each key has: key, count",
                variable="PATH",
            ),
            Flag(("--show",), "faults to print at most (20)", parse=int, default=20),
            SERVICE_URL,
            *_CLUSTER,
        ),
    ),
    Job(
        "table",
        "add the sealed segments of a topic to Parquet that any engine reads",
        (
            TOPIC,
            _OUTPUT,
            Switch(("--typed",), "values as the topic's schema says, instead of bytes"),
            SERVICE_URL,
            *_CLUSTER,
        ),
    ),
)
