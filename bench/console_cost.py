"""What an open page of the console costs the broker: its processor time, with and without the page.

The time is what the operating system counts for the process, so that waiting costs nothing. The
topics are written to all along, at the same rate with and without.

    python -m bench.console_cost --topics 1000 --seconds 20
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
import urllib.request

from magnetar import AsyncPulsarClient
from magnetar.testing.broker import MagnetarBroker

PAGES = {
    "topics, sorted by lag": "/console/api/topics?sort=lag&descending=true&limit=120",
    "overview": "/console/api/overview",
    "a scalable topic": "/console/api/topic/public/default/river",
}


def processor_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def follow(url: str, seconds: float) -> int:
    """As the page does: open the stream, take what comes, come again when it ends."""

    def read() -> int:
        taken, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            request = urllib.request.Request(url, headers={"accept": "text/event-stream"})
            with urllib.request.urlopen(request, timeout=seconds + 30) as answer:
                for line in answer:
                    taken += line.startswith(b"event: state")
                    if time.monotonic() >= end:
                        break
        return taken

    return await asyncio.to_thread(read)


async def measure(topics: int, seconds: float, rate: int) -> None:
    with MagnetarBroker() as broker:
        async with AsyncPulsarClient(broker.service_url) as client:
            names = [f"persistent://public/default/t-{number:05d}" for number in range(topics)]
            opened = [await client.producer(name) for name in names]
            request = urllib.request.Request(
                f"{broker.admin_url}/admin/v2/scalable/public/default/river?numInitialSegments=4",
                method="PUT",
            )
            await asyncio.to_thread(lambda: urllib.request.urlopen(request).close())
            is_over = False

            async def load() -> None:
                number = 0
                while not is_over:
                    for _ in range(rate // 10):
                        number += 1
                        await opened[number % topics].submit(b"x" * 100)
                    await asyncio.sleep(0.1)

            loading = asyncio.get_running_loop().create_task(load())
            await asyncio.sleep(5)
            shares: dict[str, list[float]] = {"": [], **{page: [] for page in PAGES}}
            events: dict[str, int] = {}
            for _ in range(3):  # by turns: the machine has other work that comes and goes
                for page in shares:
                    before, started = processor_s(broker.pid), time.monotonic()
                    if page:
                        events[page] = await follow(broker.admin_url + PAGES[page], seconds)
                    else:
                        await asyncio.sleep(seconds)
                    spent = processor_s(broker.pid) - before
                    shares[page].append(spent / (time.monotonic() - started))
            is_over = True
            await loading
    idle = sorted(shares.pop(""))[1]
    print(f"{topics} topics, {rate} messages/s, {seconds:g} s, median of 3; no page: {idle:.1%}")
    for page, found in shares.items():
        print(f"{page}: {sorted(found)[1] - idle:+.2%} of one core, {events[page]} states")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=int, default=500, help="messages per second, to all topics")
    options = parser.parse_args()
    asyncio.run(measure(options.topics, options.seconds, options.rate))


if __name__ == "__main__":
    main()
