"""Sessions that know the source and the sink."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from magnetar.spark.java import check_java
from magnetar.spark.source import MagnetarSource


def register(spark: SparkSession) -> SparkSession:
    """Make `format("magnetar")` known to a session."""
    spark.dataSource.register(MagnetarSource)
    return spark


def make_session(
    *,
    master: str | None = None,
    name: str = "magnetar",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session that knows `format("magnetar")`; local unless `master` or spark-submit says so."""
    check_java()
    # Workers on this machine run what runs here; elsewhere the cluster says what there is.
    if master is None or master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    elif "MASTER" not in os.environ and "SPARK_REMOTE" not in os.environ:
        builder = builder.config("spark.master", "local[*]")
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    return register(builder.getOrCreate())
