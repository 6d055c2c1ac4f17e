"""Brokers that are killed, paused and cut off while clients work."""

from __future__ import annotations

import time

from tests.cluster.brokers import SESSION_MS, BrokerCluster
from tests.cluster.cut import Cut
from tests.cluster.workload import Workload, await_true


def test_a_topic_of_a_killed_broker_is_served_by_another(brokers: BrokerCluster) -> None:
    topic = brokers.new_topic("killed")
    with Workload(brokers.service_url, topic) as work:
        work.more()
        owner = brokers.owner(topic)
        work.fault("the owner is killed")
        owner.kill()
        work.more()
        assert brokers.owner(topic) is not owner


def test_the_next_owner_is_killed_while_it_recovers(brokers: BrokerCluster) -> None:
    topic = brokers.new_topic("recovery")
    with Workload(brokers.service_url, topic) as work:
        work.more()
        first = brokers.owner(topic)
        work.fault("the owner is killed")
        first.kill()
        second = brokers.owner(topic)
        work.fault("the next owner is killed")
        second.kill()
        work.more()
        assert brokers.owner(topic) not in (first, second)


def test_a_broker_that_wakes_after_its_session_does_no_harm(brokers: BrokerCluster) -> None:
    topic = brokers.new_topic("paused")
    with Workload(brokers.service_url, topic) as work:
        work.more()
        owner = brokers.owner(topic)
        work.fault("the owner is paused")
        owner.pause()
        time.sleep(2 * SESSION_MS / 1000)
        work.more()
        work.fault("the former owner goes on")
        owner.resume()
        work.more()
        await_true(lambda: owner.is_serving, "the former owner serves again")
        work.more()


def test_a_broker_that_is_cut_off_from_zookeeper_loses_its_topics(
    brokers: BrokerCluster,
) -> None:
    """It still hears its clients and the bookies, and believes for a while that it owns."""
    bookies = brokers.bookies
    lonely, *others = brokers.brokers
    whole = lonely.metadata
    for broker in brokers.brokers:
        broker.stop()
    with Cut(bookies.zookeeper.port) as wire:
        lonely.metadata = whole.replace(f":{bookies.zookeeper.port}", f":{wire.port}")
        try:
            lonely.start()
            topic = brokers.new_topic("cut")
            with Workload(lonely.service_url, topic, "near") as near:
                near.more()
                others[0].start()
                # Its first address is that of the broker that is cut off.
                with Workload(brokers.service_url, topic, "far") as far:
                    far.more()
                    for work in (near, far):
                        work.fault("the owner is cut off from ZooKeeper")
                    wire.cut()
                    await_true(
                        lambda: brokers.owner(topic, asked=others[0]) is others[0],
                        "another broker owns the topic",
                    )
                    far.more()
                    wire.mend()
                    near.more()
                    far.more()
        finally:
            lonely.stop()
            lonely.metadata = whole


def test_a_graceful_stop_hands_topics_over(brokers: BrokerCluster) -> None:
    topic = brokers.new_topic("stopped")
    with Workload(brokers.service_url, topic) as work:
        work.more()
        owner = brokers.owner(topic)
        work.fault("the owner is stopped")
        owner.stop()
        work.more()
        assert brokers.owner(topic) is not owner


def test_bundles_are_unloaded_again_and_again_under_load(brokers: BrokerCluster) -> None:
    topic = brokers.new_topic("unloaded")
    with Workload(brokers.service_url, topic) as work, brokers.admin() as admin:
        for _ in range(5):
            work.more(20)
            work.fault("the namespace is unloaded")
            admin.namespaces.unload("public/default")
        work.more()


def test_the_owner_is_killed_while_its_bundle_is_unloaded(brokers: BrokerCluster) -> None:
    topic = brokers.new_topic("unload-killed")
    with Workload(brokers.service_url, topic) as work:
        work.more()
        owner = brokers.owner(topic)
        with brokers.admin(brokers.keep(owner)) as admin:
            work.fault("the namespace is unloaded, and the owner killed")
            admin.namespaces.unload("public/default")
            owner.kill()
        work.more()
