"""`magnetar bench`: how fast messages go through a topic, and how long they take."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

from magnetar import SendOptions
from magnetar.cli.command import Options, UsageError
from magnetar.cli.output import format_result
from magnetar.cli.progress import Progress
from magnetar.cli.source import Producer, Source, connect, open_producer, open_source, send_all
from magnetar.runtime.clock import Clock, SystemClock

_SAMPLES_MAX: Final = 1_000_000
_MARK_BYTES: Final = 8
"""Each payload begins with the time it was sent, in µs, so that its age is known on arrival."""
_SILENCE_S: Final = 5.0
"""Without a message for so long, what is missing counts as lost."""


@dataclass(slots=True)
class Tally:
    """Counts, and how long each message took, up to a limit."""

    count: int = 0
    started: float = 0.0
    ended: float = 0.0
    seconds: list[float] = field(default_factory=list)

    def add(self, began: float, ended: float) -> None:
        self.count += 1
        self.ended = ended
        if len(self.seconds) < _SAMPLES_MAX:
            self.seconds.append(max(0.0, ended - began))

    def report(self, size: int) -> dict[str, Any]:
        elapsed = max(self.ended - self.started, 1e-9)
        ordered = sorted(self.seconds)
        rate = self.count / elapsed
        row: dict[str, Any] = {
            "messages": self.count,
            "seconds": round(elapsed, 3),
            "messages_per_s": round(rate),
            "mb_per_s": round(rate * size / 1e6, 2),
        }
        for name, share in (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99), ("max_ms", 1.0)):
            if ordered:
                place = min(len(ordered) - 1, int(share * len(ordered)))
                row[name] = round(ordered[place] * 1000, 2)
        return row


def run(options: Options) -> int:
    if options.size < _MARK_BYTES or options.messages < 1 or options.producers < 1:
        raise UsageError(
            f"magnetar bench: --size is {_MARK_BYTES} at least, --messages and --producers 1"
        )
    if options.consumers < 0 or options.rate < 0 or options.keys < 0:
        raise UsageError("magnetar bench: --consumers, --rate and --keys are 0 at least")
    result = asyncio.run(_measure(options, SystemClock()))
    print(format_result(result, options.output))
    return 0


async def _measure(options: Options, clock: Clock) -> list[dict[str, Any]]:
    async with connect(options) as client:
        if options.consumers:
            options.subscription, options.reader = f"bench-{os.getpid()}", False
            options.type, options.position, options.queue_size = "shared", "latest", 1000
        sources = [await open_source(client, options) for _ in range(options.consumers)]
        producers = [
            await open_producer(client, options, max_pending_messages=options.pending)
            for _ in range(options.producers)
        ]
        sent, received = Tally(), Tally()
        sent.started = received.started = clock.monotonic()
        finished = asyncio.Event()
        progress = Progress("messages", options.messages, sys.stderr, clock.monotonic)
        async with asyncio.TaskGroup() as tasks:
            for source in sources:
                tasks.create_task(_receive(source, received, options, clock, finished))
            shares = _share(options.messages, len(producers))
            senders = [
                tasks.create_task(_send(producer, count, sent, options, clock, progress))
                for producer, count in zip(producers, shares, strict=True)
            ]
            with progress:
                await asyncio.wait(senders)
            finished.set()
        rows = [{"what": "sent", **sent.report(options.size)}]
        if sources:
            rows.append({"what": "received", **received.report(options.size)})
        return rows


def _share(count: int, parts: int) -> list[int]:
    return [count // parts + (place < count % parts) for place in range(parts)]


async def _send(
    producer: Producer,
    count: int,
    tally: Tally,
    options: Options,
    clock: Clock,
    progress: Progress,
) -> None:
    filling = os.urandom(options.size - _MARK_BYTES)

    async def numbers() -> AsyncIterator[int]:
        for number in range(count):
            yield number

    def encode(number: int) -> tuple[bytes, SendOptions]:
        mark = int(clock.monotonic() * 1e6).to_bytes(_MARK_BYTES, "big")
        key = f"key-{number % options.keys}" if options.keys else None
        return mark + filling, SendOptions(key=key)

    def on_stored(began: float, ended: float) -> None:
        tally.add(began, ended)
        progress.add()

    rate = options.rate / options.producers
    await send_all(producer, numbers(), encode, rate=rate, clock=clock, on_stored=on_stored)


async def _receive(
    source: Source, tally: Tally, options: Options, clock: Clock, finished: asyncio.Event
) -> None:
    """Until all messages came, or none came for a while after the last was sent."""
    while tally.count < options.messages:
        message = source.receive_nowait() or await source.receive(0.2)
        if message is None:
            if finished.is_set() and clock.monotonic() - tally.ended > _SILENCE_S:
                return
            continue
        sent_at = int.from_bytes((message.data or b"")[:_MARK_BYTES], "big") / 1e6
        tally.add(sent_at, clock.monotonic())
        await source.acknowledge([message])
