"""Options of the SDK's client as source and sink take them: `client.keepAlive`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from magnetar import ConfigurationError, ConnectionPolicy

ClientOptions: TypeAlias = Mapping[str, str]
"""By their names in Python."""
_OF_CONNECTIONS: Final = (
    "connection_timeout",
    "connections_per_broker",
    "keep_alive",
    "max_idle",
    "proxy_url",
)
_REFUSED_S: Final = 3600.0
"""A worker may begin while brokers restart: they have the operation timeout."""
_OF_CLIENT: Final = ("listener_name", "description", "memory_limit")


def parse_client(given: Mapping[str, str]) -> dict[str, str]:
    """Raise ConfigurationError for what a client does not take."""
    known = {name.replace("_", ""): name for name in (*_OF_CONNECTIONS, *_OF_CLIENT)}
    found = {}
    for written, value in given.items():
        name = known.get(written.lower().replace("_", ""))
        if name is None:
            there = ", ".join(f"client.{_camel(each)}" for each in known.values())
            raise ConfigurationError(f"There is no option client.{written}; there are {there}")
        found[name] = value
    make_keywords(found)  # what cannot be is refused here and not in a task
    return found


def make_keywords(options: ClientOptions) -> dict[str, Any]:
    """What a client is made with."""
    policy: dict[str, Any] = {
        name: _number(name, value) for name, value in options.items() if name in _OF_CONNECTIONS
    }
    given: dict[str, Any] = {name: each for name, each in options.items() if name in _OF_CLIENT}
    return given | {"connection": ConnectionPolicy(refused_timeout=_REFUSED_S, **policy)}


def _number(name: str, text: str) -> float | int | str:
    """Durations are seconds."""
    if name == "proxy_url":
        return text
    try:
        return int(text) if name == "connections_per_broker" else float(text.removesuffix("s"))
    except ValueError:
        raise ConfigurationError(f"client.{_camel(name)} is a number, not {text!r}") from None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))
