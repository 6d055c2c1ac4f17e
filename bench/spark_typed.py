"""Reading typed values, beside the same messages as bytes; and triggers over many segments."""

from __future__ import annotations

import tempfile
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.gauge import median
from bench.spark_sink import timed
from magnetar import PulsarClient
from magnetar.client.admin import AdminClient
from magnetar.testing import MagnetarBroker

SEGMENTS = 64
WARM_UP = 3
VALUE = (
    "named_struct('id', id, 'customer', concat('customer-', id % 1000), 'amount', id / 3,"
    " 'note', if(id % 3 = 0, 'left at the door of a neighbour', null),"
    " 'at', timestamp_millis(1700000000000 + id)) AS value"
)


def measure_typed(
    spark: SparkSession, options: dict[str, str], count: int, repeat: int
) -> dict[str, Any]:
    """Records of five fields, one of them a moment and one optional. Raw and typed reads take
    turns, and the median of each counts.
    """
    found: dict[str, Any] = {"messages": count}
    for form in ("avro", "json"):
        where = options | {"topic": f"topic://public/default/typed-{form}"}
        rows = spark.range(0, count, 1, 2).selectExpr("concat('k', id % 100) AS key", VALUE)
        rows.write.format("magnetar").options(**where, valueFormat=form).mode("append").save()
        where |= {"columns": "value", "taskBytes": str(max(1 << 20, count * 40))}
        reads = spark.read.format("magnetar").options(**where)
        frames = {"raw": reads.load(), form: reads.option("valueFormat", "schema").load()}
        spent: dict[str, list[float]] = {name: [] for name in frames}
        for _ in range(repeat + 1):  # the first one warms up
            for name, frame in frames.items():
                spent[name].append(timed(lambda frame=frame: _drain(frame)))  # type: ignore[misc]
        raw, typed = (median(each[1:]) for each in spent.values())
        found[f"{form}_per_s"] = round(count / typed)
        found[f"{form}_raw_per_s"] = round(count / raw)
        found[f"{form}_to_raw"] = round(raw / typed, 2)
    return found


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def measure_segments(
    spark: SparkSession, broker: MagnetarBroker, options: dict[str, str], batches: int
) -> dict[str, Any]:
    """Micro-batches of one message for each of 64 keys, in a topic of one segment and in one of 64.
    The queries take turns; what a trigger with rows takes is the median.
    """
    topics = {1: "public/default/one-segment", SEGMENTS: "public/default/many-segments"}
    spent: dict[int, dict[int, int]] = {number: {} for number in topics}
    with AdminClient(broker.admin_url) as admin:
        for number, topic in topics.items():
            admin.scalable_topics.create(topic, segments=number)
    with PulsarClient(broker.service_url) as client, tempfile.TemporaryDirectory() as home:
        producers = {
            number: client.producer(f"topic://{topic}") for number, topic in topics.items()
        }
        queries = {
            number: spark.readStream.format("magnetar")
            .options(**options, topic=topic)
            .load()
            .writeStream.format("noop")
            .trigger(processingTime="100 milliseconds")
            .option("checkpointLocation", f"{home}/{number}")
            .start()
            for number, topic in topics.items()
        }
        for query in queries.values():
            query.processAllAvailable()
        for _ in range(batches + WARM_UP):
            for number, query in queries.items():
                for key in range(SEGMENTS):
                    producers[number].submit(b"tick", key=f"k{key}")
                producers[number].flush()
                query.processAllAvailable()
                # Triggers without rows are reported too, and only the last reports are kept.
                for each in query.recentProgress:
                    if each["numInputRows"]:
                        spent[number][each["batchId"]] = each["durationMs"]["triggerExecution"]
        for query in queries.values():
            query.stop()
        for producer in producers.values():
            producer.close()
    one, many = (median([*each.values()][WARM_UP:]) for each in spent.values())
    return {
        "one_segment_batch_ms": one,
        f"{SEGMENTS}_segments_batch_ms": many,
        "many_to_one": round(many / one, 2),
    }
