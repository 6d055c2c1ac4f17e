from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import (
    CoordinatorUnavailableError,
    NotAllowedError,
    PulsarTimeoutError,
    TransactionError,
    TransactionNotFoundError,
    TransactionTimedOutError,
)
from magnetar.client.policy import BackoffPolicy, BatchingPolicy, ConnectionPolicy
from magnetar.client.transaction import TransactionState
from magnetar.errors import WireCode
from magnetar.wire.command import (
    CommandAddPartitionToTxnResponse,
    CommandEndTxnResponse,
    CommandNewTxnResponse,
    CommandPartitionedTopicMetadataResponse,
    CommandProducerSuccess,
    CommandTcClientConnectResponse,
    TxnAction,
    send_error,
)
from magnetar.wire.entry import decode_entry
from tests.unit.client.peer import Line, ScriptedBroker, Type, scripted_broker

QUICK = ConnectionPolicy(backoff=BackoffPolicy(0.001, 0.01))
ANSWERS = {
    Type.ADD_PARTITION_TO_TXN: CommandAddPartitionToTxnResponse,
    Type.END_TXN: CommandEndTxnResponse,
}


def answer(kind: int, request: Any, code: WireCode | None = None) -> Any:
    body = ANSWERS[kind](
        request_id=request.request_id,
        txnid_most_bits=request.txnid_most_bits,
        txnid_least_bits=request.txnid_least_bits,
    )
    if code is not None:
        body.error, body.message = code, "as the test says"
    return body


@asynccontextmanager
async def coordinator(timeout: float = 5) -> AsyncIterator[tuple[ScriptedBroker, Any]]:
    """A broker with two coordinators, and a client."""
    async with scripted_broker() as broker:
        begun = 0

        def on_count(line: Line, request: Any, _: bytes) -> None:
            count = 2 if "transaction_coordinator" in request.topic else 0
            response = CommandPartitionedTopicMetadataResponse.Success
            line.say(
                CommandPartitionedTopicMetadataResponse(
                    request_id=request.request_id, partitions=count, response=response
                )
            )

        def on_hello(line: Line, request: Any, _: bytes) -> None:
            line.say(CommandTcClientConnectResponse(request_id=request.request_id))

        def on_new(line: Line, request: Any, _: bytes) -> None:
            nonlocal begun
            body = CommandNewTxnResponse(
                request_id=request.request_id,
                txnid_most_bits=request.tc_id,
                txnid_least_bits=begun,
            )
            begun += 1
            line.say(body)

        broker.on[Type.PARTITIONED_METADATA] = on_count
        broker.on[Type.TC_CLIENT_CONNECT_REQUEST] = on_hello
        broker.on[Type.NEW_TXN] = on_new
        for kind in ANSWERS:
            broker.on[kind] = lambda line, request, _, kind=kind: line.say(answer(kind, request))
        options = {"operation_timeout": timeout, "connection": QUICK}
        async with AsyncPulsarClient(broker.url, **options) as client:
            yield broker, client


def test_a_topic_is_announced_once_and_before_the_first_message() -> None:
    async def body() -> None:
        async with coordinator() as (broker, client):
            entries: list[bytes] = []

            def on_send(line: Line, send: Any, entry: bytes) -> None:
                entries.append(entry)
                broker.receipt(line, send)

            def on_announced(line: Line, request: Any, _: bytes) -> None:
                assert not broker.bodies(Type.SEND)
                line.say(answer(Type.ADD_PARTITION_TO_TXN, request))

            broker.on[Type.SEND] = on_send
            broker.on[Type.ADD_PARTITION_TO_TXN] = on_announced
            producer = await client.producer("t", batching=False)
            async with client.transaction(scalable=False, timeout=7) as transaction:
                sends = [producer.send(b"%d" % n, transaction=transaction) for n in range(2)]
                plain = producer.send(b"plain")  # it must not overtake them
                await asyncio.gather(*sends, plain)
            assert transaction.id == (1, 0)
            [new] = broker.bodies(Type.NEW_TXN)
            assert (new.tc_id, new.txn_ttl_millis, new.scalable) == (1, 7000, False)
            [announced] = broker.bodies(Type.ADD_PARTITION_TO_TXN)
            assert list(announced.partitions) == ["persistent://public/default/t"]
            assert [decode_entry(entry)[1] for entry in entries] == [b"0", b"1", b"plain"]
            for send, entry, marked in zip(
                broker.bodies(Type.SEND), entries, (True, True, False), strict=True
            ):
                metadata = decode_entry(entry)[0]
                assert send.HasField("txnid_most_bits") is marked
                assert metadata.HasField("txnid_least_bits") is marked
                assert (send.txnid_most_bits, metadata.txnid_most_bits) == (marked, marked)
            [end] = broker.bodies(Type.END_TXN)
            assert end.txn_action == TxnAction.COMMIT

    asyncio.run(body())


def test_one_begin_that_is_refused_takes_nothing_from_another_at_the_same_coordinator() -> None:
    async def body() -> None:
        async with coordinator() as (broker, client):
            asked: list[Any] = []

            def answer_begin(line: Line, request: Any, code: WireCode | None = None) -> None:
                body = CommandNewTxnResponse(
                    request_id=request.request_id,
                    txnid_most_bits=request.tc_id,
                    txnid_least_bits=len(asked),
                )
                if code is not None:
                    body.error, body.message = code, "as the test says"
                line.say(body)

            def on_new(line: Line, request: Any, _: bytes) -> None:
                """The first one is refused right before the third, of the same coordinator, is
                answered.
                """
                asked.append(request)
                if len(asked) == 3:
                    answer_begin(line, asked[0], WireCode.SERVICE_NOT_READY)
                if len(asked) > 1:
                    answer_begin(line, request)

            broker.on[Type.NEW_TXN] = on_new
            transactions = [client.transaction(scalable=False) for _ in range(3)]
            begun = await asyncio.gather(*(each.__aenter__() for each in transactions))
            assert len({each.id for each in begun}) == 3
            for each in begun:
                await each.abort()

    asyncio.run(body())


def test_no_batch_is_of_two_transactions() -> None:
    async def body() -> None:
        async with coordinator() as (broker, client):
            producer = await client.producer("t", batching=BatchingPolicy(max_delay=0.01))
            async with (
                client.transaction(scalable=False) as first,
                client.transaction(scalable=False) as second,
            ):
                await producer.send(b"announce", transaction=first)
                await producer.send(b"announce", transaction=second)
                del broker.heard[:]
                mixed = (first, first, second, None, None, first)
                await asyncio.gather(*(producer.send(b"x", transaction=each) for each in mixed))
            sends = broker.bodies(Type.SEND)
            assert [send.num_messages for send in sends] == [2, 1, 2, 1]
            marks = [send.HasField("txnid_least_bits") for send in sends]
            assert marks == [True, True, False, True]

    asyncio.run(body())


def test_a_commit_is_sent_again_until_the_coordinator_is_there() -> None:
    async def body() -> None:
        async with coordinator() as (broker, client):
            refusals = [
                WireCode.TRANSACTION_COORDINATOR_NOT_FOUND,
                WireCode.SERVICE_NOT_READY,
                None,
            ]

            def on_end(line: Line, request: Any, _: bytes) -> None:
                line.say(answer(Type.END_TXN, request, refusals.pop(0)))

            broker.on[Type.END_TXN] = on_end
            async with client.transaction(scalable=False) as transaction:
                pass
            assert transaction.state is TransactionState.COMMITTED
            assert len(broker.bodies(Type.END_TXN)) == 3
            assert len(broker.bodies(Type.TC_CLIENT_CONNECT_REQUEST)) == 3

    asyncio.run(body())


def test_a_commit_whose_answer_is_lost_can_be_repeated_and_not_be_undone() -> None:
    async def body() -> None:
        async with coordinator(timeout=0.2) as (broker, client):
            answering = broker.on[Type.END_TXN]
            broker.on[Type.END_TXN] = lambda line, request, _: None
            transaction = await client.transaction(scalable=False)
            with pytest.raises(PulsarTimeoutError):
                await transaction.commit()
            assert transaction.state is TransactionState.ERROR
            with pytest.raises(TransactionError):
                await transaction.abort()
            broker.on[Type.END_TXN] = answering
            await transaction.commit()
            assert transaction.state is TransactionState.COMMITTED

    asyncio.run(body())


@pytest.mark.parametrize(
    ("code", "timeout", "raised", "state"),
    [
        (WireCode.INVALID_TRANSACTION_STATUS, 60, TransactionError, TransactionState.ABORTED),
        (WireCode.TRANSACTION_NOT_FOUND, 60, TransactionNotFoundError, TransactionState.ERROR),
        (
            WireCode.TRANSACTION_NOT_FOUND,
            0.05,
            TransactionTimedOutError,
            TransactionState.TIMED_OUT,
        ),
        (
            WireCode.TRANSACTION_COORDINATOR_NOT_FOUND,
            60,
            CoordinatorUnavailableError,
            TransactionState.ERROR,
        ),
    ],
)
def test_a_refused_commit_tells_how_the_transaction_ended(
    code: WireCode, timeout: float, raised: type[Exception], state: TransactionState
) -> None:
    async def body() -> None:
        async with coordinator(timeout=0.2) as (broker, client):

            def on_end(line: Line, request: Any, _: bytes) -> None:
                loop = asyncio.get_running_loop()
                loop.call_later(0.1, line.say, answer(Type.END_TXN, request, code))

            broker.on[Type.END_TXN] = on_end
            transaction = await client.transaction(scalable=False, timeout=timeout)
            with pytest.raises(raised):
                await transaction.commit()
            assert transaction.state is state

    asyncio.run(body())


@pytest.mark.parametrize("refused", [Type.ADD_PARTITION_TO_TXN, Type.SEND])
def test_a_failed_send_turns_the_commit_into_an_abort(refused: int) -> None:
    async def body() -> None:
        async with coordinator() as (broker, client):

            def on_announced(line: Line, request: Any, _: bytes) -> None:
                code = WireCode.NOT_ALLOWED if refused == Type.ADD_PARTITION_TO_TXN else None
                line.say(answer(Type.ADD_PARTITION_TO_TXN, request, code))

            def on_send(line: Line, send: Any, _: bytes) -> None:
                line.say(send_error(send.producer_id, send.sequence_id, WireCode.NOT_ALLOWED, "no"))

            broker.on[Type.ADD_PARTITION_TO_TXN] = on_announced
            broker.on[Type.SEND] = on_send
            producer = await client.producer("t")
            transaction = await client.transaction(scalable=False)
            await producer.submit(b"x", transaction=transaction)
            with pytest.raises(NotAllowedError):
                await transaction.commit()
            assert transaction.state is TransactionState.ABORTED
            assert [end.txn_action for end in broker.bodies(Type.END_TXN)] == [TxnAction.ABORT]

    asyncio.run(body())


def test_closing_the_client_aborts_what_is_open() -> None:
    async def body() -> None:
        async with coordinator() as (broker, client):
            transaction = await client.transaction(scalable=False)
            await transaction.close()
            await transaction.close()
            assert transaction.state is TransactionState.ABORTED
            left = await client.transaction(scalable=False)
        assert left.state is TransactionState.ABORTED
        assert [end.txn_action for end in broker.bodies(Type.END_TXN)] == [TxnAction.ABORT] * 2

    asyncio.run(body())


@pytest.mark.parametrize("deduplicates", [True, False])
def test_what_may_be_stored_is_sent_again_only_where_duplicates_are_told(
    deduplicates: bool,
) -> None:
    async def body() -> None:
        async with coordinator() as (broker, client):

            def on_producer(line: Line, request: Any, _: bytes) -> None:
                last = len(broker.bodies(Type.SEND)) - 1 if deduplicates else -1
                answer = CommandProducerSuccess(
                    request_id=request.request_id, producer_name="p", schema_version=b""
                )
                answer.last_sequence_id = last
                line.say(answer)

            def on_send(line: Line, send: Any, _: bytes) -> None:
                if len(broker.bodies(Type.SEND)) == 1:
                    line.cut()  # its receipt is lost
                else:
                    broker.receipt(line, send)

            broker.on[Type.PRODUCER] = on_producer
            broker.on[Type.SEND] = on_send
            producer = await client.producer("t", batching=False)
            transaction = await client.transaction(scalable=False)
            await producer.submit(b"x", transaction=transaction)
            if deduplicates:
                await transaction.commit()
                assert len(broker.bodies(Type.SEND)) == 2
            else:
                with pytest.raises(TransactionError, match="not known what"):
                    await transaction.commit()
                assert len(broker.bodies(Type.SEND)) == 1
            await producer.send(b"plain")

    asyncio.run(body())
