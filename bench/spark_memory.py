"""The memory of a task that reads a topic far larger than it may hold."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from bench.gauge import rss_mib
from magnetar.client.admin import AdminClient
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.policy import BatchingPolicy
from magnetar.columns import AsyncBulk
from magnetar.columns.arrow import make_binary
from magnetar.columns.sheet import make_sheet
from magnetar.testing import MagnetarBroker

TOPIC = "public/default/large"
SMALL = "public/default/small"
VALUE_BYTES = 10_000
ROWS = 500
LIMITS_MB = (4, 64)
HELD, ENTRY_MIB = 5, 32
"""So many times batchBytes and windowBytes together, and the copies of a large entry, beside what a
worker takes anyway."""


def measure_memory(
    spark: SparkSession, broker: MagnetarBroker, options: dict[str, str], mib: int
) -> dict[str, Any]:
    """One task reads a topic of so many MiB, from files and over the wire, with small and with
    large batches; the largest Python worker meanwhile, beside what the guide promises.
    """
    count = mib * 1024 * 1024 // VALUE_BYTES // ROWS * ROWS
    with AdminClient(broker.admin_url) as admin:
        for topic, messages in ((SMALL, ROWS), (TOPIC, count)):
            admin.scalable_topics.create(topic)
            asyncio.run(fill(broker, topic, messages))

    def read(topic: str, limit: int, direct: str) -> tuple[int, float, int]:
        frame = (
            spark.read.format("magnetar")
            .options(**options, topic=topic, columns="value", directRead=direct)
            .options(taskBytes=str(1 << 50), batchBytes=f"{limit}MB", windowBytes=f"{limit}MB")
            .load()
        )
        peak, over = [0.0], threading.Event()
        watcher = threading.Thread(target=_watch, args=(peak, over))
        watcher.start()
        began = time.perf_counter()
        messages = frame.count()
        return messages, round(time.perf_counter() - began, 1), _end(watcher, over, peak)

    _, _, least = read(SMALL, LIMITS_MB[0], "never")
    found: dict[str, Any] = {"topic_mib": mib, "messages": count, "small_topic_mib": least}
    for limit in LIMITS_MB:  # the small one first: a worker that is used again keeps its memory
        for direct in ("auto", "never"):
            messages, seconds, peak = read(TOPIC, limit, direct)
            assert messages == count
            most = least + HELD * 2 * limit + ENTRY_MIB
            found[f"{'wire' if direct == 'never' else 'files'}_{limit}MB"] = {
                "seconds": seconds,
                "worker_peak_mib": peak,
                "promised_mib": most,
                "is_kept": peak <= most,
            }
    return found


async def fill(broker: MagnetarBroker, topic: str, count: int) -> None:
    def on_sent(sent: asyncio.Future[Any]) -> None:
        sent.result()

    values = make_binary([os.urandom(VALUE_BYTES) for _ in range(ROWS)])
    async with AsyncPulsarClient(broker.service_url) as client:
        producer = await AsyncBulk(client).resumable_producer(
            f"topic://{topic}",
            batching=BatchingPolicy(max_delay=0.01, max_bytes="1MB"),
            max_pending_messages=4 * ROWS,
        )
        for number in range(0, count, ROWS):
            sheet, _ = make_sheet(pa.nulls(ROWS, pa.binary()), values, number)
            await producer.submit_sheet(sheet, on_sent)
            await asyncio.sleep(0)
        await producer.flush()
        await producer.close()


def _end(watcher: threading.Thread, over: threading.Event, peak: list[float]) -> int:
    over.set()
    watcher.join()
    return round(peak[0])


def _watch(peak: list[float], over: threading.Event) -> None:
    """The workers of this session; those that wait to be used again count too."""
    while not over.wait(0.05):
        for each in Path("/proc").iterdir():
            try:
                is_worker = (
                    each.name.isdecimal() and b"pyspark.daemon" in (each / "cmdline").read_bytes()
                )
                if is_worker and _is_below(int(each.name)):
                    peak[0] = max(peak[0], rss_mib(int(each.name)))
            except (OSError, LookupError):
                continue


def _is_below(pid: int) -> bool:
    """Whether this process is the parent, or a parent's parent."""
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return False
