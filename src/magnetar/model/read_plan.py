"""What a query that reads many topics asks of brokers, and what they answer.

A part is what one reader attaches to: a segment of a scalable topic, a partition of a regular one,
or a topic without partitions. Positions are `ledger:entry` of the last entry that was read.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from magnetar.errors import BadRequest
from magnetar.model.position import Position

PARTS_MAX: Final = 100_000
NOWHERE: Final = "-1:-1"
"""Before the first entry."""

Count = Annotated[int, Meta(ge=0)]


class ReadQuery(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Which topics, and how far each of their parts was read."""

    topics: tuple[str, ...] = ()
    """By name, without a domain; or those of a namespace."""
    namespace: str = ""
    pattern: str = ""
    """Of the local name; of topics of the namespace."""
    properties: dict[str, str] = {}
    """That scalable topics of the namespace must have."""
    positions: dict[str, dict[str, str]] = {}
    """By topic and the number of a part: what stands before is left out."""
    at_ms: dict[str, int] = {}
    """By topic, `*` for the others: tell the last entry of each part before this time."""
    hold: str = ""
    """The subscription that keeps what the query has not read."""
    limit: Annotated[int, Meta(ge=1, le=PARTS_MAX)] = 20_000
    """Of topics in one answer."""
    after: str = ""
    """Go on behind this topic."""
    version: str = ""
    """Of an earlier answer: when nothing has changed since, only that is answered."""


class LedgerExtent(Struct, frozen=True, array_like=True):
    """A ledger with its durable entries and their bytes."""

    ledger: int
    entries: int
    size: int


class HiddenRange(Struct, frozen=True, array_like=True):
    """Entries of a ledger that readers never get: a transaction wrote them and was aborted."""

    ledger: int
    first: int
    last: int


class PartState(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What stands in one part, from the ledger of its position on."""

    name: str
    id: int = 0
    ledgers: tuple[LedgerExtent, ...] = ()
    end: str = NOWHERE
    """The last entry that readers may get now."""
    is_pinned: bool = False
    """Whether entries behind the end wait for transactions: also a part that is sealed gets more
    to read then.
    """
    entries: int = 0
    """After the position, up to the end; and their bytes."""
    size: int = 0
    parents: tuple[int, ...] = ()
    is_sealed: bool = False
    sealed_ms: int = 0
    is_held: bool = False
    """Whether the query's subscription is there."""
    passed: tuple[str, ...] = ()
    """The first and the last entry that this subscription was moved past although the query has not
    read them, by expiry, a quota or an administrator.
    """
    hidden: tuple[HiddenRange, ...] = ()
    before: str = ""
    """The last entry before the time that was asked for."""
    is_missing: bool = False
    is_elsewhere: bool = False
    """Another broker serves it by now."""


class TopicState(Struct, frozen=True, omit_defaults=True, rename="camel"):
    name: str
    domain: str
    parts: tuple[PartState, ...] = ()
    next: int = 0
    """No part with this number or a higher one exists yet."""
    is_held: bool = False
    """Of a topic that has lost parts: whether the query's subscription is there, so that they were
    drained by it before they went.
    """


class ReadPlan(Struct, frozen=True, omit_defaults=True, rename="camel"):
    topics: tuple[TopicState, ...] = ()
    missing: tuple[str, ...] = ()
    more: str = ""
    """Given where there are more topics: ask for those after this one."""
    version: str = ""
    is_unchanged: bool = False


class PartQuery(Struct, frozen=True, omit_defaults=True):
    """One part, as the broker that owns it is asked."""

    name: str
    position: str = ""
    at_ms: int | None = None


class Cut(Struct, frozen=True, omit_defaults=True):
    """Part of a log, after one entry and up to another, of which so much may be read."""

    name: str
    after: str
    through: str
    weight: Count = 1
    """What it gets of a limit, in proportion: such as the bytes between the two."""
    messages: Count | None = None
    size: Count | None = None
    """Of bytes."""
    is_forced: bool = False
    """Whether one entry is read whatever it holds."""


class CutQuery(Struct, frozen=True, omit_defaults=True):
    """How much of several parts may be read together."""

    parts: tuple[Cut, ...]
    messages: Count | None = None
    size: Count | None = None


class Reached(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The last entry within a limit, and what is read up to there."""

    name: str
    position: str
    messages: int = 0
    size: int = 0
    is_end: bool = False
    next_ms: int = 0
    """When the entry behind it was published."""


class HoldState(StrEnum):
    MADE = "made"
    MOVED = "moved"
    GONE = "gone"
    """There is no such part."""


class HoldMove(Struct, frozen=True, omit_defaults=True):
    """What a hold need not keep any more of a part."""

    name: str
    position: str


def format_place(position: Position) -> str:
    return f"{position.ledger_id}:{position.entry_id}"


def parse_place(text: str) -> Position:
    ledger, _, entry = text.partition(":")
    try:
        return Position(int(ledger), int(entry))
    except ValueError:
        raise BadRequest(f"{text!r} is not a position; write ledger:entry") from None
