"""Which doors of PySpark are used: the public ones, and the few others by name."""

from __future__ import annotations

import ast
import importlib
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DecimalType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)

from magnetar.spark.arrow_type import make_arrow_schema
from magnetar.spark.option import InvalidOption
from magnetar.spark.row import COLUMN_TYPES, make_schema
from tests.spark.conftest import DAEMON
from tests.tidy.source import ROOT, Source

SOURCES = ROOT / "src"
PUBLIC = {
    "pyspark",
    "pyspark.errors",
    "pyspark.sql",
    "pyspark.sql.datasource",
    "pyspark.sql.functions",
    "pyspark.sql.streaming.datasource",
    "pyspark.sql.streaming.query",
    "pyspark.sql.types",
}
"""Modules that PySpark's reference documents."""
PRIVATE = {
    # Behind the option inlineBytes, which is 0 by default; without it tasks read everything.
    "small_batch.py": {"pyspark.sql.datasource_internal", "_SimpleStreamReaderWrapper"},
    # Behind Spark's setting spark.python.daemon.module, which has PySpark's own daemon by default.
    "daemon.py": {"pyspark.daemon"},
    # Of jobs that write elsewhere than to the disk: PySpark has no other door to Hadoop's systems.
    "folder.py": {"_gateway", "_jvm", "_jsc"},
}


def find_doors(path: Path) -> Iterator[str]:
    """Modules of PySpark, and names with an underscore of anything but the object itself."""
    for node in ast.walk(Source(path).tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name.startswith("pyspark"))
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("pyspark"):
                yield module
                yield from (each.name for each in names if each.name.startswith("_"))
            case ast.Attribute(value=value, attr=name) if name.startswith("_"):
                is_own = isinstance(value, ast.Name) and value.id in ("self", "cls")
                if not is_own and not name.startswith("__"):
                    yield name
            case ast.Constant(value=str(text)) if text.startswith(("pyspark.", "_j")):
                yield text


def test_every_door_but_a_few_named_ones_is_public() -> None:
    found = defaultdict(set)
    for path in [*SOURCES.glob("magnetar/spark/**/*.py"), *SOURCES.glob("pyspark_magnetar/*.py")]:
        if more := set(find_doors(path)) - PUBLIC:
            found[path.name] |= more
    assert found == PRIVATE


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(240)
def test_the_private_doors_are_there_in_this_pyspark(spark: SparkSession) -> None:
    assert getattr(spark, "_jsc", None) is not None, "this PySpark has no _jsc of a session"
    for name in PRIVATE["folder.py"] - {"_jsc"}:
        context = spark.sparkContext
        assert getattr(context, name, None) is not None, f"this PySpark has no {name} of a context"
    assert callable(importlib.import_module("pyspark.daemon").manager)
    module = importlib.import_module("pyspark.sql.datasource_internal")
    assert callable(getattr(module._SimpleStreamReaderWrapper, "getCache", None))


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(240)
def test_workers_are_forked_by_a_daemon_that_has_imported_what_they_need(
    spark: SparkSession,
) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode()
        for _ in batches:
            is_there = "magnetar.spark.source" in sys.modules
            yield pa.RecordBatch.from_pydict({"parent": [parent], "is_there": [is_there]})

    [row] = spark.range(1).mapInArrow(look, "parent string, is_there boolean").collect()
    assert DAEMON in row["parent"] and row["is_there"]


def test_columns_have_the_types_that_spark_takes() -> None:
    """PySpark's own conversion is private; this says when it changes."""
    inner = StructType([StructField("n", IntegerType(), nullable=False)])
    kinds = [
        DecimalType(38, 18),
        TimestampType(),
        TimestampNTZType(),
        TimeType(6),
        ArrayType(inner, containsNull=False),
        MapType(StringType(), ArrayType(DecimalType(9, 2)), valueContainsNull=False),
    ]
    value = StructType([StructField(f"f{n}", kind) for n, kind in enumerate(kinds)])
    schema = make_schema(tuple(COLUMN_TYPES), value)
    assert make_arrow_schema(schema) == to_arrow_schema(schema, timezone="UTC")
    with pytest.raises(InvalidOption, match="No column of the source can be interval"):
        make_arrow_schema(StructType([StructField("value", CalendarIntervalType())]))
