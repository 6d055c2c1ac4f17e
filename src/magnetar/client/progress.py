"""How far an application has come: in one segment, and in all as the ids of a stream tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from magnetar.client.message_id import EARLIEST_ID, LATEST_ID, MessageId
from magnetar.model.segment import SegmentId


class Placed(Protocol):
    """A message."""

    @property
    def place(self) -> MessageId: ...


class Floor(NamedTuple):
    """Where delivery starts: the broker starts at the entry, the rest is dropped here."""

    id: MessageId
    is_included: bool

    @property
    def is_passed(self) -> bool:
        """Whether it is a message that is done, and not one that comes next or a mark."""
        is_message = self.id not in (EARLIEST_ID, LATEST_ID)
        return is_message and not self.is_included and self.id.batch_index <= self.id.batch_size - 1

    def wants(self, id: MessageId) -> bool:
        if self.id in (EARLIEST_ID, LATEST_ID):
            return True
        if id.position != self.id.position:
            return id.position > self.id.position
        if self.id.batch_index < 0 or id.batch_index < 0:
            return self.is_included
        if id.batch_index == self.id.batch_index:
            return self.is_included
        return id.batch_index > self.id.batch_index


class ReaderPlace:
    """Where a reader would start anew: where it began, or after what was taken last."""

    def __init__(self, start: Floor | None) -> None:
        self.taken: Placed | None = None
        """The last message that the application got."""
        self._is_reader = start is not None
        self._start = start

    @property
    def floor(self) -> Floor | None:
        if self.taken is None or not self._is_reader:
            return self._start
        return Floor(self.taken.place, is_included=False)

    def move(self, floor: Floor | None) -> None:
        self._start = floor
        self.taken = None


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
