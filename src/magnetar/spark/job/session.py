"""A Spark session for a job, what it lacks said in a sentence, and how far it has come."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from pyspark.sql import SparkSession

from magnetar.client.error import ConfigurationError

Say: TypeAlias = Callable[[str], None]

JAVA_LEAST: Final = 17
_LOOK_AGAIN_S: Final = 1.0
_INSTALL: Final = (
    "install one, such as with: apt install openjdk-17-jre-headless,"
    " or set JAVA_HOME to where it is"
)
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def check_java(environment: Mapping[str, str] = os.environ) -> None:
    """Refuse to start where Spark could not."""
    home = environment.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else environment.get("PATH", ""))
    if java is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java was found"
        raise ConfigurationError(f"Spark needs Java {JAVA_LEAST} or newer, but {where}; {_INSTALL}")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if match is not None and int(match[1]) < JAVA_LEAST:
        raise ConfigurationError(
            f"Spark needs Java {JAVA_LEAST} or newer, but {java} is version {match[1]}; {_INSTALL}"
        )


@contextmanager
def open_session(
    name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Local unless `master` names a cluster; stopped on the way out."""
    check_java()
    builder = SparkSession.builder.appName(f"magnetar {name}").master(master or "local[*]")
    for key, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


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


def folder(path: str | Path) -> Path:
    """A place for results that only this machine must reach."""
    made = Path(path)
    made.mkdir(parents=True, exist_ok=True)
    return made
