"""Brokers that are killed, paused and cut off while clients work and ledgers roll over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pulsar

from tests.cluster.brokers import SESSION_MS, BrokerCluster
from tests.cluster.change import DELAY_S, asking, unload_all
from tests.cluster.cut import Cut
from tests.cluster.workload import Workload, await_true
from tests.crash.member import Publisher, read_all

_FLOOD_MAX = 1_500


@contextmanager
def published(brokers: BrokerCluster) -> Iterator[Publisher]:
    """The official client writes; all that was acknowledged to it can be read in the end."""
    topic = brokers.new_topic("official")
    publisher = Publisher(brokers.service_url, topic)
    try:
        publisher.more()
        yield publisher
        publisher.more()
        publisher.stop()
        assert set(publisher.acknowledged) <= set(read_all(brokers.service_url, topic))
    finally:
        publisher.close()


class Flood:
    """Sends unbatched as fast as a client goes, without waiting for receipts."""

    def __init__(self, url: str, topic: str) -> None:
        self._client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        self._producer = self._client.create_producer(
            topic, batching_enabled=False, block_if_queue_full=True, send_timeout_millis=60_000
        )
        self._topic = topic
        self.sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set() and self.sent < _FLOOD_MAX:
            self._producer.send_async(b"%d" % self.sent, None)
            self.sent += 1

    def check(self) -> None:
        """What has its receipt is not sent again: each is stored once, and in order."""
        self._stop.set()
        self._thread.join()
        self._producer.flush()
        reader = self._client.create_reader(self._topic, pulsar.MessageId.earliest)
        stored = []
        while reader.has_message_available():
            stored.append(int(reader.read_next(30_000).data()))
        assert stored == list(range(self.sent))
        self._client.close()


def test_a_topic_is_served_elsewhere_when_its_owner_and_the_next_that_recovers_are_killed(
    brokers: BrokerCluster,
) -> None:
    topic = brokers.new_topic("killed")
    with Workload(brokers.service_url, topic) as work, published(brokers):
        work.more(100)
        first = brokers.owner(topic)
        work.fault("the owner is killed")
        first.kill()
        second = brokers.owner(topic)
        work.fault("the next owner is killed while it recovers")
        second.kill()
        work.more(100)
        assert brokers.owner(topic) not in (first, second)


def test_a_broker_that_wakes_after_its_session_does_no_harm(brokers: BrokerCluster) -> None:
    topic = brokers.new_topic("paused")
    with Workload(brokers.service_url, topic) as work, published(brokers):
        work.more()
        owner = brokers.owner(topic)
        work.fault("the owner is paused")
        owner.pause()
        time.sleep(1.5 * SESSION_MS / 1000)
        work.more()
        work.fault("the former owner goes on")
        owner.resume()
        work.more()
        await_true(lambda: owner.is_serving, "the former owner serves again")
        successor = brokers.owner(topic, asked=brokers.keep(owner))
        await_true(
            lambda: brokers.owner(topic, asked=owner) is successor,
            "the former owner names the new one",
        )
        assert "bundles are given up" in owner.read_log()
        work.more()


def test_a_broker_that_is_cut_off_from_zookeeper_loses_its_topics(
    steady: BrokerCluster,
) -> None:
    """It still hears its clients and the bookies, and believes for a while that it owns."""
    zookeeper = steady.bookies.zookeeper
    lonely, other = steady.brokers
    topic = steady.new_topic("cut")
    with Cut(zookeeper.port) as wire:
        lonely.metadata = lonely.metadata.replace(f":{zookeeper.port}", f":{wire.port}")
        with lonely, Workload(lonely.service_url, topic, "near") as near:
            near.more()
            # Its first address is that of the broker that is cut off.
            with other, Workload(steady.service_url, topic, "far") as far:
                far.more()
                for work in (near, far):
                    work.fault("the owner is cut off from ZooKeeper")
                wire.cut()
                await_true(
                    lambda: steady.owner(topic, asked=other) is other,
                    "another broker owns the topic",
                )
                far.more()
                wire.mend()
                near.more()
                far.more()
                other.stop()


def test_topics_are_handed_over_by_unloading_by_moving_and_by_a_graceful_stop(
    brokers: BrokerCluster,
) -> None:
    topic = brokers.new_topic("unloaded")
    with Workload(brokers.service_url, topic) as work, published(brokers):
        for _ in range(3):
            work.more(20)
            work.fault("the namespace is unloaded")
            with brokers.admin() as admin:
                admin.namespaces.unload("public/default")
        work.more()
        for _ in range(2):
            moved = brokers.new_topic("flood")
            flood = Flood(brokers.service_url, moved)
            target = brokers.keep(brokers.owner(moved))
            work.fault("a bundle is moved to the broker that an operator names")
            with brokers.admin() as admin:
                admin.namespaces.unload_bundle(
                    "public/default",
                    admin.topics.bundle_range(moved),
                    destination=target.admin_url.removeprefix("http://"),
                )
            assert brokers.owner(moved) is target
            flood.check()
        work.more()
        owner = brokers.owner(topic)
        work.fault("the owner is stopped")
        owner.stop()
        assert "bundle unloaded" in owner.read_log()
        assert brokers.owner(topic) is not owner
        work.more()


def test_an_owner_and_a_controller_are_killed_while_bundles_are_unloaded_and_recovered(
    brokers: BrokerCluster,
) -> None:
    """The second one takes over from the first, and dies of it: one broker is left for all."""
    topic, scalable = brokers.new_topic("unload-killed"), brokers.new_scalable("controlled")
    with (
        Workload(brokers.service_url, topic) as work,
        Workload(brokers.service_url, scalable) as controlled,
    ):
        for each in (work, controlled):
            each.more()
            each.fault("the namespace is unloaded, and the owner of a topic killed meanwhile")
        first = brokers.owner(topic)
        join = asking(brokers, brokers.keep(first), unload_all, "")
        time.sleep(DELAY_S)
        first.kill()
        second = brokers.controller(scalable)
        for each in (work, controlled):
            each.fault("the broker with the controller is killed while it recovers")
        second.kill()
        join()
        for each in (work, controlled):
            each.more()
        assert brokers.controller(scalable) not in (first, second)
