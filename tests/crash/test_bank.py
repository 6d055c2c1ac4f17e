"""A bank: transfers between accounts as transactions, while the broker dies and segments change.

Each account is one message that no one has acknowledged: its balance. A transfer takes two of them,
sends what they become and acknowledges them, in one transaction. Whatever readers see of committed
transfers, the sum of all balances is the same.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from magnetar import AsyncPulsarClient, Checkpoint, PulsarError, TransactionState
from magnetar.client.admin import AdminClient
from magnetar.client.error import AdminError, AdminUnreachable
from magnetar.testing.broker import MagnetarBroker
from magnetar.testing.plugin import StartBroker

SEED = int(os.environ.get("MAGNETAR_BANK_SEED", "17"))
ACCOUNTS = 200
SEGMENTS = 16
OPENING = 100
TOTAL = ACCOUNTS * OPENING
WORKERS = 6
KILLS = 2
CHANGES_BETWEEN_KILLS = 4
PATIENCE_S = 60.0
TOPIC = "topic://public/default/accounts"


@dataclass(frozen=True)
class Leg:
    """What one transfer made of one account."""

    account: int
    version: int
    balance: int
    transfer: str
    legs: int
    """How many the transfer has."""


class Books:
    """What one reader has seen. A transfer counts once all of it is seen, in the order of the
    versions of each account; from then on the sum must be right.
    """

    def __init__(self) -> None:
        self.balances: dict[int, Leg] = {}
        self.transfers = 0
        self._seen: dict[str, list[Leg]] = defaultdict(list)
        self._known: dict[tuple[int, int], tuple[Leg, str]] = {}
        """Each version of an account, and the message it came in."""

    def add(self, leg: Leg, message: str) -> None:
        known = self._known.setdefault((leg.account, leg.version), (leg, message))
        if known != (leg, message):
            raise AssertionError(f"{known} came again as {leg} in {message}")
        if leg in self._seen.get(leg.transfer, ()):
            raise AssertionError(f"{known} was delivered twice")
        self._seen[leg.transfer].append(leg)
        while any(self._apply(legs) for legs in tuple(self._seen.values())):
            pass

    @property
    def half_seen(self) -> list[list[Leg]]:
        return list(self._seen.values())

    def _apply(self, legs: list[Leg]) -> bool:
        if len(legs) < legs[0].legs:
            return False
        before = [self.balances.get(leg.account) for leg in legs]
        if any(
            leg.version != (0 if old is None else old.version + 1)
            for leg, old in zip(legs, before, strict=True)
        ):
            return False
        self.balances.update({leg.account: leg for leg in legs})
        self.transfers += 1
        del self._seen[legs[0].transfer]
        assert sum(leg.balance for leg in self.balances.values()) == TOTAL, legs
        return True


def decode(message: Any) -> Leg:
    return Leg(**json.loads(message.value))


class Bank:
    def __init__(self, client: AsyncPulsarClient, chance: random.Random) -> None:
        self._client = client
        self._chance = chance
        self.is_open = True
        self.committed = self.aborted = 0

    async def send(self, producer: Any, leg: Leg, transaction: Any) -> None:
        value = json.dumps(asdict(leg)).encode()
        await producer.send(value, key=str(leg.account), transaction=transaction)

    async def open_accounts(self, producer: Any) -> None:
        async with self._client.transaction() as transaction:
            legs = [Leg(n, 0, OPENING, "opening", ACCOUNTS) for n in range(ACCOUNTS)]
            await asyncio.gather(*(self.send(producer, leg, transaction) for leg in legs))

    async def work(self, number: int, producer: Any, consumer: Any) -> None:
        transfers = 0
        while self.is_open:
            first = await consumer.receive(1.0)
            second = None if first is None else await consumer.receive(1.0)
            if first is None or second is None:
                if first is not None:
                    consumer.negative_acknowledge(first, 0.0)
                continue
            transfers += 1
            name = f"{number}-{transfers}"
            if await self._transfer(name, producer, consumer, first, second):
                self.committed += 1
            else:
                self.aborted += 1
                for message in (first, second):
                    consumer.negative_acknowledge(message, 0.0)

    async def _transfer(
        self, name: str, producer: Any, consumer: Any, first: Any, second: Any
    ) -> bool:
        giver, taker = decode(first), decode(second)
        amount = self._chance.randint(0, giver.balance)
        legs = (
            Leg(giver.account, giver.version + 1, giver.balance - amount, name, 2),
            Leg(taker.account, taker.version + 1, taker.balance + amount, name, 2),
        )
        try:
            transaction = await self._client.transaction(timeout=4)
        except PulsarError:
            return False
        try:
            async with transaction:
                await asyncio.gather(*(self.send(producer, leg, transaction) for leg in legs))
                await consumer.acknowledge((first, second), transaction=transaction)
                if self._chance.random() < 0.1:
                    await transaction.abort()
        except PulsarError:
            async with asyncio.timeout(PATIENCE_S):
                while transaction.state is TransactionState.ERROR:
                    try:  # it may be committed: ask until that is known
                        await transaction.commit()
                    except PulsarError:
                        await asyncio.sleep(0.1)
        return transaction.state is TransactionState.COMMITTED


async def change_layout(admin: AdminClient, chance: random.Random) -> None:
    """Split a segment, or merge two that are neighbours; some requests are refused."""
    layout = await asyncio.to_thread(admin.scalable_topics.metadata, TOPIC)
    active = sorted(
        (each["hashRange"]["start"], int(number))
        for number, each in layout["segments"].items()
        if each["state"] == "ACTIVE"
    )
    place = chance.randrange(len(active) - 1)
    try:
        if chance.random() < 0.5:
            await asyncio.to_thread(admin.scalable_topics.split, TOPIC, active[place][1])
        else:
            left, right = active[place][1], active[place + 1][1]
            await asyncio.to_thread(admin.scalable_topics.merge, TOPIC, left, right)
    except (AdminError, AdminUnreachable):
        pass


async def watch(reader: Any, books: Books) -> None:
    async for message in reader:
        books.add(decode(message), str(message.id))


async def until_equal(books: Books, expected: Books) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while books.balances != expected.balances or books.half_seen:
            await asyncio.sleep(0.05)


@pytest.mark.timeout(180)
def test_no_reader_ever_sees_another_sum(magnetar_broker_factory: StartBroker) -> None:
    broker, chance = magnetar_broker_factory(), random.Random(SEED)

    async def body() -> None:
        with AdminClient(broker.admin_url) as admin:
            await asyncio.to_thread(admin.scalable_topics.create, TOPIC, segments=SEGMENTS)
            for name in ("bank", "archive"):
                await asyncio.to_thread(
                    admin.scalable_topics.create_subscription, TOPIC, name, kind="QUEUE"
                )
            async with AsyncPulsarClient(broker.service_url) as client:
                await run(broker, admin, client)

    async def run(broker: MagnetarBroker, admin: AdminClient, client: AsyncPulsarClient) -> None:
        bank, live = Bank(client, chance), Books()
        producer = await client.producer(TOPIC)
        reader = await client.checkpoint_consumer(TOPIC, start=Checkpoint.EARLIEST)
        await bank.open_accounts(producer)
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watch(reader, live))
            consumers = [
                await client.queue_consumer(TOPIC, subscription="bank", receiver_queue_size=4)
                for _ in range(WORKERS)
            ]
            working = [
                tasks.create_task(bank.work(number, producer, consumer))
                for number, consumer in enumerate(consumers)
            ]
            for _ in range(KILLS):
                for _ in range(CHANGES_BETWEEN_KILLS):
                    await asyncio.sleep(chance.uniform(0.0, 0.5))
                    await change_layout(admin, chance)
                await asyncio.sleep(chance.uniform(0.0, 0.5))
                await asyncio.to_thread(broker.crash)
                await asyncio.to_thread(broker.start)
            bank.is_open = False
            await asyncio.gather(*working)
            for consumer in consumers:
                await consumer.close()

            archive = Books()
            reading = await client.queue_consumer(TOPIC, subscription="archive")
            archiving = tasks.create_task(watch(reading, archive))
            left = await client.queue_consumer(TOPIC, subscription="bank")
            balances = {}
            while len(balances) < ACCOUNTS:
                message = await left.receive(PATIENCE_S)
                assert message is not None, f"{len(balances)} accounts are left"
                leg = decode(message)
                assert leg.account not in balances, "an account has two balances"
                balances[leg.account] = leg
            assert await left.receive(0.5) is None
            assert sum(leg.balance for leg in balances.values()) == TOTAL
            expected = Books()
            expected.balances = balances
            await until_equal(live, expected)
            await until_equal(archive, expected)
            assert live.transfers == archive.transfers == bank.committed + 1
            assert bank.committed > 10, "transfers went on all the time"
            assert bank.aborted > 0
            print(f"{bank.committed} transfers, {bank.aborted} aborted, seed {SEED}")
            watching.cancel()
            archiving.cancel()

    asyncio.run(body())
