"""Brokers die while the layout of a scalable topic changes under load.

Each broker is killed once: one of them has the topic's controller, others own its segments. Each is
killed a little later than the one before, when the change has come further.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from magnetar.client.admin import AdminClient
from magnetar.errors import MagnetarError
from magnetar.testing.member import ClusterBroker
from tests.cluster.brokers import BrokerCluster
from tests.cluster.workload import Workload, await_true

DELAY_S = 0.04
Change = Callable[[AdminClient, str], None]


def active(brokers: BrokerCluster, topic: str) -> list[int]:
    with brokers.admin() as admin:
        segments = admin.scalable_topics.metadata(topic)["segments"]
    return sorted(int(name) for name, each in segments.items() if each["state"] == "ACTIVE")


def asking(
    brokers: BrokerCluster, asked: ClusterBroker, change: Change, topic: str
) -> Callable[[], None]:
    """Ask for a change aside: its answer may be lost with the broker that was to give it."""

    def ask() -> None:
        try:
            with brokers.admin(asked) as admin:
                change(admin, topic)
        except MagnetarError:
            pass

    thread = threading.Thread(target=ask)
    thread.start()
    return thread.join


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_split_is_finished_after_any_broker_is_killed(
    brokers: BrokerCluster, victim: int
) -> None:
    topic = brokers.new_scalable(f"split-{victim}", segments=1)
    with Workload(brokers.service_url, topic) as work:
        work.more()
        killed = brokers.brokers[victim]
        join = asking(
            brokers,
            brokers.keep(killed),
            lambda admin, name: admin.scalable_topics.split(name, 0),
            topic,
        )
        time.sleep(victim * DELAY_S)
        work.fault(f"{killed.name} is killed during a split")
        killed.kill()
        join()
        work.more()
        ensure(brokers, topic, 2, lambda admin: admin.scalable_topics.split(topic, 0))
        work.more()


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_merge_is_finished_after_any_broker_is_killed(
    brokers: BrokerCluster, victim: int
) -> None:
    topic = brokers.new_scalable(f"merge-{victim}", segments=2)
    with Workload(brokers.service_url, topic) as work:
        work.more()
        killed = brokers.brokers[victim]
        join = asking(
            brokers,
            brokers.keep(killed),
            lambda admin, name: admin.scalable_topics.merge(name, 0, 1),
            topic,
        )
        time.sleep(victim * DELAY_S)
        work.fault(f"{killed.name} is killed during a merge")
        killed.kill()
        join()
        work.more()
        ensure(brokers, topic, 1, lambda admin: admin.scalable_topics.merge(topic, 0, 1))
        work.more()


def test_a_migration_is_finished_after_the_owner_is_killed(brokers: BrokerCluster) -> None:
    topic = brokers.new_topic("migrated")
    scalable = topic.replace("persistent://", "topic://")
    with Workload(brokers.service_url, topic) as work:
        work.more()
        owner = brokers.owner(topic)
        join = asking(
            brokers,
            brokers.keep(owner),
            lambda admin, name: admin.scalable_topics.migrate_to_scalable(name, segments=2),
            topic,
        )
        work.fault("the owner is killed during a migration")
        owner.kill()
        join()
        work.more()

        def is_migrated() -> bool:
            try:
                with brokers.admin() as admin:
                    if scalable in admin.scalable_topics.list("public/default"):
                        return True
                    admin.scalable_topics.migrate_to_scalable(topic, segments=2)
            except MagnetarError:
                return False
            return True

        await_true(is_migrated, "the topic is scalable")
        work.more()


def ensure(
    brokers: BrokerCluster, topic: str, wanted: int, change: Callable[[AdminClient], None]
) -> None:
    """The change happened, or it was refused whole and can be asked for again."""

    def look() -> bool:
        try:
            if len(active(brokers, topic)) == wanted:
                return True
            with brokers.admin() as admin:
                change(admin)
        except MagnetarError:
            return False
        return False

    await_true(look, f"{topic} has {wanted} active segments")
