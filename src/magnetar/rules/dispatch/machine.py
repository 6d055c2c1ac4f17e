"""What the machines of all kinds of subscription have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from magnetar.model.position import EARLIEST, Position
from magnetar.rules.dispatch.action import Action, Deliver, Entries, Moment, Read
from magnetar.rules.dispatch.member import Member

C = TypeVar("C")

NO_LIMIT: Final = 1 << 60


class DispatchLimits(NamedTuple):
    """How many messages may be unacknowledged, and whether messages may be delayed."""

    unacked_per_consumer: int = NO_LIMIT
    unacked_in_all: int = NO_LIMIT
    delays: bool = True


class Machine(ABC, Generic[C]):
    """Decides which consumer gets which entry.

    At most one read is under way: `poll` asks for no other until it is answered. An event that may
    let an entry go out sets `is_due`; the caller polls then.
    """

    def __init__(self) -> None:
        self.members: list[Member[C]] = []
        self.active: Member[C] | None = None
        """The only one that gets entries, where there is such a one."""
        self.read_position: Position = EARLIEST
        """The next entry that is read for the first time."""
        self.unacked = 0
        self.blocked = False
        """Too much is unacknowledged in all: nothing is delivered."""
        self.is_due = False
        self._reading: Read | None = None
        self._arrivals = 0

    # Consumers

    def _note_arrival(self, member: Member[C]) -> None:
        """Members of one priority stand as they came, so that one that leaves is found at once."""
        self._arrivals += 1
        member.order = self._arrivals

    def rival_of(self, member: Member[C]) -> Member[C] | None:
        """A consumer that keeps a newcomer out."""
        return None

    @abstractmethod
    def add(self, member: Member[C], now: Moment) -> Sequence[Action[C]]:
        """Raise ConsumerBusy or ConsumerAssignRefused when there is no place for it."""

    @abstractmethod
    def remove(self, member: Member[C], now: Moment) -> Sequence[Action[C]]: ...

    def grant(self, member: Member[C], permits: int) -> None:
        """A consumer asks for more messages."""
        if member.blocked:
            member.blocked_permits += permits
        else:
            member.permits += permits
            self.is_due = True

    def set_writable(self, member: Member[C], writable: bool) -> None:
        """The connection of a consumer takes no more for now, or takes more again."""
        member.writable = writable
        self.is_due = self.is_due or writable

    # Acknowledgement

    def release(
        self,
        member: Member[C] | None,
        position: tuple[int, int],
        remaining: int | None,
        *,
        is_final: bool = True,
    ) -> int:
        """An entry is acknowledged, through `member` or by no consumer, or all but `remaining`
        messages of it; return how many messages were held until now. One that is not final waits
        for a transaction: it is redelivered, or is released again.
        """
        return 0

    def discard(self, first: Position, last: Position, following: Position) -> None:
        """Everything from a position to another is acknowledged by no consumer; `following` is the
        position behind it.
        """
        if self.read_position <= last:
            self.read_position = following
        self.is_due = True

    @abstractmethod
    def redeliver(
        self, member: Member[C] | None, positions: Sequence[tuple[int, int]]
    ) -> Sequence[Action[C]]:
        """A consumer gives entries back; no positions means all it holds. Without a consumer: a
        transaction had acknowledged them and was aborted.
        """

    def set_limits(self, limits: DispatchLimits) -> None:
        self.is_due = True

    # Reading

    @abstractmethod
    def poll(self, now: Moment, allowed: int) -> Sequence[Action[C]]:
        """What to do now. Rate limits allow so many messages."""

    @abstractmethod
    def on_entries(self, read: Read, entries: Entries, now: Moment) -> Sequence[Deliver[C]]:
        """A read found entries at, or behind, its position."""

    @abstractmethod
    def offer(self, entries: Entries, now: Moment) -> Sequence[Deliver[C]]:
        """Entries that are kept nowhere: what is not delivered now is lost."""

    def on_nothing(self, read: Read) -> None:
        """Nothing is behind the position of a read."""
        if read is self._reading:
            self._reading = None

    def on_failed(self, read: Read) -> None:
        """A read found out nothing; it may be repeated."""
        if read is self._reading:
            self._reading = None
            self.is_due = True

    def on_rewound(self, position: Position) -> None:
        """Read on from another position."""
        self._reading = None
        self.read_position = position
        self.is_due = True

    def is_reading(self, read: Read) -> bool:
        """Whether the answer to a read is still wanted."""
        return read is self._reading


def cut_by_permits(counts: Sequence[int], permits: int) -> int:
    """How many whole entries go out while permits are left: the last may overdraw them."""
    total = 0
    for index, count in enumerate(counts):
        if total >= permits:
            return index
        total += count
    return len(counts)
