"""ZooKeeper goes away and comes back while clients work."""

from __future__ import annotations

import time
from contextlib import ExitStack

from tests.cluster.brokers import STEADY_SESSION_MS, BrokerCluster
from tests.cluster.workload import Workload


def test_loaded_topics_are_served_while_zookeeper_is_away_and_after_every_session_ended(
    steady: BrokerCluster,
) -> None:
    """ZooKeeper may keep sessions that brokers have given up: their time begins anew with it."""
    zookeeper = steady.bookies.zookeeper
    with ExitStack() as stack:
        stack.enter_context(steady)
        topics = (steady.new_topic("restart"), steady.new_scalable("restart"))
        works = [stack.enter_context(Workload(steady.service_url, topic)) for topic in topics]

        def more(count: int = 50) -> None:
            for work in works:
                work.more(count)

        def fault(what: str) -> None:
            for work in works:
                work.fault(what)

        more()
        fault("ZooKeeper is paused")
        zookeeper.pause()
        more(20)
        zookeeper.resume()
        more()
        fault("ZooKeeper is killed")
        zookeeper.kill()
        more(20)
        zookeeper.start()
        more()
        fault("ZooKeeper is away for longer than any session")
        zookeeper.kill()
        time.sleep(1.5 * STEADY_SESSION_MS / 1000)
        zookeeper.start()
        more()
        for broker in steady.brokers:
            broker.await_serving()
        more()
