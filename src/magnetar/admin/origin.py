"""Keeps pages of other sites from using a reader's browser to reach the broker.

A browser tells with every change it asks for which page asks: a page of another site is refused.
Reading needs no such word, since a page cannot see what it was not allowed to; unless the site's
name was pointed at this machine after the page was loaded. Then the request is addressed to a name
that is not this broker's: without authentication, only its own names are answered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from magnetar.errors import Forbidden

_HOST: Final = re.compile(
    r"(?:\[(?P<address>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[0-9A-Za-z_-]{1,63}(?:\.[0-9A-Za-z_-]{1,63})*\.?))"
    r"(?::[0-9]{1,5})?"
)
_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))


def check_origin(method: str, headers: Mapping[str, str]) -> None:
    """Raise Forbidden for a change that a page of another site asks for."""
    origin = headers.get("origin")
    if origin is None or method in _SAFE:
        return
    if _authority(origin) != headers.get("host", "").lower():
        raise Forbidden(f"A page of {origin!r} may not change anything here")


def check_host(headers: Mapping[str, str], local_address: str, names: frozenset[str]) -> None:
    """Raise Forbidden when a request that came in on this machine's own address calls the broker
    by a name that is none of its own.
    """
    host = headers.get("host")
    if host is None or not _is_loopback(local_address):
        return
    name = _name_of(host)
    if name is None:
        raise Forbidden("The Host header is not a name or an address with an optional port")
    # An address cannot be pointed elsewhere.
    if name not in names and name != "localhost" and _parse_address(name) is None:
        raise Forbidden(
            f"The name {name!r} is not one of this broker's: set advertisedAddress to it,"
            " or switch authentication on"
        )


@lru_cache(maxsize=64)
def _is_loopback(address: str) -> bool:
    """Of one of this machine's own addresses, which are few."""
    parsed = _parse_address(address)
    return parsed is not None and parsed.is_loopback


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _name_of(host: str) -> str | None:
    """What a browser sends, and nothing that only a lenient parser would take for it."""
    found = _HOST.fullmatch(host)
    if found is None:
        return None
    return (found["address"] or found["name"].rstrip(".")).lower()


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
