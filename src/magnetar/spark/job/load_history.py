"""Load samples and layout changes of a cluster as Parquet, for as long as it runs.

Every look is journaled before Spark hears of it, and each batch writes folders that no other batch
writes: run again after a crash it replaces its own, so that every sample is there once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from magnetar.spark.access import NOBODY, Access
from magnetar.spark.job.history import CHANGE_FOLDER, SAMPLE_FOLDER
from magnetar.spark.job.journal import Journal
from magnetar.spark.job.load_source import NAME, LoadSource
from magnetar.spark.job.sampler import CHANGE, CHANGE_COLUMNS, SAMPLE, SAMPLE_COLUMNS
from magnetar.spark.job.session import Say

Write: TypeAlias = Callable[[DataFrame, int], None]

_TOLD_EVERY_S: Final = 10.0
_FIRST_LOOK_S: Final = 60.0
_PAUSE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where to ask."""

    admin_url: str
    access: Access = NOBODY


@dataclass(frozen=True, slots=True)
class Pace:
    interval_ms: int = 60_000
    """Between two looks."""
    flush_ms: int = 600_000
    """What one batch writes at least; 0: whatever there is."""


def write_batch(output: str) -> Write:
    """Replace what this very batch may have written before."""

    def write(batch: DataFrame, _: int) -> None:
        batch.persist()
        try:
            for record, columns, name in (
                (SAMPLE, SAMPLE_COLUMNS, SAMPLE_FOLDER),
                (CHANGE, CHANGE_COLUMNS, CHANGE_FOLDER),
            ):
                (
                    batch.where(batch.record == record)
                    .selectExpr(*columns.split(", "), "date(at) as date", "part")
                    .coalesce(1)
                    .sortWithinPartitions("date", "topic", "at")
                    .write.mode("overwrite")
                    .option("partitionOverwriteMode", "dynamic")
                    .partitionBy("date", "part")
                    .parquet(f"{output}/{name}")
                )
        finally:
            batch.unpersist()

    return write


def start(
    spark: SparkSession,
    cluster: Cluster,
    output: str,
    pace: Pace,
    *,
    namespaces: Sequence[str] = (),
    is_collecting: bool = True,
    write: Write | None = None,
) -> StreamingQuery:
    """A query that samples until it is stopped, or that only writes what was sampled before."""
    spark.dataSource.register(LoadSource)
    options: dict[str, Any] = {
        "adminUrl": cluster.admin_url,
        "namespaces": ",".join(namespaces),
        "intervalMs": pace.interval_ms,
        "flushMs": pace.flush_ms if is_collecting else 0,
        "collect": str(is_collecting).lower(),
        "journal": str(journal_of(output).path),
        **cluster.access.options,
    }
    writer = (
        spark.readStream.format(NAME)
        .options(**options)
        .load()
        .writeStream.foreachBatch(write or write_batch(output))
        .option("checkpointLocation", f"{output}/_checkpoint")
    )
    if is_collecting:
        return writer.trigger(processingTime=f"{pace.interval_ms} milliseconds").start()
    return writer.trigger(availableNow=True).start()


def journal_of(output: str) -> Journal:
    return Journal(Path(output) / "_journal")


def load_history(
    spark: SparkSession,
    cluster: Cluster,
    output: str,
    pace: Pace,
    *,
    namespaces: Sequence[str] = (),
    duration_s: float | None = None,
    say: Say,
) -> int:
    """Sample until the time is over or somebody interrupts; return how many samples there are."""
    journal = journal_of(output)
    before = journal.newest
    query = start(spark, cluster, output, pace, namespaces=namespaces)
    say(f"sampling {cluster.admin_url} every {pace.interval_ms / 1000:g} s into {output}")
    began = told = time.monotonic()
    is_looking = False
    try:
        # Spark waits whole seconds only.
        while not query.awaitTermination(1):
            now = time.monotonic()
            if not is_looking and (journal.newest != before or now - began > _FIRST_LOOK_S):
                is_looking, began = True, now  # the time counts from the first look
            if is_looking and duration_s is not None and now - began >= duration_s:
                break
            if now - told > _TOLD_EVERY_S:
                told = now
                _tell(journal, say)
    except KeyboardInterrupt:
        say("stopping")
    finally:
        stop(query, journal)
    failure = query.exception()
    if failure is not None:
        raise failure
    flush(spark, cluster, output, pace)
    samples = Path(output) / SAMPLE_FOLDER
    return spark.read.parquet(str(samples)).count() if any(samples.rglob("*.parquet")) else 0


def stop(query: StreamingQuery, journal: Journal) -> None:
    """Between two triggers: one that is interrupted prints the stack of every task under way."""
    deadline = time.monotonic() + _PAUSE_S
    with journal.paused():
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(0.02)
        query.stop()


def flush(spark: SparkSession, cluster: Cluster, output: str, pace: Pace) -> None:
    """Write what is journaled, without asking for more."""
    start(spark, cluster, output, pace, is_collecting=False).awaitTermination()


def _tell(journal: Journal, say: Say) -> None:
    newest = journal.newest
    if newest is None:
        say("  no look yet: is the admin service reachable?")
    else:
        waiting = sum(slot > journal.committed for slot in journal.slots)
        at = time.strftime("%H:%M:%S", time.gmtime(newest / 1000))
        say(f"  last look {at} UTC, {waiting} looks to write")
