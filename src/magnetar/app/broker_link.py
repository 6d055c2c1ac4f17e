"""Link between the brokers of a cluster: calls over HTTP, as the role that the configuration
gives this broker.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Final

import msgspec

from magnetar.broker.broker_call import Reply, Request
from magnetar.broker.ownership import Owner
from magnetar.client.admin.loop import LoopNetwork
from magnetar.client.admin.transport import Transport, format_path
from magnetar.client.authentication import (
    Authentication,
    BasicAuthentication,
    TlsAuthentication,
    TlsPolicy,
    TokenAuthentication,
)
from magnetar.client.error import PulsarError
from magnetar.errors import InvalidConfiguration, ServiceNotReady
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration

_CALLS: Final = "admin/v2/broker-calls"
_TIMEOUT_S: Final = 30.0
_CALLS_MAX: Final = 128
"""At one broker at a time. Calls there may lead to others that come back here."""
_PLUGIN: Final = "brokerClientAuthenticationPlugin"
_PARAMETERS: Final = "brokerClientAuthenticationParameters"


class HttpBrokerLink:
    def __init__(self, config: Configuration, clock: Clock) -> None:
        """Raise InvalidConfiguration for unusable credentials."""
        self._config = config
        self._clock = clock
        self._authentication = make_authentication(config)
        self._transports: dict[str, Transport] = {}
        config.listen((_PLUGIN, _PARAMETERS), self._renew)

    def _renew(self) -> None:
        """Calls under way keep the credentials that they began with."""
        self._authentication = make_authentication(self._config)
        self._transports.clear()

    async def send(self, owner: Owner, call: str, request: Request) -> Reply:
        urls = (owner.web_url, owner.web_url_tls)
        wants_tls = self._config.brokerClientTlsEnabled
        url = urls[wants_tls] or urls[not wants_tls]
        body = msgspec.to_builtins(request)
        try:
            found = await self._transport(url).post(f"{_CALLS}/{format_path(call)}", body)
            return msgspec.convert(found, Reply)
        except (PulsarError, msgspec.ValidationError) as error:
            raise ServiceNotReady(f"Broker {owner.broker_id} does not answer: {error}") from None

    def _transport(self, url: str) -> Transport:
        transport = self._transports.get(url)
        if transport is None:
            network = LoopNetwork(self._clock)
            network.turns = asyncio.Semaphore(_CALLS_MAX)
            config = self._config
            transport = self._transports[url] = Transport(
                url,
                network=network,
                authentication=self._authentication,
                tls=TlsPolicy(
                    trust_certs=config.brokerClientTrustCertsFilePath or None,
                    certificate=config.brokerClientCertificateFilePath or None,
                    key=config.brokerClientKeyFilePath or None,
                ),
                timeout_s=_TIMEOUT_S,
            )
        return transport

    async def close(self) -> None:
        for transport in self._transports.values():
            await transport.close()


def make_authentication(config: Configuration) -> Authentication | None:
    """Who this broker is at the others: a Java class of Pulsar's, or its method's own name."""
    plugin = config.brokerClientAuthenticationPlugin.strip()
    method = plugin.rpartition(".")[2].removeprefix("Authentication").lower()
    text = config.brokerClientAuthenticationParameters.strip()
    match method:
        case "" | "disabled":
            return None
        case "token":
            return _make_token(text)
        case "basic":
            given = _parse(text)
            return BasicAuthentication(given.get("userId", ""), given.get("password", ""))
        case "tls":
            given = _parse(text)
            return TlsAuthentication(given.get("tlsCertFile", ""), given.get("tlsKeyFile", ""))
        case _:
            raise InvalidConfiguration(
                f"{_PLUGIN}: {plugin!r} is not known; there are AuthenticationToken,"
                " AuthenticationBasic, AuthenticationTls and AuthenticationDisabled"
            )


def _make_token(text: str) -> TokenAuthentication:
    """`token:…`, `file:…`, a JSON object, or the token itself; a file is read for each call."""
    given = _parse(text) if text.startswith("{") else {}
    text = given.get("token", text)
    kind, separator, rest = text.partition(":")
    if separator and kind == "file":
        place = Path(rest.removeprefix("//"))
        return TokenAuthentication(lambda: place.read_text().strip())
    return TokenAuthentication(rest if separator and kind == "token" else text)


def _parse(text: str) -> dict[str, str]:
    """A JSON object, or `key:value,key:value`."""
    if text.startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            raise InvalidConfiguration(
                f"{_PARAMETERS} is not the JSON that it looks like"
            ) from None
        return {str(key): str(value) for key, value in found.items()}
    pairs = (part.partition(":") for part in filter(None, text.split(",")))
    return {key.strip(): value.strip() for key, _, value in pairs}
