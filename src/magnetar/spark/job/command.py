"""The door through which the command line starts a job: options in, exit code out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pyspark.sql import SparkSession

from magnetar import ConfigurationError
from magnetar.spark.delta import delta_settings
from magnetar.spark.job import (
    load_history_command,
    migration_plan_command,
    order_audit_command,
    table_command,
    table_replay,
    what_if_command,
)
from magnetar.spark.job.failure import explaining
from magnetar.spark.job.session import Say, join_settings, open_session, telling_progress

Options: TypeAlias = Mapping[str, Any]
Command: TypeAlias = Callable[[SparkSession, Options, Say, Say], int]

COMMANDS: Final[Mapping[str, Command]] = {
    "load-history": load_history_command.run,
    "migration-plan": migration_plan_command.run,
    "order-audit": order_audit_command.run,
    "replay": table_replay.run,
    "table": table_command.run,
    "what-if": what_if_command.run,
}


def run(name: str, options: Options, *, say: Say, tell: Say) -> int:
    """`say` is for progress, `tell` for results."""
    command = COMMANDS[name]
    progress = _nothing if options.get("quiet") else say
    needed, asked = find_settings(options), _parse_settings(options.get("conf") or ())
    with (
        open_session(name, master=options.get("master"), needed=needed, asked=asked) as spark,
        explaining(),
        telling_progress(spark, progress),
    ):
        return command(spark, options, progress, tell)


def format_submit(name: str, options: Options, program: str, words: Sequence[str]) -> str:
    """The line of spark-submit that runs a job with these words of its own."""
    asked = _parse_settings(options.get("conf") or ())
    settings = join_settings(find_settings(options), asked)
    line = ["spark-submit", "--master", options.get("master") or "local[*]"]
    line += ["--name", f"magnetar {name}"]
    # What has an option of its own must be known before the driver starts.
    for setting, option in (("spark.jars.packages", "--packages"), ("spark.jars", "--jars")):
        if value := settings.pop(setting, None):
            line += [option, value]
    for key, value in settings.items():
        line += ["--conf", f"{key}={value}"]
    return shlex.join([*line, program, name, *words])


def find_settings(options: Options) -> dict[str, str]:
    """What a job asks of its session; those that may meet a Delta table say so by `format`."""
    return delta_settings() if options.get("format") == "delta" else {}


def _parse_settings(texts: Any) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise ConfigurationError(f"{text!r} is not KEY=VALUE")
        settings[key] = value
    return settings


def _nothing(line: str) -> None:
    return None
