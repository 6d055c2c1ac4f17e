"""Transactions of the SDK: sends and acknowledgements take effect together, or not at all."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from magnetar import (
    BatchingPolicy,
    ConfigurationError,
    FeatureNotSupportedError,
    TransactionConflictError,
    TransactionError,
    TransactionState,
    TransactionTimedOutError,
)
from tests.contract.sdk_place import SILENCE_S, Place, take
from tests.contract.sdk_regular import (
    KINDS_OF_TOPIC,
    new_name,
    open_producer,
    open_queue,
    pick_topic,
)

kinds_of_topic = pytest.mark.parametrize("kind", KINDS_OF_TOPIC)


class Failure(Exception):
    """Raised by the body of a transaction."""


def begin(client: Any, kind: str, **options: Any) -> Any:
    """Apache Pulsar has coordinators for each kind of topics."""
    return client.transaction(scalable=kind != "classic", **options)


async def values(consumer: Any, count: int) -> list[bytes]:
    return sorted(message.value for message in await take(consumer, count))


@kinds_of_topic
def test_topics_show_what_is_committed_together_and_nothing_of_what_is_aborted(
    place: Place, kind: str
) -> None:
    async def body() -> None:
        topics = [pick_topic(place, kind), pick_topic(place, kind)]
        async with place.client() as client:
            producers = [await open_producer(client, topic) for topic in topics]
            readers = [await open_queue(client, topic) for topic in topics]
            async with begin(client, kind) as transaction:
                for number in range(10):
                    await producers[number % 2].submit(
                        b"%d" % number, key=str(number), transaction=transaction
                    )
                assert transaction.state == TransactionState.OPEN
                for reader in readers:
                    assert await reader.receive(SILENCE_S) is None
            assert transaction.state == TransactionState.COMMITTED
            assert await values(readers[0], 5) == [b"0", b"2", b"4", b"6", b"8"]
            assert await values(readers[1], 5) == [b"1", b"3", b"5", b"7", b"9"]

            with suppress(Failure):
                async with begin(client, kind) as transaction:
                    await producers[0].send(b"never", key="0", transaction=transaction)
                    raise Failure
            assert transaction.state == TransactionState.ABORTED
            await producers[0].send(b"after", key="0")
            assert await values(readers[0], 1) == [b"after"]
            with pytest.raises(TransactionError):
                await producers[0].send(b"late", transaction=transaction)
            with pytest.raises(TransactionError):
                await transaction.commit()
            await transaction.abort()

    asyncio.run(body())


@kinds_of_topic
def test_input_is_acknowledged_with_the_output_and_comes_again_without_it(
    place: Place, kind: str
) -> None:
    async def body() -> None:
        source, target = pick_topic(place, kind), pick_topic(place, kind)
        async with place.client() as client:
            feed = await open_producer(client, source, batching=BatchingPolicy(max_delay=0.05))
            sink = await open_producer(client, target)
            consumer = await open_queue(client, source)
            reader = await open_queue(client, target)
            # One batch, of which messages are acknowledged one by one.
            await asyncio.gather(*(feed.send(b"%d" % each, key="k") for each in range(4)))

            async def copy(transaction: Any, count: int) -> list[bytes]:
                copied = []
                for message in await take(consumer, count):
                    await consumer.acknowledge(message, transaction=transaction)
                    await sink.send(message.value, transaction=transaction)
                    copied.append(message.value)
                return sorted(copied)

            everything = [b"0", b"1", b"2", b"3"]
            with suppress(Failure):
                async with begin(client, kind) as transaction:
                    assert await copy(transaction, 4) == everything
                    assert await consumer.receive(SILENCE_S) is None
                    raise Failure
            async with begin(client, kind) as transaction:
                assert await copy(transaction, 4) == everything
            assert await values(reader, 4) == everything
            await consumer.close()
            again = await open_queue(client, source)
            assert await again.receive(SILENCE_S) is None

    asyncio.run(body())


@kinds_of_topic
def test_a_message_in_chunks_is_sent_and_acknowledged_as_a_whole(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        large = bytes(range(256)) * 600
        async with place.client() as client:
            producer = await open_producer(client, topic, chunking="50KB", batching=False)
            consumer = await open_queue(client, topic)
            with suppress(Failure):
                async with begin(client, kind) as transaction:
                    await producer.send(large, key="k", transaction=transaction)
                    assert await consumer.receive(SILENCE_S) is None
                    raise Failure
            async with begin(client, kind) as transaction:
                await producer.send(large, key="k", transaction=transaction)
            with suppress(Failure):
                async with begin(client, kind) as transaction:
                    [message] = await take(consumer, 1)
                    assert message.value == large
                    await consumer.acknowledge(message, transaction=transaction)
                    raise Failure
            async with begin(client, kind) as transaction:
                [message] = await take(consumer, 1)
                assert message.value == large
                await consumer.acknowledge(message, transaction=transaction)
            await consumer.close()
            again = await open_queue(client, topic)
            assert await again.receive(SILENCE_S) is None

    asyncio.run(body())


@kinds_of_topic
def test_a_conflict_aborts_the_transaction_that_came_second(place: Place, kind: str) -> None:
    async def body() -> None:
        topic, other = pick_topic(place, kind, segments=1), pick_topic(place, kind, segments=1)
        async with place.client() as client:
            producer = await open_producer(client, topic)
            sink = await open_producer(client, other)
            reader = await open_queue(client, other)
            consumer = await open_queue(client, topic)
            await producer.send(b"one")
            message = await consumer.receive(10)
            first = await begin(client, kind)
            await consumer.acknowledge(message, transaction=first)
            second = await begin(client, kind)
            await sink.send(b"lost", transaction=second)
            await asyncio.sleep(SILENCE_S)  # the first is there before the second
            await consumer.acknowledge(message, transaction=second)
            with pytest.raises(TransactionConflictError):
                await second.commit()
            assert second.state == TransactionState.ABORTED
            await sink.send(b"kept", transaction=first)
            await first.commit()
            await first.commit()
            with pytest.raises(TransactionError):
                await first.abort()
            assert await values(reader, 1) == [b"kept"]

    asyncio.run(body())


def test_a_stream_is_acknowledged_cumulatively_with_its_output(place: Place) -> None:
    async def body() -> None:
        source, target = place.create_topic(2), place.create_topic(1)
        async with place.client() as client:
            feed, sink = await client.producer(source), await client.producer(target)
            stream = await client.stream_consumer(
                source, subscription="s", initial_position="earliest"
            )
            reader = await client.queue_consumer(target, subscription="r")
            for number in range(8):
                await feed.send(b"%d" % number, key=str(number))
            first = await take(stream, 5)
            async with client.transaction() as transaction:
                await stream.acknowledge_cumulative(first[2], transaction=transaction)
                await stream.acknowledge_cumulative(first[-1], transaction=transaction)
                await sink.send(b"five", transaction=transaction)
            assert await values(reader, 1) == [b"five"]
            rest = await take(stream, 3)
            if not place.is_apache:  # where such messages do not come again by themselves
                with suppress(Failure):
                    async with client.transaction() as transaction:
                        await stream.acknowledge_cumulative(rest[-1], transaction=transaction)
                        raise Failure
                rest = await take(stream, 3)
            async with client.transaction() as transaction:
                await stream.acknowledge_cumulative(rest[-1], transaction=transaction)
            assert sorted(each.value for each in (*first, *rest)) == [
                b"%d" % number for number in range(8)
            ]
            await stream.close()
            async with client.stream_consumer(source, subscription="s") as again:
                assert await again.receive(SILENCE_S) is None

    asyncio.run(body())


@pytest.mark.parametrize("type", ["exclusive", "failover", "shared", "key_shared"])
def test_every_subscription_of_a_regular_topic_takes_part(place: Place, type: str) -> None:
    async def body() -> None:
        topic = new_name()
        async with place.client() as client:
            producer = await client.producer(topic, batching=False)
            consumer = await client.consumer(topic, "s", type=type, ack_receipts=True)
            for number in range(3):
                await producer.send(b"%d" % number, key=str(number))
            received = await take(consumer, 3)
            async with client.transaction(scalable=False) as transaction:
                if type in ("exclusive", "failover"):
                    await consumer.acknowledge_cumulative(received[1], transaction=transaction)
                else:
                    for message in received[:2]:
                        await consumer.acknowledge(message, transaction=transaction)
            await consumer.close()
            again = await client.consumer(topic, "s", type=type)
            assert await values(again, 1) == [b"2"]

    asyncio.run(body())


def test_a_transaction_goes_on_across_a_split_and_a_merge(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(1)
        async with place.client() as client:
            producer = await client.producer(topic)
            reader = await client.queue_consumer(topic, subscription="s")
            async with client.transaction() as transaction:

                async def send(first: int, end: int) -> None:
                    for number in range(first, end):
                        await producer.submit(
                            b"%02d" % number, key=str(number), transaction=transaction
                        )

                await send(0, 10)
                splitting = asyncio.create_task(place.split(topic, 0))
                await send(10, 20)
                await splitting
                await send(20, 30)
                await place.merge(topic, 1, 2)
                await send(30, 40)
                assert await reader.receive(SILENCE_S) is None
            assert await values(reader, 40) == [b"%02d" % number for number in range(40)]
            assert await reader.receive(SILENCE_S) is None

    asyncio.run(body())


def test_a_transaction_that_is_not_ended_in_time_is_aborted(place: Place) -> None:
    if place.is_apache:
        pytest.skip("looks for dangling transactions once a minute")

    async def body() -> None:
        topic = place.create_topic(1)
        async with place.client() as client:
            producer = await client.producer(topic)
            reader = await client.queue_consumer(topic, subscription="s")
            transaction = await client.transaction(timeout=0.5)
            await producer.send(b"hidden", transaction=transaction)
            await producer.send(b"behind")
            assert await values(reader, 1) == [b"behind"]
            assert transaction.state == TransactionState.TIMED_OUT
            with pytest.raises(TransactionTimedOutError):
                await producer.send(b"late", transaction=transaction)
            with pytest.raises(TransactionTimedOutError):
                await transaction.commit()
            assert transaction.state == TransactionState.TIMED_OUT

    asyncio.run(body())


def test_regular_and_scalable_topics_take_part_in_one_transaction(place: Place) -> None:
    async def body() -> None:
        scalable, regular = place.create_topic(2), new_name()
        async with place.client() as client, place.client() as other:
            first = await client.producer(scalable)
            second = await client.producer(regular)
            readers = [await open_queue(client, scalable), await open_queue(client, regular)]
            foreign = await other.producer(scalable)
            if place.is_apache:  # which would lose what is sent to the other kind
                for transaction, producer in (
                    (await client.transaction(), second),
                    (await client.transaction(scalable=False), first),
                ):
                    with pytest.raises(FeatureNotSupportedError):
                        await producer.send(b"x", transaction=transaction)
                    await transaction.abort()
                return
            for is_scalable in (True, False):
                async with client.transaction(scalable=is_scalable) as transaction:
                    await first.send(b"x", transaction=transaction)
                    await second.send(b"x", transaction=transaction)
                    with pytest.raises(ConfigurationError):
                        await foreign.send(b"x", transaction=transaction)
                    with pytest.raises(ConfigurationError):
                        await first.send(b"x", transaction="no transaction")
                for reader in readers:
                    assert await values(reader, 1) == [b"x"]

    asyncio.run(body())


@kinds_of_topic
def test_several_transactions_may_be_the_first_of_a_client(place: Place, kind: str) -> None:
    async def body() -> None:
        async with place.client() as client:
            begun = await asyncio.gather(*(begin(client, kind) for _ in range(4)))
            assert len({each.id for each in begun}) == 4
            await asyncio.gather(*(each.abort() for each in begun))

    asyncio.run(body())


def test_operators_see_of_an_entry_how_its_transaction_stands(place: Place) -> None:
    async def body() -> None:
        topic = new_name()
        async with place.client() as client:
            producer = await client.producer(topic, batching=False)
            await client.consumer(topic, "s")

            async def look(id: Any) -> tuple[str | None, str, bool]:
                read = place.admin.topics.read_entry
                entry = await asyncio.to_thread(read, topic, id.ledger_id, id.entry_id)
                told = entry.headers
                has_id = "txnid-most-bits" in told and "txnid-least-bits" in told
                return told.get("txn-aborted"), told["txn-uncommitted"], has_id

            plain = await producer.send(b"plain")
            assert await look(plain) == (None, "false", False)
            for end, aborted in (("commit", "false"), ("abort", "true")):
                transaction = await client.transaction(scalable=False)
                id = await producer.send(b"x", transaction=transaction)
                assert await look(id) == ("false", "true", True)
                await getattr(transaction, end)()
                assert await look(id) == (aborted, "false", True)

    asyncio.run(body())
