"""Who gets the chunks of a message that is too large for one entry: all of them go to one
consumer.
"""

from __future__ import annotations

from typing import Final

from magnetar.broker.consumer import Consumer

_MESSAGES_MAX: Final = 1000
"""Chunked messages under way at once; of one that its producer never finished nothing is left in
the end.
"""


class ChunkOwners:
    """By the message's uuid: from its first chunk until its last, or until the consumer leaves."""

    def __init__(self) -> None:
        self._owners: dict[str, Consumer] = {}
        self._waiting: dict[tuple[int, int], Consumer] = {}
        """Chunks in the replay queue, by who must get them."""

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, uuid: str) -> Consumer | None:
        return self._owners.get(uuid)

    def on_chunk(self, uuid: str, consumer: Consumer, *, is_last: bool) -> None:
        """A chunk goes to `consumer`."""
        if is_last:
            self._owners.pop(uuid, None)
            return
        self._owners[uuid] = consumer
        if len(self._owners) > _MESSAGES_MAX:
            del self._owners[next(iter(self._owners))]

    def wait(self, position: tuple[int, int], consumer: Consumer) -> None:
        """A chunk cannot go to its owner now."""
        self._waiting[position] = consumer

    def is_free(self, position: tuple[int, int]) -> bool:
        """Whether an entry waits for nobody who could not take it."""
        consumer = self._waiting.get(position)
        return consumer is None or consumer.can_receive

    def let_go(self, position: tuple[int, int]) -> None:
        self._waiting.pop(position, None)

    def remove_consumer(self, consumer: Consumer) -> None:
        for uuid in [u for u, owner in self._owners.items() if owner is consumer]:
            del self._owners[uuid]
        for position in [p for p, owner in self._waiting.items() if owner is consumer]:
            del self._waiting[position]
