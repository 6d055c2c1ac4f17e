"""A Spark session for a job, what it lacks said in a sentence, and how far it has come."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from magnetar.spark.java import check_java
from magnetar.spark.job.failure import explaining
from magnetar.spark.session import make_session

Say: TypeAlias = Callable[[str], None]

_LOOK_AGAIN_S: Final = 1.0
_AT_START: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_WHILE_RUNNING: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    # What is shuffled here has the size of an answer, or says itself how many tasks it wants.
    "spark.sql.shuffle.partitions": "16",
}
_JARS: Final = ("spark.jars", "spark.jars.packages")
_LISTS: Final = (*_JARS, "spark.sql.extensions")
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Where spark-submit told a program that it started to find its JVM."""


def join_settings(needed: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What was given, and beside it what is needed: of lists both, of others what was given."""
    settings = {**needed, **given}
    for name in _LISTS:
        several = [*needed.get(name, "").split(","), *given.get(name, "").split(",")]
        if any(several):
            settings[name] = ",".join(dict.fromkeys(filter(None, map(str.strip, several))))
    return settings


def find_submitted(environment: Mapping[str, str] = os.environ) -> dict[str, str] | None:
    """The settings of the spark-submit that started this program; None where none did."""
    if _SUBMITTED not in environment:
        return None
    SparkContext.getSystemProperty("java.home")  # until then SparkConf asks no JVM
    return dict(SparkConf().getAll())


def choose_settings(
    needed: Mapping[str, str], asked: Mapping[str, str], submitted: Mapping[str, str] | None
) -> dict[str, str]:
    """Those that a session is made with: nothing that spark-submit was given is overridden, but by
    the job's own words.
    """
    if submitted is None:
        return {**_AT_START, **join_settings(needed, asked)}
    # Its JVM runs: jars that it was not started with come too late.
    late = {name: value for name, value in needed.items() if name not in _JARS}
    settings = join_settings({**_AT_START, **late}, {**submitted, **asked})
    return {name: value for name, value in settings.items() if submitted.get(name) != value}


@contextmanager
def quiet_java() -> Iterator[Path]:
    """What Java prints goes to a file: a JVM that is started here keeps writing there."""
    with tempfile.NamedTemporaryFile(prefix="magnetar-spark-", suffix=".log", delete=False) as log:
        kept = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield Path(log.name)
        except BaseException:
            Path(log.name).unlink()
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextmanager
def open_session(
    name: str,
    *,
    master: str | None = None,
    needed: Mapping[str, str] | None = None,
    asked: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Local unless `master` names a cluster; stopped on the way out."""
    check_java()
    with quiet_java() as log, explaining(log):
        chosen = choose_settings(needed or {}, asked or {}, find_submitted())
        spark = make_session(master=master, name=f"magnetar {name}", settings=chosen)
    spark.sparkContext.setLogLevel("ERROR")
    known = spark.sparkContext.getConf()
    for key, value in _WHILE_RUNNING.items():
        if not known.contains(key):
            spark.conf.set(key, value)
    try:
        yield spark
    finally:
        spark.stop()
        log.unlink(missing_ok=True)


@contextmanager
def telling_progress(spark: SparkSession, say: Say) -> Iterator[None]:
    """Say now and then how many tasks of the running stages are done."""
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(spark, say, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(spark: SparkSession, say: Say, over: threading.Event) -> None:
    tracker, told = spark.sparkContext.statusTracker(), ""
    while not over.wait(_LOOK_AGAIN_S):
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        for stage in stages:
            if stage is not None and stage.numTasks > 1:
                line = f"  stage {stage.stageId}: {stage.numCompletedTasks}/{stage.numTasks} tasks"
                if line != told:
                    say(line)
                    told = line
