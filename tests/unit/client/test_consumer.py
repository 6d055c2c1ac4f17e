from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import (
    AlreadyClosedError,
    ConfigurationError,
    ConsumerBusyError,
    NotFoundError,
    PulsarError,
)
from magnetar.client.message_id import EARLIEST_ID, MessageId
from magnetar.client.policy import BackoffPolicy, ConnectionPolicy
from magnetar.errors import WireCode
from magnetar.wire.batch import encode_batch
from magnetar.wire.command import (
    CommandAck,
    CommandAckResponse,
    CommandActiveConsumerChange,
    CommandCloseConsumer,
    CommandGetLastMessageIdResponse,
    CommandReachedEndOfTopic,
    CommandSubscribe,
    MessageIdData,
    MessageMetadata,
    SingleMessageMetadata,
    error,
    success,
)
from magnetar.wire.entry import encode_entry
from tests.unit.client.peer import Line, ScriptedBroker, Type, scripted_broker

QUICK = ConnectionPolicy(backoff=BackoffPolicy(0.001, 0.01))


def connect(broker: ScriptedBroker) -> AsyncPulsarClient:
    return AsyncPulsarClient(broker.url, operation_timeout=5, connection=QUICK)


def entry_of(*payloads: bytes, batch: bool = False) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    if not batch:
        return encode_entry(metadata, payloads[0])
    metadata.num_messages_in_batch = len(payloads)
    singles = [(SingleMessageMetadata(), payload) for payload in payloads]
    return encode_entry(metadata, encode_batch(singles))


def feed(broker: ScriptedBroker, *entries: bytes) -> None:
    """Deliver these entries, as 1:0, 1:1 and so on, on every first FLOW."""
    told: set[int] = set()

    def on_flow(line: Line, flow: Any, _: bytes) -> None:
        if id(line) not in told:
            told.add(id(line))
            for index, entry in enumerate(entries):
                line.deliver(flow.consumer_id, 1, index, entry)

    broker.on[Type.FLOW] = on_flow


def acknowledged(broker: ScriptedBroker) -> list[tuple[str, int, list[int]]]:
    return [
        (CommandAck.AckType.Name(ack.ack_type), id.entryId, list(id.ack_set))
        for ack in broker.bodies(Type.ACK)
        for id in ack.message_id
    ]


def test_messages_come_in_order_and_permits_are_given_back_by_halves() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            feed(broker, *(entry_of(b"%d" % n) for n in range(4)))
            consumer = await client.consumer("t", "s", receiver_queue_size=4)
            got = [await consumer.receive(5) for _ in range(4)]
            assert [message.data for message in got if message] == [b"0", b"1", b"2", b"3"]
            flows = await broker.until(Type.FLOW, 3)
            assert [flow.messagePermits for flow in flows] == [4, 2, 2]
            assert await consumer.receive(0.01) is None

    asyncio.run(body())


def test_a_subscription_says_what_it_wants() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            await client.consumer(
                "t", "s", type="key_shared", initial_position="earliest", name="me", priority=2
            )
            [subscribe] = broker.bodies(Type.SUBSCRIBE)
            assert subscribe.topic == "persistent://public/default/t"
            assert subscribe.subType == CommandSubscribe.Key_Shared
            assert subscribe.initialPosition == CommandSubscribe.Earliest
            assert (subscribe.consumer_name, subscribe.priority_level) == ("me", 2)
            assert subscribe.durable

    asyncio.run(body())


def test_words_that_name_nothing_are_refused_with_what_there_is() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            with pytest.raises(ConfigurationError, match="exclusive, shared"):
                await client.consumer("t", "s", type="shred")
            with pytest.raises(ConfigurationError, match="lz4"):
                await client.producer("t", compression="lzma")

    asyncio.run(body())


def test_acknowledgements_travel_together() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            feed(broker, *(entry_of(b"x") for _ in range(3)))
            consumer = await client.consumer("t", "s", ack_group_time=0.01)
            for _ in range(3):
                message = await consumer.receive(5)
                assert message is not None
                await consumer.acknowledge(message)
            [ack] = await broker.until(Type.ACK)
            assert [id.entryId for id in ack.message_id] == [0, 1, 2]

    asyncio.run(body())


def test_the_messages_of_a_batch_are_acknowledged_one_by_one() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            feed(broker, entry_of(b"a", b"b", b"c", batch=True))
            consumer = await client.consumer("t", "s", type="shared", ack_group_time=0)
            got = await consumer.receive_many(3, 5)
            assert [str(message.id) for message in got] == ["1:0:-1:0", "1:0:-1:1", "1:0:-1:2"]
            await consumer.acknowledge(got[0])
            await consumer.acknowledge(got[2])
            await consumer.acknowledge(got[1])
            await broker.until(Type.ACK, 3)
            assert acknowledged(broker) == [
                ("Individual", 0, [0b110]),
                ("Individual", 0, [0b010]),
                ("Individual", 0, []),
            ]

    asyncio.run(body())


def test_a_receipt_of_an_acknowledgement_is_awaited_and_its_error_raised() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            feed(broker, entry_of(b"a"), entry_of(b"b"))
            broker.on[Type.ACK] = lambda line, ack, _: line.say(
                CommandAckResponse(
                    consumer_id=ack.consumer_id,
                    request_id=ack.request_id,
                    **(
                        {"error": WireCode.CONSUMER_NOT_FOUND, "message": "gone"}
                        if ack.message_id[0].entryId
                        else {}
                    ),
                )
            )
            consumer = await client.consumer("t", "s", ack_receipts=True)
            first, second = await consumer.receive(5), await consumer.receive(5)
            assert first is not None and second is not None
            await consumer.acknowledge(first)
            with pytest.raises(NotFoundError, match="gone"):
                await consumer.acknowledge(second)

    asyncio.run(body())


def test_an_acknowledgement_that_another_caller_sent_waits_for_the_receipt_too() -> None:
    async def body() -> None:
        asked: list[tuple[Line, CommandAck]] = []
        async with scripted_broker() as broker, connect(broker) as client:
            feed(broker, entry_of(b"a"), entry_of(b"b"))
            broker.on[Type.ACK] = lambda line, ack, _: asked.append((line, ack))
            consumer = await client.consumer("t", "s", ack_receipts=True)
            got = await consumer.receive_many(2, 5)
            waiting = [asyncio.ensure_future(consumer.acknowledge(each)) for each in got]
            await broker.until(Type.ACK)
            waiting[0].cancel()
            await asyncio.sleep(0.05)
            assert not waiting[1].done()
            for line, ack in asked:
                line.say(CommandAckResponse(consumer_id=ack.consumer_id, request_id=ack.request_id))
            await waiting[1]

    asyncio.run(body())


def test_an_acknowledgement_made_without_a_connection_waits_for_its_receipt() -> None:
    """What is sent as soon as the consumer is attached again counts only once it is stored."""

    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            feed(broker, entry_of(b"a"))
            broker.on[Type.ACK] = lambda line, ack, _: (
                line.say(
                    CommandAckResponse(
                        consumer_id=ack.consumer_id,
                        request_id=ack.request_id,
                        error=WireCode.PERSISTENCE,
                        message="full",
                    )
                )
                if ack.HasField("request_id")
                else None
            )
            consumer = await client.consumer("t", "s", ack_receipts=True)
            [message] = await consumer.receive_many(1, 5)
            asked: list[tuple[Line, CommandSubscribe]] = []
            broker.on[Type.SUBSCRIBE] = lambda line, body, _: asked.append((line, body))
            for line in broker.lines:
                line.cut()
            await broker.until(Type.SUBSCRIBE, 2)
            waiting = asyncio.ensure_future(consumer.acknowledge(message))
            await asyncio.sleep(0)
            [(line, again)] = asked
            line.say(success(again.request_id))
            with pytest.raises(PulsarError, match="full"):
                await waiting

    asyncio.run(body())


def test_a_negative_acknowledgement_asks_for_the_entry_after_its_delay() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            feed(broker, entry_of(b"a", b"b", batch=True), entry_of(b"c"))
            consumer = await client.consumer("t", "s", type="shared", nack_delay=60)
            got = await consumer.receive_many(2, 5)
            consumer.negative_acknowledge(got[0], delay=0.01)
            consumer.negative_acknowledge(got[1], delay=0.01)
            [redeliver] = await broker.until(Type.REDELIVER_UNACKNOWLEDGED_MESSAGES)
            assert [id.entryId for id in redeliver.message_ids] == [0]

    asyncio.run(body())


def test_starting_over_on_an_exclusive_subscription_drops_what_waits() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            feed(broker, *(entry_of(b"%d" % n) for n in range(4)))
            consumer = await client.consumer("t", "s", receiver_queue_size=4)
            assert await consumer.receive(5)
            consumer.redeliver_unacknowledged()
            [redeliver] = await broker.until(Type.REDELIVER_UNACKNOWLEDGED_MESSAGES)
            assert redeliver.consumer_epoch == 1
            assert await consumer.receive(0.01) is None
            flows = await broker.until(Type.FLOW, 2)
            assert sum(flow.messagePermits for flow in flows) == 8

    asyncio.run(body())


def test_a_consumer_comes_back_and_forgets_what_it_had_not_handed_out() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            feed(broker, entry_of(b"a"), entry_of(b"b"))
            consumer = await client.consumer("t", "s")
            assert (await consumer.receive(5)) is not None
            broker.lines[0].cut()
            await broker.until(Type.SUBSCRIBE, 2)
            again = [await consumer.receive(5) for _ in range(2)]
            assert [message.data for message in again if message] == [b"a", b"b"]
            assert await consumer.receive(0.01) is None

    asyncio.run(body())


def test_acknowledgements_made_while_away_are_sent_before_the_first_permit() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            feed(broker, entry_of(b"a"))
            consumer = await client.consumer("t", "s", ack_group_time=60)
            message = await consumer.receive(5)
            assert message is not None
            await consumer.acknowledge(message)
            broker.lines[0].cut()
            await broker.until(Type.FLOW, 2)
            kinds = [command.type for command in broker.heard]
            last_flow = len(kinds) - 1 - kinds[::-1].index(Type.FLOW)
            assert Type.ACK in kinds[:last_flow]

    asyncio.run(body())


def test_a_reader_resumes_after_the_last_message_it_handed_out() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            feed(broker, entry_of(b"a", b"b", batch=True), entry_of(b"c"))
            reader = await client.reader("t", EARLIEST_ID)
            first = await reader.read(5)
            assert first is not None and first.data == b"a"
            broker.lines[0].cut()
            subscribes = await broker.until(Type.SUBSCRIBE, 2)
            assert not any(subscribe.durable for subscribe in subscribes)
            start = subscribes[1].start_message_id
            assert (start.ledgerId, start.entryId, start.batch_index) == (1, 0, 0)
            rest = [await reader.read(5) for _ in range(2)]
            assert [message.data for message in rest if message] == [b"b", b"c"]

    asyncio.run(body())


def test_a_reader_at_the_end_remembers_where_the_end_was() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            broker.on[Type.GET_LAST_MESSAGE_ID] = lambda line, body, _: line.say(
                CommandGetLastMessageIdResponse(
                    request_id=body.request_id,
                    last_message_id=MessageIdData(ledgerId=3, entryId=9),
                    consumer_mark_delete_position=MessageIdData(ledgerId=3, entryId=9),
                )
            )
            reader = await client.reader("t")
            assert not await reader.has_message_available()
            broker.lines[0].cut()
            subscribes = await broker.until(Type.SUBSCRIBE, 2)
            assert subscribes[0].start_message_id.ledgerId == 2**63 - 1
            assert subscribes[1].start_message_id.entryId == 9

    asyncio.run(body())


def test_a_seek_waits_until_delivery_starts_at_the_new_place() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:

            def on_seek(line: Line, seek: Any, _: bytes) -> None:
                line.say(CommandCloseConsumer(consumer_id=seek.consumer_id, request_id=2**64 - 1))
                line.say(success(seek.request_id))

            broker.on[Type.SEEK] = on_seek
            feed(broker, entry_of(b"old"))
            consumer = await client.consumer("t", "s")
            await consumer.seek(MessageId(5, 2))
            assert len(broker.bodies(Type.SUBSCRIBE)) == 2
            [seek] = broker.bodies(Type.SEEK)
            assert (seek.message_id.ledgerId, seek.message_id.entryId) == (5, 2)
            assert await consumer.receive(0.01) is None

    asyncio.run(body())


def test_a_corrupt_entry_is_acknowledged_with_its_fault_and_skipped() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            good = entry_of(b"good")
            bad = good[:-1] + b"!"
            feed(broker, bad, good)
            consumer = await client.consumer("t", "s")
            message = await consumer.receive(5)
            assert message is not None and message.data == b"good"
            [ack] = await broker.until(Type.ACK)
            assert ack.validation_error == CommandAck.ChecksumMismatch
            assert ack.message_id[0].entryId == 0

    asyncio.run(body())


def test_a_refused_subscription_is_a_typed_error() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            broker.on[Type.SUBSCRIBE] = lambda line, body, _: line.say(
                error(body.request_id, WireCode.CONSUMER_BUSY, "somebody is here")
            )
            with pytest.raises(ConsumerBusyError, match="somebody is here"):
                await client.consumer("t", "s")

    asyncio.run(body())


def test_a_topic_that_is_gone_ends_the_consumer() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            consumer = await client.consumer("t", "s")
            broker.on[Type.SUBSCRIBE] = lambda line, body, _: line.say(
                error(body.request_id, WireCode.TOPIC_NOT_FOUND, "deleted")
            )
            broker.lines[0].cut()
            with pytest.raises(NotFoundError, match="deleted"):
                await consumer.receive(5)

    asyncio.run(body())


def test_the_end_of_a_terminated_topic_is_seen() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            broker.on[Type.FLOW] = lambda line, flow, _: line.say(
                CommandReachedEndOfTopic(consumer_id=flow.consumer_id)
            )
            consumer = await client.consumer("t", "s")
            async with asyncio.timeout(5):
                while not consumer.has_reached_end:
                    await asyncio.sleep(0.001)

    asyncio.run(body())


def test_a_failover_consumer_knows_whether_it_is_its_turn() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            consumer = await client.consumer("t", "s", type="failover")
            assert not consumer.is_active
            consumer_id = broker.bodies(Type.SUBSCRIBE)[0].consumer_id
            change = CommandActiveConsumerChange(consumer_id=consumer_id, is_active=True)
            broker.lines[0].say(change)
            async with asyncio.timeout(5):
                while not consumer.is_active:
                    await asyncio.sleep(0.001)

    asyncio.run(body())


def test_iteration_ends_with_the_consumer() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            feed(broker, entry_of(b"a"), entry_of(b"b"))
            consumer = await client.consumer("t", "s")
            seen = []
            async for message in consumer:
                seen.append(message.data)
                if len(seen) == 2:
                    await consumer.close()
            assert seen == [b"a", b"b"]
            assert len(broker.bodies(Type.CLOSE_CONSUMER)) == 1
            with pytest.raises(AlreadyClosedError):
                await consumer.receive()

    asyncio.run(body())


def test_a_shared_subscription_refuses_cumulative_acknowledgement() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            feed(broker, entry_of(b"a"))
            consumer = await client.consumer("t", "s", type="shared")
            message = await consumer.receive(5)
            assert message is not None
            with pytest.raises(ConfigurationError):
                await consumer.acknowledge_cumulative(message)

    asyncio.run(body())


def test_an_id_without_a_partition_does_not_move_several_topics() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            consumer = await client.consumer(["a", "b"], "s")
            with pytest.raises(ConfigurationError, match="which topic"):
                await consumer.seek(MessageId(1, 1))
            await consumer.seek(EARLIEST_ID)
            assert len(broker.bodies(Type.SEEK)) == 2

    asyncio.run(body())


def test_several_topics_are_opened_at_the_same_time() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            held: list[tuple[Line, int]] = []

            def hold(line: Line, subscribe: Any, _: bytes) -> None:
                held.append((line, subscribe.request_id))
                if len(held) == 3:  # none is answered before all have asked
                    for asker, request_id in held:
                        asker.say(success(request_id))

            broker.on[Type.SUBSCRIBE] = hold
            consumer = await client.consumer(["a", "b", "c"], "s")
            assert len(consumer.topics) == 3

    asyncio.run(body())


def test_closing_the_client_closes_what_it_made_and_forgets_what_was_closed() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            async with connect(broker) as client:
                first = await client.consumer("a", "s")
                await client.consumer("b", "s")
                await client.producer("c")
                await first.close()
            assert len(broker.bodies(Type.CLOSE_CONSUMER)) == 2
            assert len(broker.bodies(Type.CLOSE_PRODUCER)) == 1

    asyncio.run(body())
