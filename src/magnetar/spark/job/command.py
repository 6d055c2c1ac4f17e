"""The door through which the command line starts a job: options in, exit code out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from magnetar.client.error import ConfigurationError, PulsarError
from magnetar.spark.job import (
    load_history_command,
    migration_plan_command,
    order_audit_command,
    table_command,
    what_if_command,
)
from magnetar.spark.job.session import Say, open_session, telling_progress

Options: TypeAlias = Mapping[str, Any]
Command: TypeAlias = Callable[[SparkSession, Options, Say, Say], int]

COMMANDS: Final[Mapping[str, Command]] = {
    "load-history": load_history_command.run,
    "migration-plan": migration_plan_command.run,
    "order-audit": order_audit_command.run,
    "table": table_command.run,
    "what-if": what_if_command.run,
}


_TRACEBACK: Final = "Traceback (most recent call last):"


class JobFailed(PulsarError):
    """Spark could not finish; the sentence is its own."""


def run(name: str, options: Options, *, say: Say, tell: Say) -> int:
    """`say` is for progress, `tell` for results."""
    command = COMMANDS[name]
    progress = _nothing if options.get("quiet") else say
    settings = _parse_settings(options.get("conf") or ())
    with open_session(name, master=options.get("master"), settings=settings) as spark:
        try:
            with telling_progress(spark, progress):
                return command(spark, options, progress, tell)
        except PySparkException as error:
            raise JobFailed(f"Spark: {explain(str(error)) or type(error).__name__}") from error


def _parse_settings(texts: Any) -> dict[str, str]:
    settings = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise ConfigurationError(f"{text!r} is not KEY=VALUE")
        settings[key] = value
    return settings


def explain(text: str) -> str:
    """What Spark says, in a line: of a Python worker's failure the exception that ended it."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    reason = ""
    in_traceback = False
    for line in lines:
        if line.endswith(_TRACEBACK):
            in_traceback = True
        elif in_traceback and not line[0].isspace():
            in_traceback = False
            reason = line
    if reason:
        name, separator, told = reason.partition(": ")
        return told if separator and " " not in name else reason
    return lines[0].strip() if lines else ""


def _nothing(line: str) -> None:
    return None
