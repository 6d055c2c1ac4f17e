from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from magnetar.app.broker_link import HttpBrokerLink, make_authentication
from magnetar.broker.broker_call import Request
from magnetar.broker.ownership import Owner
from magnetar.client.authentication import (
    BasicAuthentication,
    TlsAuthentication,
    TokenAuthentication,
)
from magnetar.errors import InvalidConfiguration, ServiceNotReady
from magnetar.model.position import Term
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.configuration import Configuration

_JAVA = "org.apache.pulsar.client.impl.auth"


def _configure(plugin: str, parameters: str = "") -> Configuration:
    return Configuration(
        {
            "brokerClientAuthenticationPlugin": plugin,
            "brokerClientAuthenticationParameters": parameters,
        }
    )


@pytest.mark.parametrize("text", ["token:abc", "abc", '{"token": "abc"}'])
def test_a_token_is_given_in_each_spelling_of_pulsar(text: str) -> None:
    found = make_authentication(_configure(f"{_JAVA}.AuthenticationToken", text))
    assert isinstance(found, TokenAuthentication)
    assert found.auth_data("host") == b"abc"


def test_a_token_in_a_file_is_read_anew(tmp_path: Path) -> None:
    place = tmp_path / "token"
    found = make_authentication(_configure("token", f"file://{place}"))
    assert isinstance(found, TokenAuthentication)
    for token in ("first", "second"):
        place.write_text(f"{token}\n")
        assert found.auth_data("host") == token.encode()


def test_other_methods_are_known_by_their_classes_and_by_none() -> None:
    basic = make_authentication(
        _configure(f"{_JAVA}.AuthenticationBasic", '{"userId": "b", "password": "p"}')
    )
    assert basic == BasicAuthentication("b", "p")
    tls = make_authentication(
        _configure(f"{_JAVA}.AuthenticationTls", "tlsCertFile:/c.pem,tlsKeyFile:/k.pem")
    )
    assert tls == TlsAuthentication("/c.pem", "/k.pem")
    assert make_authentication(Configuration({})) is None


@pytest.mark.parametrize(
    ("plugin", "parameters"), [("AuthenticationAthenz", ""), ("basic", '{"userId": ')]
)
def test_credentials_that_cannot_be_used_are_refused_by_the_name_of_their_key(
    plugin: str, parameters: str
) -> None:
    with pytest.raises(InvalidConfiguration, match="brokerClientAuthentication"):
        make_authentication(_configure(plugin, parameters))


def test_a_broker_that_is_not_there_is_not_ready() -> None:
    async def body() -> None:
        link = HttpBrokerLink(Configuration({}), SystemClock())
        owner = Owner("gone:1", "pulsar://127.0.0.1:1", "http://127.0.0.1:1", Term(1), False)
        with pytest.raises(ServiceNotReady, match="gone:1"):
            await link.send(owner, "Segments.see", Request("topic://a/b/c", "topic://a/b/c"))
        await link.close()

    asyncio.run(body())
