"""Load history: each sample and each change once, whatever is interrupted."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from magnetar.client.admin import AdminClient
from magnetar.client.error import ConfigurationError
from magnetar.spark.job.history import read_samples
from magnetar.spark.job.load_history import Cluster, History, Pace, load_history, sample
from magnetar.spark.job.sampler import find_changes
from magnetar.testing import MagnetarBroker
from tests.spark.request_log import RequestLog

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]

TOPIC = "topic://public/default/sampled"
PACE = Pace(interval_ms=400, flush_ms=800)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_merge_that_is_run_again_leaves_each_sample_once(
    spark: SparkSession,
    tmp_path: Path,
    magnetar_broker: MagnetarBroker,
    set_zone: Callable[[str], None],
) -> None:
    output = str(tmp_path)
    history = History(spark, Cluster(magnetar_broker.admin_url), output, ["public/default"])
    taken = []

    def take() -> None:
        taken.append(max([now_ms(), *(each + 1 for each in taken)]))
        assert history.take(taken[-1])

    with AdminClient(magnetar_broker.admin_url) as admin:
        admin.scalable_topics.create(TOPIC)
        take()
        # As if the driver were killed between writing and noting that it did, and the next one ran
        # where it is another day.
        set_zone("Pacific/Kiritimati")
        history.write(history.slots, history.merged)
        set_zone("Pacific/Niue")
        assert history.merged == 0
        admin.scalable_topics.split(TOPIC, 0)
        take()
        history.merge(history.slots)
        assert (history.slots, history.merged) == (taken[1:], taken[1]), "the newest stays"
        history.merge(history.slots)
        admin.scalable_topics.merge(TOPIC, 1, 2)
        take()
        take()
        # A look that was interrupted has no mark of success, and does not count.
        (tmp_path / "_look" / "9999999999999").mkdir()
        assert history.slots == taken[1:]
    history.merge(history.slots)
    samples = pq.read_table(tmp_path / "sample").to_pylist()
    times = Counter((row["topic"], row["segment"], row["at"]) for row in samples)
    assert set(times.values()) == {1}
    by_time: dict[int, set[int]] = {}
    for row in samples:
        if row["topic"] == TOPIC:  # tests share the broker
            at = round(row["at"].timestamp() * 1000)
            by_time.setdefault(at, set()).add(row["segment"])
    assert by_time == dict(zip(taken, ({0}, {1, 2}, {3}, {3}), strict=True))
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
        history = History(spark, Cluster(broker.admin_url), output)
        assert history.take(1000)
        broker.crash()
        assert not history.take(2000)
        broker.restart()
        assert history.slots == [1000]
        with (
            history.place.locked(),
            pytest.raises(ConfigurationError, match="Another job writes"),
        ):
            load_history(spark, history.cluster, output, PACE, duration_s=0, say=print)
        count = load_history(
            spark, history.cluster, output, PACE, duration_s=0.5, say=lambda line: None
        )
    assert count == pq.read_table(tmp_path / "sample").num_rows > 1


def test_a_topic_that_moves_is_a_gap_of_its_own_and_its_changes_are_told_once(
    spark: SparkSession, tmp_path: Path, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    namespace, output = "public/moving", str(tmp_path)
    admin.namespaces.create(namespace)
    away, near = (f"topic://{namespace}/{name}" for name in ("away", "near"))
    for topic in (away, near):
        admin.scalable_topics.create(topic)
        admin.scalable_topics.split(topic, 0)
    with RequestLog(magnetar_broker.admin_url) as door:
        history = History(spark, Cluster(door.url), output, [namespace])
        assert history.take(1000)
        door.moving = "/away/"
        assert history.take(2000), "one topic is no reason to have nothing of the others"
        door.moving = "/scalable/"
        assert not history.take(3000)
        door.moving = None
        assert history.take(4000)
    history.merge(history.slots)
    rows = pq.read_table(tmp_path / "sample").to_pylist()
    seen = Counter((row["topic"], round(row["at"].timestamp() * 1000)) for row in rows)
    assert {slot for topic, slot in seen if topic == away} == {1000, 4000}
    assert {slot for topic, slot in seen if topic == near} == {1000, 2000, 4000}
    changes = Counter(row["topic"] for row in pq.read_table(tmp_path / "change").to_pylist())
    assert changes == {away: 1, near: 1}


def test_a_slow_merge_delays_no_look(
    spark: SparkSession, magnetar_broker: MagnetarBroker, tmp_path: Path
) -> None:
    going, looked = threading.Event(), threading.Event()

    class Slow(History):
        """Merges until two more looks were taken, after which the job is interrupted."""

        def merge(self, slots: object) -> None:
            going.set()
            assert looked.wait(120)

        def take(self, slot: int) -> bool:
            if going.is_set():
                after.append(slot)
            if len(after) == 2:
                looked.set()
                raise KeyboardInterrupt
            return super().take(slot)

    after: list[int] = []
    history = Slow(spark, Cluster(magnetar_broker.admin_url), str(tmp_path), ["public/default"])
    with ThreadPoolExecutor(1) as beside, pytest.raises(KeyboardInterrupt):
        sample(history, Pace(100, 100), None, beside, say=lambda line: None)


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
