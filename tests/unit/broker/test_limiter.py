"""Rate limits: the bucket itself, and a connection that publishes too fast."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from magnetar.broker.limiter import RateLimiter
from magnetar.model.policy import Policies, PublishRate
from magnetar.wire.command import BaseCommand, MessageMetadata
from tests.unit.broker.broker_place import NAMESPACE, Place, run, until
from tests.unit.broker.traffic import TOPIC, Client, settle


def test_a_full_bucket_gives_a_period_and_no_more() -> None:
    limiter = RateLimiter(10, 0, 2.0, 0.0)
    assert limiter.available(0.0) == 10
    limiter.spend(10, 1_000_000, 0.0)
    assert limiter.available(0.0) == 0
    assert limiter.available(0.2) == 1
    assert limiter.available(2.0) == 10
    assert limiter.available(100.0) == 10


def test_what_is_overdrawn_is_paid_back_first() -> None:
    limiter = RateLimiter(10, -1, 1.0, 0.0)
    limiter.spend(25, 0, 0.0)
    assert limiter.wait_s(0.0) == 1.6
    assert limiter.available(1.5) == 0
    assert limiter.available(1.6) == 1


def test_bytes_bound_as_messages_do() -> None:
    limiter = RateLimiter(0, 100, 1.0, 0.0)
    assert limiter.available(0.0) > 1_000_000
    limiter.spend(1, 300, 0.0)
    assert limiter.available(1.9) == 0
    assert limiter.available(2.5) > 0


@given(
    st.integers(1, 50),
    st.integers(0, 5000),
    st.lists(st.tuples(st.floats(0.001, 3), st.integers(1, 40), st.integers(1, 900)), max_size=30),
)
def test_over_time_no_more_goes_out_than_a_bucket_and_the_rate_and_one_overdraft(
    count: int, size: int, spends: list[tuple[float, int, int]]
) -> None:
    limiter = RateLimiter(count, size, 1.0, 0.0)
    now = 0.0
    sent = sent_bytes = 0
    for seconds, messages, each in spends:
        now += seconds
        if limiter.available(now) <= 0:
            wait = limiter.wait_s(now)
            assert wait > 0
            now += wait + 0.001
            assert limiter.available(now) > 0
        assert sent <= count * (now + 1) + 1e-6
        assert not size or sent_bytes <= size * (now + 1) + 1e-6
        limiter.spend(messages, messages * each, now)
        sent += messages
        sent_bytes += messages * each


# ---------------------------------------------------------------------- publishing


async def limit(place: Place, messages: int) -> None:
    rate = PublishRate(publishThrottlingRateInMsg=messages, publishThrottlingRateInByte=-1)

    def change(before: Policies) -> Policies:
        return replace(before, publishMaxMessageRate={"standalone": rate})

    await place.service.resources.namespaces.update(NAMESPACE, change)
    await settle()


def send(client: Client, *producer_ids: int) -> None:
    for producer_id in producer_ids:
        metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
        client.send_entry(metadata, b"x", producer_id=producer_id)


def test_a_connection_that_publishes_too_fast_is_not_read_until_its_debt_is_paid() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        await client.produce(TOPIC, producer_id=1)
        await client.produce(TOPIC, producer_id=2)
        await limit(place, 100)
        send(client, *([1, 2] * 50))
        assert client.is_held
        send(client, *([1, 2] * 5))  # read already: it waits until the debt is paid
        await until(lambda: client.count(BaseCommand.SEND_RECEIPT) == 100)
        await asyncio.sleep(0.03)  # timers, and by the clock of the broker no time passed
        assert client.is_held and client.count(BaseCommand.SEND_RECEIPT) == 100
        place.clock.pass_s(0.12)
        await until(lambda: not client.is_held)
        await until(lambda: client.count(BaseCommand.SEND_RECEIPT) == 110)
        topic = await place.topic(TOPIC)
        assert topic.throttle.limited_times == 1

    run(body)


def test_a_limit_that_is_lifted_holds_nobody() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        await client.produce(TOPIC)
        await limit(place, 20)
        send(client, *([1] * 21))
        assert client.is_held
        await limit(place, 0)
        await until(lambda: not client.is_held)

    run(body)
