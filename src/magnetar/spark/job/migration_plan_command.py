"""`magnetar spark migration-plan`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from magnetar.spark.access import access_of
from magnetar.spark.job.load_history import Cluster
from magnetar.spark.job.migration_plan import migration_plan
from magnetar.spark.job.session import Say
from magnetar.spark.job.wave import WaveLimit


def run(spark: SparkSession, options: Mapping[str, Any], say: Say, tell: Say) -> int:
    output = options["output"]
    waves = migration_plan(
        spark,
        Cluster(options["admin_url"], access_of(options)),
        output,
        WaveLimit(options["wave_topics"], options["wave_backlog"], options["topic_seconds"]),
        namespaces=options.get("namespace") or (),
        say=say,
    )
    for wave in waves:
        first = f" after upgrading clients on {', '.join(wave.hosts)}" if wave.hosts else ""
        tell(
            f"wave {wave.number}: {len(wave.topics)} topics, {wave.backlog:,} entries to read,"
            f" about {wave.seconds:,.0f} s{first}"
        )
    tell(f"page: {output.rstrip('/')}/plan.html")
    return 0
