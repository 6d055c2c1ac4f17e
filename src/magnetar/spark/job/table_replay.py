"""A table back into a topic, in the order that its messages had.

The children of a split or merge have higher numbers than their parents, so the numbers of segments
and the positions in them are the order of every key. All messages of a key are in one task, sorted
by that; a task that runs again has the same rows in the same order, which the sink asks for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from magnetar import ConfigurationError
from magnetar.spark.access import access_of
from magnetar.spark.job.folder import Folder, find_folder
from magnetar.spark.job.lake import find_version
from magnetar.spark.job.session import Say
from magnetar.spark.job.table import DATA, MANIFEST

_ORDER: Final = ("segment", "message_id.ledger", "message_id.entry", "message_id.batch")
_WRITTEN: Final = ("key", "value", "properties", "event_time")
_NEEDED: Final = ("key", "value", "segment", "message_id", "publish_time")


def run(spark: SparkSession, options: Mapping[str, Any], say: Say, tell: Say) -> int:
    place = find_folder(spark, options["table"])
    table, version = open_table(spark, place)
    tasks = options["tasks"]
    chosen = choose(table, options.get("since"), options.get("until"))
    name = options.get("write_id") or make_write_id(
        place.uri, version, options["topic"], options.get("since"), options.get("until"), tasks
    )
    say(f"version {version} of {place.uri}, as the write {name}")
    written = arrange(chosen, tasks)
    typed = not isinstance(written.schema["value"].dataType, BinaryType)
    (
        written.write.format("magnetar")
        .option("serviceUrl", options["url"])
        .option("adminUrl", options["admin_url"])
        .option("topic", options["topic"])
        .option("writeId", name)
        .option("valueFormat", options["values"] if typed else "bytes")
        .options(**access_of(options).options)
        .mode("append")
        .save()
    )
    tell(f"{chosen.count():,} messages of {place.uri} in {options['topic']}; write {name}")
    return 0


def open_table(spark: SparkSession, place: Folder) -> tuple[DataFrame, str]:
    """A table as it is now, and what tells this state from others."""
    if place.has("_delta_log"):
        version = find_version(spark, place)
        table = spark.read.format("delta").option("versionAsOf", version).load(place.uri)
        return _check(table, place), str(version)
    manifest = place.read(MANIFEST)
    if manifest is None:
        raise ConfigurationError(f"{place.uri} is no table that magnetar spark table wrote")
    table = spark.read.parquet(place.child(DATA))
    return _check(table, place), hashlib.sha256(manifest.encode()).hexdigest()[:12]


def _check(table: DataFrame, place: Folder) -> DataFrame:
    missing = [name for name in _NEEDED if name not in table.columns]
    if missing:
        raise ConfigurationError(f"{place.uri} has no column {', '.join(missing)}")
    return table


def choose(table: DataFrame, since: str | None, until: str | None) -> DataFrame:
    """Messages that were published from a moment on, and before another."""
    at = F.col("publish_time")
    if since is not None:
        table = table.where(at >= F.lit(since).cast("timestamp"))
    if until is not None:
        table = table.where(at < F.lit(until).cast("timestamp"))
    return table


def arrange(messages: DataFrame, tasks: int) -> DataFrame:
    """The rows of a key in one task and in order; those without one by their segment."""
    line = F.coalesce(F.col("key"), F.col("segment").cast("string").cast("binary"))
    columns = [name for name in _WRITTEN if name in messages.columns]
    return messages.repartition(tasks, line).sortWithinPartitions(*_ORDER).select(*columns)


def make_write_id(*parts: object) -> str:
    """The same table, topic and choice give the same name: a second run writes what is missing."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
