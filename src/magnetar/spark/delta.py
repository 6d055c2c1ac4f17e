"""What a session needs for Delta Lake tables.

Of Delta Lake and Apache Iceberg, Delta has a release for Spark 4.2, whose Python Data Source API
source and sink are built on; Iceberg's runtime ends at Spark 4.1.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark

from magnetar import ConfigurationError

DELTA: Final = "4.4.0"
SPARK: Final = "4.2"
PACKAGE: Final = f"io.delta:delta-spark_{SPARK}_2.13:{DELTA}"
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Delta reads its log with 50 tasks for every commit, were it ever so short.
    "spark.databricks.delta.snapshotPartitions": "4",
}


def find_jars(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Those that `make spark-jars` fetched."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = environment.get("MAGNETAR_SPARK_JARS_HOME") or cache / "magnetar" / "spark-jars"
    return sorted(str(each) for each in Path(home, "lib").glob("*.jar"))


def delta_settings(version: str = pyspark.__version__) -> dict[str, str]:
    """Delta's own, and its jars: those that are here, or from Maven Central."""
    if not version.startswith(f"{SPARK}."):
        raise ConfigurationError(
            f"Delta Lake {DELTA} runs on Spark {SPARK}, and this is {version};"
            f" install it with: pip install 'pyspark=={SPARK}.*'"
        )
    jars = find_jars()
    source = {"spark.jars": ",".join(jars)} if jars else {"spark.jars.packages": PACKAGE}
    return {**_SETTINGS, **source}
