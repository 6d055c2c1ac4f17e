"""Metadata operations per second on a real ZooKeeper: this store against a bare kazoo loop.

Both do the same work on the same server in the same run, turn by turn, and every second turn begins
with the other one: create, read, replace and delete records, one after the other and a hundred at a
time. The bare loop uses kazoo's own calls, waiting for each, or its asynchronous ones, waiting for
a hundred. Rates and their ratios are the medians over the turns.

    python -m bench.metadata_zookeeper [--records 2000] [--repeat 7] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import uvloop
from kazoo.client import KazooClient

from bench.gauge import median
from magnetar.metadata.backends.zookeeper import ZookeeperStore
from magnetar.metadata.store import ABSENT, ANY_VERSION
from magnetar.testing.zookeeper import ZookeeperServer

WINDOW: Final = 100
VALUE: Final = b"x" * 200
STEPS: Final = ("create", "read", "replace", "delete")
ALL: Final = "create, read, replace, delete"

Result = dict[str, Any]


def measure_bare(hosts: str, root: str, count: int, window: int) -> dict[str, float]:
    client = KazooClient(hosts)
    client.start()
    client.ensure_path(root)
    paths = [f"{root}/n{index:06d}" for index in range(count)]
    calls: dict[str, Callable[[str], Any]] = {
        "create": lambda path: client.create_async(path, VALUE),
        "read": client.get_async,
        "replace": lambda path: client.set_async(path, VALUE, version=0),
        "delete": lambda path: client.delete_async(path),
    }
    rates = {}
    for step in STEPS:
        began = time.perf_counter()
        for start in range(0, count, window):
            for waiting in [calls[step](path) for path in paths[start : start + window]]:
                waiting.get()
        rates[step] = count / (time.perf_counter() - began)
    client.stop()
    client.close()
    return rates


async def measure_store(url: str, count: int, window: int) -> dict[str, float]:
    store = await ZookeeperStore.open(url)
    paths = [f"/d/n{index:06d}" for index in range(count)]
    await store.put("/d", b"there", expect=ABSENT)
    calls: dict[str, Callable[[str], Any]] = {
        "create": lambda path: store.put(path, VALUE, expect=ABSENT),
        "read": store.get,
        "replace": lambda path: store.put(path, VALUE, expect=0),
        "delete": lambda path: store.delete(path, expect=ANY_VERSION),
    }
    rates = {}
    for step in STEPS:
        began = time.perf_counter()
        for start in range(0, count, window):
            if window == 1:
                await calls[step](paths[start])
            else:
                await asyncio.gather(*(calls[step](path) for path in paths[start : start + window]))
        rates[step] = count / (time.perf_counter() - began)
    await store.close()
    return rates


Rates = dict[str, float]


def with_mean(rates: Rates) -> Rates:
    """With the rate of one operation of each kind after the other."""
    return {**rates, ALL: len(STEPS) / sum(1 / rates[step] for step in STEPS)}


def take_turn(
    server: ZookeeperServer, root: str, records: int, window: int, turn: int
) -> list[Rates]:
    """The rates of the bare loop and ours; which goes first, the number of the turn says."""

    def bare() -> Rates:
        return measure_bare(server.hosts, f"{root}/bare", records, window)

    def ours() -> Rates:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(measure_store(f"{server.url}{root}/own", records, window))

    if turn % 2:
        found = [ours(), bare()][::-1]
    else:
        found = [bare(), ours()]
    return [with_mean(rates) for rates in found]


def measure(server: ZookeeperServer, window: int, options: argparse.Namespace) -> list[Result]:
    turns = []
    for turn in range(options.repeat + 1):
        root = f"/bench-{window}-{turn}"
        rates = take_turn(server, root, options.records, window, turn)
        if turn:  # in the first the server's code warms up
            turns.append(rates)
    return [
        {
            "window": window,
            "step": step,
            "kazoo_per_s": round(median([bare[step] for bare, _ in turns])),
            "ours_per_s": round(median([ours[step] for _, ours in turns])),
            "ratio": round(median([ours[step] / bare[step] for bare, ours in turns]), 2),
            "worst_ratio": round(min(ours[step] / bare[step] for bare, ours in turns), 2),
        }
        for step in (*STEPS, ALL)
    ]


def show(rows: list[Result]) -> None:
    print("| | kazoo | this store | | worst turn |")
    print("| --- | --- | --- | --- | --- |")
    for row in rows:
        name = "one by one" if row["window"] == 1 else f"{row['window']} at a time"
        print(
            f"| {name}: {row['step']} | {row['kazoo_per_s']:,} | {row['ours_per_s']:,}"
            f" | {row['ratio']:.2f} × | {row['worst_ratio']:.2f} × |"
        )


def main() -> None:
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with ZookeeperServer() as server:
        rows = [row for window in (1, WINDOW) for row in measure(server, window, options)]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows)


if __name__ == "__main__":
    main()
