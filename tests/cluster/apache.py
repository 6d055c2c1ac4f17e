"""Bookies for brokers of Apache Pulsar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from magnetar.testing.apache import find_pulsar_jars, format_apache
from magnetar.testing.bookkeeper import BookieCluster
from magnetar.testing.jar import ServerMissing


@contextmanager
def apache_bookies() -> Iterator[BookieCluster]:
    """Two bookies, set up for brokers of Apache Pulsar; no ledger id is taken at first."""
    try:
        find_pulsar_jars()
    except ServerMissing as missing:
        pytest.skip(missing.sentence)
    with BookieCluster(2) as cluster:
        format_apache(cluster)
        yield cluster
