"""A topic as a Delta Lake table that grows while messages come, each of them in it once.

Spark's checkpoint lies in the table's own folder, and Delta notes with each commit which batch of
which query it has: a batch that is run again after a crash is left out."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from magnetar.spark.job.day import utc_day, utc_hour
from magnetar.spark.job.folder import Folder
from magnetar.spark.job.session import Say

CHECKPOINT: Final = "_checkpoint"
_NEWER: Final = "the topic has messages of schema version "
_LOOK_S: Final = 1


class Partition(StrEnum):
    DAY = "day"
    HOUR = "hour"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Growth:
    """How a table grows."""

    partition: Partition = Partition.DAY
    schema_version: int | None = None
    """The newest that the values are typed by; None: values are bytes."""
    follow_s: float | None = None
    """Between two looks for new messages; None: up to what is there now."""
    duration_s: float | None = None


class SchemaMoved(Exception):
    """Messages of a newer schema came: the query has to be defined anew."""


def add_partition(messages: DataFrame, partition: Partition) -> tuple[DataFrame, list[str]]:
    """The messages with the columns that their publish time decides, and the columns' names."""
    at = F.col("publish_time")
    columns = {"date": utc_day(at), "hour": utc_hour(at)}
    names = {Partition.DAY: ["date"], Partition.HOUR: ["date", "hour"], Partition.NONE: []}
    chosen = names[partition]
    return messages.withColumns({name: columns[name] for name in chosen}), chosen


def refuse_newer(messages: DataFrame, version: int | None) -> DataFrame:
    """Fail a batch with a message of a newer schema, whose new fields would be left out."""
    if version is None:
        return messages
    found = F.col("schema_version")
    refusal = F.raise_error(F.concat(F.lit(_NEWER), found.cast("string"))).cast("long")
    checked = F.when(found > version, refusal).otherwise(found)
    return messages.withColumn("schema_version", checked)


def grow(spark: SparkSession, messages: DataFrame, place: Folder, growth: Growth, say: Say) -> None:
    """`messages` is a stream of the source that begins at the earliest message."""
    rows, columns = add_partition(refuse_newer(messages, growth.schema_version), growth.partition)
    # There from the beginning, so that it can be read before the first message comes.
    (
        spark.createDataFrame([], rows.schema)
        .write.format("delta")
        .partitionBy(*columns)
        .option("delta.autoOptimize.autoCompact", "true")
        .mode("ignore")
        .save(place.uri)
    )
    writer = (
        rows.writeStream.format("delta")
        .option("checkpointLocation", place.child(CHECKPOINT))
        .option("mergeSchema", "true")
        .partitionBy(*columns)
    )
    if growth.follow_s is None:
        query = writer.trigger(availableNow=True).start(place.uri)
    else:
        query = writer.trigger(processingTime=f"{growth.follow_s} seconds").start(place.uri)
    try:
        _await(query, growth.duration_s if growth.follow_s is not None else None)
    except StreamingQueryException as error:
        moved = re.search(re.escape(_NEWER) + r"(\d+)", str(error))
        if moved is None:
            raise
        say(f"{_NEWER}{moved[1]}: going on with that")
        raise SchemaMoved from None
    except KeyboardInterrupt:
        say("stopping")
    finally:
        query.stop()


def _await(query: StreamingQuery, duration_s: float | None) -> None:
    """Until the query ends or the time is over. Spark waits whole seconds only."""
    deadline = None if duration_s is None else time.monotonic() + duration_s
    while not query.awaitTermination(_LOOK_S):
        if deadline is not None and time.monotonic() >= deadline:
            return


def compact(spark: SparkSession, place: Folder) -> None:
    """Join small files. Those that were joined stay for older versions, until a VACUUM."""
    spark.sql(f"OPTIMIZE delta.`{place.uri}`")


def find_version(spark: SparkSession, place: Folder) -> int:
    history = spark.sql(f"DESCRIBE HISTORY delta.`{place.uri}` LIMIT 1").first()
    assert history is not None, "a table has a first version"
    return int(history["version"])
