"""How far an application has come in every segment, as the ids of a stream's messages tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from magnetar.client.message_id import MessageId
from magnetar.model.segment import SegmentId


class UnackedIds:
    """Not acknowledged yet, in the order it was handed out.

    Entry buckets that change hands are delivered from where they stood: a message may be handed out
    after one that was stored later, so its id does not tell what came before it.
    """

    def __init__(self) -> None:
        self._ids: dict[MessageId, None] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ids: Iterable[MessageId]) -> None:
        self._ids.update(dict.fromkeys(ids))

    def up_to(self, last: MessageId) -> list[MessageId]:
        """Everything handed out up to this one; nothing if it is not here any more."""
        found: list[MessageId] = []
        if last in self._ids:
            for id in tuple(self._ids):  # a receiving thread may add to it meanwhile
                found.append(id)
                if id == last:
                    break
        return found

    def remove(self, id: MessageId) -> None:
        self._ids.pop(id, None)


Step = tuple[str, SegmentId]


class Placed(Protocol):
    """A message."""

    @property
    def place(self) -> MessageId: ...


class Progress:
    """What all messages taken one after the other from one segment have in common."""

    __slots__ = ("_others", "step")

    def __init__(self, step: Step, others: Mapping[Step, Placed]) -> None:
        self.step = step
        """The topic and the segment."""
        self._others = others
        """The last message that was taken from every other segment."""

    def identify(self, place: MessageId, number: SegmentId) -> MessageId:
        is_named = place.topic is not None
        own = place.topic
        vectors: dict[str | None, dict[SegmentId, MessageId]] = {own: {}}
        for (title, other), last in self._others.items():
            vectors.setdefault(title if is_named else None, {})[other] = last.place
        vectors[own][number] = place
        return replace(place, vectors=vectors)


class PositionVector:
    """The last message taken from each segment. What others have is copied only on a change
    from one segment to another, not for each message.
    """

    def __init__(self) -> None:
        self._last: dict[Step, Placed] = {}
        self._progress: Progress | None = None

    def advance(self, title: str, number: SegmentId, last: Placed) -> Progress:
        """The application gets messages of a segment, up to `last`."""
        progress = self._progress
        if progress is None or progress.step[1] != number or progress.step[0] != title:
            step = (title, number)
            known = tuple(self._last.items())  # the loop's thread may forget one meanwhile
            others = {each: message for each, message in known if each != step}
            progress = self._progress = Progress(step, others)
        self._last[progress.step] = last
        return progress

    def last_id(self, title: str, number: SegmentId) -> MessageId | None:
        last = self._last.get((title, number))
        return None if last is None else last.place

    def forget(self, title: str, number: SegmentId) -> None:
        self._last.pop((title, number), None)
        self._progress = None

    def clear(self) -> None:
        self._last.clear()
        self._progress = None
