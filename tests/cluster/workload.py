"""Clients that write and read while something breaks, and a verdict on what they saw."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from magnetar import AsyncPulsarClient, BackoffPolicy, ConnectionPolicy
from magnetar.client.error import PulsarError
from magnetar.testing.simulation.checker import (
    Promise,
    find_disorder,
    find_lost,
    find_repeated,
    find_unanswered,
)
from magnetar.testing.simulation.history import (
    Acknowledged,
    Confirmed,
    Fault,
    History,
    NotSent,
    Received,
    Sent,
)

LONG_S = 90.0
KEYS = 7
_PAUSE_S = 0.01
_BURST = 5
# A busy machine is not given more than it reads: a test may wait long for something else.
_BEHIND_MAX = 1_000


def await_true(holds: Callable[[], bool], what: str, limit_s: float = LONG_S) -> None:
    """No verdict on speed: the limit is far above what anything takes."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.02)


def patient_client(url: str) -> AsyncPulsarClient:
    """One that finds brokers again soon, and goes on trying while they are replaced."""
    policy = ConnectionPolicy(keep_alive=5.0, backoff=BackoffPolicy(initial=0.05, maximum=0.5))
    return AsyncPulsarClient(url, connection=policy, operation_timeout=LONG_S)


class Workload:
    """One producer and one stream consumer on a topic, on a thread of their own.

    Every message carries its key and the number it has among those of its key. The SDK tries again
    until a broker has taken a message, so each has an outcome. Workloads of different names may
    share a topic; each reads all and judges its own.
    """

    def __init__(self, service_url: str, topic: str, name: str = "one") -> None:
        self._url = service_url
        self._name = name
        self._live, self._audit = f"{name}-live", f"{name}-audit"
        self.topic = topic
        self.history = History(time.monotonic)
        self.confirmed: set[tuple[str, int]] = set()
        self._received: dict[str, set[tuple[str, int]]] = {
            self._live: set(),
            self._audit: set(),
        }
        self._is_sending = True
        self._is_done = threading.Event()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"workload {topic}")

    def __enter__(self) -> Self:
        self._thread.start()
        await_true(lambda: self._ready.is_set() or self._failure is not None, "clients are there")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Without a failure of the test itself, everything must have arrived, once and in order."""
        try:
            if error is None:
                self._judge()
        finally:
            self._is_sending = False
            self._is_done.set()
            self._thread.join(LONG_S)

    def more(self, count: int = 50) -> None:
        """Wait until that many more are confirmed: the topic serves."""
        goal = len(self.confirmed) + count
        await_true(
            lambda: len(self.confirmed) >= goal or self._failure is not None,
            f"{count} more messages are confirmed",
        )
        self._check()

    def fault(self, what: str) -> None:
        self.history.add(Fault(what))

    # ------------------------------------------------------------------ the verdict

    def _judge(self) -> None:
        self._is_sending = False
        for subscription in (self._live, self._audit):
            await_true(
                lambda name=subscription: self._has_all(name) or self._failure is not None,  # type: ignore[misc]
                f"all {len(self.confirmed)} confirmed messages arrive at {subscription}",
            )
        self._check()
        entries = self.history.entries
        found = list(find_unanswered(entries))
        for subscription in (self._live, self._audit):
            promise = Promise(
                self.topic,
                subscription,
                keeps_order=True,
                has_deduplication=False,
                is_tapped=False,
            )
            for find in (find_lost, find_repeated, find_disorder):
                found += find(entries, promise)
        found += self._find_twins()
        assert not found, "\n".join(found[:20])

    def _has_all(self, subscription: str) -> bool:
        return self._is_flushed and self.confirmed <= self._received[subscription]

    def _find_twins(self) -> list[str]:
        """Two owners at once would confirm two messages in one place."""
        places: dict[str, tuple[str, int]] = {}
        found = []
        for entry in self.history.entries:
            match entry.event:
                case Confirmed(_, key, number, message_id):
                    other = places.setdefault(message_id, (key, number))
                    if other != (key, number):
                        found.append(f"two owners: {other} and {key}#{number} at {message_id}")
        return found

    def _check(self) -> None:
        if self._failure is not None:
            raise AssertionError(f"the clients ended: {self._failure!r}") from self._failure

    # ------------------------------------------------------------------ the clients

    _is_flushed = False

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as failure:
            self._failure = failure

    async def _work(self) -> None:
        async with patient_client(self._url) as client:
            producer = await client.producer(self.topic, send_timeout=0.0, batching=False)
            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(self._consume(client, self._live))
                await self._produce(producer)
                self._is_flushed = True
                # From the beginning, by a consumer that saw none of the faults.
                auditing = tasks.create_task(self._consume(client, self._audit))
                await asyncio.to_thread(self._is_done.wait)
                reading.cancel()
                auditing.cancel()

    async def _produce(self, producer: Any) -> None:
        numbers = {f"{self._name}{key}": itertools.count() for key in range(KEYS)}
        keys = itertools.cycle(numbers)
        while self._is_sending:
            if len(self.confirmed) - len(self._received[self._live]) > _BEHIND_MAX:
                await asyncio.sleep(_PAUSE_S)
                continue
            for key in itertools.islice(keys, _BURST):
                number = next(numbers[key])
                self.history.add(Sent(self.topic, key, number))
                sent = await producer.submit(f"{key}#{number}".encode(), key=key)
                sent.add_done_callback(self._on_sent(key, number))
            await asyncio.sleep(_PAUSE_S)
        await producer.flush()

    def _on_sent(self, key: str, number: int) -> Callable[[Any], None]:
        def note(outcome: asyncio.Future[Any]) -> None:
            error = None if outcome.cancelled() else outcome.exception()
            if outcome.cancelled() or error is not None:
                self.history.add(NotSent(self.topic, key, number, str(error)))
            else:
                self.history.add(Confirmed(self.topic, key, number, str(outcome.result())))
                self.confirmed.add((key, number))

        return note

    async def _consume(self, client: AsyncPulsarClient, subscription: str) -> None:
        consumer = await client.stream_consumer(
            self.topic, subscription=subscription, initial_position="earliest", ack_receipts=True
        )
        self._ready.set()
        while True:
            messages = list(await consumer.receive_many(100, 0.2))
            mine = [each for each in messages if str(each.key).startswith(self._name)]
            for message in mine:
                key, number = _parse(message)
                place = (self.topic, subscription, "consumer", key, number, str(message.id))
                self.history.add(Received(*place))
                self._received[subscription].add((key, number))
            if messages:
                try:
                    await consumer.acknowledge_cumulative(messages[-1])
                except PulsarError:
                    continue  # they come again
                for message in mine:
                    key, number = _parse(message)
                    self.history.add(
                        Acknowledged(self.topic, subscription, key, number, str(message.id))
                    )


def _parse(message: Any) -> tuple[str, int]:
    key, _, number = message.data.decode().partition("#")
    return key, int(number)
