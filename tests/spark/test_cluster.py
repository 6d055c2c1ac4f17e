"""Jobs on Spark's standalone cluster whose only common store speaks S3, while things are killed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from magnetar import BatchingPolicy
from magnetar.cli.main import main
from magnetar.client.admin import AdminClient
from magnetar.testing import MagnetarBroker
from tests.spark import round_trip
from tests.spark.conftest import DAEMON, JAVA_OPTIONS
from tests.spark.engine import read_batch
from tests.spark.feed import by_key, fresh, publish
from tests.spark.standalone import (
    ObjectStore,
    Processes,
    StandaloneCluster,
    await_true,
    is_possible,
    kill,
)

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
COUNT = 10_000
REGULAR = "persistent://public/default/regular"
STEP = "2KB"
"""Of a batch: an entry or two of a hundred messages, so that what is killed is never done."""
FAST = {"max_pending_messages": COUNT, "batching": BatchingPolicy(max_messages=100)}
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "700m",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": DAEMON,
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
}


def key_of(value: int) -> str:
    return f"k{value % 97}"


class Driver:
    """Of one program after another, each started with the line that `magnetar spark submit` prints,
    but for the program that it names."""

    def __init__(
        self, processes: Processes, settings: dict[str, str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._processes, self._capsys = processes, capsys
        self._settings = [
            word for key, value in settings.items() for word in ("--conf", f"{key}={value}")
        ]

    def start(self, given: dict[str, Any], *words: str) -> subprocess.Popen[bytes]:
        self._capsys.readouterr()
        assert main(["spark", "submit", *given["table"], *self._settings, *words]) == 0
        line = shlex.split(self._capsys.readouterr().out)
        line[0] = str(Path(pyspark.__file__).parent / "bin" / line[0])
        program = line.index("table") - 1
        line[program:] = [round_trip.__file__, json.dumps(given)]
        env = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        return self._processes.start("driver", line, env=env)

    def explain(self) -> str:
        return self._processes.read_log("driver")[-4000:]


@pytest.fixture
def home() -> Iterator[Path]:
    """One that other users may enter: pytest's own is closed to them."""
    with tempfile.TemporaryDirectory(prefix="magnetar-spark-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_what_a_machine_cannot_do_is_left_out_but_on_ci() -> None:
    for command in (["false"], ["no-such-program"]):
        assert not is_possible(command, {})
        assert not is_possible(command, {"CI": "false"})
        with pytest.raises(AssertionError, match=f"CI cannot do without {command[0]}"):
            is_possible(command, {"CI": "true"})
    assert is_possible(["true"], {"CI": "true"})


def test_a_topic_goes_to_a_table_and_back_exactly_once_whatever_is_killed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, copied, target = fresh("from"), fresh("copy"), fresh("to")
    expected = defaultdict(list)
    for number in range(COUNT):
        expected[key_of(number)].append(number)
    broker_home = home / "broker"
    broker_home.mkdir(mode=0o700)
    with Processes(home) as processes:
        cluster, store = StandaloneCluster(processes, [broker_home]), ObjectStore(processes)
        with MagnetarBroker(data=broker_home / "data") as broker:
            connection = {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url}
            store.make_bucket()
            with AdminClient(broker.admin_url) as admin:
                for topic in (source, copied, target):
                    admin.scalable_topics.create(topic)
                    admin.scalable_topics.create_subscription(topic, "keeps-everything")
                admin.topics.create(REGULAR)
            driver = Driver(processes, SETTINGS | store.settings, capsys)
            where = ["--url", broker.service_url, "--admin-url", broker.admin_url]
            table = ["--format", "delta", *where]
            asked = ["--admin-url", broker.admin_url, "--namespace", "public/default"]
            pace = ["--interval", "1s", "--flush", "1s", "--for", "2s"]
            grid = ["--grid", "scale=1,2"]
            grow = ["table", f"topic://{source}", "--output", "s3a://lake/orders", *table]
            given = {
                "table": [*grow, "--batch-bytes", STEP, "--follow", "1s"],
                "jobs": [
                    ["replay", "s3a://lake/orders", f"topic://{target}", *table],
                    ["table", f"topic://{source}", "--output", "s3a://lake/sealed", *where],
                    ["order-audit", f"topic://{source}", "--output", "s3a://lake/audit", *where],
                    ["migration-plan", "--output", "s3a://lake/plan", *asked],
                    ["load-history", "--output", "s3a://lake/history", *pace, *asked],
                    ["what-if", "s3a://lake/history", "--output", "s3a://lake/answer", *grid],
                ],
                "connection": connection,
                "source": source,
                "copy": f"topic://{copied}",
                "checkpoint": "s3a://lake/checkpoint",
                "batch_bytes": STEP,
                "followed": True,
            }

            def count_commits() -> int:
                return store.count("orders/_delta_log/", ".json")

            def count_rows() -> int:
                return len(read_batch(connection, topic=copied))

            def await_progress() -> None:
                """Of the table and of the copy."""
                seen, rows = count_commits(), count_rows()
                await_true(lambda: count_commits() > seen, driver.explain)
                await_true(lambda: count_rows() > rows, driver.explain)

            # Whoever starts last waits for the others: they all do so side by side.
            running = driver.start(given, "--master", cluster.url)
            publish(broker.service_url, source, range(COUNT // 2), key_of, **FAST)
            with AdminClient(broker.admin_url) as admin:
                admin.scalable_topics.split(source, 0)
            publish(broker.service_url, source, range(COUNT // 2, COUNT), key_of, **FAST)
            await_progress()
            # Side by side: a batch of each query loses its executor and its broker.
            os.kill(cluster.executors()[0], signal.SIGKILL)
            broker.crash()
            broker.restart()
            await_progress()
            kill(running)
            assert 0 < count_rows() < COUNT, "the sink was in the middle of its work"
            given |= {"table": grow, "batch_bytes": "1GB", "followed": False}
            # By one executor: the other takes a while to start, and is not needed any more.
            one = ("--conf", "spark.cores.max=1")
            running = driver.start(given, "--master", cluster.url, *one)
            assert running.wait(600) == 0, driver.explain()
            assert by_key(read_batch(connection, topic=copied)) == expected
            assert by_key(read_batch(connection, topic=target)) == expected
            check_jobs(store, f"topic://{source}")
            assert not [*(home / "driver").glob("s3a*")], "a folder is no place to write to"


def check_jobs(store: ObjectStore, topic: str) -> None:
    """What each of them left: rows by executors, the rest by the driver."""
    manifest = json.loads(store.read("sealed/manifest.json"))
    assert [each["rows"] for each in manifest["segments"].values()] == [COUNT // 2]
    assert store.read_table("sealed/data/").num_rows == COUNT // 2
    findings = json.loads(store.read("audit/findings.json"))
    assert findings["messages"] == COUNT
    assert REGULAR in store.read("plan/plan.html").decode()
    assert topic in store.read_table("history/sample/")["topic"].to_pylist()
    assert json.loads(store.read("answer/recommended.json"))
    assert store.read("answer/report.html")
