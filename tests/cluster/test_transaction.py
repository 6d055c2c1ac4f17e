"""A broker is killed while transactions are begun, written and ended."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from typing import Any

import pytest

from magnetar import AsyncPulsarClient
from magnetar.client.error import PulsarError
from magnetar.testing.simulation.checker import find_transaction_breaks
from magnetar.testing.simulation.history import Decided, Deciding, History, Received
from magnetar.testing.simulation.plan import TRANSFER
from tests.cluster.brokers import BrokerCluster
from tests.cluster.workload import LONG_S, await_true, patient_client

WORKERS = 4
MESSAGES = 2
SUBSCRIPTION = "audit"
LAST = "last"


class Transfers:
    """Every transaction writes to both topics; one in five is aborted."""

    def __init__(self, service_url: str, topics: tuple[str, str]) -> None:
        self._url = service_url
        self.topics = topics
        self.history = History(time.monotonic)
        self.ids: list[Any] = []
        self.committed = 0
        self._numbers = itertools.count(1)
        self._is_over = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def more(self, count: int = 10) -> None:
        goal = self.committed + count
        await_true(
            lambda: self.committed >= goal or self._failure is not None,
            f"{count} more transactions are committed",
        )
        assert self._failure is None, self._failure

    def finish(self) -> list[str]:
        """What readers must not have seen, when everything has ended."""
        self._is_over = True
        self._thread.join(2 * LONG_S)
        assert not self._thread.is_alive() and self._failure is None, self._failure
        views = [(topic, SUBSCRIPTION) for topic in self.topics]
        return list(find_transaction_breaks(self.history.entries, views))

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as failure:
            self._failure = failure

    async def _work(self) -> None:
        async with patient_client(self._url) as client:
            producers = [
                await client.producer(topic, send_timeout=0.0, batching=False)
                for topic in self.topics
            ]
            await asyncio.gather(*(self._transact(client, producers) for _ in range(WORKERS)))
            for producer in producers:  # it is seen when all before it have ended
                await producer.send(f"{LAST}#0".encode())
            async with asyncio.timeout(LONG_S):
                await asyncio.gather(*(self._read(client, topic) for topic in self.topics))

    async def _transact(self, client: AsyncPulsarClient, producers: list[Any]) -> None:
        while not self._is_over:
            try:
                transaction = await client.transaction(timeout=10.0)
            except PulsarError:
                continue
            self.ids.append(transaction.id)
            number = next(self._numbers)
            name, is_commit = f"{TRANSFER}{number}", number % 5 != 0
            try:
                for at, producer in itertools.product(range(MESSAGES), producers):
                    data = f"{name}#{at}".encode()
                    await producer.send(data, key=name, transaction=transaction)
                self.history.add(Deciding(name, name, is_commit, MESSAGES))
                await (transaction.commit() if is_commit else transaction.abort())
            except PulsarError:
                await transaction.close()
                continue
            if is_commit:
                self.history.add(Decided(name))
                self.committed += 1

    async def _read(self, client: AsyncPulsarClient, topic: str) -> None:
        consumer = await client.stream_consumer(
            topic, subscription=SUBSCRIPTION, initial_position="earliest"
        )
        while True:
            message = await consumer.receive()
            assert message is not None
            key, _, number = message.data.decode().partition("#")
            if key == LAST:
                return
            self.history.add(
                Received(topic, SUBSCRIPTION, "reader", key, int(number), str(message.id))
            )


@pytest.mark.timeout(300)
def test_transactions_are_whole_when_brokers_are_killed(brokers: BrokerCluster) -> None:
    """The first runs coordinators, the second owns one of the topics."""
    with brokers.admin() as admin:
        await_true(admin.transactions.coordinators, "coordinators have owners")
        [home, *_] = (each["brokerServiceUrl"] for each in admin.transactions.coordinators())
    topics = [brokers.new_topic("transfer") for _ in range(64)]
    first = next(each for each in topics if brokers.owner(each).service_url != home)
    second = next(each for each in topics if brokers.owner(each) is not brokers.owner(first))
    work = Transfers(brokers.service_url, (first, second))
    work.more()
    next(each for each in brokers.running if each.service_url == home).kill()
    work.more()
    brokers.owner(first).kill()
    work.more()
    violations = work.finish()
    assert not violations, "\n".join(violations[:20])
    assert len(set(work.ids)) == len(work.ids), "no id was given out twice"
