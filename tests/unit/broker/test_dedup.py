"""Deduplication: what is accepted, what is a duplicate, and what nobody knows yet."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from magnetar.broker.dedup import Deduplicator, Verdict
from magnetar.broker.persistent import PersistentTopic
from magnetar.errors import StorageFailed
from magnetar.model.policy import Policies
from magnetar.model.subscription import DEDUP_CURSOR
from magnetar.wire.command import BaseCommand, CommandSend, MessageMetadata, ServerError
from magnetar.wire.entry import encode_entry
from magnetar.wire.run import SendRun
from magnetar.wire.stored import ask_last_stored
from tests.unit.broker.broker_place import NAMESPACE, Place, run, until
from tests.unit.broker.traffic import EXCLUSIVE, TOPIC, Client, settle

ON = {"brokerDeduplicationEnabled": True}
NOWHERE = (2**64 - 1, 2**64 - 1)


async def attach(place: Place, name: str = "p") -> Client:
    client = Client(place.service)
    await client.produce(TOPIC, producer_name=name)
    return client


async def dedup_of(place: Place) -> tuple[PersistentTopic, Deduplicator]:
    topic = await place.topic(TOPIC)
    assert topic.dedup is not None
    return topic, topic.dedup


def send_run(*sequences: int, highest: int = 0) -> SendRun:
    made = SendRun(1)
    for sequence in sequences:
        made.add(sequence, highest, 1, b"")
    return made


def test_sequence_ids_are_signed_as_in_java() -> None:
    """One id that reads as 2^64 - 1 must not make all that follows a duplicate."""

    async def body(place: Place) -> None:
        client = await attach(place)
        await client.publish("a", sequence=2**64 - 1)
        _, dedup = await dedup_of(place)
        assert dedup.last_sequence("p") == -1
        assert dedup.judge("p", send_run(0)) == [Verdict.ACCEPT]
        assert dedup.judge("q", send_run(2**64 - 3, 2**64 - 2)) == [Verdict.ACCEPT] * 2

    run(body, **ON)


def chunk_entry(number: int | None) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=4, publish_time=1)
    if number is not None:
        metadata.chunk_id, metadata.num_chunks_from_msg = number, 2
    return encode_entry(metadata, b"")


async def last_sequence(place: Place, name: str = "p") -> int:
    client = Client(place.service)
    answer = await client.produce(TOPIC, producer_name=name)
    await client.close_producer()
    last: int = answer.producer_success.last_sequence_id
    return last


async def set_dedup(place: Place, *, enabled: bool) -> None:
    def change(before: Policies) -> Policies:
        return replace(before, deduplicationEnabled=enabled)

    await place.service.resources.namespaces.update(NAMESPACE, change)


# ---------------------------------------------------------------------- verdicts


def test_a_message_sent_again_is_answered_but_not_stored() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        first = await client.publish("a", sequence=5)
        assert first != NOWHERE
        assert await client.publish("a", sequence=5) == NOWHERE
        assert await client.publish("older", sequence=3) == NOWHERE
        assert await client.publish("b", sequence=6) != NOWHERE
        assert (await place.topic(TOPIC)).log.sequence.total_entries == 2

    run(body, **ON)


def test_a_batch_counts_by_its_highest_id() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        metadata = MessageMetadata(
            producer_name="p", sequence_id=10, highest_sequence_id=14, publish_time=1
        )
        client.send_entry(metadata, b"x", sequence=10, highest_sequence_id=14)
        await until(lambda: client.count(BaseCommand.SEND_RECEIPT) == 1)
        assert await client.publish("inside", sequence=14) == NOWHERE
        assert await client.publish("after", sequence=15) != NOWHERE

    run(body, **ON)


def test_a_message_that_may_be_on_its_way_to_the_disk_is_neither() -> None:
    async def body(place: Place) -> None:
        await attach(place)
        _, dedup = await dedup_of(place)
        assert dedup.judge("p", send_run(1, 2)) == [Verdict.ACCEPT, Verdict.ACCEPT]
        assert dedup.judge("p", send_run(2, 3)) == [Verdict.UNKNOWN, Verdict.ACCEPT]
        dedup.on_persisted(
            "p", send_run(1, 2), (await place.topic(TOPIC)).log.sequence.last_position
        )
        assert dedup.judge("p", send_run(2, 3)) == [Verdict.DUPLICATE, Verdict.UNKNOWN]

    run(body, **ON)


def test_answers_keep_the_order_of_the_messages_whatever_their_verdicts() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        for sequence in (0, 1, 1, 2, 2):
            metadata = MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=1)
            client.send_entry(metadata, b"x", sequence=sequence)
        await until(
            lambda: (
                client.count(BaseCommand.SEND_RECEIPT) + client.count(BaseCommand.SEND_ERROR) == 5
            )
        )
        answers = [
            (command.type, command.send_receipt.sequence_id or command.send_error.sequence_id)
            for command in client._wire.received
            if command.type in (BaseCommand.SEND_RECEIPT, BaseCommand.SEND_ERROR)
        ]
        receipt, error = BaseCommand.SEND_RECEIPT, BaseCommand.SEND_ERROR
        assert answers == [(receipt, 0), (receipt, 1), (error, 1), (receipt, 2), (error, 2)]
        refusals = {each.send_error.error for each in client.received(error)}
        assert refusals == {ServerError.PersistenceError}

    run(body, **ON)


def test_names_are_counted_apart() -> None:
    async def body(place: Place) -> None:
        one, two = await attach(place, "p"), await attach(place, "q")
        await one.publish("a", sequence=7)
        assert await two.publish("b", sequence=7) != NOWHERE

    run(body, **ON)


def test_only_the_last_chunk_of_a_message_counts_and_a_marker_never() -> None:
    async def body(place: Place) -> None:
        await attach(place)
        _, dedup = await dedup_of(place)
        topic = await place.topic(TOPIC)

        def special(sequence: int, **fields: Any) -> SendRun:
            made = SendRun(1)
            made.add(sequence, 0, 1, chunk_entry(fields.pop("chunk", None)))
            made.command = CommandSend(producer_id=1, sequence_id=sequence, **fields)
            return made

        first, last = special(4, is_chunk=True, chunk=0), special(4, is_chunk=True, chunk=1)
        for _ in range(2):
            assert dedup.judge("p", first) == [Verdict.ACCEPT]
            dedup.on_persisted("p", first, topic.log.sequence.last_position)
        assert dedup.last_sequence("p") == -1
        assert dedup.judge("p", last) == [Verdict.ACCEPT]
        dedup.on_persisted("p", last, topic.log.sequence.last_position)
        assert dedup.last_sequence("p") == 4
        assert dedup.judge("p", last) == [Verdict.DUPLICATE]
        marker = special(99, marker=True)
        assert dedup.judge("p", marker) == [Verdict.ACCEPT]
        dedup.on_persisted("p", marker, topic.log.sequence.last_position)
        assert dedup.last_sequence("p") == 4

    run(body, **ON)


# ---------------------------------------------------------------------- failures


def test_after_a_failed_write_nothing_that_followed_is_stored_before_it() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await client.publish("0", sequence=0)
        place.ledgers.fail_next(StorageFailed("no space"))
        for sequence in (1, 2, 3):
            metadata = MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=1)
            client.send_entry(metadata, b"x", sequence=sequence)
            await settle()
        assert client.count(BaseCommand.SEND_RECEIPT) == 1
        assert client.count(BaseCommand.SEND_ERROR) >= 1
        assert client.count(BaseCommand.CLOSE_PRODUCER) == 1
        assert not client.is_cut_off
        again = await client.produce(TOPIC, producer_name="p", epoch=1)
        assert again.producer_success.last_sequence_id == 0
        stored = [await client.publish(str(s), sequence=s) for s in (1, 2, 3)]
        assert NOWHERE not in stored and stored == sorted(stored)

    run(body, **ON)


def test_a_failed_write_of_one_name_does_not_open_the_door_for_repeats_of_another() -> None:
    async def body(place: Place) -> None:
        await attach(place)
        topic, dedup = await dedup_of(place)
        dedup.judge("q", send_run(5))
        dedup.judge("p", send_run(5))
        dedup.on_failed("p")
        assert dedup.judge("q", send_run(5)) == [Verdict.UNKNOWN]
        assert dedup.judge("p", send_run(5)) == [Verdict.ACCEPT]
        dedup.on_persisted("q", send_run(5), topic.log.sequence.last_position)
        dedup.on_failed("q")
        assert dedup.judge("q", send_run(5)) == [Verdict.DUPLICATE]

    run(body, **ON)


# ---------------------------------------------------------------------- keeping


def test_what_was_accepted_is_known_after_a_reload() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        for sequence in range(5):
            await client.publish("x", sequence=sequence)
        topic = await place.topic(TOPIC)
        await place.service.catalog.unload_topic(topic.name)
        assert await last_sequence(place) == 4
        assert await last_sequence(place, "unknown") == -1

    run(body, **ON)


def test_a_snapshot_lets_old_ledgers_go_and_a_replay_finds_the_rest() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        topic = await place.topic(TOPIC)
        for sequence in range(7):
            await client.publish("x", sequence=sequence)
        cursor = topic.log.cursors[DEDUP_CURSOR]
        await until(lambda: cursor.backlog < 7)
        assert cursor.properties["p"] >= 6 - cursor.backlog
        reopened = await Deduplicator.open(topic)
        assert reopened.last_sequence("p") == 6

    run(body, **ON, brokerDeduplicationEntriesInterval=3)


def test_names_that_fell_silent_are_dropped_in_time() -> None:
    async def body(place: Place) -> None:
        old = await attach(place, "old")
        await old.publish("x", sequence=1)
        await old.close_producer()
        client = await attach(place)
        place.clock.pass_s(7 * 3600)
        for sequence in range(4):
            await client.publish("x", sequence=sequence)
        topic, dedup = await dedup_of(place)
        await until(lambda: topic.log.cursors[DEDUP_CURSOR].properties == {"p": 2})
        assert dedup.last_sequence("old") == -1

    run(body, **ON, brokerDeduplicationEntriesInterval=4)


def test_it_can_be_switched_on_and_off_while_the_topic_is_in_use() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await client.publish("x", sequence=3)
        topic = await place.topic(TOPIC)
        assert topic.dedup is None
        await set_dedup(place, enabled=True)
        await set_dedup(place, enabled=False)
        await set_dedup(place, enabled=True)
        await until(lambda: topic.dedup is not None)
        assert await client.publish("x", sequence=3) == NOWHERE
        await set_dedup(place, enabled=False)
        await until(lambda: DEDUP_CURSOR not in topic.log.cursors)
        assert await client.publish("x", sequence=3) != NOWHERE
        refused = await client.subscribe(TOPIC, DEDUP_CURSOR, EXCLUSIVE, consumer_id=1)
        assert refused.error.error == ServerError.ProducerBusy

    run(body)


def test_a_sealed_topic_tells_what_it_stored_of_a_producer_and_admits_none() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        for sequence in range(3):
            await client.publish("a", sequence=sequence)
        topic, _ = await dedup_of(place)
        open_still = await client.ask(ask_last_stored(TOPIC, 2, "p"), BaseCommand.PRODUCER_SUCCESS)
        assert open_still.error.error == ServerError.ServiceNotReady
        await topic.termination.run()
        for name, last in (("p", 2), ("q", -1)):
            question = ask_last_stored(TOPIC, 3, name)
            answer = await client.ask(question, BaseCommand.PRODUCER_SUCCESS)
            assert answer.producer_success.last_sequence_id == last
        assert not list(topic.producers)

    run(body, **ON)


def test_a_sealed_topic_without_deduplication_refuses_to_tell_as_it_refuses_producers() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await (await place.topic(TOPIC)).termination.run()
        answer = await client.ask(ask_last_stored(TOPIC, 2, "p"), BaseCommand.PRODUCER_SUCCESS)
        assert answer.error.error == ServerError.TopicTerminatedError

    run(body)
