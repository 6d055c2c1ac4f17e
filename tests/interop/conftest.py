"""The official client against our broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pulsar
import pytest

from magnetar.testing.broker import MagnetarBroker
from tests.interop.official import Admin, connect, make_admin


@pytest.fixture
def client(magnetar_broker: MagnetarBroker) -> Iterator[pulsar.Client]:
    official = connect(magnetar_broker)
    yield official
    official.close()


@pytest.fixture
def admin(magnetar_broker: MagnetarBroker) -> Admin:
    return make_admin(magnetar_broker)


@pytest.fixture
def topic() -> str:
    return f"persistent://public/default/t-{uuid.uuid4().hex[:12]}"
