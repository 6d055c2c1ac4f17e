"""Tests of this folder share servers that start once in a run: a ZooKeeper with three bookies, and
three brokers on them. Those that need the brokers and those that do not are two groups of xdist, so
that two workers share the waiting; each group has servers of its own.

Which file kills what (SIGKILL), and during what. Ledgers of brokers roll over every 50 entries, so
that a roll-over is under way in all of them:

| killed              | publish          | split, merge, migrate | unload       | recovery     |
| ------------------- | ---------------- | --------------------- | ------------ | ------------ |
| owner               | fault_broker     | fault_scalable        | fault_broker | fault_broker |
| controller's broker | fault_scalable   | fault_scalable        | fault_broker | fault_broker |
| a bookie            | fault_bookie     | fault_bookie          | fault_bookie | fault_bookie |
| leader of ZooKeeper | fault_bookie     | fault_bookie          | fault_bookie | fault_bookie |

SIGSTOP beyond the session: fault_broker, fault_bookie, fault_zookeeper. A full disk, and a bookie
that an empty one replaces, with what it alone had: fault_bookie. Two brokers that both believe:
fault_broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar.testing.bookkeeper import BookieCluster, shared_bookies
from tests.cluster.brokers import STEADY_SESSION_MS, BrokerCluster

GROUP = "bookkeeper"
BROKER_GROUP = "brokers"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            needs = {"brokers", "steady"} & set(getattr(item, "fixturenames", ()))
            item.add_marker(pytest.mark.xdist_group(BROKER_GROUP if needs else GROUP))


@pytest.fixture
def bookies() -> Iterator[BookieCluster]:
    """Three bookies that serve; what a test does to them is mended after it."""
    cluster = shared_bookies()
    yield cluster
    cluster.mend()


@pytest.fixture(scope="session")
def shared_brokers() -> Iterator[BrokerCluster]:
    with BrokerCluster(shared_bookies()) as cluster:
        yield cluster


@pytest.fixture
def brokers(bookies: BookieCluster, shared_brokers: BrokerCluster) -> BrokerCluster:
    """Three brokers that serve; what an earlier test did to them is mended."""
    shared_brokers.mend()
    shared_brokers.spread()
    return shared_brokers


@pytest.fixture
def steady(bookies: BookieCluster) -> BrokerCluster:
    """Two brokers, not yet started, whose ledgers do not roll over: that takes a ZooKeeper."""
    settings = {
        "managedLedgerMaxEntriesPerLedger": 1_000_000,
        "metadataStoreSessionTimeoutMillis": STEADY_SESSION_MS,
    }
    return BrokerCluster(bookies, 2, settings)
