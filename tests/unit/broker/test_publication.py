"""The way of a message into the log, and what its producer hears when there is none."""

from __future__ import annotations

from msgspec.structs import replace

from magnetar.broker.entry import count_safely
from magnetar.errors import StorageFailed
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.log import Log
from magnetar.model.name import parse_topic
from magnetar.model.policy import Policies
from magnetar.model.position import Term
from magnetar.wire.command import (
    BaseCommand,
    CommandCloseProducer,
    MessageIdData,
    MessageMetadata,
    ServerError,
)
from magnetar.wire.entry import encode_entry
from tests.unit.broker.broker_place import NAMESPACE, Place, run, until
from tests.unit.broker.traffic import EXCLUSIVE, TOPIC, Client, settle


async def attach(place: Place) -> Client:
    client = Client(place.service)
    await client.produce(TOPIC)
    return client


def metadata(sequence: int = 0, **fields: object) -> MessageMetadata:
    return MessageMetadata(
        producer_name="p",
        sequence_id=sequence,
        publish_time=1,
        **fields,  # type: ignore[arg-type]
    )


async def refusal(client: Client, count: int = 1) -> int:
    await until(lambda: client.count(BaseCommand.SEND_ERROR) == count)
    code: int = client.received(BaseCommand.SEND_ERROR)[-1].send_error.error
    return code


# ---------------------------------------------------------------------- refused for good


def test_a_message_that_was_damaged_on_its_way_is_refused_and_its_producer_stays() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        entry = bytearray(encode_entry(metadata(), b"payload"))
        entry[-1] ^= 1
        client.send_bytes(bytes(entry), sequence=3)
        assert await refusal(client) == ServerError.ChecksumError
        assert client.received(BaseCommand.SEND_ERROR)[0].send_error.sequence_id == 3
        await client.publish("fine")

    run(body)


def test_a_marker_is_no_message_and_is_refused() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        client.send_entry(metadata(marker_type=1), b"", marker=True)
        assert await refusal(client) == ServerError.NotAllowedError
        await client.publish("fine")

    run(body)


def test_a_message_over_the_limit_of_the_topic_is_refused() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await place.service.policies.update(
            parse_topic(TOPIC), lambda each: replace(each, maxMessageSize=100)
        )
        await settle()
        client.send_entry(metadata(), b"x" * 200)
        assert await refusal(client) == ServerError.NotAllowedError
        await client.publish("fine")

    run(body)


def test_a_topic_that_wants_encryption_takes_nothing_else() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        await client.produce(TOPIC, encrypted=True)

        def change(before: Policies) -> Policies:
            return replace(before, encryption_required=True)

        await place.service.resources.namespaces.update(NAMESPACE, change)
        await settle()
        client.send_entry(metadata(), b"open")
        assert await refusal(client) == ServerError.NotAllowedError
        sealed = metadata()
        sealed.encryption_keys.add(key="k", value=b"v")
        client.send_entry(sealed, b"sealed")
        await until(lambda: client.count(BaseCommand.SEND_RECEIPT) == 1)
        refused = await client.produce(TOPIC, producer_id=2)
        assert refused.error.error == ServerError.NotAllowedError

    run(body)


def test_message_ids_and_transactions_without_a_coordinator_are_not_taken() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        client.send_entry(metadata(), b"x", message_id=MessageIdData(ledgerId=1, entryId=1))
        assert await refusal(client, 1) == ServerError.NotAllowedError
        client.send_entry(metadata(), b"x", txnid_least_bits=1, txnid_most_bits=1)
        assert await refusal(client, 2) == ServerError.NotAllowedError

    run(body)


def test_a_terminated_topic_refuses_what_is_still_sent_to_it() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await client.publish("last")
        topic = await place.topic(TOPIC)
        await topic.termination.run()
        await until(lambda: client.count(BaseCommand.CLOSE_PRODUCER) == 1)
        client.send_entry(metadata(), b"late")  # on its way before the client heard
        await settle()
        assert not client.is_cut_off and topic.log.sequence.total_entries == 1

    run(body)


def test_what_comes_while_messages_wait_for_the_disk_goes_with_them() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await client.produce(TOPIC, producer_id=2)
        topic = await place.topic(TOPIC)
        await client.publish("0")
        appends = place.ledgers.appends
        for sequence in range(1, 4):
            client.send_entry(metadata(sequence), str(sequence).encode(), sequence=sequence)
        client.send_entry(metadata(0), b"other", producer_id=2)
        client.send_entry(metadata(4), b"4", sequence=4)  # not before what the other sent
        assert topic.log.flights.runs == 5
        await until(lambda: client.count(BaseCommand.SEND_RECEIPT) == 6)
        assert place.ledgers.appends == appends + 1
        receipts = [each.send_receipt for each in client.received(BaseCommand.SEND_RECEIPT)]
        places = {
            (each.producer_id, each.sequence_id): each.message_id.entryId for each in receipts
        }
        order = [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (1, 4)]
        assert [places[key] for key in order] == list(range(6))
        assert topic.rate_in.count == 6
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        await client.get(1, 6)
        assert client.texts(1) == ["0", "1", "2", "3", "other", "4"]

    run(body)


# ---------------------------------------------------------------------- writes that fail


def test_after_a_failed_write_the_producer_begins_again_from_there() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await client.publish("0", sequence=0)
        place.ledgers.fail_next(StorageFailed("no space"))
        for sequence in range(1, 6):
            client.send_entry(metadata(sequence), str(sequence).encode(), sequence=sequence)
        await until(lambda: client.count(BaseCommand.CLOSE_PRODUCER) == 1)
        client.send_entry(metadata(6), b"6", sequence=6)
        await settle()
        refused = [each.send_error for each in client.received(BaseCommand.SEND_ERROR)]
        assert [each.sequence_id for each in refused] == [1, 2, 3, 4, 5]
        assert {each.error for each in refused} == {ServerError.PersistenceError}
        assert client.count(BaseCommand.SEND_RECEIPT) == 1

        await client.produce(TOPIC, epoch=1)
        for sequence in range(1, 7):
            await client.publish(str(sequence), sequence=sequence)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        await client.get(1, 7)
        assert client.texts(1) == [str(sequence) for sequence in range(7)]

    run(body)


def test_a_producer_is_closed_after_everything_it_sent_is_answered() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        for sequence in range(3):
            client.send_entry(metadata(sequence), b"x", sequence=sequence)
        client.say(CommandCloseProducer(producer_id=1, request_id=99))
        await until(lambda: client.count(BaseCommand.SUCCESS) == 1)
        kinds = [command.type for command in client._wire.received[-4:]]
        assert kinds == [BaseCommand.SEND_RECEIPT] * 3 + [BaseCommand.SUCCESS]
        assert len((await place.topic(TOPIC)).producers) == 0

    run(body)


def test_a_producer_whose_connection_is_lost_with_writes_under_way_is_gone() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        client.send_entry(metadata(), b"x")
        client.leave()
        topic = await place.topic(TOPIC)
        assert len(topic.producers) == 0
        await until(lambda: topic.log.sequence.total_entries == 1)

    run(body)


def test_messages_for_a_producer_nobody_knows_end_the_connection() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        client.send_entry(metadata(), b"x", producer_id=7)
        assert client.is_cut_off

    run(body)


def test_a_topic_that_was_taken_over_sends_its_clients_to_look_for_it() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await client.publish("before")
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        topic = await place.topic(TOPIC)
        other = Log(
            topic.name.full,
            place.ledgers,
            await place.service.tree.records(topic.name),
            topic.log.policy,
            clock=place.clock,
            term=Term(2),
            count_messages=count_safely,
            cache=EntryCache(1 << 20),
        )
        await other.open()
        client.send_entry(metadata(), b"after")
        await until(lambda: client.count(BaseCommand.CLOSE_CONSUMER) == 1)
        await until(lambda: client.count(BaseCommand.CLOSE_PRODUCER) == 1)
        assert topic.closed and client.count(BaseCommand.SEND_RECEIPT) == 1

    run(body)
