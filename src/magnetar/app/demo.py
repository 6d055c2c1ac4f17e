"""`magnetar demo`: the whole story of a topic in about a minute, on one screen.

v4 clients write to a regular topic; V5 clients join them on the same topic; it is migrated under
the writer; load rises and it splits by itself, load falls and it merges back; then Spark reads all
of it and the audit counts what is lost, repeated or out of order. Every message carries a number
that counts the messages of its key, and the demo knows how many it sent.
"""

from __future__ import annotations

import asyncio
import importlib
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from magnetar.client.admin import AdminClient
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import ConfigurationError
from magnetar.testing import MagnetarBroker

NAME: Final = "public/default/orders"
REGULAR: Final = f"persistent://{NAME}"
SCALABLE: Final = f"topic://{NAME}"
KEYS: Final = 24
SETTINGS: Final = {
    "scalableTopicAutoScaleIntervalSeconds": 1,
    "scalableTopicLoadReportIntervalSeconds": 1,
    "scalableTopicSplitCooldownSeconds": 1,
    "scalableTopicMergeCooldownSeconds": 1,
    "scalableTopicMergeWindowSeconds": 2,
    "scalableTopicSplitMsgRateInThreshold": 400,
    "scalableTopicMergeMsgRateInThreshold": 100,
    "defaultRetentionTimeInMinutes": -1,
    "defaultRetentionSizeInMB": -1,
}
_V4_MESSAGES: Final = 1_200
_LOW_PER_S: Final = 60.0
_HIGH_PER_S: Final = 1_400.0
_SEGMENTS_WANTED: Final = 4
_PATIENCE_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.2
_BARS: Final = " ▁▂▃▄▅▆▇█"


def run() -> int:
    """0 when nothing was lost, repeated or out of order."""
    door = load_audit()
    with MagnetarBroker(set=SETTINGS) as broker, Session(door) as session:
        story = Story(broker)
        asyncio.run(story.run())
        return story.audit(door, session)


def load_audit() -> ModuleType:
    """Spark comes with an extra, and takes its time to load."""
    try:
        return importlib.import_module("magnetar.spark.job.demo_audit")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("magnetar"):
            raise
        raise ConfigurationError(
            f"magnetar demo needs {error.name}, which is not installed;"
            " install it with: pip install 'magnetar[spark]'"
        ) from None


class Session:
    """Spark starts aside while the story goes on: that takes some seconds."""

    def __init__(self, door: ModuleType) -> None:
        self._door = door
        self._spark: Any = None
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._start, daemon=True)

    def __enter__(self) -> Session:
        self._door.check_java()
        self._thread.start()
        return self

    def _start(self) -> None:
        try:
            self._spark = self._door.start()
        except Exception as failure:
            self._failure = failure

    def get(self) -> Any:
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._spark

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        if self._spark is not None:
            self._spark.stop()


class Story:
    def __init__(self, broker: MagnetarBroker) -> None:
        self._broker = broker
        self._began = time.monotonic()
        self.sent: Counter[str] = Counter()
        self._rate_per_s = 0.0
        self._is_sending = True
        self.segments = [1]
        self._read: Counter[str] = Counter()
        self.late = 0

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:5.1f} s  {text}", flush=True)

    # ------------------------------------------------------------------ the story

    async def run(self) -> None:
        self.say(f"a broker serves {self._broker.service_url} and {self._broker.admin_url}")
        async with AsyncExitStack() as stack:
            # A connection each for what is done and for what is watched meanwhile.
            admin = stack.enter_context(AdminClient(self._broker.admin_url))
            watcher = stack.enter_context(AdminClient(self._broker.admin_url))
            await asyncio.to_thread(self._send_v4)
            client = await stack.enter_async_context(AsyncPulsarClient(self._broker.service_url))
            producer = await stack.enter_async_context(client.producer(REGULAR))
            consumer = await stack.enter_async_context(
                client.stream_consumer(REGULAR, subscription="shop", initial_position="earliest")
            )
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(self._send(producer))
                reading = tasks.create_task(self._consume(consumer))
                watching = tasks.create_task(self._watch(watcher))
                await self._follow_script(admin)
                self._is_sending = False
                await sending
                await self._until(lambda: self._read == self.sent)
                reading.cancel()
                watching.cancel()
        total = sum(self.sent.values())
        self.say(f"the stream consumer has all {total:,} messages, {self.late} out of order")

    async def _follow_script(self, admin: AdminClient) -> None:
        self._rate_per_s = _LOW_PER_S
        await self._until(lambda: sum(self.sent.values()) > _V4_MESSAGES + 2 * KEYS)
        self.say("V5 producer and stream consumer joined on the synthetic layout; v4 clients left")
        await asyncio.to_thread(admin.scalable_topics.migrate_to_scalable, REGULAR)
        self.say(f"migrated under the writer: {SCALABLE} now has segments of its own")
        self._rate_per_s = _HIGH_PER_S
        await self._until(lambda: self.segments[-1] >= _SEGMENTS_WANTED)
        self.say(f"load rose to {_HIGH_PER_S:,.0f}/s: split by itself to {self.segments[-1]}")
        self._rate_per_s = _LOW_PER_S
        await self._until(lambda: self.segments[-1] == 1)
        self.say("load fell: merged back to one segment")
        self.say(f"active segments meanwhile  {draw(self.segments)}")

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.05)

    # ------------------------------------------------------------------ clients

    def _next(self) -> tuple[str, dict[str, str]]:
        """A key and the number of its next message."""
        key = f"k{sum(self.sent.values()) % KEYS}"
        number = self.sent[key]
        self.sent[key] += 1
        return key, {"n": str(number)}

    def _send_v4(self) -> None:
        """The official client if it is installed, else our own of that kind."""
        try:
            pulsar = importlib.import_module("pulsar")
        except ModuleNotFoundError:
            self._send_v4_ourselves()
            return
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, str(self._broker.log) + ".v4")
        client = pulsar.Client(self._broker.service_url, logger=logger)
        try:
            producer = client.create_producer(REGULAR, block_if_queue_full=True)
            for _ in range(_V4_MESSAGES):
                key, properties = self._next()
                producer.send_async(b"order", None, properties=properties, partition_key=key)
            producer.flush()
        finally:
            client.close()
        self.say(f"v4: pulsar-client {pulsar.__version__} wrote {_V4_MESSAGES:,} messages")

    def _send_v4_ourselves(self) -> None:
        async def send() -> None:
            async with AsyncPulsarClient(self._broker.service_url) as client:
                producer = await client.producer(REGULAR)
                for _ in range(_V4_MESSAGES):
                    key, properties = self._next()
                    await producer.send(b"order", key=key, properties=properties)
                await producer.close()

        asyncio.run(send())
        self.say(f"v4: a classic producer wrote {_V4_MESSAGES:,} messages")

    async def _send(self, producer: Any) -> None:
        last, owed = time.monotonic(), 0.0
        while self._is_sending:
            now = time.monotonic()
            owed, last = owed + (now - last) * self._rate_per_s, now
            while owed >= 1:
                key, properties = self._next()
                await producer.submit(b"order", key=key, properties=properties)
                owed -= 1
            await asyncio.sleep(0.005)
        await producer.flush()

    async def _consume(self, consumer: Any) -> None:
        while True:
            batch = await consumer.receive_many(500, 1.0)
            for message in batch:
                number = int(message.properties["n"])
                self.late += number != self._read[message.key]
                self._read[message.key] = number + 1
            if batch:
                await consumer.acknowledge_cumulative(batch.last_id)

    async def _watch(self, admin: AdminClient) -> None:
        while True:
            await asyncio.sleep(_LOOK_AGAIN_S)
            names = await asyncio.to_thread(admin.scalable_topics.list, "public/default")
            if SCALABLE not in names:
                continue
            record = await asyncio.to_thread(admin.scalable_topics.metadata, SCALABLE)
            states = [each["state"] for each in record["segments"].values()]
            self.segments.append(states.count("ACTIVE"))

    # ------------------------------------------------------------------ the proof

    def audit(self, door: ModuleType, session: Session) -> int:
        spark = session.get()
        with tempfile.TemporaryDirectory(prefix="magnetar-demo-") as folder:
            found = door.audit(
                spark,
                self._broker.service_url,
                self._broker.admin_url,
                SCALABLE,
                dict(self.sent),
                Path(folder),
            )
        self.say(
            f"Spark read {found.messages:,} messages of {found.lines} keys across migration,"
            " splits and merges"
        )
        self.say(
            f"order-audit: {found.lost:,} lost, {found.duplicated:,} duplicated,"
            f" {found.out_of_order:,} out of order"
        )
        return 0 if found.is_clean and found.messages == sum(self.sent.values()) else 1


def draw(values: list[int]) -> str:
    """Numbers over time as little bars."""
    every = max(1, -(-len(values) // 60))
    shown = [max(values[start : start + every]) for start in range(0, len(values), every)]
    most = max([*shown, 1])
    return "".join(_BARS[round(each / most * (len(_BARS) - 1))] for each in shown)
