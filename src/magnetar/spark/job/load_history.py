"""Load samples and layout changes of a cluster as Parquet, for as long as it runs.

A look asks about every topic, in tasks, and is a folder of its own named by its time; it counts
once Spark has put its mark of success there. Looks of a stretch of time are then merged into the
tables, beside the next look and not before it. A merge writes folders that no other one writes, and
notes afterwards how far it came: run again after a crash it replaces its own, so that every sample
is there once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from magnetar import AdminError, AdminUnreachable
from magnetar.runtime.clock import SystemClock
from magnetar.spark.access import ANONYMOUS, Access, open_admin
from magnetar.spark.job.day import utc_day
from magnetar.spark.job.folder import find_folder
from magnetar.spark.job.history import CHANGE_FOLDER, SAMPLE_FOLDER
from magnetar.spark.job.sampler import (
    CHANGE,
    CHANGE_COLUMNS,
    KNOWN,
    SAMPLE,
    SAMPLE_COLUMNS,
    SCHEMA,
    SPARK_SCHEMA,
    UNREACHABLE,
    is_away,
    list_topics,
    look,
)
from magnetar.spark.job.session import Say

_LOOKS: Final = "_look"
_MERGED: Final = "merged"
_TOPICS_PER_TASK: Final = 200
_TOLD_EVERY_S: Final = 10.0
_FIRST_LOOK_S: Final = 60.0
_WAIT_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where to ask."""

    admin_url: str
    access: Access = ANONYMOUS


@dataclass(frozen=True, slots=True)
class Pace:
    interval_ms: int = 60_000
    """Between two looks."""
    flush_ms: int = 600_000
    """What one merge writes at least."""


class History:
    """One folder: the tables `sample` and `change`, and looks that are not in them yet."""

    def __init__(
        self,
        spark: SparkSession,
        cluster: Cluster,
        output: str,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._spark = spark
        self.cluster = cluster
        self._namespaces = namespaces
        self.place = find_folder(spark, output)

    @property
    def slots(self) -> list[int]:
        """Times of the looks that are whole, oldest first, in milliseconds since 1970."""
        names = (each for each in self.place.names(_LOOKS) if each.isdecimal())
        return sorted(int(each) for each in names if self.place.has(f"{_LOOKS}/{each}/_SUCCESS"))

    @property
    def merged(self) -> int:
        """Up to which look everything is in the tables."""
        return int(self.place.read(_MERGED) or 0)

    def known(self) -> dict[str, int]:
        """The last layout change that was told of each topic, by the newest look."""
        slots = self.slots
        if not slots:
            return {}
        rows = self._read(slots[-1:]).where(F.col("record") == KNOWN).select("topic", "epoch")
        return {row["topic"]: row["epoch"] for row in rows.collect()}

    def take(self, slot: int) -> bool:
        """Look at every topic; False when the cluster could not be asked: a gap, not the end."""
        try:
            with open_admin(self.cluster.admin_url, self.cluster.access) as admin:
                topics = list_topics(admin, self._namespaces)
        except (AdminUnreachable, AdminError) as error:
            if not is_away(error):
                raise
            return False
        known = self.known()
        asked = self._spark.createDataFrame(
            [(topic, known.get(topic, -1)) for topic in topics], "topic string, known long"
        )
        tasks = max(1, -(-len(topics) // _TOPICS_PER_TASK))
        taken = asked.repartition(tasks).mapInArrow(_make_task(self.cluster, slot), SPARK_SCHEMA)
        name = f"{_LOOKS}/{slot}"
        taken.write.mode("overwrite").parquet(self.place.child(name))
        if self._read([slot]).where(F.col("record") == UNREACHABLE).isEmpty():
            return True
        self.place.remove(name)
        return False

    def merge(self, slots: Sequence[int]) -> None:
        """Put looks into the tables, and forget them; the newest one tells what is known."""
        merged = self.merged
        due = [slot for slot in slots if slot > merged]
        if not due:
            return
        self.write(due, merged)
        self.place.write(_MERGED, str(due[-1]))
        for slot in self.slots[:-1]:
            if slot <= due[-1]:
                self.place.remove(f"{_LOOKS}/{slot}")

    def write(self, slots: Sequence[int], part: int) -> None:
        """`part` is how far the tables go: no other merge begins there, this one run again does."""
        looks = self._read(slots)
        for record, columns, name in (
            (SAMPLE, SAMPLE_COLUMNS, SAMPLE_FOLDER),
            (CHANGE, CHANGE_COLUMNS, CHANGE_FOLDER),
        ):
            (
                looks.where(F.col("record") == record)
                .select(
                    *columns.split(", "),
                    utc_day(F.col("at")).alias("date"),
                    F.lit(part).alias("part"),
                )
                .coalesce(1)
                .sortWithinPartitions("date", "topic", "at")
                .write.mode("overwrite")
                .option("partitionOverwriteMode", "dynamic")
                .partitionBy("date", "part")
                .parquet(self.place.child(name))
            )

    def count(self) -> int:
        if not any(each.startswith("date=") for each in self.place.names(SAMPLE_FOLDER)):
            return 0
        return self._spark.read.parquet(self.place.child(SAMPLE_FOLDER)).count()

    def _read(self, slots: Sequence[int]) -> DataFrame:
        paths = [self.place.child(f"{_LOOKS}/{slot}") for slot in slots]
        return self._spark.read.schema(SPARK_SCHEMA).parquet(*paths)


def _make_task(
    cluster: Cluster, slot: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def take(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            known = dict(zip(*(each.to_pylist() for each in batch.columns), strict=True))
            try:
                with open_admin(cluster.admin_url, cluster.access) as admin:
                    rows = look(admin, known, at_ms=slot)
            except AdminUnreachable:
                rows = pa.Table.from_pylist([{"record": UNREACHABLE}], schema=SCHEMA)
            yield from rows.to_batches()

    return take


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
    """Sample until the time is over or it is interrupted; return how many samples there are."""
    history = History(spark, cluster, output, namespaces)
    with history.place.locked():
        say(f"sampling {cluster.admin_url} every {pace.interval_ms / 1000:g} s into {output}")
        with ThreadPoolExecutor(1) as beside:
            try:
                sample(history, pace, duration_s, beside, say=say)
            except KeyboardInterrupt:
                say("stopping")
        history.merge(history.slots)
        return history.count()


def sample(
    history: History,
    pace: Pace,
    duration_s: float | None,
    beside: ThreadPoolExecutor,
    *,
    say: Say,
) -> int:
    """Take looks for so long after the first one; merge what is whole `beside` that."""
    newest = max([history.merged, *history.slots])
    merging: Future[None] | None = None
    started = began = told = time.monotonic()
    looks = 0
    while duration_s is None or time.monotonic() - began < duration_s:
        slot = SystemClock().now_ms() // pace.interval_ms * pace.interval_ms
        if slot > newest and history.take(slot):
            newest = slot
            looks += 1
        if not looks and time.monotonic() - started < _FIRST_LOOK_S:
            began = time.monotonic()  # the time counts from the first look
        if merging is None or merging.done():
            if merging is not None:
                merging.result()
            open_from = newest // pace.flush_ms * pace.flush_ms
            whole = [each for each in history.slots if history.merged < each < open_from]
            merging = beside.submit(history.merge, whole) if whole else None
        if time.monotonic() - told > _TOLD_EVERY_S:
            told = time.monotonic()
            _tell(newest, looks, say)
        following_s = (slot + pace.interval_ms - SystemClock().now_ms()) / 1000
        time.sleep(max(0.0, min(_WAIT_S, following_s)))
    return looks


def _tell(newest: int, looks: int, say: Say) -> None:
    if not newest:
        say("  no look yet: is the admin service reachable?")
    else:
        at = time.strftime("%H:%M:%S", time.gmtime(newest / 1000))
        say(f"  last look {at} UTC, {looks} since the start")
