"""Where brokers are: service URLs taken apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from magnetar.client.error import ConfigurationError

_SECURE: Final = {"pulsar": False, "pulsar+ssl": True}
_DEFAULT_PORTS: Final = {False: 6650, True: 6651}


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    host: str
    port: int
    secure: bool = False

    @property
    def endpoint(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"pulsar{'+ssl' if self.secure else ''}://{self.endpoint}"


def parse_addresses(service_url: str) -> tuple[BrokerAddress, ...]:
    """Read `pulsar://host:port`, `pulsar+ssl://host:port`, or several hosts with commas."""
    text = service_url if isinstance(service_url, str) else ""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in _SECURE:
        hint = " (the admin URL goes to magnetar.Admin)" if scheme in ("http", "https") else ""
        raise ConfigurationError(
            f"Not a service URL: {service_url!r};"
            f" expected pulsar://host:port or pulsar+ssl://host:port{hint}"
        )
    secure = _SECURE[scheme]
    addresses = []
    for each in rest.rstrip("/").split(","):
        parts = urlsplit(f"//{each.strip()}")
        try:
            port = parts.port
        except ValueError:
            port = 0
        if not parts.hostname or port == 0 or parts.path:
            raise ConfigurationError(f"Not a service URL: {service_url!r}; bad host {each!r}")
        addresses.append(BrokerAddress(parts.hostname, port or _DEFAULT_PORTS[secure], secure))
    return tuple(addresses)
