"""What an application has of a segment that is acknowledged message by message."""

from __future__ import annotations

from collections.abc import Iterable

from magnetar.client.message_id import MessageId as EntryId


class UnackedIds:
    """Not acknowledged yet, in the order it was handed out.

    Entry buckets that change hands are delivered from where they stood: a message may be handed out
    after one that was stored later, so its id does not tell what came before it.
    """

    def __init__(self) -> None:
        self._ids: dict[EntryId, None] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ids: Iterable[EntryId]) -> None:
        self._ids.update(dict.fromkeys(ids))

    def up_to(self, last: EntryId) -> list[EntryId]:
        """Everything handed out up to this one; nothing if it is not here any more."""
        found: list[EntryId] = []
        if last in self._ids:
            for id in self._ids:
                found.append(id)
                if id == last:
                    break
        return found

    def remove(self, id: EntryId) -> None:
        self._ids.pop(id, None)
