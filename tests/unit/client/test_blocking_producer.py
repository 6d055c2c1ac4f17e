"""The blocking producer, on a broker that says what a test tells it to.

The futures of submitted messages are as good as those of the standard library.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ALL_COMPLETED, CancelledError, as_completed, wait
from contextlib import asynccontextmanager
from typing import Any

import pytest

from magnetar import (
    AlreadyClosedError,
    AsyncPulsarClient,
    PulsarClient,
    QueueFullError,
    SendFailedError,
)
from magnetar.client import blocking_producer
from magnetar.client.blocking_producer import SendFuture
from magnetar.wire.command import success
from tests.unit.client.peer import Line, ScriptedBroker, Type, scripted_broker


class SlowBroker:
    """Keeps receipts back until it is told to give them."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self._broker = broker
        self._kept: list[tuple[Line, Any]] = []
        self.sends = 0
        self.is_slow = True
        broker.on[Type.SEND] = self._on_send

    def _on_send(self, line: Line, send: Any, entry: bytes) -> None:
        self.sends += 1
        if self.is_slow:
            self._kept.append((line, send))
        else:
            self._broker.receipt(line, send)

    def go_on(self) -> None:
        self.is_slow = False
        for line, send in self._kept:
            self._broker.receipt(line, send)
        self._kept.clear()


@asynccontextmanager
async def slow_client(**options: Any) -> AsyncIterator[tuple[SlowBroker, PulsarClient]]:
    async with scripted_broker() as broker:
        slow = SlowBroker(broker)
        client = await asyncio.to_thread(PulsarClient, broker.url, operation_timeout=10, **options)
        try:
            yield slow, client
        finally:
            slow.go_on()
            await asyncio.to_thread(client.close)


async def until_pending(producer: Any, count: int) -> None:
    async with asyncio.timeout(20):
        while (await asyncio.to_thread(lambda: producer.stats)).pending != count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("options", [{}, {"key": "k"}], ids=["plain", "keyed"])
def test_a_message_that_memory_is_short_for_waits_in_its_turn(options: dict[str, Any]) -> None:
    async def body() -> None:
        async with slow_client(memory_limit=100) as (slow, client):
            first = await asyncio.to_thread(client.producer, "t")
            other = await asyncio.to_thread(client.producer, "u")
            sent = await asyncio.to_thread(first.submit, bytes(60))
            for producer in (first, other):  # its own memory, and that of another producer
                before = producer.stats.pending
                waiting = asyncio.create_task(
                    asyncio.to_thread(producer.submit, bytes(60), **options)
                )
                await until_pending(producer, before + 1)
                assert not waiting.done() and slow.sends == 1
                with pytest.raises(QueueFullError, match="memory limit"):
                    producer.send_nowait(bytes(60))
                if producer is other:
                    slow.go_on()
                    again = await waiting
                    await asyncio.to_thread(again.result, 20)
            assert await asyncio.to_thread(sent.result, 20)
            await asyncio.to_thread(first.flush)
            assert (first.stats.sent, other.stats.sent) == (2, 1)

    asyncio.run(body())


def test_a_send_that_there_is_no_room_for_raises_why(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with slow_client() as (_, client):
            producer = await asyncio.to_thread(
                client.producer, "t", max_pending_messages=1, block_if_queue_full=False
            )
            producer.submit(b"a")
            with pytest.raises(QueueFullError):
                await asyncio.to_thread(producer.send, b"b")

    asyncio.run(body())
    assert not caplog.records


@pytest.mark.parametrize("closes", ["client", "producer"])
def test_who_closes_while_another_thread_does_waits_for_the_end(closes: str) -> None:
    async def body() -> None:
        async with slow_client() as (slow, client):
            producer = await asyncio.to_thread(client.producer, "t")
            sent = producer.submit(b"a")
            await until_pending(producer, 1)
            first = asyncio.create_task(
                asyncio.to_thread(client.close if closes == "client" else producer.close)
            )
            async with asyncio.timeout(20):
                while producer._inner._producers.failure is None:
                    await asyncio.sleep(0.001)
            second = asyncio.create_task(asyncio.to_thread(client.close))
            await asyncio.wait([first, second], timeout=0.2)
            assert not second.done() and not sent.done()
            slow.go_on()
            await asyncio.gather(first, second)
            assert sent.result().entry_id == 0

    asyncio.run(body())


def test_who_closes_the_asyncio_client_while_another_task_does_waits_for_the_end() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            slow = SlowBroker(broker)
            client = AsyncPulsarClient(broker.url)
            producer = await client.producer("t")
            sent = await producer.submit(b"a")
            closing = [asyncio.create_task(client.close()) for _ in range(2)]
            await broker.until(Type.SEND)
            await asyncio.sleep(0)
            assert not any(each.done() for each in closing) and not sent.done()
            slow.go_on()
            await asyncio.gather(*closing)
            assert sent.result().entry_id == 0

    asyncio.run(body())


def test_who_closes_a_client_while_a_consumer_is_closed_waits_for_that_too() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            client = await asyncio.to_thread(PulsarClient, broker.url, operation_timeout=10)
            consumer = await asyncio.to_thread(client.consumer, "t", "s")
            asked: list[tuple[Line, Any]] = []
            broker.on[Type.CLOSE_CONSUMER] = lambda line, body, _: asked.append((line, body))
            closing = [asyncio.create_task(asyncio.to_thread(consumer.close))]
            await broker.until(Type.CLOSE_CONSUMER)
            closing.append(asyncio.create_task(asyncio.to_thread(client.close)))
            await asyncio.wait(closing, timeout=0.2)
            assert not any(each.done() for each in closing)
            [(line, request)] = asked
            line.say(success(request.request_id))
            await asyncio.gather(*closing)

    asyncio.run(body())


def test_a_client_that_ends_at_once_ends_the_flush_of_another_close() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            slow = SlowBroker(broker)
            client = AsyncPulsarClient(broker.url, operation_timeout=3600)
            producer = await client.producer("t")
            sent = await producer.submit(b"a")
            closing = asyncio.create_task(producer.close())
            await broker.until(Type.SEND)
            async with asyncio.timeout(30):
                await client.close(immediate=True)
                with pytest.raises(SendFailedError):
                    await closing
            assert slow.sends == 1
            with pytest.raises(AlreadyClosedError):
                await sent

    asyncio.run(body())


def test_a_future_ends_once_with_nobody_looking() -> None:
    future: SendFuture[int] = SendFuture()
    assert not future.done() and not future.cancelled()
    future.set_result(7)
    assert future.done() and future.result() == 7 and future.exception() is None
    assert not future.cancel()


def test_a_future_raises_what_it_ended_with() -> None:
    future: SendFuture[int] = SendFuture()
    future.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        future.result(1)


def test_threads_that_wait_for_futures_are_woken() -> None:
    futures: list[SendFuture[int]] = [SendFuture() for _ in range(200)]
    called: list[int] = []
    for future in futures[::3]:
        future.add_done_callback(lambda each: called.append(each.result()))

    def end() -> None:
        for number, future in enumerate(futures):
            future.set_result(number)

    thread = threading.Thread(target=end)
    thread.start()
    done, rest = wait(futures, 30, ALL_COMPLETED)
    assert len(done) == 200 and not rest
    assert sorted(each.result() for each in as_completed(futures, 30)) == list(range(200))
    thread.join()
    assert called == list(range(0, 200, 3))


def test_a_future_that_was_cancelled_stays_so() -> None:
    future: SendFuture[int] = SendFuture()
    assert future.cancel() and future.cancelled() and future.done()
    future.set_result(1)
    with pytest.raises(CancelledError):
        future.result(0)
    assert not wait([future], 0).not_done


def test_an_event_loop_can_await_a_future() -> None:
    async def body() -> int:
        future: SendFuture[int] = SendFuture()
        threading.Timer(0.01, future.set_result, (5,)).start()
        return await asyncio.wrap_future(future)

    assert asyncio.run(body()) == 5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_is_forked_while_a_future_ends_has_some_of_its_own() -> None:
    with blocking_producer._lock:  # as the parent's loop may hold it
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            future: SendFuture[int] = SendFuture()
            future.set_result(1)
            os._exit(future.result(0) - 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
