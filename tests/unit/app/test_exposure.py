from __future__ import annotations

import pytest

from magnetar.app.exposure import check_exposure
from magnetar.errors import InvalidConfiguration
from magnetar.runtime.configuration import Configuration


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_alone_needs_no_credentials(host: str) -> None:
    check_exposure(Configuration(standalone=True), host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "broker.example", "127.example"])
def test_everybody_else_does_unless_the_operator_says_so(host: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"refused to listen on {host}"):
        check_exposure(Configuration(standalone=True), host)
    told = {"allowUnauthenticatedAccess": "true"}
    check_exposure(Configuration(told, standalone=True), host)
    check_exposure(Configuration({"authenticationEnabled": "true"}, standalone=True), host)


def test_a_standalone_broker_listens_to_this_machine_alone_unless_told() -> None:
    assert Configuration(standalone=True).bindAddress == "127.0.0.1"
