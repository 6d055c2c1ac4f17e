"""How long a broker takes to plan a read of many topics.

`python -m bench.read_plan --topics 10000`.

Half of the topics is scalable. Each has a message; they are asked for when nobody has loaded them
since the broker started, then once they are loaded, by name and by namespace, and when nothing is
new. The plans of a streaming query, from the broker's answer to the offset that Spark gets, count
with the processor time of both sides.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.gauge import cpu_s
from magnetar import AsyncPulsarClient
from magnetar.client.admin import AdminClient
from magnetar.spark.hold import PARTS_FIRST, PARTS_MAX
from magnetar.spark.source import MagnetarSource
from magnetar.testing import MagnetarBroker

NAMESPACE = "public/planned"
AT_ONCE = 64
KEPT = {"brokerDeleteInactiveTopicsEnabled": False}
"""Many topics take longer to make than a broker waits before it deletes one without clients."""


def timed(call: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    """The shortest of some calls, in seconds, and what the last one answered."""
    spent = []
    found: Any = None
    for _ in range(times):
        start = time.perf_counter()
        found = call()
        spent.append(time.perf_counter() - start)
    return round(min(spent), 3), found


def fill(broker: MagnetarBroker, topics: int) -> None:
    with AdminClient(broker.admin_url) as admin:
        admin.namespaces.create(NAMESPACE)
    asyncio.run(send_to_all(broker.service_url, topics))


async def send_to_all(url: str, topics: int) -> None:
    """A producer makes its topic."""
    async with AsyncPulsarClient(url) as client:

        async def send(number: int) -> None:
            kind = "persistent" if number % 2 else "topic"
            async with client.producer(f"{kind}://{NAMESPACE}/t{number:06d}") as producer:
                await producer.send(b"message")

        for start in range(0, topics, AT_ONCE):
            await asyncio.gather(*map(send, range(start, min(start + AT_ONCE, topics))))


def plan_query(broker: MagnetarBroker) -> dict[str, Any]:
    """Two batches: of all topics, and of one that has a message more."""
    options = {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url}
    source = MagnetarSource(
        options | {"namespace": NAMESPACE, "startingOffsets": "earliest", "hold": "false"}
    )
    reader = source.streamReader(source.schema())
    found: dict[str, Any] = {}

    def plan(name: str, start: dict[str, Any]) -> dict[str, Any]:
        before = time.process_time() + cpu_s(broker.pid)
        found[f"{name}_s"], end = timed(lambda: reader.latestOffset(start, limit), times=1)
        found[f"{name}_cpu_s"] = round(time.process_time() + cpu_s(broker.pid) - before, 3)
        return end

    limit = reader.getDefaultReadLimit()
    end = plan("first_batch", reader.initialOffset())
    asyncio.run(send_to_all(broker.service_url, 1))
    assert plan("next_batch", end) != end
    reader.stop()
    return found


def move_hold(admin: AdminClient, moves: Sequence[Mapping[str, str]], parts_max: int) -> None:
    """By as many parts a call as a query does."""
    for start in range(0, len(moves), parts_max):
        admin.reads.move_hold("bench", moves[start : start + parts_max])


def measure(broker: MagnetarBroker, topics: int) -> dict[str, Any]:
    names = [f"{NAMESPACE}/t{number:06d}" for number in range(topics)]
    with AdminClient(broker.admin_url) as admin:
        first, _ = timed(lambda: admin.reads.plan({"namespace": NAMESPACE}), times=1)
        idle, plan = timed(lambda: admin.reads.plan({"namespace": NAMESPACE}))
        assert len(plan["topics"]) == topics
        moves = [
            {"name": part["name"], "position": "-1:-1"}
            for topic in plan["topics"]
            for part in topic["parts"]
        ]
        made, _ = timed(lambda: move_hold(admin, moves, PARTS_FIRST), times=1)
        loaded, plan = timed(lambda: admin.reads.plan({"topics": names}))
        ends = [
            {"name": part["name"], "position": part["end"]}
            for topic in plan["topics"]
            for part in topic["parts"]
        ]
        moved, _ = timed(lambda: move_hold(admin, ends, PARTS_MAX), times=1)
        plan = admin.reads.plan({"namespace": NAMESPACE})
        quiet, plan = timed(
            lambda: admin.reads.plan({"namespace": NAMESPACE, "version": plan["version"]})
        )
        assert plan["isUnchanged"]
        listed, holds = timed(lambda: admin.reads.holds(NAMESPACE), times=1)
        assert len(holds["bench"]["topics"]) == topics
        released, _ = timed(lambda: admin.reads.release_hold(NAMESPACE, "bench"), times=1)
    return {
        "first_s": first,
        "idle_topics_s": idle,
        "loaded_topics_s": loaded,
        "nothing_new_s": quiet,
        "hold_made_s": made,
        "hold_moved_s": moved,
        "holds_listed_s": listed,
        "hold_released_s": released,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        data = Path(home) / "data"
        with MagnetarBroker(data=data, set=KEPT) as broker:
            fill(broker, given.topics)
        with MagnetarBroker(data=data, set=KEPT) as broker:
            result = plan_query(broker) | measure(broker, given.topics)
    print(json.dumps({"topics": given.topics, "load1": os.getloadavg()[0]} | result))


if __name__ == "__main__":
    main()
