"""Workers and drivers that are killed, really, with rows of a task half written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from magnetar.client.admin import AdminClient
from tests.spark.conftest import DAEMON
from tests.spark.copy_driver import copy, stop_half_way
from tests.spark.engine import Rows, read_batch
from tests.spark.feed import PATIENCE_S, by_key, fresh, numbers, publish

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

COUNT = 50_000
HALF = 22_000
"""More than the sink takes at once and pipes hold: some rows are stored by then."""
ROOT = Path(__file__).parents[2]


def key_of(value: bytes) -> str:
    return f"k{int(value) % 97}"


def fill(connection: dict[str, str], topic: str) -> None:
    values = (b"%0100d" % number for number in range(COUNT))
    publish(connection["serviceUrl"], topic, values, key_of, max_pending_messages=COUNT)


def await_true(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 3 * PATIENCE_S
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def check(found: Rows) -> None:
    assert numbers(found) == list(range(COUNT))
    assert all(values == sorted(values) for values in by_key(found).values())


def find_workers(daemon: str, root: int) -> list[int]:
    """The forks of daemons below a process; the daemons themselves are left out."""
    parents, daemons = {}, set()
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                state = (each / "stat").read_text().rpartition(")")[2].split()
                parents[int(each.name)] = int(state[1])
                if daemon.encode() in (each / "cmdline").read_bytes().split(b"\0"):
                    daemons.add(int(each.name))
            except OSError:
                continue  # it has gone meanwhile
    return [pid for pid in daemons if parents[pid] in daemons and is_below(pid, root, parents)]


def is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != root:
        pid = parents[pid]
    return pid == root


def test_workers_of_source_and_sink_that_are_killed_leave_every_row_once(
    spark: SparkSession, connection: dict[str, str], admin: AdminClient, tmp_path: Path
) -> None:
    source, target = fresh("from"), fresh("to")
    for each in (source, target):
        admin.scalable_topics.create(each)
    fill(connection, source)
    killed: list[int] = []

    def kill() -> None:
        await_true(lambda: bool(list(tmp_path.glob("waiting-*"))))
        await_true(lambda: len(read_batch(connection, topic=target)) > 0)
        for pid in find_workers(DAEMON, os.getpid()):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        (tmp_path / "free").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    (
        spark.read.format("magnetar")
        .options(**connection, topic=source, batchRows="1000")
        .load()
        .select("key", "value")
        .mapInArrow(stop_half_way(str(tmp_path), HALF, None), "key binary, value binary")
        .write.format("magnetar")
        .options(**connection, topic=f"topic://{target}")
        .mode("append")
        .save()
    )
    killer.join()
    assert len(killed) >= 2, "one that reads and one that writes"
    check(read_batch(connection, topic=target))


def test_a_driver_killed_between_offsets_and_commit_leaves_every_row_once(
    spark: SparkSession, connection: dict[str, str], admin: AdminClient, tmp_path: Path
) -> None:
    source, target, checkpoint = fresh("from"), fresh("to"), tmp_path / "checkpoint"
    for each in (source, target):
        admin.scalable_topics.create(each)
        # The query's hold comes with the driver: till then nothing else keeps what is stored.
        admin.scalable_topics.create_subscription(each, "keeps-everything")
    fill(connection, source)
    given = {
        "connection": json.dumps(connection),
        "source": source,
        "target": f"topic://{target}",
        "checkpoint": str(checkpoint),
        "home": str(tmp_path),
        "rows": str(HALF),
        "batch": "0",
    }
    command = [sys.executable, "-m", "tests.spark.copy_driver", json.dumps(given)]
    driver = subprocess.Popen(
        command, cwd=ROOT, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        await_true(lambda: (tmp_path / "waiting-0").exists())
        await_true(lambda: len(read_batch(connection, topic=target)) > 0)
        assert (checkpoint / "offsets" / "0").exists()
        assert not (checkpoint / "commits" / "0").exists()
        assert find_workers("pyspark.daemon", driver.pid), "by default PySpark's own forks them"
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()
    stored = len(read_batch(connection, topic=target))
    assert 0 < stored < COUNT, "some rows of the batch, and not all"
    admin.scalable_topics.split(target, 0)
    (tmp_path / "free").touch()
    copy(spark, given)
    assert (checkpoint / "commits" / "0").exists()
    check(read_batch(connection, topic=target))
