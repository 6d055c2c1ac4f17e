"""The tables of a load history, and the samples of one topic taken out of them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from magnetar import ConfigurationError
from magnetar.spark.job.folder import find_folder
from magnetar.spark.job.load import RATES, Samples

SAMPLE_FOLDER: Final = "sample"
CHANGE_FOLDER: Final = "change"
NEEDED: Final = ("topic", "at", "hash_first", "hash_last", *RATES, "consumers")


def read_samples(spark: SparkSession, history: str) -> DataFrame:
    """The samples of a history folder, or of a table that looks like them."""
    place = find_folder(spark, history)
    samples = spark.read.parquet(
        place.child(SAMPLE_FOLDER) if place.has(SAMPLE_FOLDER) else place.uri
    )
    missing = [name for name in NEEDED if name not in samples.columns]
    if missing:
        raise ConfigurationError(
            f"{history} is no load history: it has no column {', '.join(missing)}"
        )
    return samples.select(
        "topic",
        F.unix_millis("at").alias("at_ms"),
        F.col("hash_first").cast("long"),
        F.col("hash_last").cast("long"),
        *(F.col(name).cast("double") for name in RATES),
        F.col("consumers").cast("long"),
    )


def collect_samples(table: pa.Table) -> Samples:
    """Of rows of one topic, as `read_samples` gives them."""

    def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        values: np.ndarray[tuple[int], np.dtype[np.int64]] = (
            table.column(name).fill_null(0).to_numpy().astype(np.int64)
        )
        return values

    rates = [table.column(name).to_numpy().astype(np.float64) for name in RATES]
    return Samples(
        column("at_ms"),
        column("hash_first"),
        column("hash_last"),
        np.stack(rates),
        column("consumers"),
    )
