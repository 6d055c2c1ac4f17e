"""Which producers a topic lets in, and what becomes of those that wait."""

from __future__ import annotations

import pytest

from magnetar.errors import QuotaHold
from magnetar.wire.command import (
    BaseCommand,
    CommandCloseProducer,
    CommandProducer,
    MessageMetadata,
    ProducerAccessMode,
    ServerError,
)
from tests.unit.broker.broker_place import Place, run, run_virtually, until
from tests.unit.broker.traffic import TOPIC, Client, settle

DEAF = {"connectionLivenessCheckTimeoutMillis": 1}
MODE = ProducerAccessMode


async def attach(client: Client, mode: int, *, producer_id: int = 1, **more: object) -> BaseCommand:
    return await client.produce(
        TOPIC,
        producer_id=producer_id,
        producer_access_mode=mode,
        **more,
    )


def is_let_in(answer: BaseCommand) -> bool:
    return answer.type == BaseCommand.PRODUCER_SUCCESS and answer.producer_success.producer_ready


async def wait_in_line(client: Client, *, producer_id: int = 1, **more: object) -> None:
    answer = await attach(client, MODE.WaitForExclusive, producer_id=producer_id, **more)
    assert answer.type == BaseCommand.PRODUCER_SUCCESS
    assert not answer.producer_success.producer_ready


def welcomes(client: Client) -> int:
    return sum(is_let_in(each) for each in client.received(BaseCommand.PRODUCER_SUCCESS))


# ---------------------------------------------------------------------- who is in the way


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (MODE.Exclusive, MODE.Shared, ServerError.ProducerBusy),
        (MODE.Exclusive, MODE.Exclusive, ServerError.ProducerFenced),
        (MODE.Shared, MODE.Exclusive, ServerError.ProducerFenced),
    ],
)
def test_a_mode_keeps_others_out(first: int, second: int, code: int) -> None:
    async def body(place: Place) -> None:
        one, two = Client(place.service), Client(place.service)
        assert is_let_in(await attach(one, first))
        refused = await attach(two, second)
        assert refused.error.error == code
        await one.publish("still here")

    run(body)


def test_a_name_has_one_producer() -> None:
    async def body(place: Place) -> None:
        one, two = Client(place.service), Client(place.service)
        assert is_let_in(await one.produce(TOPIC, producer_name="p"))
        assert (await two.produce(TOPIC, producer_name="p")).error.error == ServerError.ProducerBusy
        again = await one.produce(TOPIC, producer_id=2, producer_name="p")
        assert again.error.error == ServerError.ProducerBusy
        assert is_let_in(await one.produce(TOPIC, producer_name="p"))  # the same one, asked again

    run(body)


@pytest.mark.parametrize("mode", [MODE.Shared, MODE.Exclusive])
def test_a_producer_that_is_gone_without_a_word_makes_room(mode: int) -> None:
    async def body(place: Place) -> None:
        one, two = Client(place.service), Client(place.service)
        await attach(one, mode, producer_name="p")
        one.fall_silent()
        assert is_let_in(await attach(two, mode, producer_name="p"))
        assert one.is_cut_off
        assert len((await place.topic(TOPIC)).producers) == 1

    run_virtually(body, **DEAF)


def test_newcomers_that_wait_for_the_same_dead_name_do_not_both_get_it() -> None:
    async def body(place: Place) -> None:
        one, others = Client(place.service), [Client(place.service) for _ in range(2)]
        await one.produce(TOPIC, producer_name="p")
        one.fall_silent()
        for other in others:
            other.say(CommandProducer(topic=TOPIC, producer_id=1, request_id=1, producer_name="p"))
        answers = (BaseCommand.PRODUCER_SUCCESS, BaseCommand.ERROR)
        await until(lambda: all(sum(map(o.count, answers)) for o in others))
        assert sorted(map(welcomes, others)) == [0, 1]
        assert len((await place.topic(TOPIC)).producers) == 1

    run_virtually(body, **DEAF)


def test_fencing_sends_everybody_away_also_one_of_the_same_name() -> None:
    async def body(place: Place) -> None:
        one, two, three = (Client(place.service) for _ in range(3))
        await attach(one, MODE.Exclusive, producer_name="p")
        await wait_in_line(two)
        taken = await attach(three, MODE.ExclusiveWithFencing, producer_name="p")
        assert is_let_in(taken) and taken.producer_success.topic_epoch == 1
        await until(lambda: one.count(BaseCommand.CLOSE_PRODUCER) == 1)
        await until(lambda: two.count(BaseCommand.ERROR) == 1)
        (refusal,) = two.received(BaseCommand.ERROR)
        assert refusal.error.error == ServerError.ProducerFenced
        back = await attach(one, MODE.ExclusiveWithFencing, producer_name="p", topic_epoch=0)
        assert back.error.error == ServerError.ProducerFenced
        await three.publish("mine")

    run(body)


def test_the_epoch_of_a_topic_survives_a_reload() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        first = await attach(client, MODE.Exclusive)
        assert first.producer_success.topic_epoch == 0
        topic = await place.topic(TOPIC)
        await place.service.catalog.unload_topic(topic.name)
        kept = await attach(client, MODE.Exclusive, producer_id=2, topic_epoch=0)
        assert kept.producer_success.topic_epoch == 0
        await client.close_producer(2)
        fresh = await attach(client, MODE.Exclusive, producer_id=3)
        assert fresh.producer_success.topic_epoch == 1

    run(body)


# ---------------------------------------------------------------------- those that wait


def test_those_that_wait_come_in_one_after_the_other() -> None:
    async def body(place: Place) -> None:
        one, two, three = (Client(place.service) for _ in range(3))
        await attach(one, MODE.Exclusive)
        await wait_in_line(two)
        await wait_in_line(three)
        one.leave()
        await until(lambda: welcomes(two) == 1)
        assert welcomes(three) == 0
        await two.publish("mine")
        await two.close_producer()
        await until(lambda: welcomes(three) == 1)
        epochs = [
            each.producer_success.topic_epoch
            for client in (two, three)
            for each in client.received(BaseCommand.PRODUCER_SUCCESS)
            if is_let_in(each)
        ]
        assert epochs == [1, 2]

    run(body)


def test_one_that_waits_may_bear_the_name_of_the_holder() -> None:
    async def body(place: Place) -> None:
        one, two = Client(place.service), Client(place.service)
        await attach(one, MODE.WaitForExclusive, producer_name="p")
        await wait_in_line(two, producer_name="p")
        one.leave()
        await until(lambda: welcomes(two) == 1)

    run(body)


@pytest.mark.parametrize("is_closing", [True, False])
def test_one_that_leaves_while_it_waits_is_never_given_the_topic(is_closing: bool) -> None:
    async def body(place: Place) -> None:
        one, two, three = (Client(place.service) for _ in range(3))
        await attach(one, MODE.Exclusive)
        await wait_in_line(two)
        await wait_in_line(three)
        if is_closing:
            await two.close_producer()
        else:
            two.leave()
        topic = await place.topic(TOPIC)
        assert topic.producers.waiting_count == 1
        one.leave()
        await until(lambda: welcomes(three) == 1)
        assert welcomes(two) == 0

    run(body)


def test_one_that_leaves_in_the_moment_of_its_turn_does_not_keep_the_topic() -> None:
    async def body(place: Place) -> None:
        one, two, three = (Client(place.service) for _ in range(3))
        await attach(one, MODE.Exclusive)
        await wait_in_line(two)
        await wait_in_line(three)
        one.leave()  # the epoch of the next is being stored from here on
        topic = await place.topic(TOPIC)
        await until(lambda: topic.producers.waiting_count == 1)
        two.leave()
        await until(lambda: welcomes(three) == 1)
        assert len(topic.producers) == 1

    run(body)


def test_one_that_waits_may_neither_send_nor_count_as_created() -> None:
    async def body(place: Place) -> None:
        one, two = Client(place.service), Client(place.service)
        await attach(one, MODE.Exclusive)
        await wait_in_line(two)
        again = await attach(two, MODE.WaitForExclusive)
        assert again.error.error == ServerError.ServiceNotReady
        two.send_entry(MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"early")
        assert two.is_cut_off
        topic = await place.topic(TOPIC)
        assert topic.log.sequence.total_entries == 0 and topic.producers.waiting_count == 0

    run(body)


def test_those_that_wait_hear_of_the_end_of_the_topic() -> None:
    async def body(place: Place) -> None:
        for number, end in enumerate(("unload_topic", "delete_topic")):
            one, two = Client(place.service), Client(place.service)
            await attach(one, MODE.Exclusive)
            await wait_in_line(two)
            topic = await place.topic(TOPIC)
            if end == "delete_topic":
                await place.service.catalog.delete_topic(topic.name, force=True)
            else:
                await place.service.catalog.unload_topic(topic.name)
            await until(lambda two=two: two.count(BaseCommand.ERROR) == 1)  # type: ignore[misc]
            (refusal,) = two.received(BaseCommand.ERROR)
            assert refusal.error.error == ServerError.ServiceNotReady
            await until(lambda one=one: one.count(BaseCommand.CLOSE_PRODUCER) == 1)  # type: ignore[misc]
            back = await attach(two, MODE.WaitForExclusive, producer_id=10 + number)
            assert is_let_in(back)
            two.leave()

    run(body)


def test_those_that_wait_hear_of_a_quota_and_of_a_termination() -> None:
    async def body(place: Place) -> None:
        one, two = Client(place.service), Client(place.service)
        await attach(one, MODE.Exclusive)
        await wait_in_line(two)
        topic = await place.topic(TOPIC)
        topic.refuse_producers(QuotaHold("full"))
        await until(lambda: two.count(BaseCommand.ERROR) == 1)
        topic.refuse_producers(None)
        await attach(one, MODE.Exclusive, producer_id=2)
        await wait_in_line(two, producer_id=2)
        await topic.termination.run()
        await until(lambda: two.count(BaseCommand.ERROR) == 2)
        codes = [each.error.error for each in two.received(BaseCommand.ERROR)]
        assert codes == [
            ServerError.ProducerBlockedQuotaExceededError,
            ServerError.TopicTerminatedError,
        ]

    run(body)


# ---------------------------------------------------------------------- on the way in


def test_a_topic_that_closes_while_a_producer_comes_in_does_not_keep_it() -> None:
    async def body(place: Place) -> None:
        one, two = Client(place.service), Client(place.service)
        await one.produce(TOPIC, producer_name="p")
        one.fall_silent()
        two.say(CommandProducer(topic=TOPIC, producer_id=1, request_id=1, producer_name="p"))
        await until(lambda: one.count(BaseCommand.PING) == 1)
        topic = await place.topic(TOPIC)
        await place.service.catalog.unload_topic(topic.name)
        await until(lambda: two.count(BaseCommand.ERROR) == 1)
        assert len(topic.producers) == 0
        await two.produce(TOPIC, producer_name="p")
        await two.publish("here")

    run_virtually(body, connectionLivenessCheckTimeoutMillis=30)


def test_a_creation_that_was_given_up_does_not_come_back_as_the_next_one() -> None:
    async def body(place: Place) -> None:
        one, two = Client(place.service), Client(place.service)
        await one.produce(TOPIC, producer_name="p")
        one.fall_silent()
        two.say(CommandProducer(topic=TOPIC, producer_id=1, request_id=1, producer_name="p"))
        await until(lambda: one.count(BaseCommand.PING) == 1)
        two.say(CommandCloseProducer(producer_id=1, request_id=2))
        two.say(CommandProducer(topic=TOPIC, producer_id=1, request_id=3, producer_name="q"))
        await until(lambda: two.count(BaseCommand.PRODUCER_SUCCESS) == 1)
        await until(lambda: one.is_cut_off)
        await settle()  # the first creation has its way free now, and nobody wants it
        (welcome,) = two.received(BaseCommand.PRODUCER_SUCCESS)
        assert welcome.producer_success.request_id == 3
        topic = await place.topic(TOPIC)
        assert [each.name for each in topic.producers] == ["q"]
        await two.publish("here")

    run_virtually(body, connectionLivenessCheckTimeoutMillis=30)


def test_a_second_request_for_a_producer_that_is_coming_is_told_to_wait() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        for request_id in (1, 2):
            client.say(CommandProducer(topic=TOPIC, producer_id=1, request_id=request_id))
        await until(lambda: client.count(BaseCommand.PRODUCER_SUCCESS) == 1)
        (refusal,) = client.received(BaseCommand.ERROR)
        assert refusal.error.error == ServerError.ServiceNotReady
        assert refusal.error.request_id == 2

    run(body)


def test_an_id_may_be_used_again_right_after_its_producer_was_closed() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        await client.produce(TOPIC, producer_name="p")
        client.say(CommandCloseProducer(producer_id=1, request_id=8))
        client.say(CommandProducer(topic=TOPIC, producer_id=1, request_id=9, producer_name="q"))
        await until(lambda: client.count(BaseCommand.PRODUCER_SUCCESS) == 2)
        await settle()
        assert [each.name for each in (await place.topic(TOPIC)).producers] == ["q"]
        await client.publish("here")

    run(body)
