"""A topic of orders becomes a table; what large ones are worth goes to another topic."""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

BROKER = {
    "serviceUrl": os.environ.get("MAGNETAR_URL", "pulsar://localhost:6650"),
    "adminUrl": os.environ.get("MAGNETAR_ADMIN_URL", "http://localhost:8080"),
}
TOPIC = os.environ.get("ORDERS", "topic://public/default/orders")


@dp.table
def orders() -> DataFrame:
    spark = SparkSession.active()
    source = spark.readStream.format("magnetar").options(
        **BROKER, topic=TOPIC, startingOffsets="earliest"
    )
    return source.load().selectExpr("STRING(key) AS customer", "INT(STRING(value)) AS paid")


dp.create_sink("large", "magnetar", {**BROKER, "topic": f"{TOPIC}-large"})


@dp.append_flow(target="large")
def large_orders() -> DataFrame:
    rows = SparkSession.active().readStream.table("orders")
    return rows.where("paid >= 100").selectExpr("customer AS key", "CAST(paid AS STRING) AS value")
