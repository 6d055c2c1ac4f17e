"""A topic that scales itself: load rises, consumers join, load falls; nobody touches the layout.

A broker of its own runs with quick limits, so that what takes half an hour with the defaults takes
half a minute. What is shown: the topic splits for traffic, then for consumers, and merges back;
every key is read in order, nothing is lost; and the decision log tells the same story as the
layout's history. `--plot FILE` draws the run (extra `spark`).
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from magnetar import Admin, AsyncPulsarClient, Schema
from magnetar.testing import MagnetarBroker

TOPIC = "topic://public/default/demo-auto-scale"
SETTINGS = {
    "scalableTopicAutoScaleIntervalSeconds": 1,
    "scalableTopicLoadReportIntervalSeconds": 1,
    "scalableTopicSplitCooldownSeconds": 1,
    "scalableTopicMergeCooldownSeconds": 1,
    "scalableTopicMergeWindowSeconds": 2,
    "scalableTopicSplitMsgRateInThreshold": 400,
    "scalableTopicMergeMsgRateInThreshold": 100,
}
HIGH_PER_S, KEYS = 1_000, 40
CONSUMERS = 6
PATIENCE_S = 60.0
SAMPLE_S = 0.25


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen at one moment."""

    at_s: float
    rate_per_s: float
    segments: int
    consumers: int


@dataclass(slots=True)
class Outcome:
    """All that happened, for whoever checks or draws it."""

    samples: list[Sample] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    received: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    history: list[dict[str, Any]] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return all(self.seen(key) == list(range(count)) for key, count in self.sent.items())

    def seen(self, key: str) -> list[int]:
        """Numbers of a key in the order in which each came first."""
        return list(dict.fromkeys(self.received[key]))

    def changes(self) -> list[tuple[str, list[int], str]]:
        """Splits and merges as the layout's history has them."""
        return [
            (each["kind"].lower(), each["segmentIds"], each["reason"])
            for each in self.history
            if each["kind"] in ("SPLIT", "MERGE")
        ]

    def decided(self) -> list[tuple[str, list[int], str]]:
        """Splits and merges as the decision log has them."""
        return [
            (each["decision"], each["segments"], each["reason"])
            for each in self.decisions
            if each["decision"] != "stay" and "failure" not in each
        ]


class Play:
    def __init__(self, client: AsyncPulsarClient, admin: Admin) -> None:
        self._client = client
        self._admin = admin
        self._began = time.perf_counter()
        self._rate_per_s = 0.0
        self._consumers: list[tuple[Any, asyncio.Task[None]]] = []
        self._running = True
        self.segments = 1
        self.outcome = Outcome()

    async def run(self) -> Outcome:
        await asyncio.to_thread(self._admin.scalable_topics.create, TOPIC)
        async with self._client.producer(TOPIC, schema=Schema.STRING) as producer:
            await self._join("c0")
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch())
                sending = tasks.create_task(self._send(producer))
                await self._follow_script()
                self._running = False
                await sending
            await self._until(lambda: self.outcome.is_complete)
        while self._consumers:
            await self._leave()
        topics = self._admin.scalable_topics
        self.outcome.history = await asyncio.to_thread(topics.history, TOPIC)
        self.outcome.decisions = await asyncio.to_thread(topics.decisions, TOPIC)
        return self.outcome

    async def _follow_script(self) -> None:
        self._rate_per_s = HIGH_PER_S
        await self._until(lambda: self.segments >= 4)
        for number in range(1, CONSUMERS):
            await self._join(f"c{number}")
        await self._until(lambda: self.segments >= CONSUMERS)
        self._rate_per_s = 10
        while len(self._consumers) > 1:
            await self._leave()
        await self._until(lambda: self.segments == 1)

    async def _send(self, producer: Any) -> None:
        number, last = 0, time.perf_counter()
        owed = 0.0
        while self._running:
            now = time.perf_counter()
            owed, last = owed + (now - last) * self._rate_per_s, now
            while owed >= 1:
                key = f"k{number % KEYS}"
                await producer.submit(str(self.outcome.sent[key]), key=key)
                self.outcome.sent[key] += 1
                number, owed = number + 1, owed - 1
            await asyncio.sleep(0.005)
        await producer.flush()

    async def _join(self, name: str) -> None:
        consumer = await self._client.stream_consumer(
            TOPIC, subscription="s", name=name, schema=Schema.STRING, initial_position="earliest"
        )
        self._consumers.append((consumer, asyncio.create_task(self._read(consumer))))

    async def _leave(self) -> None:
        consumer, reading = self._consumers.pop()
        reading.cancel()
        await asyncio.wait([reading])
        await consumer.close()

    async def _read(self, consumer: Any) -> None:
        while True:
            batch = await consumer.receive_many(100, 1.0)
            for message in batch:
                self.outcome.received[message.key].append(int(message.value))
            if batch:
                await consumer.acknowledge_cumulative(batch.last_id)

    async def _watch(self) -> None:
        before, sent = time.perf_counter(), 0
        while self._running:
            await asyncio.sleep(SAMPLE_S)
            stored = await asyncio.to_thread(self._admin.scalable_topics.metadata, TOPIC)
            states = [each["state"] for each in stored["segments"].values()]
            self.segments = states.count("ACTIVE")
            now, total = time.perf_counter(), sum(self.outcome.sent.values())
            rate = (total - sent) / (now - before)
            self.outcome.samples.append(
                Sample(now - self._began, rate, self.segments, len(self._consumers))
            )
            before, sent = now, total

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.05)


async def play(broker: MagnetarBroker) -> Outcome:
    """Run the script against a broker that has the quick limits."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(AsyncPulsarClient(broker.service_url))
        admin = stack.enter_context(Admin(broker.admin_url))
        return await Play(client, admin).run()


def draw(outcome: Outcome) -> str:
    from magnetar.spark.job.chart import Curve, draw_curves  # the run itself needs no Spark

    samples = outcome.samples
    return draw_curves(
        "A topic that scales itself",
        "seconds",
        [sample.at_s for sample in samples],
        [
            Curve("messages/s sent", [sample.rate_per_s for sample in samples]),
            Curve("active segments", [sample.segments for sample in samples], is_stepped=True),
            Curve("stream consumers", [sample.consumers for sample in samples], is_stepped=True),
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plot", type=Path, help="draw the run into an SVG file")
    options = parser.parse_args()
    with MagnetarBroker(set=SETTINGS) as broker:
        outcome = asyncio.run(play(broker))
    for kind, segments, reason in outcome.changes():
        print(f"{kind:<6} {', '.join(map(str, segments)):<8} {reason}")
    total = sum(outcome.sent.values())
    told = outcome.decided() == outcome.changes()
    print(f"{total} messages, every key in order and complete: {outcome.is_complete}")
    print(f"decision log and layout history agree: {told}")
    if options.plot is not None:
        options.plot.write_text(draw(outcome), encoding="utf-8")
        print(f"drawn: {options.plot}")


if __name__ == "__main__":
    main()
