"""What a supervisor and its workers say to each other, beside metadata and ledgers."""

from __future__ import annotations

from typing import Final

import msgspec

CALLS: Final = "calls/"
REST: Final = "rest/"
NUMBER: Final = "number"
ORDER: Final = "order"
JOINED: Final = "joined"
"""Answered when all have joined: then each gets its share of what one alone would take."""
# Notices of a worker, in this order, then those of the supervisor.
OPENED: Final = "opened"
READY: Final = "ready"
REFUSED: Final = "refused"
ADMIT: Final = "admit"
STOP: Final = "stop"


class Order(msgspec.Struct, frozen=True):
    """All that a worker needs to start. Sockets are numbers of open files."""

    number: int
    workers: int
    keeps: list[int]
    """The stores of ledgers that it keeps; it writes to that of its own number."""
    data: str
    host: str
    own: list[int | None]
    """The sockets that only this worker answers at."""
    shared: list[int | None]
    """Those of the address that clients know."""
    config: str | None
    overrides: list[str]
    log_format: str
    log_level: str
