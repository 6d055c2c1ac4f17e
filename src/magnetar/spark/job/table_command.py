"""`magnetar spark table`: add what was sealed since to the Parquet of a topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from magnetar.client.error import AdminNotFound, ConfigurationError
from magnetar.model.name import parse_topic
from magnetar.model.segment import scalable_name
from magnetar.spark.access import access_of, open_admin
from magnetar.spark.job.session import Say
from magnetar.spark.job.table import (
    Table,
    add_segment,
    format_bound,
    format_checkpoint,
    plan_segments,
)

Read: TypeAlias = Callable[[str], DataFrame]
"""Messages of a topic up to an end that is given as the source takes it."""


def run(spark: SparkSession, options: Mapping[str, Any], say: Say, tell: Say) -> int:
    def read(end: str) -> DataFrame:
        reader = (
            spark.read.format("magnetar")
            .option("serviceUrl", options["url"])
            .option("adminUrl", options["admin_url"])
            .option("topic", options["topic"])
            .option("endingOffsets", end)
            .option("keyOrder", "none")
            .option("valueFormat", "schema" if options.get("typed") else "bytes")
            .options(**access_of(options).options)
        )
        return reader.load()

    manifest = table(load_record(options), read, options["topic"], options["output"], say=say)
    rows = sum(each["rows"] for each in manifest["segments"].values())
    tell(f"{len(manifest['segments'])} sealed segments, {rows:,} messages in {options['output']}")
    if manifest["missing"]:
        gone = ", ".join(map(str, manifest["missing"]))
        tell(f"segments {gone} were pruned before they were written: what they held is not here")
    return 0


def load_record(options: Mapping[str, Any]) -> dict[str, Any]:
    name = scalable_name(parse_topic(options["topic"])).full
    with open_admin(options["admin_url"], access_of(options)) as admin:
        try:
            return admin.scalable_topics.metadata(name)
        except AdminNotFound:
            raise ConfigurationError(
                f"{options['topic']} is not scalable: a regular topic has no segments that are"
                ' sealed; read it with spark.read.format("magnetar"), or migrate it first'
            ) from None


def table(
    record: Mapping[str, Any], read: Read, topic: str, output: str, *, say: Say
) -> dict[str, Any]:
    """Write the sealed segments that are not there yet; return the manifest."""
    place = Table(Path(output), scalable_name(parse_topic(topic)).full)
    with place.locked():
        manifest = place.load()
        due, missing = plan_segments(manifest, record)
        manifest = {**manifest, "missing": missing}
        if due:
            say(f"segments {', '.join(map(str, due))} are new")
            place.write_aside(read(format_bound(due)))
            for segment in due:
                manifest = add_segment(manifest, segment, record, place.move_in(segment))
            place.clear_aside()
        manifest["checkpoint"] = format_checkpoint(manifest)
        place.store(manifest)
    return manifest
