"""The brokers of this folder keep their metadata on ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from magnetar.testing.broker import MagnetarBroker, Setting
from magnetar.testing.plugin import StartBroker
from magnetar.testing.zookeeper import shared_zookeeper


def make_broker(**settings: Setting) -> MagnetarBroker:
    return MagnetarBroker(set=settings, arguments=["--metadata", shared_zookeeper().new_url()])


@pytest.fixture(scope="session")
def magnetar_broker() -> Iterator[MagnetarBroker]:
    with make_broker() as broker:
        yield broker


@pytest.fixture
def magnetar_broker_factory() -> Iterator[StartBroker]:
    with ExitStack() as stack:

        def start(**settings: Setting) -> MagnetarBroker:
            return stack.enter_context(make_broker(**settings))

        yield start
