"""Pytest fixtures over a real broker; installed with the package, so a test only names them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from magnetar.testing.broker import MagnetarBroker, Setting


class StartBroker(Protocol):
    def __call__(self, **settings: Setting) -> MagnetarBroker: ...


@pytest.fixture(scope="session")
def magnetar_broker() -> Iterator[MagnetarBroker]:
    """One broker with plain settings for all tests of the session; do not stop it."""
    with MagnetarBroker() as broker:
        yield broker


@pytest.fixture
def magnetar_broker_factory() -> Iterator[StartBroker]:
    """Start brokers of the test's own, each with its settings; they stop with the test."""
    with ExitStack() as stack:

        def start(**settings: Setting) -> MagnetarBroker:
            return stack.enter_context(MagnetarBroker(set=settings))

        yield start
