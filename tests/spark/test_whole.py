"""Written through the sink under failures while the topic is migrated, split and merged; read
through the source; audited: nothing is lost, repeated or out of order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from magnetar.client.admin import AdminClient
from magnetar.spark.job.order_audit import Counter, order_audit
from magnetar.spark.job.order_audit_command import load_generations, read_topic
from magnetar.testing import MagnetarBroker

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

NAMESPACE = "public/whole"
REGULAR, SCALABLE = f"persistent://{NAMESPACE}/orders", f"topic://{NAMESPACE}/orders"
KEYS, FILES, PER_FILE = 6, 4, 20
DEATHS = {5: 3, 28: 1, 47: 3, 66: 2}
"""How often a task dies at a number. Three attempts are made: then the query has failed."""
SCHEMA = "key string, value string, properties map<string,string>"


def write_files(folder: Path) -> None:
    """Each file is a batch of the query: the next numbers of all keys."""
    folder.mkdir()
    kind = pa.map_(pa.string(), pa.string())
    for number in range(FILES):
        rows = [(key, number * PER_FILE + n) for n in range(PER_FILE) for key in range(KEYS)]
        table = pa.table(
            {
                "key": [f"k{key}" for key, _ in rows],
                "value": [f"{n}" for _, n in rows],
                "properties": pa.array([[("n", str(n))] for _, n in rows], kind),
            }
        )
        path = folder / f"{number}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number,) * 2)  # Spark takes the oldest first


def make_dying(markers: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Hands on what comes, and dies at some numbers while there is a marker for them."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start in range(0, batch.num_rows, KEYS):
                piece = batch.slice(start, KEYS)
                marker = markers / piece.column("value")[0].as_py()
                if marker.exists() and (left := int(marker.read_text())):
                    marker.write_text(str(left - 1))
                    raise RuntimeError("killed in the middle")
                yield piece

    return run


def test_the_audit_finds_nothing_after_failures_migration_splits_and_a_merge(
    spark: SparkSession, tmp_path: Path, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    admin.namespaces.create(NAMESPACE)
    forever = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    admin.namespaces.set_policy(NAMESPACE, "retention", forever)
    admin.topics.create(REGULAR)
    write_files(tmp_path / "in")
    markers = tmp_path / "markers"
    markers.mkdir()
    for number, deaths in DEATHS.items():
        (markers / str(number)).write_text(str(deaths))

    def start() -> StreamingQuery:
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return (
            rows.parquet(str(tmp_path / "in"))
            .mapInArrow(make_dying(markers), SCHEMA)
            .writeStream.format("magnetar")
            .option("serviceUrl", magnetar_broker.service_url)
            .option("adminUrl", magnetar_broker.admin_url)
            .option("topic", REGULAR)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    changes: list[Callable[[], None]] = [
        lambda: admin.scalable_topics.migrate_to_scalable(REGULAR),
        lambda: admin.scalable_topics.split(SCALABLE, 1),
    ]
    for change in changes:
        query = start()
        with pytest.raises(StreamingQueryException, match="killed in the middle"):
            query.awaitTermination(100)
        change()
    query = start()
    admin.scalable_topics.merge(SCALABLE, 2, 3)
    admin.scalable_topics.split(SCALABLE, 4)
    assert query.awaitTermination(100)
    assert {each.read_text() for each in markers.iterdir()} == {"0"}, "every death happened"
    options = {
        "topic": SCALABLE,
        "url": magnetar_broker.service_url,
        "admin_url": magnetar_broker.admin_url,
    }
    counter = Counter("property", "n")
    counts = [(f"k{key}", FILES * PER_FILE) for key in range(KEYS)]
    found, examples = order_audit(
        read_topic(spark, options, counter),
        counter,
        load_generations(options),
        first=0,
        expected=spark.createDataFrame(counts, "key string, count long"),
    )
    assert found.is_clean, examples
    assert found.messages == KEYS * FILES * PER_FILE
    assert len(load_generations(options)) == 7
