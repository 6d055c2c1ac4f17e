"""The place that the SDK's suites run in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar.testing.bookkeeper import shared_bookies
from tests.cluster.brokers import BrokerCluster
from tests.cluster.conftest import GROUP
from tests.contract.sdk_place import KINDS, PEER_ADMIN, PEER_URL, Flavour, Kind, Place

BROKERS = {
    # As a broker has them that nobody has set up: the suites know these.
    "metadataStoreSessionTimeoutMillis": 30_000,
    "bookkeeperClientTimeoutInSeconds": 30,
    "managedLedgerMaxEntriesPerLedger": 50_000,
    "defaultRetentionTimeInMinutes": 0,
    "defaultRetentionSizeInMB": 0,
}


# Where messages, cursors, segments and transactions are kept and moved. What the others show is
# done in the client, whatever brokers write to; MAGNETAR_CONTRACT=whole runs them there too.
KEPT = ("checkpoint", "column", "layout", "queue", "stream", "subscription", "transaction", "wiped")
IS_WHOLE = os.environ.get("MAGNETAR_CONTRACT") == "whole"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A cluster gets a test once, by the asyncio client: what is tested there are brokers and
    bookies. One worker has them, that of the other tests of bookies.
    """
    here, left_out = Path(__file__).parent, []
    for item in items:
        given = getattr(item, "callspec", None)
        if given is None or here not in item.path.parents:
            continue
        if given.params.get("place") is Kind.CLUSTER:
            item.add_marker(pytest.mark.xdist_group(GROUP))
            is_kept = IS_WHOLE or item.path.stem.removeprefix("test_sdk_") in KEPT
            if given.params.get("flavour") is Flavour.SYNC or not is_kept:
                left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        dropped = set(left_out)
        items[:] = [item for item in items if item not in dropped]


@pytest.fixture(scope="session")
def cluster() -> Iterator[BrokerCluster]:
    """Two brokers on bookies, for all tests of the session; do not stop them."""
    with BrokerCluster(shared_bookies(), 2, BROKERS) as brokers:
        yield brokers


@pytest.fixture(params=list(Flavour))
def flavour(request: pytest.FixtureRequest) -> Flavour:
    return Flavour(request.param)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, flavour: Flavour) -> Iterator[Place]:
    kind = Kind(request.param)
    match kind:
        case Kind.APACHE:
            urls = PEER_URL, PEER_ADMIN
        case Kind.CLUSTER:
            brokers = request.getfixturevalue("cluster")
            urls = brokers.service_url, brokers.running[0].admin_url
        case Kind.MAGNETAR:
            broker = request.getfixturevalue("magnetar_broker")
            urls = broker.service_url, broker.admin_url
    made = Place(kind, flavour, *urls)
    yield made
    made.admin.close()
