"""Bookies that are killed, paused, full and replaced while clients work."""

from __future__ import annotations

import pytest

from magnetar.testing.process import ServerFailed
from tests.cluster.brokers import BrokerCluster
from tests.cluster.workload import Workload


def test_any_bookie_may_be_killed(brokers: BrokerCluster) -> None:
    """Two of three are left, which is what an ensemble of two needs."""
    with Workload(brokers.service_url, brokers.new_topic("bookie")) as work:
        for victim in brokers.bookies.bookies:
            work.more()
            work.fault(f"{victim.name} is killed")
            victim.kill()
            work.more()
            victim.await_unlisted()
            victim.start()


def test_a_paused_bookie_holds_nothing_up_for_good(brokers: BrokerCluster) -> None:
    """Entries wait for it until it has had its time, and then go to another."""
    with Workload(brokers.service_url, brokers.new_topic("paused-bookie")) as work:
        for victim in brokers.bookies.bookies:
            work.more()
            work.fault(f"{victim.name} is paused")
            victim.pause()
            work.more(300)
            victim.resume()
        work.more()


def test_a_bookie_whose_disk_is_full_takes_no_more_and_serves_what_it_has(
    brokers: BrokerCluster,
) -> None:
    """Full disks make a bookie read-only, which it can be told to be."""
    with Workload(brokers.service_url, brokers.new_topic("full")) as work:
        work.more()
        victim = brokers.bookies.bookies[0]
        work.fault("a bookie becomes read-only")
        victim.kill()
        victim.await_unlisted()
        victim.settings["forceReadOnlyBookie"] = True
        try:
            victim.start()
            work.more()
        finally:
            del victim.settings["forceReadOnlyBookie"]
            victim.restart()
        work.more()


def test_a_bookie_is_replaced_by_an_empty_one(brokers: BrokerCluster) -> None:
    bookies = brokers.bookies
    with Workload(brokers.service_url, brokers.new_topic("replaced")) as work:
        work.more()
        victim = bookies.bookies[-1]
        work.fault("a bookie loses its disk")
        victim.kill()
        victim.wipe()
        # Under its old name it would answer for entries that it has lost.
        with pytest.raises(ServerFailed, match="InvalidCookie"):
            victim.start()
        victim.kill()
        bookies.bookies.remove(victim)
        added = bookies.add_bookie()
        work.more()
        assert added.is_serving


def test_ledgers_roll_over_while_a_bookie_dies(rolling: BrokerCluster) -> None:
    with Workload(rolling.service_url, rolling.new_topic("rolling")) as work:
        work.more()
        victim = rolling.bookies.bookies[0]
        work.fault("a bookie is killed")
        victim.kill()
        work.more(200)
        victim.await_unlisted()
        victim.start()
        work.more(200)


def test_the_owner_is_killed_while_ledgers_roll_over(rolling: BrokerCluster) -> None:
    topic = rolling.new_topic("rolling-owner")
    with Workload(rolling.service_url, topic) as work:
        work.more(100)
        work.fault("the owner is killed")
        rolling.owner(topic).kill()
        work.more(100)
