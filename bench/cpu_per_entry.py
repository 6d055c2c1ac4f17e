"""Processor time of the broker per entry, for produce and for consume: unbatched ones, and batches
of 1,000 messages.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import NamedTuple

from bench.gauge import cpu_s
from bench.line import Line
from magnetar.testing import MagnetarBroker
from magnetar.wire.command import (
    CommandAck,
    CommandMessage,
    MessageIdData,
    encode_command,
    make_command,
)

TOPIC = "persistent://public/default/cpu"
SUBSCRIPTION = "bench"
PERMITS = 1000
WARM_ENTRIES = 2000
BATCH_MESSAGES = 1000
BATCH_SHARE = 50
"""A batch is measured for so many unbatched entries: it is a thousand times as large."""


class Pace(NamedTuple):
    """In entries: how many are on their way at once, written together, and sent before the measure;
    and how many a reader asks for.
    """

    window: int
    burst: int
    warm: int
    permits: int


UNBATCHED = Pace(window=2000, burst=250, warm=WARM_ENTRIES, permits=PERMITS)
BATCHED = Pace(window=20, burst=4, warm=200, permits=20)


class Reader:
    """Consumes as the official clients do: refills permits by halves, groups acknowledgements."""

    def __init__(
        self, line: Line, consumer_id: int, messages: int = 1, *, permits: int = PERMITS
    ) -> None:
        """`messages` of each entry; `permits` for so many entries."""
        self._messages = messages
        self._permits = permits
        self._line = line
        self._consumer_id = consumer_id
        self._unacked: list[MessageIdData] = []
        line.on_message = self._on_message

    def start(self) -> None:
        self._line.flow(self._consumer_id, self._permits * self._messages)

    def acknowledge(self) -> None:
        command = CommandAck(
            consumer_id=self._consumer_id,
            ack_type=CommandAck.AckType.Individual,
            message_id=self._unacked,
        )
        self._line.write(encode_command(make_command(command)))
        self._unacked = []

    def _on_message(self, message: CommandMessage) -> None:
        self._unacked.append(message.message_id)
        if len(self._unacked) == self._permits // 2:
            self.acknowledge()
            self._line.flow(self._consumer_id, self._permits // 2 * self._messages)


class Meter:
    """Processor and wall time between its start and each reading."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu = cpu_s(pid)
        self._began = time.perf_counter()

    def read(self, entries: int) -> dict[str, float]:
        used, elapsed = cpu_s(self._pid) - self._cpu, time.perf_counter() - self._began
        return {
            "us_per_entry": round(used / entries * 1e6, 2),
            "cpu_s": round(used, 2),
            "rate_per_s": round(entries / elapsed),
        }


async def measure(broker: MagnetarBroker, entries: int, size: int) -> dict[str, dict[str, float]]:
    async with Line.open("127.0.0.1", broker.port) as line:
        rows = await measure_line(line, broker.pid, entries, size)
    async with Line.open("127.0.0.1", broker.port) as line:
        batched = await measure_line(
            line,
            broker.pid,
            max(1, entries // BATCH_SHARE),
            size * BATCH_MESSAGES,
            BATCH_MESSAGES,
            topic=f"{TOPIC}-batched",
        )
    return rows | {f"{name}-batched": row for name, row in batched.items()}


async def measure_line(
    line: Line, pid: int, entries: int, size: int, messages: int = 1, *, topic: str = TOPIC
) -> dict[str, dict[str, float]]:
    await line.subscribe(1, topic, SUBSCRIPTION)
    await line.create_producer(1, topic)
    payload = b"x" * size
    pace = UNBATCHED if messages == 1 else BATCHED
    frames = [
        line.encode_send(1, number, payload, messages=messages)
        for number in range(pace.warm + entries)
    ]
    await line.send_all(frames[: pace.warm], window=pace.window, burst=pace.burst)
    meter = Meter(pid)
    await line.send_all(frames[pace.warm :], window=pace.window, burst=pace.burst)
    produced = meter.read(entries)
    reader = Reader(line, 1, messages, permits=pace.permits)
    meter = Meter(pid)
    reader.start()
    await line.await_messages(len(frames))
    reader.acknowledge()
    return {"produce": produced, "consume": meter.read(len(frames))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with MagnetarBroker() as broker:
        rows = asyncio.run(measure(broker, options.entries, options.size))
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'broker, per entry':<20} {'processor':>12} {'entries/s':>12}")
    for name, row in rows.items():
        print(f"{name:<20} {row['us_per_entry']:>9.2f} µs {row['rate_per_s']:>12,.0f}")


if __name__ == "__main__":
    main()
