"""All regular topics of a cluster: who is ready to become scalable, what is in the way, in which
waves to go; as Parquet and as a page to read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from magnetar.spark.access import open_admin
from magnetar.spark.job.chart import Bar, draw_bars
from magnetar.spark.job.folder import find_folder
from magnetar.spark.job.load_history import Cluster
from magnetar.spark.job.migration_survey import list_regular, survey
from magnetar.spark.job.page import format_heading, format_page, format_paragraph, format_table
from magnetar.spark.job.session import Say
from magnetar.spark.job.wave import Candidate, Readiness, Wave, WaveLimit, plan_waves

WAVE_SCHEMA: Final = pa.schema(
    [
        ("number", pa.int32()),
        ("topics", pa.list_(pa.string())),
        ("hosts", pa.list_(pa.string())),
        ("backlog", pa.int64()),
        ("seconds", pa.float64()),
        ("unread", pa.int32()),
    ]
)
_LISTED_MAX: Final = 500


def migration_plan(
    spark: SparkSession,
    cluster: Cluster,
    output: str,
    limit: WaveLimit,
    *,
    namespaces: Sequence[str] = (),
    say: Say,
) -> list[Wave]:
    """Write `topic` and `wave` as Parquet and `plan.html`; return the waves."""
    place = find_folder(spark, output)
    with open_admin(cluster.admin_url, cluster.access) as admin:
        topics = list_regular(admin, namespaces)
    say(f"{len(topics):,} regular topics to ask about")
    survey(spark, cluster, topics).write.mode("overwrite").parquet(place.child("topic"))
    rows = spark.read.parquet(place.child("topic")).toArrow().sort_by("topic").to_pylist()
    waves = plan_waves([make_candidate(row) for row in rows], limit)
    (
        spark.createDataFrame(
            pa.Table.from_pylist([asdict(each) for each in waves], schema=WAVE_SCHEMA)
        )
        .coalesce(1)
        .write.mode("overwrite")
        .parquet(place.child("wave.parquet"))
    )
    place.write("plan.html", format_plan(rows, waves))
    return waves


def make_candidate(row: Mapping[str, Any]) -> Candidate:
    hosts = (each["address"].rpartition(":")[0].lstrip("/") for each in row["clients"] or ())
    return Candidate(
        row["topic"],
        Readiness(row["readiness"]),
        row["backlog"] or 0,
        row["drain_s"],
        frozenset(hosts),
    )


def format_plan(rows: Sequence[Mapping[str, Any]], waves: Sequence[Wave]) -> str:
    counts = Counter(row["readiness"] for row in rows)
    told = ", ".join(f"{counts[each.value]:,} {each.value}" for each in Readiness)
    parts = [format_paragraph(f"{len(rows):,} regular topics: {told}.")]
    if waves:
        total = sum(wave.seconds for wave in waves)
        bars = [
            Bar(f"wave {each.number}", each.seconds, f"{len(each.topics)} topics") for each in waves
        ]
        parts += [
            draw_bars(f"{len(waves)} waves, about {total:,.0f} s of work", "seconds", bars),
            format_heading("Waves"),
            format_paragraph(
                "Time: migrating one topic after another, then reading what was there before at the"
                " present rate. Where something is not being read, it is at least that."
            ),
            format_table(
                ("wave", "topics", "to read", "seconds", "not being read", "upgrade first"),
                [
                    (w.number, len(w.topics), w.backlog, w.seconds, w.unread, ", ".join(w.hosts))
                    for w in waves
                ],
            ),
        ]
    parts += _format_clients(rows)
    parts += _format_topics(rows, waves)
    return format_page("Migration of regular topics to scalable ones", parts)


def _format_clients(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    held = [
        (each["address"], each["kind"], each["name"], each["version"], row["topic"])
        for row in rows
        for each in row["clients"] or ()
    ]
    if not held:
        return []
    names = ("address", "kind", "name", "version", "topic")
    return [format_heading("v4 connections"), format_table(names, sorted(held)[:_LISTED_MAX])]


def _format_topics(rows: Sequence[Mapping[str, Any]], waves: Sequence[Wave]) -> list[str]:
    wave_of = {topic: wave.number for wave in waves for topic in wave.topics}
    listed = [
        (
            row["topic"],
            wave_of.get(row["topic"], "–"),
            row["readiness"],
            row["partitions"],
            row["backlog"],
            "not being read" if row["drain_s"] is None else row["drain_s"],
            row["storage_bytes"],
            "; ".join(row["reasons"] or ()),
        )
        for row in rows[:_LISTED_MAX]
    ]
    names = ("topic", "wave", "state", "partitions", "to read", "drain s", "bytes", "in the way")
    more = len(rows) - len(listed)
    parts = [format_heading("Topics"), format_table(names, listed)]
    return [*parts, format_paragraph(f"{more:,} more are in the Parquet.")] if more else parts
