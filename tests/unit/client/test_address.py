from __future__ import annotations

from typing import Any

import pytest

from magnetar.client.address import BrokerAddress, parse_addresses
from magnetar.client.error import ConfigurationError


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("pulsar://h:1234", (BrokerAddress("h", 1234),)),
        ("pulsar://h/", (BrokerAddress("h", 6650),)),
        ("pulsar+ssl://h", (BrokerAddress("h", 6651, secure=True),)),
        ("pulsar://a:1,b:2", (BrokerAddress("a", 1), BrokerAddress("b", 2))),
        ("pulsar://[::1]:6650", (BrokerAddress("::1", 6650),)),
    ],
)
def test_a_service_url_names_its_hosts(url: str, expected: tuple[BrokerAddress, ...]) -> None:
    assert parse_addresses(url) == expected


@pytest.mark.parametrize(
    "url", ["", "h:6650", "http://h:8080", "pulsar://", "pulsar://h:x", "pulsar://h:1/path", None]
)
def test_what_is_no_service_url_is_refused(url: Any) -> None:
    with pytest.raises(ConfigurationError, match="service URL"):
        parse_addresses(url)


def test_an_admin_url_is_told_where_it_belongs() -> None:
    with pytest.raises(ConfigurationError, match=r"magnetar\.Admin"):
        parse_addresses("http://h:8080")


def test_an_address_is_spelled_as_it_is_read() -> None:
    for url in ("pulsar://h:1", "pulsar+ssl://[::1]:2"):
        assert str(parse_addresses(url)[0]) == url
