"""What a machine is fed with, and what it answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from magnetar.model.position import Position

C = TypeVar("C")


class Moment(NamedTuple):
    """The time of an event."""

    wall_ms: int
    """As messages name the time of their delivery."""
    steady_s: float
    """Never goes back."""


class Chunk(NamedTuple):
    """A part of a message that is too large for one entry."""

    uuid: str
    is_last: bool


class Traits(NamedTuple):
    """What dispatch may have to know of one entry."""

    key: bytes = b""
    bucket_hash: int | None = None
    """Stamped by a producer that fills entries by buckets of the key's hash."""
    deliver_at_ms: int = 0
    chunk: Chunk | None = None


class Entries(Protocol):
    """Consecutive entries of one ledger, as found by a read or pushed by a producer."""

    @property
    def ledger_id(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def counts(self) -> Sequence[int]:
        """How many messages of each entry are not acknowledged."""

    @property
    def skipped(self) -> Collection[int]:
        """Indexes of entries that are not for delivery: acknowledged, or not for this reader."""

    @property
    def withheld(self) -> Collection[int]:
        """Those among them that a transaction acknowledges, and that may be redelivered."""

    def special(self) -> Collection[int]:
        """Indexes of entries that may be delayed or chunks."""

    def traits(self, index: int) -> Traits: ...


class Read(NamedTuple):
    """Read entries from a position on; answer with `on_entries`, `on_nothing` or `on_failed`."""

    position: Position
    entries_max: int
    is_replay: bool = False


class Rewind(NamedTuple, Generic[C]):
    """Find the first entry to read and answer with `on_rewound`. If there is a `reader`, only that
    one gets what is read from there on.
    """

    reader: C | None


class Announce(NamedTuple, Generic[C]):
    """Tell a consumer whether it is the active one."""

    consumer: C
    is_active: bool


class Sleep(NamedTuple):
    """Poll again after a while at the latest."""

    seconds: float


Action: TypeAlias = Read | Rewind[C] | Announce[C] | Sleep


class Deliver(NamedTuple, Generic[C]):
    """Send entries to a consumer, in order."""

    consumer: C
    indexes: Sequence[int]
    """Into the entries that were handed in."""
    messages: int
    redeliveries: Sequence[int] | None = None
    """How often each entry was redelivered before; None: never."""
