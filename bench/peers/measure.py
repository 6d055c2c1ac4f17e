"""What all sides of a measure share: one measure of one client, in a process of its own.

Prints one JSON line. Imports nothing but the standard library and `bench.gauge`: the clients of the
peers live in an environment without Magnetar.
"""

from __future__ import annotations

import argparse
import json
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.gauge import percentile_ms

Result = dict[str, Any]
PENDING = 5_000
"""Messages on their way, where a client lets one choose."""
WAIT_S_MAX = 60.0
WARM_REQUESTS = 50
STAMP = struct.Struct("<d")


def latencies(took: list[float]) -> Result:
    return {
        "messages": len(took),
        "rate_per_s": round(len(took) / max(sum(took), 1e-9)),
        "p50_ms": round(percentile_ms(took, 0.50), 3),
        "p99_ms": round(percentile_ms(took, 0.99), 3),
    }


def stamp(size: int) -> bytes:
    """A payload that says when it was sent."""
    return STAMP.pack(time.perf_counter()) + b"x" * (size - STAMP.size)


def age_s(payload: bytes) -> float:
    return time.perf_counter() - float(STAMP.unpack_from(payload)[0])


def arguments(measures: Mapping[str, object]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("measure", choices=list(measures))
    parser.add_argument("--address", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--rate", type=int, default=1_000, help="messages a second, end to end")
    parser.add_argument("--sync", action="store_true", help="where a topic decides on fsync")
    return parser.parse_args()


def run(make: Callable[[argparse.Namespace], Mapping[str, Callable[[], Result]]]) -> None:
    """`make` gives the measures of a side; without options it is asked for their names only."""
    names = make(argparse.Namespace(address="", topic="", size=0, count=0, rate=1, sync=False))
    options = arguments(names)
    print(json.dumps(make(options)[options.measure]()))
