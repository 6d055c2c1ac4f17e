"""Who gets the chunks of a message that is too large for one entry: all of them go to one
consumer.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from magnetar.rules.dispatch.member import Member

C = TypeVar("C")

_MESSAGES_MAX: Final = 1000
"""Chunked messages under way at once; of one that its producer never finished nothing is left in
the end.
"""


class ChunkOwners(Generic[C]):
    """By the message's uuid: from its first chunk until its last, or until the consumer leaves."""

    def __init__(self) -> None:
        self._owners: dict[str, Member[C]] = {}
        self._waiting: dict[tuple[int, int], Member[C]] = {}
        """Chunks in the replay queue, by who must get them."""

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, uuid: str) -> Member[C] | None:
        return self._owners.get(uuid)

    def on_chunk(self, uuid: str, member: Member[C], *, is_last: bool) -> None:
        """A chunk goes to `member`."""
        if is_last:
            self._owners.pop(uuid, None)
            return
        self._owners[uuid] = member
        if len(self._owners) > _MESSAGES_MAX:
            del self._owners[next(iter(self._owners))]

    def wait(self, position: tuple[int, int], member: Member[C]) -> None:
        """A chunk cannot go to its owner now."""
        self._waiting[position] = member

    def is_free(self, position: tuple[int, int]) -> bool:
        """Whether an entry waits for no consumer, or for one that can receive."""
        member = self._waiting.get(position)
        return member is None or member.can_receive

    def let_go(self, position: tuple[int, int]) -> None:
        self._waiting.pop(position, None)

    def remove(self, member: Member[C]) -> None:
        for uuid in [u for u, owner in self._owners.items() if owner is member]:
            del self._owners[uuid]
        for position in [p for p, owner in self._waiting.items() if owner is member]:
            del self._waiting[position]
