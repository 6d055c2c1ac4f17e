"""Metadata operations per second on a real ZooKeeper: this store against a bare kazoo loop.

Both do the same work on the same server in the same run, turn by turn: create, read, replace and
delete records, one after the other and a hundred at a time. The bare loop uses kazoo's own calls,
waiting for each, or its asynchronous ones, waiting for a hundred.

    python -m bench.metadata_zookeeper [--records 2000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import uvloop
from kazoo.client import KazooClient

from magnetar.metadata.backends.zookeeper import ZookeeperStore
from magnetar.metadata.store import ABSENT, ANY_VERSION
from magnetar.testing.zookeeper import ZookeeperServer

WINDOW: Final = 100
VALUE: Final = b"x" * 200
STEPS: Final = ("create", "read", "replace", "delete")


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


def mean_rate(rates: dict[str, float]) -> float:
    """Of one operation of each kind after the other."""
    return len(STEPS) / sum(1 / rates[step] for step in STEPS)


def main() -> None:
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{'':>14} {'step':>8} {'kazoo/s':>9} {'ours/s':>9} {'ratio':>6}")
    with ZookeeperServer() as server:
        for window in (1, WINDOW):
            bare: dict[str, float] = {}
            ours: dict[str, float] = {}
            for round_ in range(options.rounds + 1):
                root = f"/bench-{window}-{round_}"
                kazoo_rates = measure_bare(server.hosts, f"{root}/bare", options.records, window)
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    own_rates = runner.run(
                        measure_store(f"{server.url}{root}/own", options.records, window)
                    )
                if round_ == 0:
                    continue  # the server's code warms up
                for step in STEPS:
                    bare[step] = max(bare.get(step, 0.0), kazoo_rates[step])
                    ours[step] = max(ours.get(step, 0.0), own_rates[step])
            name = "one by one" if window == 1 else f"{window} at a time"
            bare["all"], ours["all"] = mean_rate(bare), mean_rate(ours)
            for step in (*STEPS, "all"):
                ratio = ours[step] / bare[step]
                print(f"{name:>14} {step:>8} {bare[step]:9.0f} {ours[step]:9.0f} {ratio:6.2f}")


if __name__ == "__main__":
    main()
