"""Clients that consume, and produce to two topics, in transactions; and a look at all that is left.

Every attempt at an input is a transaction of its own: its messages carry the input, the number of
the attempt, and their place among those that it sends to the topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import PulsarError
from magnetar.testing.simulation.history import Decided, Deciding, History, Received
from magnetar.testing.simulation.plan import TRANSFER, TopicPlan, TransferPlan
from magnetar.testing.simulation.workload import Application, Traffic, parse

AUDIT: Final = "audit"
"""The subscription that reads everything again at the end."""
LIVE: Final = "live"
_TIMEOUT_S: Final = 6.0
_PAUSE_S: Final = 0.5
_DEATH: Final = 0.02


class Transfers:
    """`topic` is the first of the run's plan, and has readers of its own."""

    def __init__(
        self,
        plan: TransferPlan,
        topic: TopicPlan,
        history: History,
        traffic: Traffic,
        random: Random,
        make_application: Callable[[str], Application],
        on_step: Callable[[float], None],
    ) -> None:
        """`on_step` is called with each step of a transaction, and the chance that it is the last
        one of a broker.
        """
        self._plan = plan
        self._topic = topic
        self._history = history
        self._random = random
        self._make_application = make_application
        self._on_step = on_step
        self._traffic = traffic
        traffic.rewinds.unbounded.add(topic.name)
        self._workers: list[asyncio.Task[Any]] = []
        self._given = 0
        self._attempts = 0
        self._is_over = False

    def begin(self) -> None:
        self._make_application("bank-inputs").run(self._give)
        self._workers = [
            self._make_application(f"bank-worker{number}").run(self._work)
            for number in range(self._plan.workers)
        ]
        self._make_application(f"bank-{LIVE}").run(lambda client: self._read(client, LIVE))

    @property
    def views(self) -> list[tuple[str, str]]:
        """Topics and their subscriptions, which see the same transactions."""
        readings = [(self._topic.name, str(reading)) for reading, _ in self._topic.readings]
        return [*readings, *((self._plan.output.full, name) for name in (LIVE, AUDIT))]

    async def finish(self, limit_s: float) -> list[str]:
        """Wait until all inputs came out, for those that are left to their time-out, and until all
        readers have the same. Return what did not come to pass.
        """
        if not await self._wait(lambda: self._missing == 0, limit_s):
            return [f"no progress: {self._missing} inputs are not consumed"]
        self._is_over = True
        await asyncio.wait(self._workers, timeout=limit_s)
        await asyncio.sleep(2 * _TIMEOUT_S)
        self._make_application(f"bank-{AUDIT}").run(lambda client: self._read(client, AUDIT))
        if not await self._wait(lambda: not self._unseen, limit_s):
            return [f"no progress: {self._unseen} messages of transactions are not seen"]
        return []

    async def _wait(self, holds: Callable[[], bool], limit_s: float) -> bool:
        waited_s = 0.0
        while not holds() and waited_s < limit_s:
            await asyncio.sleep(_PAUSE_S)
            waited_s += _PAUSE_S
        return holds()

    @property
    def _missing(self) -> int:
        done = {key.partition("-")[2] for key, _ in self._live}
        return self._plan.inputs - len(done)

    @property
    def _unseen(self) -> int:
        received = self._traffic.received
        return sum(len(self._live - received.get(view, set())) for view in self.views)

    @property
    def _live(self) -> set[tuple[str, int]]:
        return self._traffic.received.get((self._plan.output.full, LIVE), set())

    async def _give(self, client: AsyncPulsarClient) -> None:
        producer = await client.producer(self._plan.input.full, name="inputs")
        while self._given < self._plan.inputs:
            await producer.send(str(self._given).encode())
            self._given += 1

    async def _work(self, client: AsyncPulsarClient) -> None:
        consumer = await client.consumer(
            self._plan.input.full,
            "bank",
            type="shared",
            initial_position="earliest",
            receiver_queue_size=1,
        )
        producers = [
            await client.producer(self._topic.name, batching=False),
            await client.producer(self._plan.output.full, batching=False),
        ]
        while not self._is_over:
            message = await consumer.receive(timeout=_PAUSE_S)
            if message is not None:
                await self._transfer(client, consumer, message, producers)

    async def _transfer(
        self, client: AsyncPulsarClient, consumer: Any, message: Any, producers: list[Any]
    ) -> None:
        self._attempts += 1
        text = message.data.decode()
        name = f"{TRANSFER}{self._attempts}-{text}"
        transaction = await client.transaction(timeout=_TIMEOUT_S)
        try:
            self._on_step(_DEATH)
            await consumer.acknowledge(message, transaction)
            self._on_step(_DEATH)
            for number in range(self._plan.messages):
                for producer in producers:
                    data = f"{name}#{number}".encode()
                    await producer.send(data, key=name, transaction=transaction)
            await asyncio.sleep(self._random.choice((0, 0, 0.05, 1)))
            chance = self._random.random()
            if chance < 0.1:
                return  # left to its time-out
            is_commit = chance < 0.75
            self._history.add(Deciding(name, str(message.id), is_commit, self._plan.messages))
            self._on_step(5 * _DEATH)
            await (transaction.commit() if is_commit else transaction.abort())
            if is_commit:
                self._history.add(Decided(name))
        except PulsarError:
            await transaction.close()
            raise

    async def _read(self, client: AsyncPulsarClient, subscription: str) -> None:
        topic = self._plan.output.full
        consumer = await client.consumer(
            topic, subscription, type="exclusive", initial_position="earliest"
        )
        while True:
            message = await consumer.receive()
            assert message is not None
            key, number = parse(message)
            id_ = str(message.id)
            self._history.add(Received(topic, subscription, subscription, key, number, id_))
            self._traffic.on_received(topic, subscription, key, number, id_)
            await consumer.acknowledge(message)
