"""`magnetar spark JOB`: the jobs as data; parse, start the job, print what it says."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from typing import Final

from magnetar.cli.command import TOPIC, Options, Part, Verb, call, choose, pairs, switch, word
from magnetar.cli.table import ADMIN_URL, SECURITY, SERVICE_URL
from magnetar.cli.value import parse_duration_ms, parse_duration_s
from magnetar.client.error import ConfigurationError


def run(words: list[str]) -> int:
    more = (
        "On this machine unless --master names a cluster.\n"
        "Each explains itself: magnetar spark JOB --help"
    )
    job = choose("magnetar spark", "job", words, JOBS, more=more)
    return call("magnetar spark", job, words[1:], SHARED)


def _start(name: str, options: Options) -> int:
    try:
        # The one door to Spark: what is behind it comes with an extra.
        door = importlib.import_module("magnetar.spark.job.command")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "magnetar":
            raise
        raise ConfigurationError(str(error)) from None
    code: int = door.run(name, vars(options), say=_say, tell=print)
    return code


def _say(line: str) -> None:
    """Progress goes where it does not mix with the result."""
    print(line, file=sys.stderr, flush=True)


def _job(name: str, help: str, *parts: Part) -> Verb:
    return Verb(name, help, parts, partial(_start, name))


_MS: Final = parse_duration_ms
SHARED: Final = (
    Part("--master", "Spark to run on, such as spark://host:7077 (local[*])"),
    pairs("--conf", "a setting of Spark; may be given again"),
    switch("-q --quiet", "do not print how far it has come"),
)
_OUTPUT: Final = Part("--output", "folder for the results", required=True, variable="DIR")
_NAMESPACES: Final = Part(
    "--namespace", "only topics of this namespace; may be given again (all)", many=True
)
_CLUSTER: Final = (ADMIN_URL, *SECURITY)

JOBS: Final = (
    _job(
        "load-history",
        "sample the load of all segments and the changes of layouts into Parquet",
        _OUTPUT,
        Part("--interval", "time between two looks (60s)", _MS, "60s"),
        Part("--flush", "what is sampled in this time goes into one file (10m)", _MS, "10m"),
        Part("--for", "stop after this time (never)", parse_duration_s, variable="TIME"),
        _NAMESPACES,
        *_CLUSTER,
    ),
    _job(
        "what-if",
        "replay load history under many auto-scale policies and recommend one",
        word("history", "folder that load-history wrote, or Parquet like it"),
        _OUTPUT,
        pairs(
            "--grid",
            "values to try: a policy's field, scale or mergeRatio; may be given again"
            " (scale, mergeRatio and mergeWindowSeconds: 100 policies)",
            of="NAME=VALUE,…",
        ),
        Part("--base", "JSON file with the policy in force (defaults)", variable="FILE"),
        pairs(
            "--overload",
            "what a segment can carry, such as msgRateIn=10000; may be given again"
            " (where the policy in force splits)",
            of="RATE=LIMIT",
        ),
        pairs(
            "--price",
            "hours of a segment that an overloadedHour, a change or a flap is worth"
            " (10, 0.1, 1); may be given again",
            of="NAME=HOURS",
        ),
        Part("--tick", "time between two looks (that between samples)", _MS),
        Part("--flap", "a change undone sooner is a flap (1h)", _MS, "1h"),
    ),
    _job(
        "migration-plan",
        "say which regular topics can become scalable, what is in the way, in which waves to go",
        _OUTPUT,
        Part("--wave-topics", "topics of a wave at most (50)", int, 50),
        Part("--wave-backlog", "entries that a wave leaves to read at most (10000000)", int, 10**7),
        Part("--topic-seconds", "what migrating one topic takes (1)", float, 1.0),
        _NAMESPACES,
        *_CLUSTER,
    ),
    _job(
        "order-audit",
        "check a topic's whole history for lost, repeated and reordered messages",
        TOPIC,
        Part("--output", "folder for all faults, as Parquet", variable="DIR"),
        Part(
            "--counter",
            "what numbers the messages of a key: property:NAME, value or value:FIELD;"
            " or sequence: what producers number themselves (sequence)",
            default="sequence",
        ),
        Part("--first", "the number of the first message of every key", int),
        Part(
            "--expected", "Parquet with how many messages each key has: key, count", variable="PATH"
        ),
        Part("--show", "faults to print at most (20)", int, 20),
        SERVICE_URL,
        *_CLUSTER,
    ),
    _job(
        "table",
        "add the sealed segments of a topic to Parquet that any engine reads",
        TOPIC,
        _OUTPUT,
        switch("--typed", "values as the topic's schema says, instead of bytes"),
        SERVICE_URL,
        *_CLUSTER,
    ),
)
