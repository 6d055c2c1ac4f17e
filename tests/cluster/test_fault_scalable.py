"""Brokers die while the layout of a scalable topic changes under load.

Each broker is killed once: one of them has the topic's controller, others own its segments. Each is
killed a little later than the one before, when the change has come further.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from magnetar.testing.broker import HOST
from tests.cluster.brokers import BrokerCluster
from tests.cluster.change import DELAY_S, active, asking, finish_changes, plan_changes
from tests.cluster.workload import Workload


def test_keys_stay_in_order_while_segments_of_several_brokers_split_and_merge(
    brokers: BrokerCluster,
) -> None:
    topic = brokers.new_scalable("orders", segments=4)
    with Workload(brokers.service_url, topic) as work:
        for _ in range(2):
            work.more()
            with brokers.admin() as admin:
                admin.scalable_topics.split(topic, active(brokers, topic)[0])
            assert len(active(brokers, topic)) == 5
            work.more()
            with brokers.admin() as admin:
                admin.scalable_topics.merge(topic, *active(brokers, topic)[-2:])
            assert len(active(brokers, topic)) == 4
        work.more()
    with brokers.admin() as admin:
        segments = admin.scalable_topics.stats(topic)["segments"].values()
    assert len({place(brokers, str(each["name"])) for each in segments}) > 1


def place(brokers: BrokerCluster, segment: str) -> str:
    """The broker that owns a segment: where calls about it are sent on to."""
    asked = brokers.running[0]
    local = segment.removeprefix("segment://")
    connection = HTTPConnection(HOST, asked.web_port, timeout=30)
    try:
        connection.request("GET", f"/admin/v2/segments/{local}/subscription/one-live/backlog")
        sent_on = connection.getresponse().headers.get("location", asked.admin_url)
    finally:
        connection.close()
    return urlsplit(sent_on).netloc


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_split_a_merge_and_a_migration_are_finished_after_any_broker_is_killed(
    brokers: BrokerCluster, victim: int
) -> None:
    killed = brokers.brokers[victim]
    changes = plan_changes(brokers)
    with ExitStack() as stack:
        works = [stack.enter_context(Workload(brokers.service_url, each)) for each in changes]
        for work in works:
            work.more()
        asked = brokers.keep(killed)
        joins = [asking(brokers, asked, change, topic) for topic, change in changes.items()]
        time.sleep(victim * DELAY_S)
        for work in works:
            work.fault(f"{killed.name} is killed during a change")
        killed.kill()
        for join in joins:
            join()
        for work in works:
            work.more()
        finish_changes(brokers, changes)
        for work in works:
            work.more()
