"""What a client of BookKeeper is configured with."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Final

from magnetar.ledger.store import Replication
from magnetar.wire.bookkeeper import DigestType

_MIB: Final = 1 << 20


_TWO_COPIES: Final = Replication(2, 2, 2)


@dataclass(frozen=True, slots=True)
class BookkeeperPolicy:
    replication: Replication = _TWO_COPIES
    """Of a ledger that is made without one."""
    digest: DigestType = DigestType.CRC32C
    """Of a ledger that is made with the default one."""
    password: bytes = b""
    timeout_s: float = 30.0
    """How long a bookie may take to answer; one that has entries and says nothing is replaced."""
    connect_timeout_s: float = 10.0
    quarantine_s: float = 30.0
    """How long a bookie that failed is chosen only when there is no other."""
    speculative_read_s: float = 0.0
    """After this time a read is sent to another bookie too; 0: after a failure only."""
    explicit_last_s: float = 0.0
    """How often bookies are sent the last confirmed entry of an idle ledger; 0: never."""
    min_racks: int = 2
    """Racks that the bookies of an entry are in, as far as there are so many."""
    enforce_racks: bool = False
    """Refuse to make a ledger over fewer racks."""
    frame_bytes_max: int = 5 * _MIB + 10 * 1024
    """The largest frame that bookies take; they close the connection over a larger one."""
    buffered_bytes_max: int = 64 * _MIB
    """What may wait to be sent to a bookie before it is replaced."""
    tls: ssl.SSLContext | None = None
