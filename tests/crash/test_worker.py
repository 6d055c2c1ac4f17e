"""Several workers on one data directory: one address, every topic, and nothing lost when one dies,
when the supervisor dies, when there are more or fewer of them, and in a backup.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pulsar
import pytest

from magnetar import Admin, AuthenticationError, PulsarClient, TokenAuthentication
from magnetar.app.backup import back_up, restore
from magnetar.app.doctor import examine_directory
from magnetar.testing import MagnetarBroker
from tests.interop.security.place import make_place, token_of

PATIENCE_S = 60.0
TOPICS = [f"persistent://public/default/orders-{number}" for number in range(8)]
TWO = ("--workers", "2")


@pytest.fixture(scope="module")
def two() -> Iterator[MagnetarBroker]:
    with MagnetarBroker(arguments=TWO) as broker:
        yield broker


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def workers_of(broker: MagnetarBroker) -> list[int]:
    """The processes that the supervisor started, oldest first."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                fields = (each / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == broker.pid and fields[0] != "Z":
                found.append(int(each.name))
    return sorted(found)


def store_of(admin: Admin, topic: str) -> int:
    """The number of the worker that writes to a topic, which the ids of its ledgers tell."""
    ledgers = admin.topics.internal_stats(topic)["ledgers"]
    return int(ledgers[-1]["ledgerId"]) & 0xFF


class Load:
    """Sends numbers to every topic, one after the other, until it is stopped; whatever fails is
    tried again.
    """

    def __init__(self, broker: MagnetarBroker, first: int = 0) -> None:
        self._broker = broker
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.acknowledged = first

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        self._thread.join()

    def more(self, count: int = 100) -> None:
        goal = self.acknowledged + count
        until(lambda: self.acknowledged >= goal)

    def _send(self) -> None:
        with PulsarClient(self._broker.service_url) as client:
            producers = [client.producer(topic, send_timeout=PATIENCE_S) for topic in TOPICS]
            while not self._stop.is_set():
                for producer in producers:
                    producer.send(str(self.acknowledged).encode())
                self.acknowledged += 1


def subscribe(broker: MagnetarBroker) -> None:
    with PulsarClient(broker.service_url) as client:
        for topic in TOPICS:
            client.queue_consumer(topic, subscription="s", initial_position="earliest").close()


def check_all(broker: MagnetarBroker, acknowledged: int) -> None:
    """Every topic has every number that was acknowledged, in order."""
    with PulsarClient(broker.service_url) as client:
        for topic in TOPICS:
            consumer = client.stream_consumer(
                topic, subscription=f"all-{time.monotonic_ns()}", initial_position="earliest"
            )
            found: list[int] = []
            while len(found) < acknowledged or found[-1] < acknowledged - 1:
                message = consumer.receive(timeout=PATIENCE_S)
                assert message is not None, f"{topic} ends with {found[-1:]}, not {acknowledged}"
                found.append(int(message.data))
            assert sorted(set(found)) == list(range(max(found) + 1)), topic


def test_clients_reach_the_topics_of_all_workers_by_one_address(two: MagnetarBroker) -> None:
    topics = [topic.replace("orders", "shown") for topic in TOPICS]
    with closing(pulsar.Client(two.service_url)) as client:
        for topic in topics:
            consumer = client.subscribe(topic, "official")
            client.create_producer(topic).send(topic.encode())
            message = consumer.receive(timeout_millis=30_000)
            assert message.data() == topic.encode()
            consumer.acknowledge(message)
    with PulsarClient(two.service_url) as ours:
        for topic in topics:
            consumer = ours.queue_consumer(topic, subscription="s")
            ours.producer(topic).send(b"ours")
            received = consumer.receive(timeout=30)
            assert received is not None and received.data == b"ours"
    with Admin(two.admin_url) as admin:
        assert {store_of(admin, topic) for topic in topics} == {0, 1}
        assert len(admin.brokers.list()) == 2
        assert all(admin.topics.stats(topic)["msgInCounter"] == 2 for topic in topics)


def test_segments_of_one_topic_are_at_all_workers(two: MagnetarBroker) -> None:
    topic = "topic://public/default/wide"
    with Admin(two.admin_url) as admin:
        admin.scalable_topics.create(topic, segments=8)
        with PulsarClient(two.service_url) as client:
            consumer = client.queue_consumer(topic, subscription="s")
            producer = client.producer(topic)
            for number in range(64):
                producer.send(str(number).encode(), key=f"key-{number}")
            found = set()
            while len(found) < 64:
                message = consumer.receive(timeout=30)
                assert message is not None
                found.add(int(message.data))
                consumer.acknowledge(message)
        inner = [admin.scalable_topics.segment_internal_stats(topic, each) for each in range(8)]
    assert {int(each["ledgers"][-1]["ledgerId"]) & 0xFF for each in inner} == {0, 1}


def test_the_console_shows_what_all_workers_carry(two: MagnetarBroker) -> None:
    names = [f"seen-{number}" for number in range(8)]

    def ask(path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{two.admin_url}/console/api/{path}", data=data)
        if data is not None:
            request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    with Admin(two.admin_url) as admin, PulsarClient(two.service_url) as client:
        admin.scalable_topics.create("topic://public/default/seen-wide", segments=4)
        admin.topics.create_partitioned("persistent://public/default/seen-parted", 4)
        for topic in (
            "topic://public/default/seen-wide",
            "persistent://public/default/seen-parted",
        ):
            client.queue_consumer(topic, subscription="s").close()
            with client.producer(topic) as producer:
                for number in range(20):
                    producer.send(b"x", key=f"key-{number}")
        producers = [client.producer(f"persistent://public/default/{name}") for name in names]
        for producer in producers:
            producer.send(b"x")
        workers = set(admin.brokers.list())
        told = ask("overview")
        assert set(told["brokers"]) == workers and len(workers) == 2
        assert told["topics"]["producers"] >= len(names)
        assert all(each["connections"] > 0 for each in told["brokers"].values())
        attached = {each["topic"] for one in ask("clients") for each in one["producers"]}
        assert attached.issuperset(f"persistent://public/default/{name}" for name in names)
        rows = {row["name"].rpartition("/")[2]: row for row in ask("topics?text=seen-")["rows"]}
        assert all(rows[name]["isLoaded"] and rows[name]["producers"] == 1 for name in names)
        for name in ("seen-wide", "seen-parted"):
            shown = rows[name]
            assert (shown["parts"], shown["subscriptions"], shown["lag"]) == (4, 1, 20)
        parts = ask("persistent/public/default/seen-parted")["parts"].values()
        assert sum(part["msgInCounter"] for part in parts) == 20
        assert ask("topic/public/default/seen-wide")["stats"]["activeSegments"] == 4
        for name in names:
            path = f"persistent/public/default/{name}"
            state = ask(path)
            assert state["kind"] == "regular" and "ownerUrl" not in state
            ask(f"{path}/messages", {"value": "by hand"})
            assert [each["value"] for each in ask(f"{path}/messages")["messages"]] == [
                "x",
                "by hand",
            ]
        moved = ask("topic/public/default/seen-wide/preview/cursor?subscription=s")
        assert moved == {"again": 0, "passed": 20, "backlog": 20, "isExact": True}


def test_a_transaction_spans_topics_and_coordinators_of_all_workers(two: MagnetarBroker) -> None:
    topics = [f"persistent://public/default/paid-{number}" for number in range(16)]
    requests = "persistent://public/default/requests"
    with Admin(two.admin_url) as admin, PulsarClient(two.service_url) as client:
        inbox = client.queue_consumer(requests, subscription="s")
        readers = [client.queue_consumer(topic, subscription="s") for topic in topics]
        producers = [client.producer(topic) for topic in topics]
        with client.producer(requests) as asks:
            for number in range(8):
                asks.send(str(number).encode())
        coordinators = set()
        for number in range(8):  # the coordinators take turns
            asked = inbox.receive(timeout=30)
            assert asked is not None
            with client.transaction() as transaction:
                for producer in producers:
                    producer.send(asked.data, transaction=transaction)
                inbox.acknowledge(asked, transaction=transaction)
                if number % 2:
                    transaction.abort()
            coordinators.add(transaction.id[0])
        assert {store_of(admin, topic) for topic in topics} == {0, 1}
        assert len(coordinators) > 1
        for reader in readers:
            found = [reader.receive(timeout=30) for _ in range(4)]
            assert [each.data for each in found if each is not None] == [b"0", b"2", b"4", b"6"]
        until(lambda: backlog_of(admin, requests) == 4)


def backlog_of(admin: Admin, topic: str) -> int:
    return int(admin.topics.stats(topic)["subscriptions"]["s"]["msgBacklog"])


def test_workers_serve_over_tls_and_ask_who_is_there(tmp_path: Path) -> None:
    place = make_place(tmp_path, arguments=TWO)
    token = token_of("root")
    topics = [f"persistent://public/default/sealed-{number}" for number in range(16)]
    with place.broker, place.admin() as admin:
        client = PulsarClient(
            place.url_tls, authentication=TokenAuthentication(token), tls=place.tls
        )
        with client, closing(place.official(pulsar.AuthenticationToken(token))) as official:
            for topic in topics:
                consumer = client.queue_consumer(topic, subscription="s")
                official.create_producer(topic).send(topic.encode())
                message = consumer.receive(timeout=30)
                assert message is not None and message.data == topic.encode()
        owners = {admin.topics.lookup(topic)["brokerUrlTls"] for topic in topics}
        assert len(owners) == 2 and place.url_tls not in owners
        assert all(admin.topics.stats(topic)["msgInCounter"] == 1 for topic in topics)
        nobody = PulsarClient(place.url_tls, tls=place.tls)
        with nobody, pytest.raises(AuthenticationError):
            nobody.producer(topics[0])


def test_a_topic_that_moved_to_another_worker_has_its_messages(two: MagnetarBroker) -> None:
    topic = "persistent://public/default/moving"
    with Admin(two.admin_url) as admin, PulsarClient(two.service_url) as client:
        producer = client.producer(topic)
        producer.send(b"before")
        was = store_of(admin, topic)
        owner = admin.topics.lookup(topic)["httpUrl"].removeprefix("http://")
        [other] = set(admin.brokers.list()) - {owner}
        admin.namespaces.unload_bundle(
            "public/default", admin.topics.bundle_range(topic), destination=other
        )
        producer.send(b"after")
        assert store_of(admin, topic) == 1 - was
        consumer = client.stream_consumer(topic, subscription="s", initial_position="earliest")
        for data in (b"before", b"after"):
            message = consumer.receive(timeout=30)
            assert message is not None and message.data == data
        admin.topics.delete(topic, force=True)


@pytest.mark.timeout(300)
def test_a_worker_that_is_killed_comes_back_and_nothing_acknowledged_is_lost(
    two: MagnetarBroker, tmp_path: Path
) -> None:
    subscribe(two)
    with Load(two) as load:
        load.more()
        before = workers_of(two)
        os.kill(before[0], signal.SIGKILL)
        until(lambda: set(workers_of(two)) - set(before) != set())
        load.more()
        written = load.acknowledged
        back_up(two.data, tmp_path / "backup")
    assert len(workers_of(two)) == 2
    check_all(two, load.acknowledged)
    restore(tmp_path / "backup", tmp_path / "restored")
    assert not examine_directory(tmp_path / "restored").faults
    with MagnetarBroker(data=tmp_path / "restored") as fewer:  # serves what two have written
        assert len(workers_of(fewer)) == 1
        check_all(fewer, written)


@pytest.mark.timeout(300)
def test_a_worker_comes_back_once_the_supervisor_has_descriptors_again(
    two: MagnetarBroker,
) -> None:
    def failures() -> int:
        return two.log.read_text().count("worker not started, tried again")

    killed, before = workers_of(two)[0], failures()
    limits = resource.prlimit(two.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(two.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        os.kill(killed, signal.SIGKILL)
        until(lambda: failures() > before + 1)
        assert len(workers_of(two)) == 1
    finally:
        resource.prlimit(two.pid, resource.RLIMIT_NOFILE, limits)
    until(lambda: len(workers_of(two)) == 2)
    with Load(two) as load:
        load.more(3)


@pytest.mark.timeout(300)
def test_workers_take_over_from_one_broker_and_end_with_their_supervisor(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with MagnetarBroker(data=data) as alone:
        assert workers_of(alone) == [] and not list(data.glob("ledgers-*"))
        subscribe(alone)
        with Load(alone) as load:
            load.more()
        written = load.acknowledged
        assert alone.stop() == 0
    with MagnetarBroker(data=data, arguments=TWO) as broker:
        with Load(broker, written) as load:
            load.more()
            before = workers_of(broker)
            broker.crash()
            broker.start()
            load.more()
        check_all(broker, load.acknowledged)
        assert not set(before) & set(workers_of(broker))
        assert broker.stop() == 0
    found = examine_directory(data)
    assert not found.faults and any("2 workers" in each for each in found.seen)
