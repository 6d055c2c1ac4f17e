"""How many connections a process may take with the file descriptors that it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_RESERVE_MAX: Final = 1024
"""Enough for the journal, the ledgers that are read, the metadata and the libraries."""


@dataclass(frozen=True, slots=True)
class ConnectionPlan:
    connections: int
    http_connections: int


def plan_connections(descriptors: int, wanted: int, wanted_http: int) -> ConnectionPlan:
    """A quarter of the descriptors, or 1024, stays free; HTTP gets a quarter at most, the binary
    protocol the rest. `wanted` is what the configuration says; 0 is as many as there can be.
    """
    reserve = min(_RESERVE_MAX, descriptors // 4)
    http = max(1, min(wanted_http or descriptors, descriptors // 4))
    rest = max(1, descriptors - reserve - http)
    return ConnectionPlan(min(wanted or rest, rest), http)
