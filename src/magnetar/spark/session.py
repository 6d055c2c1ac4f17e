"""Sessions that know the source and the sink."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final
from weakref import WeakSet

from pyspark.sql import SparkSession

from magnetar.spark.delta import delta_settings
from magnetar.spark.java import check_java
from magnetar.spark.source import MagnetarSource

_REGISTERED: Final = WeakSet[SparkSession]()


def register(spark: SparkSession) -> SparkSession:
    """Make `format("magnetar")` known to a session, once.

    Spark finds the package `pyspark_magnetar` by itself where its Python has it. PySpark has no
    public way to ask whether it did, so that its log warns of a source that was replaced.
    """
    if spark not in _REGISTERED:
        spark.dataSource.register(MagnetarSource)
        _REGISTERED.add(spark)
    return spark


def make_session(
    *,
    master: str | None = None,
    name: str = "magnetar",
    settings: Mapping[str, str] | None = None,
    delta: bool = False,
) -> SparkSession:
    """A session that knows `format("magnetar")`; local unless `master` or spark-submit says so.

    With `delta` it knows Delta Lake tables too.
    """
    check_java()
    # Workers on this machine run what runs here; elsewhere the cluster says what there is.
    if master is None or master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    elif "MASTER" not in os.environ and "SPARK_REMOTE" not in os.environ:
        builder = builder.config("spark.master", "local[*]")
    for key, value in {**(delta_settings() if delta else {}), **(settings or {})}.items():
        builder = builder.config(key, value)
    return register(builder.getOrCreate())
