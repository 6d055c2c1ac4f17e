"""What the ledgers and the metadata know of each other's last commit.

Each says how far it has come with every commit of the other. When one is replaced by an old copy,
or loses its end, the other knows of something that is not there any more.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from magnetar.ledger.backends.file.extent import Point
from magnetar.model.document import decode_json


class MetadataWitness(NamedTuple):
    """The metadata had this identity and had committed this often."""

    identity: str
    commits: int


class LedgerWitness(msgspec.Struct, frozen=True):
    """The journal was durable up to a point, and ledgers up to an id had been made."""

    extent: int
    end: int
    next_ledger: int

    @property
    def point(self) -> Point:
        return Point(self.extent, self.end)


def format_witness(witness: LedgerWitness) -> str:
    return msgspec.json.encode(witness).decode()


def parse_witness(text: str) -> LedgerWitness | None:
    """None when nothing was said."""
    return decode_json(text, LedgerWitness) if text else None
