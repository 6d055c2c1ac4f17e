"""Transactions: their ids and states, and the records that coordinators and participants keep.

A record is what a journal holds. Each owner's state follows from its records alone, in order.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.position import Position

ASSIGN_TOPIC: Final = TopicName(
    TopicDomain.PERSISTENT, NamespaceName("pulsar", "system"), "transaction_coordinator_assign"
)
"""The owner of partition N runs coordinator N; nothing is ever written there."""


class TransactionId(NamedTuple):
    """The coordinator's number, and the number that it gave out."""

    most: int
    least: int

    def __str__(self) -> str:
        return f"({self.most},{self.least})"


class Status(StrEnum):
    OPEN = "OPEN"
    COMMITTING = "COMMITTING"
    ABORTING = "ABORTING"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"

    @property
    def is_commit(self) -> bool:
        return self in (Status.COMMITTING, Status.COMMITTED)


class Outcome(NamedTuple):
    """What is known of a transaction elsewhere. Until `open_until_ms` it may still be committed."""

    is_commit: bool
    open_until_ms: int = 0


class Range(NamedTuple):
    """Entries first..last of one ledger."""

    ledger_id: int
    first: int
    last: int


class Acknowledged(NamedTuple):
    """An entry, or of a batch all messages but the `remaining` ones (words of bits; 1: not
    acknowledged). The batch has `size` messages; 0: not known.
    """

    ledger_id: int
    entry_id: int
    remaining: tuple[int, ...] | None = None
    size: int = 0


class Reserved(Struct, frozen=True, array_like=True, tag="reserved"):
    """Numbers below this one may have been given out."""

    end: int


class Begun(Struct, frozen=True, array_like=True, tag="begun"):
    least: int
    owner: str
    started_ms: int
    timeout_ms: int


class Joined(Struct, frozen=True, array_like=True, tag="joined"):
    least: int
    topics: tuple[str, ...]
    subscriptions: tuple[tuple[str, str], ...]
    """Topic and subscription of each."""


class Decided(Struct, frozen=True, array_like=True, tag="decided"):
    """From here on there is only forward."""

    least: int
    is_commit: bool
    at_ms: int
    cause: str


class Finished(Struct, frozen=True, array_like=True, tag="finished"):
    """Every participant has the outcome; it is kept for clients that ask again."""

    least: int
    is_commit: bool
    at_ms: int
    cause: str = ""
    """Who decided it, if not the client."""


CoordinatorRecord: TypeAlias = Reserved | Begun | Joined | Decided | Finished


class Writing(Struct, frozen=True, array_like=True, tag="writing"):
    """A transaction may write to the topic, behind the entry `after`."""

    id: TransactionId
    after: Position
    deadline_ms: int
    owner: str = ""
    """The role that began it."""


class Acking(Struct, frozen=True, array_like=True, tag="acking"):
    """A transaction may acknowledge on a subscription."""

    id: TransactionId
    subscription: str
    deadline_ms: int


class Acked(Struct, frozen=True, array_like=True, tag="acked"):
    id: TransactionId
    subscription: str
    is_cumulative: bool
    entries: tuple[Acknowledged, ...]


class Ended(Struct, frozen=True, array_like=True, tag="ended"):
    """The outcome is applied here."""

    id: TransactionId
    is_commit: bool


class Hidden(Struct, frozen=True, array_like=True, tag="hidden"):
    """Entries of an aborted transaction, as long as their ledgers are there."""

    id: TransactionId
    ranges: tuple[Range, ...]


class Dropped(Struct, frozen=True, array_like=True, tag="dropped"):
    """A subscription was deleted, with all that transactions acknowledge there. One that is made
    later by the same name has nothing to do with it.
    """

    subscription: str


ParticipantRecord: TypeAlias = Writing | Acking | Acked | Ended | Hidden | Dropped


class SnapshotBegun(Struct, frozen=True, array_like=True, tag="snapshot"):
    """The records up to the next `SnapshotEnded` stand for all before this one."""


class SnapshotEnded(Struct, frozen=True, array_like=True, tag="snapshot ended"):
    """Without it, a snapshot that was begun counts for nothing."""


Record: TypeAlias = CoordinatorRecord | ParticipantRecord | SnapshotBegun | SnapshotEnded


class Transaction(Struct, frozen=True):
    """One that has not ended everywhere."""

    id: TransactionId
    owner: str
    """The role that began it; empty: any caller may go on with it."""
    started_ms: int
    timeout_ms: int
    status: Status = Status.OPEN
    topics: tuple[str, ...] = ()
    subscriptions: tuple[tuple[str, str], ...] = ()
    decided_ms: int = 0
    cause: str = ""

    @property
    def deadline_ms(self) -> int:
        return self.started_ms + self.timeout_ms

    @property
    def participants(self) -> tuple[str, ...]:
        """Every topic that has to be given the outcome, each once."""
        names = (*self.topics, *(topic for topic, _ in self.subscriptions))
        return tuple(dict.fromkeys(names))
