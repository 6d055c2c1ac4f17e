"""Typed values that the sink wrote, read by Apache Pulsar's own Java client."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import Row, SparkSession

from magnetar.client.admin import AdminClient
from tests.interop.java_client import run_java
from tests.spark.feed import fresh

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

AT = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
MICROS = 1769860800123456
DAY = date(2026, 1, 31)
DAYS = 20484
SCHEMA = (
    "name string, count bigint, price decimal(10,2), at timestamp, day date, raw binary,"
    " tags array<string>, moments array<timestamp>, counts map<string,bigint>,"
    " inner struct<a int, deep struct<b double>>, missing string"
)
SHARED = {
    "name": "ada",
    "count": 2**40,
    "at": MICROS,
    "day": DAYS,
    "tags": ["x", "y"],
    "moments": [MICROS],
    "counts": {"k": 7},
    "inner": {"a": 1, "deep": {"b": 0.5}},
    "missing": None,
}


def test_the_java_client_reads_nested_values_of_both_formats(
    spark: SparkSession, admin: AdminClient, connection: dict[str, str]
) -> None:
    row = Row("ada", 2**40, Decimal("12.50"), AT, DAY, b"\x00\xff", ["x", "y"], [AT], {"k": 7})
    frame = spark.createDataFrame([(*row, Row(1, Row(0.5)), None)], SCHEMA)
    topics = {kind: f"persistent://{fresh(kind)}" for kind in ("avro", "json")}
    for kind, topic in topics.items():
        admin.topics.create(topic)
        options = {**connection, "topic": topic, "valueFormat": kind}
        frame.coalesce(1).write.format("magnetar").options(**options).mode("append").save()
    lines = run_java("Typed", connection["serviceUrl"], *topics.values())
    found = {}
    for line in lines:
        kind, _, text = line.partition(" ")
        if kind.lower() in topics:
            found[kind] = json.loads(text)
    # The client leaves logical types as they are carried: a decimal is its unscaled number.
    carried = {"price": (1250).to_bytes(2, "big").decode("latin-1"), "raw": "\x00\xff"}
    written = {"price": "12.50", "raw": base64.b64encode(b"\x00\xff").decode()}
    assert found == {"AVRO": SHARED | carried, "JSON": SHARED | written}
