from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import (
    AlreadyClosedError,
    InvalidMessageError,
    NotAllowedError,
    ProducerBusyError,
    ProducerFencedError,
    PulsarTimeoutError,
    QueueFullError,
    SendFailedError,
    TopicTerminatedError,
)
from magnetar.client.policy import BackoffPolicy, BatchingPolicy, ConnectionPolicy
from magnetar.errors import WireCode
from magnetar.wire.batch import decode_batch
from magnetar.wire.command import (
    CommandCloseProducer,
    CommandConnected,
    CommandPartitionedTopicMetadataResponse,
    CommandProducerSuccess,
    error,
    send_error,
)
from magnetar.wire.entry import decode_entry
from tests.unit.client.peer import Line, ScriptedBroker, Type, scripted_broker

QUICK = ConnectionPolicy(backoff=BackoffPolicy(0.001, 0.01))


def connect(broker: ScriptedBroker) -> AsyncPulsarClient:
    return AsyncPulsarClient(broker.url, operation_timeout=5, connection=QUICK)


def test_a_send_returns_the_id_of_its_receipt() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            producer = await client.producer("t", batching=False)
            assert str(await producer.send(b"a")) == "7:0:-1:-1"
            assert str(await producer.send(b"b", key="k")) == "7:1:-1:-1"
            assert producer.name.startswith("magnetar-")
            assert [send.sequence_id for send in broker.bodies(Type.SEND)] == [0, 1]

    asyncio.run(body())


def test_messages_sent_together_share_an_entry() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            entries: list[bytes] = []

            def on_send(line: Line, send: Any, entry: bytes) -> None:
                entries.append(entry)
                broker.receipt(line, send)

            broker.on[Type.SEND] = on_send
            producer = await client.producer("t")
            ids = await asyncio.gather(*(producer.send(b"%d" % n, key="k") for n in range(3)))
            assert [str(id) for id in ids] == ["7:0:-1:0", "7:0:-1:1", "7:0:-1:2"]
            metadata, payload = decode_entry(entries[0])
            assert metadata.partition_key == "k"
            assert [single.payload for single in decode_batch(payload, 3)] == [b"0", b"1", b"2"]
            [send] = broker.bodies(Type.SEND)
            assert (send.sequence_id, send.highest_sequence_id, send.num_messages) == (0, 2, 3)

    asyncio.run(body())


def test_a_batch_is_full_by_count_and_by_size() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            policy = BatchingPolicy(max_delay=60, max_messages=2, max_bytes=100)
            producer = await client.producer("t", batching=policy)
            await asyncio.gather(*(producer.send(b"x") for _ in range(4)))
            await asyncio.gather(*(producer.send(b"y" * 60) for _ in range(2)), producer.flush())
            assert [send.num_messages for send in broker.bodies(Type.SEND)] == [2, 2, 1, 1]

    asyncio.run(body())


def test_messages_that_say_nothing_but_their_data_go_as_one_with_an_id_each() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            entries: list[tuple[Any, bytes]] = []

            def on_send(line: Line, send: Any, entry: bytes) -> None:
                entries.append((send, entry))
                broker.receipt(line, send)

            broker.on[Type.SEND] = on_send
            policy = BatchingPolicy(max_delay=1, max_messages=6, max_bytes=100)
            producer = await client.producer("t", batching=policy, max_pending_messages=8)
            sends = [producer.send_nowait(b"%d" % n) for n in range(3)]
            sends.append(producer.send_nowait(b"3", key="k"))
            sends += [producer.send_nowait(b"%d" % n) for n in range(4, 8)]
            assert producer.stats.pending == 8
            with pytest.raises(QueueFullError):
                producer.send_nowait(b"8")
            assert sends[1].cancel()  # its caller does not ask any more: it is stored all the same
            await producer.flush()
            assert (producer.stats.pending, producer.stats.sent) == (0, 8)
            del sends[1]
            ids = [str(await each) for each in sends]
            assert ids == [
                *("7:0:-1:0", "7:0:-1:2", "7:0:-1:3", "7:0:-1:4", "7:0:-1:5"),
                *("7:1:-1:0", "7:1:-1:1"),
            ]
            stored = []
            for send, entry in entries:
                metadata, payload = decode_entry(entry)
                count = metadata.num_messages_in_batch
                assert (send.num_messages, metadata.highest_sequence_id) == (
                    count,
                    send.sequence_id + count - 1,
                )
                stored += [
                    (single.metadata.sequence_id, single.metadata.partition_key, single.payload)
                    for single in decode_batch(payload, count)
                ]
            assert stored == [(n, "k" if n == 3 else "", b"%d" % n) for n in range(8)]
            alone = await producer.send(b"8")
            assert str(alone) == "7:2:-1:-1"

    asyncio.run(body())


def test_all_messages_that_went_as_one_fail_with_it() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            broker.on[Type.SEND] = lambda line, send, entry: None
            producer = await client.producer("t", send_timeout=1)
            sends = [producer.send_nowait(b"x") for _ in range(5)]
            with pytest.raises(SendFailedError, match="5 messages were not stored"):
                await producer.flush()
            for sent in sends:
                with pytest.raises(PulsarTimeoutError):
                    await sent
            assert (producer.stats.failed, producer.stats.pending) == (5, 0)

    asyncio.run(body())


def test_a_delayed_message_is_never_batched_and_keeps_its_place() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            producer = await client.producer("t", batching=BatchingPolicy(max_delay=60))
            sends = [
                producer.send_nowait(b"a"),
                producer.send_nowait(b"b"),
                producer.send_nowait(b"late", deliver_at=datetime.fromtimestamp(0.001, UTC)),
            ]
            await asyncio.gather(*sends)
            first, second = broker.bodies(Type.SEND)
            assert (first.num_messages, second.num_messages) == (2, 1)
            assert second.sequence_id == 2

    asyncio.run(body())


def test_after_a_lost_connection_everything_unconfirmed_is_sent_again_in_order() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            producer = await client.producer("t", batching=False)
            confirm = broker.on[Type.SEND]

            def on_send(line: Line, send: Any, entry: bytes) -> None:
                if send.sequence_id == 2:
                    broker.on[Type.SEND] = confirm
                    line.cut()
                elif send.sequence_id == 0:
                    confirm(line, send, entry)

            broker.on[Type.SEND] = on_send
            ids = await asyncio.gather(*(producer.send(b"%d" % n) for n in range(3)))
            assert [id.entry_id for id in ids] == [0, 1, 2]
            sent = [send.sequence_id for send in broker.bodies(Type.SEND)]
            assert sent == [0, 1, 2, 1, 2]
            first, second = broker.bodies(Type.PRODUCER)
            assert (first.epoch, second.epoch) == (0, 1)
            assert second.producer_name == "p"

    asyncio.run(body())


def test_a_broker_that_lets_go_is_asked_again_where_it_points() -> None:
    async def body() -> None:
        async with (
            scripted_broker() as broker,
            scripted_broker() as other,
            connect(broker) as client,
        ):
            producer = await client.producer("t", batching=False)
            await producer.send(b"a")
            producer_id = broker.bodies(Type.PRODUCER)[0].producer_id
            broker.lines[0].say(
                CommandCloseProducer(
                    producer_id=producer_id,
                    request_id=2**64 - 1,
                    assignedBrokerServiceUrl=other.url,
                )
            )
            await other.until(Type.PRODUCER)
            await producer.send(b"b")
            assert len(other.bodies(Type.SEND)) == 1
            assert len(broker.bodies(Type.LOOKUP)) == 1

    asyncio.run(body())


def test_a_policy_violation_fails_that_message_only() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            confirm = broker.on[Type.SEND]

            def on_send(line: Line, send: Any, entry: bytes) -> None:
                if send.sequence_id == 0:
                    line.say(send_error(send.producer_id, 0, WireCode.NOT_ALLOWED, "too large"))
                else:
                    confirm(line, send, entry)

            broker.on[Type.SEND] = on_send
            producer = await client.producer("t", batching=False)
            first, second = await asyncio.gather(
                producer.send(b"a"), producer.send(b"b"), return_exceptions=True
            )
            assert isinstance(first, NotAllowedError) and first.code is WireCode.NOT_ALLOWED
            assert str(second) == "7:0:-1:-1"

    asyncio.run(body())


def test_a_storage_failure_introduces_the_producer_again_and_repeats() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            confirm = broker.on[Type.SEND]

            def on_send(line: Line, send: Any, entry: bytes) -> None:
                broker.on[Type.SEND] = confirm
                line.say(send_error(send.producer_id, 0, WireCode.PERSISTENCE, "disk"))

            broker.on[Type.SEND] = on_send
            producer = await client.producer("t", batching=False)
            assert str(await producer.send(b"a")) == "7:0:-1:-1"
            assert len(broker.bodies(Type.PRODUCER)) == 2

    asyncio.run(body())


def test_a_terminated_topic_fails_all_and_ends_the_producer() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            broker.on[Type.SEND] = lambda line, send, _: line.say(
                send_error(send.producer_id, send.sequence_id, WireCode.TOPIC_TERMINATED, "over")
            )
            producer = await client.producer("t", batching=False)
            results = await asyncio.gather(
                producer.send(b"a"), producer.send(b"b"), return_exceptions=True
            )
            assert all(isinstance(result, TopicTerminatedError) for result in results)
            with pytest.raises(TopicTerminatedError):
                await producer.send(b"c")

    asyncio.run(body())


def test_a_producer_that_was_fenced_is_finished() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            producer = await client.producer("t", batching=False)
            broker.on[Type.PRODUCER] = lambda line, body, _: line.say(
                error(body.request_id, WireCode.PRODUCER_FENCED, "another one came")
            )
            broker.on[Type.SEND] = lambda line, send, _: line.cut()
            with pytest.raises(ProducerFencedError, match="another one came"):
                await producer.send(b"a")

    asyncio.run(body())


def test_a_receipt_ahead_of_its_turn_ends_the_connection_and_nothing_is_lost() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            confirm = broker.on[Type.SEND]

            def on_send(line: Line, send: Any, entry: bytes) -> None:
                if send.sequence_id == 1:
                    broker.on[Type.SEND] = confirm
                    confirm(line, send, entry)

            broker.on[Type.SEND] = on_send
            producer = await client.producer("t", batching=False)
            ids = await asyncio.gather(producer.send(b"a"), producer.send(b"b"))
            assert [id.entry_id for id in ids] == [1, 2]
            assert len(broker.lines) == 2

    asyncio.run(body())


def test_a_send_without_receipt_fails_in_time() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            broker.on[Type.SEND] = lambda line, send, _: None
            producer = await client.producer("t", send_timeout=0.05)
            with pytest.raises(PulsarTimeoutError):
                await producer.send(b"a")

    asyncio.run(body())


def test_pending_messages_are_bounded_and_senders_wait_their_turn() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            confirm = broker.on[Type.SEND]
            held: list[tuple[Line, Any, bytes]] = []
            broker.on[Type.SEND] = lambda line, send, entry: held.append((line, send, entry))
            producer = await client.producer("t", batching=False, max_pending_messages=2)
            first = producer.send_nowait(b"a")
            second = producer.send_nowait(b"b")
            with pytest.raises(QueueFullError):
                producer.send_nowait(b"c")
            async with asyncio.TaskGroup() as tasks:
                third = tasks.create_task(producer.send(b"c"))
                await broker.until(Type.SEND, 2)
                await asyncio.sleep(0)
                assert not third.done()
                broker.on[Type.SEND] = confirm
                for each in held:
                    confirm(*each)
            assert [(await sent).entry_id for sent in (first, second, third)] == [0, 1, 2]

    asyncio.run(body())


def test_a_message_larger_than_the_broker_takes_is_refused_here() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            broker.on[Type.CONNECT] = lambda line, body, _: line.say(
                CommandConnected(server_version="s", protocol_version=21, max_message_size=100)
            )
            producer = await client.producer("t")
            with pytest.raises(InvalidMessageError, match="101 bytes"):
                await producer.send(b"x" * 101)
            assert str(await producer.send(b"x" * 100)) == "7:0:-1:-1"

    asyncio.run(body())


def test_a_large_message_goes_in_chunks_when_chunking_is_on() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            broker.on[Type.CONNECT] = lambda line, body, _: line.say(
                CommandConnected(server_version="s", protocol_version=21, max_message_size=1000)
            )
            pieces: list[bytes] = []
            uuids: set[str] = set()

            def on_send(line: Line, send: Any, entry: bytes) -> None:
                metadata, payload = decode_entry(entry)
                uuids.add(metadata.uuid)
                pieces.append(payload)
                broker.receipt(line, send)

            broker.on[Type.SEND] = on_send
            producer = await client.producer("t", chunking=True)
            data = bytes(range(256)) * 10
            id = await producer.send(data)
            assert b"".join(pieces) == data
            assert id.entry_id == len(pieces) - 1 and len(pieces) > 2
            assert len(uuids) == 1
            assert {send.sequence_id for send in broker.bodies(Type.SEND)} == {0}

    asyncio.run(body())


def test_a_refused_producer_is_a_typed_error_and_a_busy_broker_is_asked_again() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            answers = [(WireCode.SERVICE_NOT_READY, "moving"), (WireCode.PRODUCER_BUSY, "taken")]
            broker.on[Type.PRODUCER] = lambda line, body, _: line.say(
                error(body.request_id, *answers.pop(0))
            )
            with pytest.raises(ProducerBusyError, match="taken"):
                await client.producer("t")
            assert not answers

    asyncio.run(body())


def test_a_queued_exclusive_producer_waits_for_its_turn() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            waiting: list[Any] = []

            def on_producer(line: Line, body: Any, _: bytes) -> None:
                waiting.append(body)
                line.say(
                    CommandProducerSuccess(
                        request_id=body.request_id,
                        producer_name="p",
                        schema_version=b"",
                        producer_ready=False,
                    )
                )

            broker.on[Type.PRODUCER] = on_producer
            async with AsyncPulsarClient(broker.url, operation_timeout=0.1) as client:
                async with asyncio.TaskGroup() as tasks:
                    opening = tasks.create_task(
                        client.producer("t", access_mode="wait_for_exclusive").open()
                    )
                    await broker.until(Type.PRODUCER)
                    await asyncio.sleep(0.2)  # longer than the operation timeout
                    assert not opening.done()
                    broker.lines[0].say(
                        CommandProducerSuccess(
                            request_id=waiting[0].request_id,
                            producer_name="p",
                            schema_version=b"",
                            topic_epoch=4,
                        )
                    )
                producer = await opening
                assert await producer.send(b"a")

    asyncio.run(body())


def test_keys_choose_partitions_and_keyless_messages_take_turns() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            broker.on[Type.PARTITIONED_METADATA] = lambda line, body, _: line.say(
                CommandPartitionedTopicMetadataResponse(
                    request_id=body.request_id,
                    partitions=3,
                    response=CommandPartitionedTopicMetadataResponse.Success,
                )
            )
            producer = await client.producer("t", batching=False)
            assert producer.partitions == 3
            keyed = [(await producer.send(b"x", key="a")).partition for _ in range(3)]
            assert keyed == [1, 1, 1]  # "a" hashes to 97
            turns = {(await producer.send(b"x")).partition for _ in range(3)}
            assert turns == {0, 1, 2}

    asyncio.run(body())


def test_the_sequence_continues_after_the_last_id_the_broker_knows() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:

            def accept(line: Line, body: Any, _: bytes) -> None:
                line.say(
                    CommandProducerSuccess(
                        request_id=body.request_id,
                        producer_name=body.producer_name,
                        schema_version=b"",
                        last_sequence_id=41,
                    )
                )

            def refuse_once(line: Line, body: Any, _: bytes) -> None:
                broker.on[Type.PRODUCER] = accept
                line.say(error(body.request_id, WireCode.SERVICE_NOT_READY, "moving"))

            broker.on[Type.PRODUCER] = refuse_once
            producer = await client.producer("t", name="mine", batching=False)
            await producer.send(b"a")
            assert broker.bodies(Type.SEND)[0].sequence_id == 42
            assert producer.last_sequence_id == 42

    asyncio.run(body())


def test_closing_flushes_and_then_refuses() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            producer = await client.producer("t", batching=BatchingPolicy(max_delay=60))
            sent = producer.send_nowait(b"a")
            await producer.close()
            assert str(await sent) == "7:0:-1:-1"
            assert len(broker.bodies(Type.CLOSE_PRODUCER)) == 1
            with pytest.raises(AlreadyClosedError):
                await producer.send(b"b")

    asyncio.run(body())
