"""ZooKeeper goes away and comes back while clients work."""

from __future__ import annotations

import time

from tests.cluster.brokers import SESSION_MS, BrokerCluster
from tests.cluster.workload import Workload


def test_loaded_topics_are_served_while_zookeeper_restarts(brokers: BrokerCluster) -> None:
    with Workload(brokers.service_url, brokers.new_topic("restart")) as work:
        work.more()
        work.fault("ZooKeeper is killed")
        brokers.bookies.zookeeper.kill()
        work.more()
        brokers.bookies.zookeeper.start()
        work.more()


def test_nothing_is_lost_when_every_session_ends(brokers: BrokerCluster) -> None:
    with Workload(brokers.service_url, brokers.new_topic("sessions")) as work:
        work.more()
        work.fault("ZooKeeper is away for longer than any session")
        brokers.bookies.zookeeper.kill()
        time.sleep(2 * SESSION_MS / 1000)
        brokers.bookies.zookeeper.start()
        work.more()
        for broker in brokers.brokers:
            broker.await_serving()
        work.more()
