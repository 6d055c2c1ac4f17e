"""All tests of this folder share one ZooKeeper and its bookies, which start once in a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar.testing.bookkeeper import BookieCluster, shared_bookies

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
