"""`magnetar spark table`: a topic as a Delta table that grows, or what is sealed as Parquet."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from magnetar import AdminNotFound, ConfigurationError
from magnetar.model.name import parse_topic
from magnetar.model.segment import scalable_name
from magnetar.spark.access import access_of, open_admin
from magnetar.spark.job.failure import explain
from magnetar.spark.job.folder import Folder, find_folder
from magnetar.spark.job.lake import (
    Growth,
    Partition,
    SchemaMoved,
    compact,
    find_version,
    grow,
)
from magnetar.spark.job.session import Say
from magnetar.spark.job.table import (
    Table,
    add_segment,
    format_bound,
    format_checkpoint,
    plan_segments,
)
from magnetar.spark.option import parse_source
from magnetar.spark.survey import Survey

_ATTEMPTS: Final = 6
"""A query that failed so often without a commit in between is given up."""
_PAUSE_S: Final = 0.5

Read: TypeAlias = Callable[[str], DataFrame]
"""Messages of a topic up to an end that is given as the source takes it."""


def run(spark: SparkSession, options: Mapping[str, Any], say: Say, tell: Say) -> int:
    place = find_folder(spark, options["output"])
    if options["format"] == "delta":
        return grow_table(spark, options, place, say, tell)

    def read(end: str) -> DataFrame:
        return (
            spark.read.format("magnetar")
            .options(**source_options(options))
            .option("endingOffsets", end)
            .option("keyOrder", "none")
            .load()
        )

    record = load_record(options)
    final = find_final(options)
    manifest = table(spark, record, final, read, options["topic"], place, say=say)
    rows = sum(each["rows"] for each in manifest["segments"].values())
    tell(f"{len(manifest['segments'])} sealed segments, {rows:,} messages in {options['output']}")
    if manifest["missing"]:
        gone = _list(manifest["missing"])
        tell(f"segments {gone} were pruned before they were written: what they held is not here")
    if waiting := plan_segments(manifest, record, final).waiting:
        tell(f"segments {_list(waiting)} wait for transactions that are open")
    return 0


def source_options(options: Mapping[str, Any]) -> dict[str, str]:
    return {
        "serviceUrl": options["url"],
        "adminUrl": options["admin_url"],
        "topic": options["topic"],
        "valueFormat": "schema" if options.get("typed") else "bytes",
        **access_of(options).options,
    }


def load_record(options: Mapping[str, Any]) -> Mapping[str, Any]:
    name = scalable_name(parse_topic(options["topic"])).full
    with open_admin(options["admin_url"], access_of(options)) as admin:
        try:
            return admin.scalable_topics.metadata(name)
        except AdminNotFound:
            raise ConfigurationError(
                f"{options['topic']} is not scalable: a regular topic has no segments that are"
                ' sealed; read it with spark.read.format("magnetar"), or migrate it first'
            ) from None


def find_final(options: Mapping[str, Any]) -> frozenset[int]:
    """The segments to which nothing will be added, by transactions that are open either."""
    source = parse_source(source_options(options), is_stream=False)
    with Survey(source.broker) as survey:
        views = survey.look(source.selection).views.values()
    return frozenset(each.id for view in views for each in view.segments if each.is_final)


def _list(segments: Iterable[int]) -> str:
    return ", ".join(map(str, segments))


def table(
    spark: SparkSession,
    record: Mapping[str, Any],
    final: Collection[int],
    read: Read,
    topic: str,
    place: Folder,
    *,
    say: Say,
) -> dict[str, Any]:
    """Write the sealed segments that are not there yet and are `final`; return the manifest."""
    made = Table(spark, place, scalable_name(parse_topic(topic)).full)
    with place.locked():
        manifest = made.load()
        due, _, missing = plan_segments(manifest, record, final)
        manifest = {**manifest, "missing": missing}
        if due:
            say(f"segments {_list(due)} are new")
            files = made.write(read(format_bound(due)), due)
            for segment in due:
                manifest = add_segment(manifest, segment, record, files.get(segment, []))
        manifest["checkpoint"] = format_checkpoint(manifest)
        made.store(manifest)
    return manifest


def grow_table(
    spark: SparkSession, options: Mapping[str, Any], place: Folder, say: Say, tell: Say
) -> int:
    """A Delta table with all messages there are, or that come while it runs."""
    deadline = None if options.get("for") is None else time.monotonic() + options["for"]
    failures, reached = 0, -1
    while True:
        version = find_schema_version(options) if options.get("typed") else None
        growth = Growth(
            Partition(options["partition"]),
            version,
            options.get("follow"),
            None if deadline is None else max(0.0, deadline - time.monotonic()),
        )
        stream = (
            spark.readStream.format("magnetar")
            .options(**source_options(options))
            .option("startingOffsets", "earliest")
            .option("maxBytesPerTrigger", options["batch_bytes"])
        )
        try:
            grow(spark, stream.load(), place, growth, say)
            break
        except StreamingQueryException as error:
            # A broker that is restarted ends a query; one that follows a topic outlives that.
            now = find_version(spark, place)
            failures, reached = (failures + 1 if now == reached else 1), now
            if options.get("follow") is None or failures > _ATTEMPTS:
                raise
            say(f"{explain(str(error))}; trying again")
            time.sleep(_PAUSE_S * 2**failures)
        except SchemaMoved:
            if find_schema_version(options) == version:
                raise ConfigurationError(
                    f"{options['topic']} has messages of a schema that its registry does not have"
                ) from None
    if options.get("compact"):
        say("joining small files")
        compact(spark, place)
    rows = spark.read.format("delta").load(place.uri).count()
    tell(f"{rows:,} messages in version {find_version(spark, place)} of {place.uri}")
    return 0


def find_schema_version(options: Mapping[str, Any]) -> int:
    """The newest version of a topic's schema."""
    name = parse_topic(options["topic"])
    with open_admin(options["admin_url"], access_of(options)) as admin:
        try:
            document = admin.schemas.get(f"persistent://{name.namespace}/{name.local}")
        except AdminNotFound:
            raise ConfigurationError(
                f"{options['topic']} has no schema; leave out --typed to keep values as bytes"
            ) from None
    return int(document["version"])
