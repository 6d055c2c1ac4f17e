"""Why Spark could not finish, for the person who started the job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from magnetar import PulsarError

_TRACEBACK: Final = "Traceback (most recent call last):"
_CALL: Final = "An error occurred while calling "
_NOT_STARTED: Final = "[JAVA_GATEWAY_EXITED]"
_DEATH: Final = 'Exception in thread "main" '
_CHATTER: Final = ("Picked up ", "NOTE: ", "WARNING: ", "Using ")
"""What a JVM says before it says anything."""
_CLASSES: Final = re.compile(r"\A(?:(?:[a-z]\w*\.)+[A-Z][\w$]*: )+")
"""Of Java's exceptions, where one has the text of another."""
HADOOP_AWS: Final = "org.apache.hadoop:hadoop-aws:3.5.0"
_ADVICE: Final = (
    (
        r"\.S3AFileSystem not found|No FileSystem for scheme \"s3a\"",
        f"s3a:// needs --conf spark.jars.packages={HADOOP_AWS}",
    ),
    (
        r"Class org\.apache\.hadoop\.fs\.\S+ not found|No FileSystem for scheme",
        "its file system is a package for --conf spark.jars.packages, unless the scheme is wrong",
    ),
    (
        r"AccessDenied|Access Denied|Status Code: 40[13]\b|Permission denied",
        "the credentials, those of spark.hadoop.fs.… or of the machine, do not allow that",
    ),
)
"""What to do where the reason has these words."""


class JobFailed(PulsarError):
    """Spark could not finish; the sentence is its own."""


@contextmanager
def explaining(log: Path | None = None) -> Iterator[None]:
    """Turn what Spark raises into a refusal with a sentence. A JVM that does not start says why in
    the `log` alone; what Hadoop's file systems raise has no class in PySpark.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        told = str(error)
        if log is not None and _NOT_STARTED in told:
            told = find_death(log.read_text(errors="replace")) or told
        reason = explain(told)
        raise JobFailed(f"Spark: {reason or type(error).__name__}") from error


def explain(text: str) -> str:
    """What Spark says, in a line: of a Python worker's failure the exception that ended it, of
    another one what to do too, where that is known.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if (reason := _find_python_reason(lines)) is not None:
        return reason
    reason = _find_java_reason(lines)
    advice = [told for pattern, told in _ADVICE if re.search(pattern, reason)]
    return "; ".join([_CLASSES.sub("", reason), *advice[:1]])


def find_death(printed: str) -> str:
    """Why a JVM did not start: what it threw, or the first that it complained of."""
    lines = [each for each in printed.splitlines() if each.strip()]
    thrown = [each.removeprefix(_DEATH) for each in lines if each.startswith(_DEATH)]
    told = [each.removeprefix("Error: ") for each in lines if not each.startswith(_CHATTER)]
    return next(iter([*thrown, *told]), "")


def _find_python_reason(lines: list[str]) -> str | None:
    reason = None
    in_traceback = False
    for line in lines:
        if line.endswith(_TRACEBACK):
            in_traceback = True
        elif in_traceback and not line[0].isspace():
            in_traceback = False
            reason = line
    if reason is None:
        return None
    name, separator, told = reason.partition(": ")
    return told if separator and " " not in name else reason


def _find_java_reason(lines: list[str]) -> str:
    """What was thrown, with its class."""
    if len(lines) > 1 and lines[0].startswith(_CALL):
        return lines[1].removeprefix(": ")
    return lines[0].strip() if lines else ""
