"""`magnetar spark load-history`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from magnetar import ConfigurationError
from magnetar.spark.access import access_of
from magnetar.spark.job.load_history import Cluster, Pace, load_history
from magnetar.spark.job.session import Say


def run(spark: SparkSession, options: Mapping[str, Any], say: Say, tell: Say) -> int:
    pace = Pace(options["interval"], options["flush"])
    if pace.interval_ms < 1 or pace.flush_ms < pace.interval_ms:
        raise ConfigurationError("--interval must be above 0 and --flush no less than --interval")
    count = load_history(
        spark,
        Cluster(options["admin_url"], access_of(options)),
        options["output"],
        pace,
        namespaces=options.get("namespace") or (),
        duration_s=options.get("for"),
        say=say,
    )
    tell(f"{count:,} samples in {options['output']}")
    return 0
