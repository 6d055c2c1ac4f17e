"""The place that the SDK's suites run in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from magnetar.testing.broker import MagnetarBroker
from tests.contract.sdk_place import KINDS, Flavour, Kind, Place, make_place


@pytest.fixture(params=list(Flavour))
def flavour(request: pytest.FixtureRequest) -> Flavour:
    return Flavour(request.param)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, flavour: Flavour) -> Iterator[Place]:
    def broker() -> MagnetarBroker:
        found = request.getfixturevalue("magnetar_broker")
        assert isinstance(found, MagnetarBroker)
        return found

    made = make_place(Kind(request.param), flavour, broker)
    yield made
    made.admin.close()
