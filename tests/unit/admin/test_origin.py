from __future__ import annotations

import pytest

from magnetar.admin.origin import check_host
from magnetar.errors import Forbidden

NAMES = frozenset({"broker.example", "broker_1"})


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8080",
        "localhost.",
        "127.0.0.1:8080",
        "[::1]:8080",
        "[::ffff:127.0.0.1]",
        "broker.example:80",
        "broker_1",
    ],
)
def test_the_brokers_own_names_and_addresses_are_answered(host: str) -> None:
    check_host({"host": host}, "127.0.0.1", NAMES)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "user@localhost",
        "localhost#@evil.example",
        "localhost/evil",
        "localhost?evil",
        "localhost\\evil",
        "localhost:8080:80",
        "localhost:port",
        "localhost:",
        "localhost,evil.example",
        " localhost",
        "localhost..",
        "[localhost]",
        "[::1",
        "::1",
        "evil.example",
        "localhost.evil.example",
        "l\u043ecalhost",
        "localhost\n",
    ],
)
def test_every_other_host_is_refused(host: str) -> None:
    with pytest.raises(Forbidden):
        check_host({"host": host}, "127.0.0.1", NAMES)


def test_a_request_from_elsewhere_may_use_any_name() -> None:
    check_host({"host": "evil.example"}, "192.0.2.1", NAMES)
    check_host({}, "127.0.0.1", NAMES)
