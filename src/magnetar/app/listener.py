"""The sockets that a broker is reached at, and how it tells others of them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from magnetar.app.tls import check_tls
from magnetar.broker.ownership import Owner, parse_listeners
from magnetar.errors import InvalidConfiguration
from magnetar.model.position import Term
from magnetar.runtime.accept import bind_socket, open_socket
from magnetar.runtime.configuration import Configuration

ANYWHERE: Final = "0.0.0.0"  # nosec B104


class Ports(NamedTuple):
    """0 takes a free one; None: not served."""

    plain: int | None
    secure: int | None
    web: int | None
    web_secure: int | None


@dataclass(frozen=True, slots=True)
class Listeners:
    """The sockets of the binary protocol and of HTTP, each with and without TLS.

    Those of HTTP are bound but do not listen yet: their numbers are part of what the broker says of
    itself, and no other process may take them meanwhile.
    """

    plain: socket.socket | None = None
    secure: socket.socket | None = None
    web: socket.socket | None = None
    web_secure: socket.socket | None = None

    def close(self) -> None:
        for listener in (self.plain, self.secure, self.web, self.web_secure):
            if listener is not None:
                listener.close()

    @property
    def ports(self) -> Ports:
        return Ports(*map(port_of, (self.plain, self.secure, self.web, self.web_secure)))


def plan_ports(settings: Configuration, port: int | None, web_port: int | None) -> Ports:
    """What the command line says, then the configuration; raise InvalidConfiguration for TLS that
    is not set up as a whole.
    """
    plain = settings.brokerServicePort if port is None else port
    web = settings.webServicePort if web_port is None else web_port
    check_tls(settings, has_plain=plain is not None, has_web=web is not None)
    return Ports(plain, settings.brokerServicePortTls, web, settings.webServicePortTls)


def open_listeners(host: str, ports: Ports) -> Listeners:
    """Raise InvalidConfiguration when one of them is taken."""
    opened: list[socket.socket | None] = []
    try:
        for make, port in zip((open_socket,) * 2 + (bind_socket,) * 2, ports, strict=True):
            opened.append(None if port is None else _open(make, host, port))
    except InvalidConfiguration:
        Listeners(*opened).close()
        raise
    return Listeners(*opened)


def port_of(listener: socket.socket | None) -> int | None:
    return None if listener is None else int(listener.getsockname()[1])


def _open(make: Callable[[str, int], socket.socket], host: str, port: int) -> socket.socket:
    try:
        return make(host, port)
    except OSError as error:
        raise InvalidConfiguration(f"cannot listen on {host}:{port}: {error.strerror}") from None


def describe_owner(settings: Configuration, host: str, ports: Ports, term: Term) -> Owner:
    """A broker of this process, at its advertised addresses."""
    is_anywhere = host == ANYWHERE
    advertised = settings.advertisedAddress or (socket.gethostname() if is_anywhere else host)
    # Certificates name hosts, seldom addresses.
    named = "localhost" if advertised == "127.0.0.1" else advertised

    def url(scheme: str, port: int | None, at: str = advertised) -> str:
        return "" if port is None else f"{scheme}://{at}:{port}"

    return Owner(
        broker_id=f"{advertised}:{ports.web or ports.web_secure}",
        service_url=url("pulsar", ports.plain),
        web_url=url("http", ports.web),
        term=term,
        is_self=True,
        listeners=parse_listeners(settings.advertisedListeners),
        service_url_tls=url("pulsar+ssl", ports.secure, named),
        web_url_tls=url("https", ports.web_secure, named),
    )
