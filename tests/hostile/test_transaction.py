"""Who may go on with a transaction, and with what: the role that began it, and super-users."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from magnetar.model.transaction import TransactionId
from magnetar.wire import command as wire
from magnetar.wire.command import BaseCommand
from tests.hostile.permission_table import Who
from tests.hostile.test_permission_matrix import TOKENS, TOPIC, Peer, code_of, secure_broker
from tests.unit.admin.assembly import Admin
from tests.unit.broker.broker_place import until


class Caller(Peer):
    """One role, with a connection of its own."""

    def __init__(self, admin: Admin, who: Who) -> None:
        super().__init__(admin, TOKENS[who])

    async def answer(self, body: Any) -> BaseCommand:
        await until(lambda: bool(self.wire.received))  # the connection is let in
        before = len(self.wire.received)
        self.say(body)
        await until(lambda: len(self.wire.received) > before)
        return self.wire.received[before]

    async def begin(self) -> TransactionId:
        begun = await self.answer(wire.CommandNewTxn(request_id=1, txn_ttl_millis=60_000))
        assert code_of(begun) is None
        response = begun.newTxnResponse
        return TransactionId(response.txnid_most_bits, response.txnid_least_bits)

    async def add_topic(self, id_: TransactionId) -> str | None:
        return code_of(
            await self.answer(
                wire.CommandAddPartitionToTxn(
                    request_id=2,
                    txnid_most_bits=id_.most,
                    txnid_least_bits=id_.least,
                    partitions=[TOPIC],
                )
            )
        )

    async def add_subscription(self, id_: TransactionId) -> str | None:
        return code_of(
            await self.answer(
                wire.CommandAddSubscriptionToTxn(
                    request_id=3,
                    txnid_most_bits=id_.most,
                    txnid_least_bits=id_.least,
                    subscription=[wire.Subscription(topic=TOPIC, subscription="s")],
                )
            )
        )

    async def end(self, id_: TransactionId, *, commit: bool = True) -> str | None:
        action = wire.TxnAction.COMMIT if commit else wire.TxnAction.ABORT
        return code_of(
            await self.answer(
                wire.CommandEndTxn(
                    request_id=4,
                    txnid_most_bits=id_.most,
                    txnid_least_bits=id_.least,
                    txn_action=action,
                )
            )
        )


def test_a_transaction_is_unknown_to_all_but_its_role_and_super_users() -> None:
    async def body() -> None:
        async with secure_broker(transactionCoordinatorEnabled="true") as admin:
            producer, consumer, boss, root = (
                Caller(admin, who) for who in (Who.PRODUCER, Who.CONSUMER, Who.ADMIN, Who.SUPER)
            )
            id_ = await producer.begin()
            assert await producer.add_topic(id_) is None
            assert await boss.add_topic(id_) == "TransactionNotFound", "the role may produce there"
            for commit in (True, False):
                assert await boss.end(id_, commit=commit) == "TransactionNotFound"
                assert await consumer.end(id_, commit=commit) == "TransactionNotFound"
            assert await producer.end(id_) is None
            assert await producer.end(id_, commit=False) == "InvalidTxnStatus"
            left = await producer.begin()
            assert await root.add_topic(left) is None
            assert await root.end(left, commit=False) is None
            assert await producer.end(left) == "InvalidTxnStatus"

    asyncio.run(body())


def test_what_joins_a_transaction_is_what_its_caller_may_write_and_read() -> None:
    async def body() -> None:
        async with secure_broker(transactionCoordinatorEnabled="true") as admin:
            producer, consumer = (Caller(admin, who) for who in (Who.PRODUCER, Who.CONSUMER))
            subscribe = wire.CommandSubscribe(
                topic=TOPIC,
                subscription="s",
                subType=wire.CommandSubscribe.Shared,
                consumer_id=1,
                request_id=9,
            )
            assert code_of(await consumer.answer(subscribe)) is None
            reading, writing = await consumer.begin(), await producer.begin()
            assert await consumer.add_topic(reading) == "AuthorizationError"
            assert await consumer.add_subscription(reading) is None
            assert await producer.add_subscription(writing) == "AuthorizationError"
            assert await producer.add_topic(writing) is None
            assert await consumer.end(reading) is None
            assert await producer.end(writing) is None

    asyncio.run(body())


def test_nobody_sees_the_transactions_of_other_roles_but_administrators_of_the_system() -> None:
    """Their owners and topics are no secret of the ids, which are counted up."""

    async def body() -> None:
        async with secure_broker(transactionCoordinatorEnabled="true") as admin:
            producer, consumer = (Caller(admin, who) for who in (Who.PRODUCER, Who.CONSUMER))
            id_ = await producer.begin()
            await consumer.begin()
            assert await producer.add_topic(id_) is None
            slow = "/admin/v3/transactions/slowTransactions/0"
            stats = "/admin/v3/transactions/coordinatorStats"
            seen = {Who.PRODUCER: ["producer"], Who.CONSUMER: ["consumer"], Who.ADMIN: []}
            for who, owners in seen.items():
                caller = replace(admin, token=TOKENS[who])
                for path in (slow, stats):
                    assert (await caller.get(path)).status in (401, 403), path
                assert (await caller.get(f"{stats}?coordinatorId=0")).status == 200
                found = (await caller.get(f"{slow}?coordinatorId=0")).json
                assert [each["owner"] for each in found.values()] == owners
            root = replace(admin, token=TOKENS[Who.SUPER])
            assert len((await root.get(stats)).json) > 1
            assert len((await root.get(slow)).json) == 2

    asyncio.run(body())
