"""Producers and consumers of one connection: attached, being attached, and disconnected a short
while ago.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

from magnetar.broker.consumer import Consumer, ConsumersAway
from magnetar.broker.producer import Producer
from magnetar.errors import ProtocolViolation
from magnetar.runtime.clock import Clock

_CLOSED_GRACE_S: Final = 30.0
"""How long SENDs to a producer that the broker closed are dropped."""


class _Member(Protocol):
    @property
    def id(self) -> int: ...

    def detach(self) -> None: ...


M = TypeVar("M", bound=_Member)


class _Members(Generic[M]):
    """Attached ones by the ids that the client gave them, and creations under way."""

    __slots__ = ("_attached", "_coming")

    def __init__(self) -> None:
        self._attached: dict[int, M] = {}
        self._coming: dict[int, object] = {}
        """A creation that is not here any more was given up."""

    def __len__(self) -> int:
        return len(self._attached)

    def __iter__(self) -> Iterator[M]:
        return iter(list(self._attached.values()))

    def get(self, member_id: int) -> M | None:
        return self._attached.get(member_id)

    def is_coming(self, member_id: int) -> bool:
        return member_id in self._coming

    def expect(self, member_id: int) -> object:
        """Note that a creation begins; return what it is known by."""
        creation = self._coming[member_id] = object()
        return creation

    def attach(self, member: M, creation: object) -> bool:
        """End a creation; return False when the client left or changed its mind meanwhile."""
        if self._coming.get(member.id) is not creation:
            return False
        del self._coming[member.id]
        self._attached[member.id] = member
        return True

    def give_up(self, member_id: int, creation: object) -> None:
        """End a creation that is still noted."""
        if self._coming.get(member_id) is creation:
            del self._coming[member_id]

    def pop(self, member_id: int) -> M | None:
        """Take one out, and give its creation up: what follows may use the id again."""
        self._coming.pop(member_id, None)
        return self._attached.pop(member_id, None)

    def discard(self, member: M) -> bool:
        """Take one out, unless it left and its id may be used again; return whether it did not."""
        if self._attached.get(member.id) is not member:
            return False
        del self._attached[member.id]
        return True

    def close(self) -> None:
        self._coming.clear()
        for member in self:
            member.detach()
        self._attached.clear()


class Producers(_Members[Producer]):
    __slots__ = ("_clock", "_closed_at")

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._closed_at: dict[int, float] = {}

    def attach(self, member: Producer, creation: object) -> bool:
        if not super().attach(member, creation):
            return False
        self._closed_at.pop(member.id, None)
        return True

    def disconnect(self, producer: Producer) -> bool:
        """As `discard`, for one that the broker closes: its client reconnects it."""
        if not self.discard(producer):
            return False
        now = self._clock.monotonic()
        for known, at in list(self._closed_at.items()):
            if now - at >= _CLOSED_GRACE_S:
                del self._closed_at[known]
        self._closed_at[producer.id] = now
        return True

    def check_stray(self, producer_id: int) -> None:
        """Raise ProtocolViolation for a SEND to a producer that is not ready, unless it was sent
        before the client knew that its producer was closed: it will send that again.
        """
        if producer_id in self._attached:
            raise ProtocolViolation(f"a SEND of {producer_id}, which waits for its turn")
        closed_at = self._closed_at.get(producer_id)
        if closed_at is None or self._clock.monotonic() - closed_at >= _CLOSED_GRACE_S:
            raise ProtocolViolation(f"a SEND for the unknown producer {producer_id}")


class Consumers(_Members[Consumer]):
    __slots__ = ("away",)

    def __init__(self) -> None:
        super().__init__()
        self.away = ConsumersAway()

    def pop(self, member_id: int) -> Consumer | None:
        self.away.pop(member_id)
        return super().pop(member_id)

    def close(self) -> None:
        super().close()
        self.away.clear()
