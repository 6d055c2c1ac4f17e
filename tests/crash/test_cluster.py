"""Two `magnetar broker` processes: policies through either, and a home that is away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pulsar
import pytest

from magnetar import AsyncProducer, AsyncPulsarClient
from magnetar.client.admin import AdminClient
from magnetar.client.error import AdminServerFailed
from magnetar.testing.zookeeper import shared_zookeeper
from tests.crash.member import LONG_S, TOPIC, Member, Publisher, ask, id_of, read_all, until

SESSION_MS = 4_000
FIELDS = ("max-producers", "max-consumers", "max-subscriptions-per-topic", "compaction-threshold")
ORDERS = "persistent/public/default/orders"


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Member, Member]]:
    """The first is the home of public/default, the second of public/second."""
    arguments = ["--metadata", shared_zookeeper().new_url()]
    settings = {"metadataStoreSessionTimeoutMillis": SESSION_MS, "clusterName": "north"}
    with Member(set=settings, arguments=arguments) as home:
        assert ask(home, "PUT", ORDERS)[0] == 204
        with Member(set=settings, arguments=arguments) as other:
            assert ask(other, "PUT", "namespaces/public/second")[0] == 204
            assert ask(other, "PUT", "persistent/public/second/news")[0] == 204
            yield home, other


def test_policies_in_the_system_topic_are_set_and_told_by_any_broker(
    pair: tuple[Member, Member],
) -> None:
    home, other = pair
    for topic in (TOPIC, "persistent://public/second/news"):
        for writer, reader in (pair, pair[::-1]):
            with AdminClient(writer.admin_url) as writes, AdminClient(reader.admin_url) as reads:
                for limit in (1, 2):
                    for is_global in (False, True):
                        writes.topic_policies.set(
                            topic, "max-producers", limit, is_global=is_global
                        )
                        told = reads.topic_policies.get(topic, "max-producers", is_global=is_global)
                        assert told == limit
                writes.topic_policies.remove(topic, "max-producers")
                assert reads.topic_policies.get(topic, "max-producers") is None
                assert reads.topic_policies.get(topic, "max-producers", applied=True) == 2
    path = f"{ORDERS}/maxProducers"
    assert ask(other, "GET", path) == (307, f"http://{id_of(home)}/admin/v2/{path}")
    for namespace in ("public/default", "public/second"):
        for broker in pair:
            told = ask(broker, "GET", f"namespaces/{namespace}/topicPoliciesBackend")[1]
            assert told["backend"] == "system-topic"


def test_policies_act_on_clients_that_know_only_the_other_broker(
    pair: tuple[Member, Member],
) -> None:
    other = pair[1]
    with AdminClient(other.admin_url) as admin:
        admin.topic_policies.set(TOPIC, "max-producers", 1)
        client = pulsar.Client(
            other.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        try:
            client.create_producer(TOPIC)
            with pytest.raises(pulsar.ProducerBusy):
                client.create_producer(TOPIC)
        finally:
            client.close()
        admin.topic_policies.delete(TOPIC)
    for broker in pair:  # neither tried to read events that the other has
        assert "topic policies cannot be read" not in broker.read_log()
        assert "without its own policies" not in broker.read_log()


def test_brokers_that_race_on_one_topics_policies_lose_no_update(
    pair: tuple[Member, Member],
) -> None:
    """Each writer changes a field of its own; an update that was lost would take others back."""

    def write(number: int) -> None:
        with AdminClient(pair[number % 2].admin_url) as admin:
            for value in range(1, 11):
                admin.topic_policies.set(TOPIC, FIELDS[number], value)
                assert admin.topic_policies.get(TOPIC, FIELDS[number]) == value

    with ThreadPoolExecutor(len(FIELDS)) as threads:
        list(threads.map(write, range(len(FIELDS))))
    for broker in pair:
        with AdminClient(broker.admin_url) as admin:
            assert [admin.topic_policies.get(TOPIC, field) for field in FIELDS] == [10] * 4


def test_topics_wait_for_their_home_and_nobody_serves_them_empty_in_its_place(
    pair: tuple[Member, Member],
) -> None:
    home, other = pair
    with AdminClient(other.admin_url) as admin:
        admin.topic_policies.set(TOPIC, "message-ttl", 3600)
    publisher = Publisher(other.service_url)
    publisher.more()
    home.crash()
    sentence = f"Broker {id_of(home)} holds the topics of public/default and is not there"
    until(lambda: ask(other, "GET", f"{ORDERS}/stats")[0] == 503)  # when the session has ended
    status, answer = ask(other, "GET", f"{ORDERS}/messageTTL")
    assert (status, sentence in answer["reason"]) == (503, True)
    with AdminClient(other.admin_url) as admin:
        with pytest.raises(AdminServerFailed, match=sentence):
            admin.topic_policies.set(TOPIC, "message-ttl", 1)
        # What is no business of the home alone goes on.
        assert TOPIC in admin.topics.list("public/default")
        assert admin.topics.stats("persistent://public/second/news")["storageSize"] == 0
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    hasty = pulsar.Client(other.service_url, logger=logger, operation_timeout_seconds=1)
    with pytest.raises(pulsar.PulsarException):
        hasty.create_producer(TOPIC)
    hasty.close()
    patient = pulsar.Client(other.service_url, logger=logger, operation_timeout_seconds=60)
    attached = threading.Event()

    def attach() -> None:
        patient.create_producer(TOPIC)
        attached.set()

    waiting = threading.Thread(target=attach)
    waiting.start()
    try:
        assert ask(other, "GET", "namespaces/public/second/bundles")[0] == 200
        assert not attached.is_set()
        home.start()
        publisher.more()
        assert attached.wait(LONG_S)
        publisher.stop()
        assert read_all(other.service_url) == publisher.acknowledged
        with AdminClient(other.admin_url) as admin:
            assert admin.topic_policies.get(TOPIC, "message-ttl", applied=True) == 3600
    finally:
        publisher.close()
        waiting.join(LONG_S)
        patient.close()


def test_a_scalable_topic_goes_on_through_another_broker_when_its_home_is_back(
    pair: tuple[Member, Member],
) -> None:
    home, other = pair
    name = "topic://public/default/scaled"
    assert ask(home, "PUT", "scalable/public/default/scaled?numInitialSegments=2")[0] == 204

    async def body() -> None:
        confirmed: list[int] = []
        received: set[int] = set()
        stop = asyncio.Event()

        async def produce(producer: AsyncProducer[bytes]) -> None:
            while not stop.is_set():
                number = len(confirmed)
                await producer.send(b"%d" % number, key=str(number))
                confirmed.append(number)

        async def more(count: int = 50) -> None:
            goal = len(confirmed) + count
            async with asyncio.timeout(LONG_S):
                while len(confirmed) < goal:
                    await asyncio.sleep(0.01)

        async with (
            AsyncPulsarClient(other.service_url) as client,
            client.stream_consumer(name, subscription="s") as consumer,
            client.producer(name) as producer,
            asyncio.TaskGroup() as tasks,
        ):
            producing = tasks.create_task(produce(producer))
            await more()
            await asyncio.to_thread(home.crash)
            await asyncio.to_thread(home.start)
            await more()
            stop.set()
            await producing
            while len(received) < len(confirmed):
                message = await consumer.receive(timeout=LONG_S)
                assert message is not None
                received.add(int(message.data))
        assert received == set(confirmed)

    asyncio.run(body())
