"""Handlers that are called with every message, several at a time, and how that ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from magnetar import Message, PulsarClient
from magnetar.testing import MagnetarBroker
from tests.contract.sdk_place import PATIENCE_S, Flavour, Place, until_equal
from tests.contract.sdk_regular import new_name
from tests.contract.test_sdk_process import run


def make_handler(place: Place, parties: int, then: Callable[[], object]) -> Any:
    """Handlers that go on once so many of them are at work at the same time."""
    if place.flavour is Flavour.ASYNC:
        meeting = asyncio.Barrier(parties)

        async def handle(message: Message[bytes]) -> None:
            async with asyncio.timeout(PATIENCE_S):
                await meeting.wait()
            then()

        return handle
    threads = threading.Barrier(parties)

    def handle_in_thread(message: Message[bytes]) -> None:
        threads.wait(PATIENCE_S)
        then()

    return handle_in_thread


def test_so_many_handlers_are_at_work_at_once_and_a_stop_lets_their_acknowledgements_go(
    place: Place,
) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            consumer = await client.queue_consumer(topic, subscription="s", receiver_queue_size=1)
            producer = await client.producer(topic, batching=False)
            for number in range(5):
                await producer.send(b"%d" % number)
            handler = make_handler(place, 3, lambda: consumer.stop())
            await consumer.run(handler, concurrency=3)
            await consumer.flush()
            await until_equal(consumer.backlog, 2)
            assert await consumer.receive(PATIENCE_S), "it is open"

    asyncio.run(body())


def test_a_stop_ends_handlers_that_wait_for_messages(place: Place) -> None:
    async def body() -> None:
        async with place.client() as client:
            consumer = await client.queue_consumer(place.create_topic(), subscription="s")
            running = asyncio.ensure_future(consumer.run(print, concurrency=3))
            await asyncio.sleep(0.1)
            assert not running.done()
            consumer.stop()
            await asyncio.wait_for(running, PATIENCE_S)

    asyncio.run(body())


def test_what_ends_one_thread_ends_the_others_and_is_raised(
    magnetar_broker: MagnetarBroker,
) -> None:
    topic = new_name()
    meeting = threading.Barrier(2)
    done: list[bytes] = []

    def handle(message: Message[bytes]) -> None:
        meeting.wait(PATIENCE_S)
        if threading.current_thread() is not threading.main_thread():
            raise SystemExit("enough")
        done.append(message.data)

    with (
        PulsarClient(magnetar_broker.service_url) as client,
        client.consumer(topic, "s", type="shared") as consumer,
        client.producer(topic) as producer,
    ):
        for number in range(2):
            producer.send(b"%d" % number)
        before = threading.active_count()
        with pytest.raises(SystemExit, match="enough"):
            consumer.run(handle, concurrency=2)
        assert threading.active_count() == before
        consumer.flush()
        assert len(done) == consumer.backlog() == 1


def test_ctrl_c_lets_handlers_under_way_end_and_acknowledge(
    magnetar_broker: MagnetarBroker,
) -> None:
    program = """
        meeting = threading.Barrier(3)
        interrupted = threading.Event()

        def handle(message):
            meeting.wait(20)
            if threading.current_thread() is threading.main_thread():
                interrupted.set()
                signal.raise_signal(signal.SIGINT)
            interrupted.wait(20)

        with PulsarClient(url) as client:
            consumer = client.consumer(topic, "s", type="shared")
            producer = client.producer(topic)
            for number in range(3):
                producer.send(b"x")
            try:
                consumer.run(handle, concurrency=3)
            except KeyboardInterrupt:
                assert threading.active_count() == 2, threading.enumerate()
                consumer.flush()
                print(consumer.backlog())
    """
    assert run(program, magnetar_broker) == (0, "1\n", "")


def test_a_signal_stops_the_handlers(magnetar_broker: MagnetarBroker) -> None:
    program = """
        with PulsarClient(url) as client:
            consumer = client.consumer(topic, "s", type="shared")
            signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
            client.producer(topic).send(b"x")
            consumer.run(lambda message: signal.raise_signal(signal.SIGTERM), concurrency=2)
            consumer.flush()
            print(consumer.backlog())
    """
    assert run(program, magnetar_broker) == (0, "0\n", "")
