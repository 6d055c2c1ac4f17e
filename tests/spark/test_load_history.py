"""Load history: each sample and each change once, whatever is interrupted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from magnetar.client.admin import AdminClient
from magnetar.client.error import ConfigurationError
from magnetar.spark.job.history import read_samples
from magnetar.spark.job.journal import Journal
from magnetar.spark.job.load_history import (
    Cluster,
    Pace,
    flush,
    journal_of,
    load_history,
    start,
    stop,
    write_batch,
)
from magnetar.spark.job.sampler import SCHEMA, find_changes
from magnetar.testing import MagnetarBroker

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]

TOPIC = "topic://public/default/sampled"
PACE = Pace(interval_ms=400, flush_ms=800)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def known_epoch(output: str) -> int | None:
    """Of the newest look; the file may be replaced by the next while it is read."""
    try:
        return journal_of(output).known().get(TOPIC)
    except FileNotFoundError:
        return None


def test_a_batch_that_is_run_again_leaves_each_sample_once(
    spark: SparkSession, tmp_path: Path, magnetar_broker: MagnetarBroker
) -> None:
    output, cluster = str(tmp_path), Cluster(magnetar_broker.admin_url)
    real, failures = write_batch(output), [0]

    def write_and_fail(batch: DataFrame, number: int) -> None:
        """As if the driver were killed between writing and noting that it did."""
        real(batch, number)
        if batch.count():
            failures[0] += 1
            raise RuntimeError("killed")

    with AdminClient(magnetar_broker.admin_url) as admin:
        admin.scalable_topics.create(TOPIC)
        query = start(spark, cluster, output, PACE, write=write_and_fail)
        with pytest.raises(StreamingQueryException, match="killed"):
            query.awaitTermination(60)
        admin.scalable_topics.split(TOPIC, 0)
        query = start(spark, cluster, output, PACE)
        wait_until(lambda: known_epoch(output) == 1)
        admin.scalable_topics.merge(TOPIC, 1, 2)
        wait_until(lambda: known_epoch(output) == 2)
        query.stop()
    journaled = set(journal_of(output).slots)
    flush(spark, cluster, output, PACE)
    assert failures[0] == 1
    samples = pq.read_table(tmp_path / "sample").to_pylist()
    times = Counter((row["topic"], row["segment"], row["at"]) for row in samples)
    assert set(times.values()) == {1}
    written = {int(row["at"].timestamp() * 1000) for row in samples}
    assert journaled <= written, "what was journaled is in the tables"
    by_time: dict[object, set[int]] = {}
    for row in samples:
        if row["topic"] == TOPIC:  # tests share the broker
            by_time.setdefault(row["at"], set()).add(row["segment"])
    assert {frozenset(each) for each in by_time.values()} >= {
        frozenset({0}),
        frozenset({1, 2}),
        frozenset({3}),
    }
    changes = pq.read_table(tmp_path / "change").sort_by("epoch").to_pylist()
    of_topic = [row for row in changes if row["topic"] == TOPIC]
    assert [(row["epoch"], row["kind"], row["segments"], row["children"]) for row in of_topic] == [
        (1, "SPLIT", [0], [1, 2]),
        (2, "MERGE", [1, 2], [3]),
    ]
    assert read_samples(spark, output).count() == len(samples)


def test_a_broker_that_is_away_is_a_gap_and_not_the_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    output = str(tmp_path)
    with MagnetarBroker() as broker:
        with AdminClient(broker.admin_url) as admin:
            admin.scalable_topics.create(TOPIC)
        query = start(spark, Cluster(broker.admin_url), output, PACE)
        wait_until(lambda: journal_of(output).newest is not None)
        broker.crash()
        before = journal_of(output).newest
        broker.restart()
        wait_until(lambda: (journal_of(output).newest or 0) > (before or 0))
        assert query.isActive
        with pytest.raises(ConfigurationError, match="already samples"):
            journal_of(output).lock()
        query.stop()
        count = load_history(
            spark, Cluster(broker.admin_url), output, PACE, duration_s=0.5, say=lambda line: None
        )
    assert count == pq.read_table(tmp_path / "sample").num_rows > 1


def test_a_query_is_stopped_between_two_batches(
    spark: SparkSession, magnetar_broker: MagnetarBroker, tmp_path: Path
) -> None:
    steps: list[str] = []

    def write(batch: DataFrame, number: int) -> None:
        steps.append("begin")
        time.sleep(0.5)
        batch.count()
        steps.append("end")

    output, cluster = str(tmp_path), Cluster(magnetar_broker.admin_url)
    query = start(spark, cluster, output, Pace(100, 100), write=write)
    wait_until(lambda: steps.count("begin") > 1)
    stop(query, journal_of(output))
    assert steps.count("begin") == steps.count("end")
    assert query.exception() is None
    assert not journal_of(output).is_paused


def test_a_journal_forgets_only_what_is_in_the_tables_and_never_what_it_knows(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path)
    for slot in (100, 200, 300):
        journal.append(slot, SCHEMA.empty_table(), {TOPIC: slot})
    journal.forget(200)
    assert (journal.slots, journal.committed) == ([300], 200)
    journal.forget(300)
    assert (journal.slots, journal.known()) == ([300], {TOPIC: 300})


def make_event(epoch: int) -> dict[str, object]:
    return {
        "epoch": epoch,
        "kind": "SPLIT",
        "segmentIds": [epoch],
        "childIds": [],
        "atMs": 1,
        "reason": "manual",
    }


@pytest.mark.parametrize(
    ("epochs", "known", "epoch", "expected"),
    [
        ([1, 2, 3], -1, 3, [1, 2, 3]),
        ([1, 2, 3], 2, 3, [3]),
        ([1, 2, 3], 3, 3, []),
        ([1], 7, 1, [1]),
        (list(range(51, 151)), 20, 150, [21, *range(51, 151)]),
    ],
)
def test_a_change_is_told_once(
    epochs: list[int], known: int, epoch: int, expected: list[int]
) -> None:
    """The last one: a hundred are kept, and some were forgotten before anybody looked."""
    rows = find_changes(TOPIC, [make_event(each) for each in epochs], known, epoch)
    assert [row["epoch"] for row in rows] == expected
    assert ("MISSED" in {row["kind"] for row in rows}) is (known == 20)
