"""`magnetar spark JOB`: parse, start the job, print what it says."""

from __future__ import annotations

import importlib
import sys

from magnetar.cli.command import UsageError, build_parser, format_rows, suggest
from magnetar.cli.spark_table import JOBS, SHARED, Job
from magnetar.client.error import ConfigurationError


def run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_overview())
        return 0 if words else 2
    job = next((each for each in JOBS if each.name == words[0]), None)
    if job is None:
        known = [each.name for each in JOBS]
        raise UsageError(
            f"magnetar spark: no job is called {words[0]!r}.{suggest(words[0], known)}",
            hint="Try: magnetar spark --help",
        )
    return _start(job, words[1:])


def _start(job: Job, words: list[str]) -> int:
    parser = build_parser(f"magnetar spark {job.name}", job.help, job.parts, SHARED)
    try:
        options = parser.parse_args(words)
    except SystemExit as end:  # --help printed its text
        return int(end.code or 0)
    try:
        # The one door to Spark: what is behind it comes with an extra.
        door = importlib.import_module("magnetar.spark.job.command")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "magnetar":
            raise
        raise ConfigurationError(str(error)) from None
    code: int = door.run(job.name, vars(options), say=_say, tell=print)
    return code


def _say(line: str) -> None:
    """Progress goes where it does not mix with the result."""
    print(line, file=sys.stderr, flush=True)


def _overview() -> str:
    return "\n".join(
        (
            "usage: magnetar spark JOB [ARGUMENTS]",
            "",
            format_rows((job.name, job.help) for job in JOBS),
            "",
            "On this machine unless --master names a cluster.",
            "Each explains itself: magnetar spark JOB --help",
        )
    )
