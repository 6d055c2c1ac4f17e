"""`magnetar spark JOB`: the jobs as data; parse, start the job, print what it says."""

from __future__ import annotations

import argparse
import importlib
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Final

from magnetar import ConfigurationError
from magnetar.cli.command import (
    TOPIC,
    Argument,
    Options,
    Verb,
    build_parser,
    call,
    choice,
    choose,
    pairs,
    switch,
    word,
)
from magnetar.cli.table import ADMIN_URL, SECURITY, SERVICE_URL
from magnetar.cli.value import parse_duration_ms, parse_duration_s


def run(words: list[str]) -> int:
    more = (
        "On this machine unless --master names a cluster.\n"
        "Each explains itself: magnetar spark JOB --help\n"
        "magnetar spark submit JOB [ARGUMENTS] prints the spark-submit line that runs it."
    )
    is_submitted = words[:1] == [SUBMIT]
    known = JOBS if is_submitted else VERBS
    job = choose("magnetar spark", "job", words[is_submitted:], known, more=more)
    if is_submitted:
        return _submit(job, words[2:])
    return call("magnetar spark", job, words[1:], () if job is HOLDS else SHARED)


def _open() -> ModuleType:
    """The one module that names Spark, which comes with an extra."""
    try:
        return importlib.import_module("magnetar.spark.job.command")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "magnetar":
            raise
        raise ConfigurationError(str(error)) from None


def _start(name: str, options: Options) -> int:
    code: int = _open().run(name, vars(options), say=_say, tell=print)
    return code


def _submit(job: Verb, words: list[str]) -> int:
    """Print the line with which spark-submit runs a job; the job's own words are checked."""
    parser = build_parser(f"magnetar spark {SUBMIT} {job.name}", job, SHARED)
    options = vars(parser.parse_args(words))
    split = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    split.add_argument("--master")
    split.add_argument("--conf", action="append")
    _, rest = split.parse_known_args(words)
    # In a folder of its own: that of a program comes first among those to import from.
    program = str(Path(__file__).parents[2] / "pyspark_magnetar" / "job.py")
    print(_open().format_submit(job.name, options, program, rest))
    return 0


def _say(line: str) -> None:
    """Progress goes where it does not mix with the result."""
    print(line, file=sys.stderr, flush=True)


def _run_holds(options: Options) -> int:
    code: int = importlib.import_module("magnetar.cli.spark_hold").run(options)
    return code


def _job(name: str, help: str, *arguments: Argument) -> Verb:
    return Verb(name, help, arguments, partial(_start, name))


SUBMIT: Final = "submit"
_MS: Final = parse_duration_ms
SHARED: Final = (
    Argument("--master", "Spark to run on, such as spark://host:7077 (local[*])"),
    pairs("--conf", "a setting of Spark; may be given again"),
    switch("-q --quiet", "do not print how far it has come"),
)
_OUTPUT: Final = Argument(
    "--output", "folder for the results", required=True, variable="DIR", example="results"
)
_NAMESPACES: Final = Argument(
    "--namespace", "only topics of this namespace; may be given again (all)", many=True
)
_FORMATS: Final = ("parquet", "delta")
_CLUSTER: Final = (ADMIN_URL, *SECURITY)

JOBS: Final = (
    _job(
        "load-history",
        "sample the load of all segments and the changes of layouts into Parquet",
        _OUTPUT,
        Argument("--interval", "time between two looks (60s)", _MS, "60s"),
        Argument("--flush", "what is sampled in this time goes into one file (10m)", _MS, "10m"),
        Argument("--for", "stop after this time (never)", parse_duration_s, variable="TIME"),
        _NAMESPACES,
        *_CLUSTER,
    ),
    _job(
        "what-if",
        "replay load history under many auto-scale policies and recommend one",
        word("history", "folder that load-history wrote, or Parquet like it", "history/"),
        _OUTPUT,
        pairs(
            "--grid",
            "values to try: a policy's field, scale or mergeRatio; may be given again"
            " (scale, mergeRatio and mergeWindowSeconds: 100 policies)",
            of="NAME=VALUE,…",
        ),
        Argument("--base", "JSON file with the policy in force (defaults)", variable="FILE"),
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
        Argument("--tick", "time between two looks (that between samples)", _MS),
        Argument("--flap", "a change undone sooner is a flap (1h)", _MS, "1h"),
    ),
    _job(
        "migration-plan",
        "say which regular topics can become scalable, what is in the way, in which waves to go",
        _OUTPUT,
        Argument("--wave-topics", "topics of a wave at most (50)", int, 50),
        Argument(
            "--wave-backlog", "entries that a wave leaves to read at most (10000000)", int, 10**7
        ),
        Argument("--topic-seconds", "what migrating one topic takes (1)", float, 1.0),
        _NAMESPACES,
        *_CLUSTER,
    ),
    _job(
        "order-audit",
        "check a topic's whole history for lost, repeated and reordered messages",
        TOPIC,
        Argument("--output", "folder for all faults, as Parquet", variable="DIR"),
        Argument(
            "--counter",
            "what numbers the messages of a key: property:NAME, value or value:FIELD;"
            " or sequence: what producers number themselves (sequence)",
            default="sequence",
        ),
        Argument("--first", "the number of the first message of every key", int),
        Argument(
            "--expected", "Parquet with how many messages each key has: key, count", variable="PATH"
        ),
        Argument("--show", "faults to print at most (20)", int, 20),
        SERVICE_URL,
        *_CLUSTER,
    ),
    _job(
        "table",
        "write a topic to a Delta table that grows with it, or its sealed segments to Parquet",
        TOPIC,
        _OUTPUT,
        choice(
            "--format", "sealed segments as parquet; all messages as delta (parquet)", *_FORMATS
        ),
        switch("--typed", "values as the topic's schema says, instead of bytes"),
        choice("--partition", "delta: folders by publish time (day)", "day", "hour", "none"),
        Argument(
            "--follow",
            "delta: go on, and look for new messages this often (until what is there is written)",
            parse_duration_s,
            variable="TIME",
        ),
        Argument("--for", "delta: follow for this time (until interrupted)", parse_duration_s),
        Argument("--batch-bytes", "delta: what one commit has at most (256MB)", default="256MB"),
        switch("--compact", "delta: join small files at the end"),
        SERVICE_URL,
        *_CLUSTER,
    ),
    _job(
        "replay",
        "write a table back into a topic, the messages of every key in their order",
        word("table", "folder that magnetar spark table wrote", "orders/"),
        TOPIC,
        choice("--format", "what the table is (delta)", "delta", "parquet"),
        choice("--values", "how typed values are written (json)", "json", "avro"),
        Argument("--since", "messages published from then on, such as 2026-01-31T12:00:00Z"),
        Argument("--until", "messages published before then"),
        Argument("--tasks", "how many tasks write (8)", int, 8),
        Argument(
            "--write-id", "a name for this write; under the same one nothing is written twice"
        ),
        SERVICE_URL,
        *_CLUSTER,
    ),
)
HOLDS: Final = Verb(
    "holds",
    "show the subscriptions that keep messages for Spark queries, or end one",
    (
        word("namespace", "tenant/namespace", "public/default"),
        Argument("--release", "end this hold: the query is gone for good", variable="NAME"),
        switch("--json", "as JSON"),
        *_CLUSTER,
    ),
    _run_holds,
)
VERBS: Final = (*JOBS, HOLDS)
