"""What transactions cost those who use none: bytecodes that the broker's loop runs for an entry
with `transactionCoordinatorEnabled` beside those without it, unbatched and batched.

Bytecodes are counted, for the difference to be seen is smaller than the noise of processor times:
a hundred entries at a time go to the disk or to a consumer and are acknowledged while nothing else
is done, and the median counts. What runs all the time is counted on its own, and added for the
rate that is given; at a higher one it weighs less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from contextlib import ExitStack

from bench.bytecode import CountingBroker
from bench.cpu_per_entry import Reader
from bench.gauge import median
from bench.line import Line

BATCHES = {"unbatched": 1, "batched": 10}
ENTRIES = 100
"""That are sent, or delivered, at a time."""
WARM_TURNS = 5


async def measure(broker: CountingBroker, messages: int, turns: int) -> tuple[float, float]:
    """Bytecodes of an entry, to produce and to consume."""
    topic = f"persistent://public/default/cost-{messages}"
    produced, consumed = [], []
    async with Line.open("127.0.0.1", broker.port) as line:
        await line.subscribe(1, topic, "cost")
        await line.create_producer(1, topic)
        reader = Reader(line, 1, messages)
        for turn in range(turns + WARM_TURNS):
            first, payload = turn * ENTRIES, b"x" * 100 * messages
            numbers = range(first, first + ENTRIES)
            frames = [line.encode_send(1, each, payload, messages=messages) for each in numbers]
            before = broker.read()
            line.write(b"".join(frames))
            await line.await_receipts(first + ENTRIES)
            sent = broker.read()
            line.flow(1, ENTRIES * messages)
            await line.await_messages(first + ENTRIES)
            reader.acknowledge()
            await asyncio.sleep(0)
            if turn >= WARM_TURNS:
                produced.append((sent - before) / ENTRIES)
                consumed.append((broker.read() - sent) / ENTRIES)
    return median(produced), median(consumed)


def measure_idle(broker: CountingBroker, seconds: float) -> float:
    """Bytecodes of a second in which no client does anything."""
    before = broker.read()
    time.sleep(seconds)
    return (broker.read() - before) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=30, help="of each kind and side (30)")
    parser.add_argument("--idle-s", type=float, default=20.0, help="without any work (20)")
    parser.add_argument("--rate", type=float, default=1000, help="of entries a second (1,000)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    counts: dict[str, list[float]] = {}
    with ExitStack() as stack:
        for is_on in (True, False):
            settings = {"transactionCoordinatorEnabled": is_on}
            broker = stack.enter_context(CountingBroker(set=settings))
            broker.count()
            for name, messages in BATCHES.items():
                found = asyncio.run(measure(broker, messages, options.turns))
                for step, count in zip(("produce", "consume"), found, strict=True):
                    counts.setdefault(f"{step} {name}", []).append(count)
            counts.setdefault("idle second", []).append(measure_idle(broker, options.idle_s))
    on, off = counts["idle second"]
    rows = {name: {"on": row[0], "off": row[1]} for name, row in counts.items()}
    for name, row in rows.items():
        if name == "idle second":
            row["ratio"] = on / off
        else:
            row["ratio"] = (row["on"] + on / options.rate) / (row["off"] + off / options.rate)
    if options.json:
        print(json.dumps(rows))
        return
    for name, row in rows.items():
        print(f"{name:<20} {row['on']:>10.1f} {row['off']:>10.1f} {row['ratio']:>8.4f}")


if __name__ == "__main__":
    main()
