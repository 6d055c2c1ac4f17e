"""Fill a topic, kill -9 the broker, and time the next start until it serves all of it."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import urllib.request
from typing import Any

from bench.gauge import rss_mib
from bench.line import Line
from magnetar.testing import MagnetarBroker

TOPIC = "persistent://public/default/recovery"
CHUNK_BYTES = 8 * 1024 * 1024
# One ledger, never rolled over: nothing of it is sealed when the process dies.
UNSEALED = {
    "managedLedgerMaxEntriesPerLedger": 2_000_000_000,
    "managedLedgerMaxSizePerLedgerMbytes": 1_000_000,
    "managedLedgerMaxLedgerRolloverTimeMinutes": 100_000,
}


async def fill(port: int, total_bytes: int, entry_bytes: int) -> int:
    """Write that much; every entry counted here was acknowledged."""
    entries = total_bytes // entry_bytes
    per_chunk = max(1, CHUNK_BYTES // entry_bytes)
    payload = b"x" * entry_bytes
    async with Line.open("127.0.0.1", port) as line:
        await line.create_producer(1, TOPIC)
        for first in range(0, entries, per_chunk):
            numbers = range(first, min(entries, first + per_chunk))
            frames = [line.encode_send(1, number, payload) for number in numbers]
            await line.send_all(frames, window=2 * per_chunk, burst=max(1, per_chunk // 8))
        return line.receipts


async def read_first(port: int) -> None:
    """The recovered topic serves: its first entry arrives."""
    async with Line.open("127.0.0.1", port) as line:
        await line.subscribe(1, TOPIC, "check")
        line.flow(1, 1)
        await line.await_messages(1)


def load_internal_stats(broker: MagnetarBroker) -> dict[str, Any]:
    path = "/admin/v2/persistent/public/default/recovery/internalStats"
    with urllib.request.urlopen(broker.admin_url + path) as answer:
        stats: dict[str, Any] = json.load(answer)
        return stats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--entry-bytes", type=int, default=65_536)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with MagnetarBroker(set=UNSEALED) as broker:
        began = time.perf_counter()
        acked = asyncio.run(fill(broker.port, options.mib * 1024 * 1024, options.entry_bytes))
        fill_s = time.perf_counter() - began
        broker.crash()
        began = time.perf_counter()
        broker.start()
        ready_s = time.perf_counter() - began
        asyncio.run(read_first(broker.port))
        serves_s = time.perf_counter() - began
        result = {
            "mib": options.mib,
            "entry_bytes": options.entry_bytes,
            "acknowledged": acked,
            "recovered": load_internal_stats(broker)["numberOfEntries"],
            "fill_s": round(fill_s, 2),
            "ready_s": round(ready_s, 3),
            "first_entry_s": round(serves_s, 3),
            "rss_mib": round(rss_mib(broker.pid)),
        }
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:<16} {value:>12,}")
    if result["recovered"] < acked:
        raise SystemExit(
            f"LOST: {acked} entries were acknowledged, {result['recovered']} are there"
        )


if __name__ == "__main__":
    main()
