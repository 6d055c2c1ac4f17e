"""Every refusal says once what it means over the wire and over REST."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest

from magnetar.errors import FAULTS, BrokerError, WireCode, fault_of
from tests.tidy.source import written_sources


def descendants(kind: type[BrokerError]) -> Iterator[type[BrokerError]]:
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


@pytest.fixture(scope="module")
def refusals() -> set[type[BrokerError]]:
    for source in written_sources():
        if source.room != "__main__":
            importlib.import_module(source.module)
    return set(descendants(BrokerError))


def test_every_refusal_has_a_row_and_every_row_a_refusal(refusals: set[type[BrokerError]]) -> None:
    assert set(FAULTS) == refusals


def test_refusals_are_declared_in_one_file(refusals: set[type[BrokerError]]) -> None:
    assert {kind.__module__ for kind in refusals} == {"magnetar.errors"}


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_a_refusal_is_an_error_to_every_peer(kind: type[BrokerError]) -> None:
    fault = fault_of(kind("a reason"))
    assert 400 <= fault.status < 600
    assert fault.code in WireCode
    assert kind("a reason").sentence == "a reason"
