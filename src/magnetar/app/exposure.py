"""Whether the broker may listen on its configured address."""

from __future__ import annotations

from ipaddress import ip_address

from magnetar.errors import InvalidConfiguration
from magnetar.runtime.configuration import Configuration


def check_exposure(settings: Configuration, host: str) -> None:
    """Raise InvalidConfiguration when others could reach a broker without authentication."""
    if settings.authenticationEnabled or settings.allowUnauthenticatedAccess or is_loopback(host):
        return
    raise InvalidConfiguration(
        f"refused to listen on {host} without authentication: everybody who reaches it could read"
        " and delete everything. Set authenticationEnabled=true with a provider, listen on"
        " 127.0.0.1, or say allowUnauthenticatedAccess=true if the network itself keeps others out"
    )


def is_loopback(host: str) -> bool:
    """A name other than `localhost` may lead anywhere."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
