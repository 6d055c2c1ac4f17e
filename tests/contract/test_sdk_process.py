"""The client as part of a program: signals, forks, threads, and the end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from magnetar import (
    AlreadyClosedError,
    AsyncPulsarClient,
    ConfigurationError,
    Message,
    PulsarClient,
)
from magnetar.testing import MagnetarBroker
from tests.contract.sdk_regular import new_name

PRELUDE = """
import os, signal, sys, threading
from magnetar import PulsarClient, AsyncPulsarClient, AlreadyClosedError, SendFailedError
url, topic = sys.argv[1:]
"""


def run(program: str, broker: MagnetarBroker, topic: str | None = None) -> tuple[int, str, str]:
    """Run a program of its own; its exit code, output and complaints."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c"]
    done = subprocess.run(
        [*command, PRELUDE + textwrap.dedent(program), broker.service_url, topic or new_name()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def client(magnetar_broker: MagnetarBroker) -> Iterator[PulsarClient]:
    with PulsarClient(magnetar_broker.service_url) as client:
        yield client


def test_ctrl_c_ends_a_receive_that_waits_for_ever(magnetar_broker: MagnetarBroker) -> None:
    code, output, complaints = run(
        """
        with PulsarClient(url) as client:
            consumer = client.consumer(topic, "s")
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                consumer.receive()
            except KeyboardInterrupt:
                print("interrupted")
            client.producer(topic).send(b"x")
            print(consumer.receive(20).data)
        """,
        magnetar_broker,
    )
    assert (code, output, complaints) == (0, "interrupted\nb'x'\n", "")


def is_one_unstored_message(complaints: str) -> bool:
    """Whether one line says that a message may be lost, and nothing else is said."""
    return complaints.startswith("1 message was not stored on ") and complaints.count("\n") == 1


def test_a_program_that_forgets_to_close_is_warned_of_what_it_lost(
    magnetar_broker: MagnetarBroker,
) -> None:
    program = """
        client = PulsarClient(url)
        consumer = client.consumer(topic, "s")
        producer = client.producer(topic)
        producer.submit(b"x")
        print("end")
        """
    code, output, complaints = run(program, magnetar_broker)
    assert (code, output) == (0, "end\n")
    assert not complaints or is_one_unstored_message(complaints), complaints


def test_an_asyncio_program_ends_in_silence(magnetar_broker: MagnetarBroker) -> None:
    program = """
        import asyncio
        async def body():
            async with AsyncPulsarClient(url) as client:
                await client.consumer(topic, "s")
                producer = await client.producer(topic)
                await producer.submit(b"x")
        asyncio.run(body())
        print("end")
        """
    assert run(program, magnetar_broker) == (0, "end\n", "")


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("async", "KILL"),
        ("async", "STOP"),
        ("sync", "STOP"),
        ("sync that forgets to close", "STOP"),
    ],
)
def test_a_program_whose_broker_is_frozen_or_dead_ends_with_one_line_about_what_it_lost(
    request: pytest.FixtureRequest, kind: str, fault: str
) -> None:
    broker: MagnetarBroker
    if fault == "KILL":
        broker = request.getfixturevalue("magnetar_broker_factory")()
    else:
        broker = request.getfixturevalue("magnetar_broker")
    topic = new_name().replace("persistent", "topic")
    programs = {
        "async": """
            import asyncio
            async def body():
                async with AsyncPulsarClient(url, operation_timeout=0.3) as client:
                    queue = await client.queue_consumer(topic, subscription="s")
                    stream = await client.stream_consumer(topic, subscription="t")
                    producer = await client.producer(topic)
                    await producer.send(b"x")
                    message = await queue.receive(20)
                    os.kill(broker, signal.SIG{fault})
                    await queue.acknowledge(message)
                    waiting.append(await producer.submit(b"y"))
            waiting = []
            try:
                asyncio.run(body())
            except SendFailedError as error:
                print(error.sentence, file=sys.stderr)
            assert waiting[0].exception() is not None
            print("end")
            """,
        "sync": """
            try:
                with PulsarClient(url, operation_timeout=0.3) as client:
                    queue = client.queue_consumer(topic, subscription="s")
                    producer = client.producer(topic)
                    producer.send(b"x")
                    message = queue.receive(20)
                    os.kill(broker, signal.SIG{fault})
                    queue.acknowledge(message)
                    waiting = producer.submit(b"y")
            except SendFailedError as error:
                print(error.sentence, file=sys.stderr)
            assert waiting.exception(0) is not None
            print("end")
            """,
        "sync that forgets to close": """
            client = PulsarClient(url, operation_timeout=0.3)
            queue = client.queue_consumer(topic, subscription="s")
            producer = client.producer(topic)
            producer.send(b"x")
            os.kill(broker, signal.SIG{fault})
            producer.submit(b"y")
            print("end")
            """,
    }
    program = textwrap.dedent(programs[kind]).replace("{fault}", fault)
    try:
        code, output, complaints = run(f"broker = {broker.pid}\n{program}", broker, topic)
    finally:
        if fault == "STOP":
            os.kill(broker.pid, signal.SIGCONT)
    assert (code, output) == (0, "end\n")
    assert is_one_unstored_message(complaints), complaints


def test_ctrl_c_ends_an_asyncio_program_in_silence(magnetar_broker: MagnetarBroker) -> None:
    program = """
        import asyncio
        async def body():
            async with AsyncPulsarClient(url) as client:
                consumer = await client.queue_consumer(topic, subscription="s")
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                await consumer.receive()
        try:
            asyncio.run(body())
        except KeyboardInterrupt:
            print("interrupted")
        """
    assert run(program, magnetar_broker) == (0, "interrupted\n", "")


def test_a_forked_process_makes_its_own_client_and_leaves_the_parents_alone(
    magnetar_broker: MagnetarBroker,
) -> None:
    code, output, complaints = run(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        client = PulsarClient(url)
        consumer = client.consumer(topic, "s")
        child = os.fork()
        if child == 0:
            try:
                client.producer(topic)
            except AlreadyClosedError as error:
                print(error.sentence, flush=True)
            client.close()
            with PulsarClient(url) as own:
                own.producer(topic).send(b"from the child")
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print(consumer.receive(20).data)
        client.close()
        """,
        magnetar_broker,
    )
    told = "This client belongs to the parent process; create one after the fork\n"
    assert (code, output) == (0, told + "b'from the child'\n"), complaints


def test_one_thread_serves_any_number_of_consumers(client: PulsarClient) -> None:
    before = threading.active_count()
    topic = new_name()
    consumers = [client.consumer(topic, f"s{number}") for number in range(20)]
    assert threading.active_count() == before
    client.producer(topic).send(b"x")
    for consumer in consumers:
        message = consumer.receive(20)
        assert message is not None and message.data == b"x"


def test_threads_may_share_one_producer(client: PulsarClient) -> None:
    topic = new_name()
    consumer = client.consumer(topic, "s")
    producer = client.producer(topic)

    def send(number: int) -> None:
        for index in range(25):
            producer.send(b"%d-%d" % (number, index))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    received = [consumer.receive(20) for _ in range(100)]
    assert len({message.data for message in received if message}) == 100


def test_a_listener_that_calls_the_client_is_told_why_it_cannot(client: PulsarClient) -> None:
    topic = new_name()
    producer = client.producer(topic)
    producer.send(b"x", key="k")
    view = client.table_view(topic)
    with pytest.raises(ConfigurationError, match="hand such work to another thread"):
        view.listen(lambda key, value: print(producer.send(b"y")))


def test_a_closed_client_and_what_it_made_refuse_politely(magnetar_broker: MagnetarBroker) -> None:
    topic = new_name()
    client = PulsarClient(magnetar_broker.service_url)
    producer = client.producer(topic)
    consumer = client.consumer(topic, "s")
    client.close()
    client.close()
    producer.close()
    with pytest.raises(AlreadyClosedError):
        producer.send(b"x")
    with pytest.raises(AlreadyClosedError):
        client.producer(topic)
    assert list(consumer) == []


def test_a_receive_that_waits_ends_when_another_thread_closes(client: PulsarClient) -> None:
    consumer = client.consumer(new_name(), "s")
    waiting = threading.Timer(0.2, consumer.close)
    waiting.start()
    assert list(consumer) == []
    waiting.join()


def test_a_time_limit_around_any_call_breaks_nothing(magnetar_broker: MagnetarBroker) -> None:
    async def body() -> None:
        topic = new_name()
        async with AsyncPulsarClient(magnetar_broker.service_url) as client:
            for _ in range(5):
                try:
                    async with asyncio.timeout(0.001):
                        opened = await client.consumer(topic, "s", type="shared")
                except TimeoutError:
                    continue
                await opened.close()  # it was in time
            consumer = await client.consumer(topic, "s", type="shared")
            producer = await client.producer(topic)
            for _ in range(5):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.001):
                        await consumer.receive()
            for _ in range(20):
                try:
                    async with asyncio.timeout(0.0005):
                        await producer.send(b"maybe")
                except TimeoutError:
                    pass
            await producer.send(b"surely")
            while (message := await consumer.receive(20)) is not None:
                await consumer.acknowledge(message)
                if message.data == b"surely":
                    break
            else:
                pytest.fail("the last message did not come")

    asyncio.run(body())


def test_the_import_is_light(magnetar_broker: MagnetarBroker) -> None:
    code, output, _ = run(
        """
        import magnetar
        print({"fastavro", "cryptography", "pydantic"} & sys.modules.keys())
        """,
        magnetar_broker,
    )
    assert (code, output) == (0, "set()\n")


def test_threads_share_a_producer_and_a_consumer(client: PulsarClient) -> None:
    topic = new_name()
    received: list[bytes] = []
    with (
        client.queue_consumer(topic, subscription="s", receiver_queue_size=50) as consumer,
        client.producer(topic, max_pending_messages=20) as producer,
    ):

        def produce(name: int) -> None:
            for number in range(300):
                producer.submit(b"%d-%d" % (name, number), key=str(name))

        def consume() -> None:
            for message in consumer:
                received.append(message.value)
                consumer.acknowledge(message)

        producers = [threading.Thread(target=produce, args=(name,)) for name in range(3)]
        consumers = [threading.Thread(target=consume) for _ in range(3)]
        for thread in (*producers, *consumers):
            thread.start()
        for thread in producers:
            thread.join()
        producer.flush()
        while consumer.stats.acknowledged < 900:
            consumer.flush()
        consumer.close()
        for thread in consumers:
            thread.join(30)
        assert not any(thread.is_alive() for thread in consumers)
    assert sorted(received) == sorted(b"%d-%d" % (n, i) for n in range(3) for i in range(300))


def test_a_cell_of_a_notebook_may_use_either_client(magnetar_broker: MagnetarBroker) -> None:
    """A loop runs on the thread of every cell, and what one cell opens the next one uses."""
    topic, url = new_name(), magnetar_broker.service_url
    loop = asyncio.new_event_loop()
    made: dict[str, Any] = {}

    async def first_cell() -> None:
        made["client"] = client = PulsarClient(url)
        made["consumer"] = client.consumer(topic, "s")
        made["async"] = await AsyncPulsarClient(url).__aenter__()

    async def second_cell() -> bytes:
        producer = await made["async"].producer(topic)
        await producer.send(b"x")
        message: Message[bytes] = made["consumer"].receive(20)
        made["consumer"].acknowledge(message)
        return message.value

    async def last_cell() -> None:
        made["client"].close()
        await made["async"].close()

    try:
        loop.run_until_complete(first_cell())
        assert loop.run_until_complete(second_cell()) == b"x"
        loop.run_until_complete(last_cell())
    finally:
        loop.close()


def test_a_forked_worker_is_told_to_make_its_own_client(client: PulsarClient) -> None:
    """As under gunicorn with a preloaded application."""
    topic = new_name()
    producer = client.producer(topic)
    consumer = client.queue_consumer(topic, subscription="s")
    for _ in range(2):
        producer.send(b"x")
    receiver, sender = os.pipe()
    message = consumer.receive(20)
    assert message is not None
    if (child := os.fork()) == 0:
        refusals = []
        for call in (
            lambda: producer.submit(b"y"),
            lambda: producer.send(b"y"),
            lambda: consumer.receive(1),
            lambda: consumer.acknowledge(message),
            lambda: client.producer(topic),
        ):
            try:
                call()
            except AlreadyClosedError as error:
                refusals.append("after the fork" in str(error))
        os.write(sender, b"%d" % sum(refusals))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(receiver, 10) == b"5"
    consumer.acknowledge(message)
    assert consumer.receive(20) is not None


def test_what_went_wrong_with_another_call_keeps_none_from_being_made(client: PulsarClient) -> None:
    topic = new_name()
    with (
        client.consumer(topic, "s", type="shared") as consumer,
        client.producer(topic) as producer,
    ):
        producer.send(b"a")
        message = consumer.receive(20)
        assert message is not None

        def refuse(items: Sequence[int]) -> None:
            raise ConfigurationError("another call")

        consumer._burst.call_alone(refuse, 1)
        client._loop.call(lambda: None)
        with pytest.raises(ConfigurationError, match="another call"):
            consumer.acknowledge(message.id)
        consumer.flush()
        assert consumer.backlog() == 0


def test_a_process_that_is_forked_while_another_thread_publishes_publishes_too(
    magnetar_broker: MagnetarBroker,
) -> None:
    code, _, complaints = run(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        client = PulsarClient(url)
        producer = client.producer(topic)
        is_over = threading.Event()

        def publish():
            while not is_over.is_set():
                for sent in [producer.submit(b"x") for _ in range(100)]:
                    sent.add_done_callback(lambda each: None)

        threads = [threading.Thread(target=publish) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # a child that hangs is a failure
                with PulsarClient(url) as own:
                    sent = own.producer(topic).submit(b"from the child")
                    sent.add_done_callback(lambda each: None)
                    sent.result(20)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        is_over.set()
        for thread in threads:
            thread.join()
        client.close()
        """,
        magnetar_broker,
    )
    assert code == 0, complaints


def test_closing_the_client_tells_what_went_wrong_with_an_acknowledgement(
    magnetar_broker: MagnetarBroker,
) -> None:
    client = PulsarClient(magnetar_broker.service_url)
    consumer = client.consumer(new_name(), "s")

    def refuse(items: Sequence[int]) -> None:
        raise ConfigurationError("an acknowledgement")

    consumer._burst.call_alone(refuse, 1)
    with pytest.raises(ConfigurationError, match="an acknowledgement"):
        client.close()
    with pytest.raises(AlreadyClosedError):
        consumer.receive(1)
