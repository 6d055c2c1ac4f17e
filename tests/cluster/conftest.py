"""All tests of this folder share one ZooKeeper and its bookies, which start once in a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar.testing.apache import find_pulsar_jars, format_apache
from magnetar.testing.bookkeeper import BookieCluster, shared_bookies
from magnetar.testing.jar import ServerMissing
from tests.cluster.brokers import BrokerCluster

GROUP = "bookkeeper"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(GROUP))


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
    return shared_brokers


@pytest.fixture
def rolling(bookies: BookieCluster) -> Iterator[BrokerCluster]:
    """Two brokers that begin a new ledger after every 20 entries."""
    settings = {
        "managedLedgerMaxEntriesPerLedger": 20,
        "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    }
    with BrokerCluster(bookies, 2, settings) as cluster:
        yield cluster


@pytest.fixture
def apache_cluster() -> Iterator[BookieCluster]:
    """Two bookies of its own, set up for brokers of Apache Pulsar; no ledger id is taken."""
    try:
        find_pulsar_jars()
    except ServerMissing as missing:
        pytest.skip(missing.sentence)
    with BookieCluster(2) as cluster:
        format_apache(cluster)
        yield cluster
