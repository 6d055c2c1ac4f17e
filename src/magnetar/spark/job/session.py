"""A Spark session for a job, what it lacks said in a sentence, and how far it has come."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from pyspark.sql import SparkSession

from magnetar.spark.java import check_java
from magnetar.spark.session import make_session

Say: TypeAlias = Callable[[str], None]

_LOOK_AGAIN_S: Final = 1.0
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    # What is shuffled here has the size of an answer, or says itself how many tasks it wants.
    "spark.sql.shuffle.partitions": "16",
}


@contextmanager
def quiet_java() -> Iterator[Path]:
    """What Java prints goes to a file: a JVM that is started here keeps writing there."""
    with tempfile.NamedTemporaryFile(prefix="magnetar-spark-", suffix=".log", delete=False) as log:
        kept = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield Path(log.name)
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextmanager
def open_session(
    name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Local unless `master` names a cluster; stopped on the way out."""
    chosen = {**_SETTINGS, **(settings or {})}
    check_java()
    with quiet_java() as log:
        spark = make_session(master=master, name=f"magnetar {name}", settings=chosen)
    spark.sparkContext.setLogLevel("ERROR")
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
