"""How far an application has come in every segment, as the ids of its messages tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from magnetar.client.message import Message as Delivered
from magnetar.client.message_id import MessageId as EntryId
from magnetar.client.scalable.message_id import MessageId
from magnetar.model.segment import SegmentId

Step = tuple[str, SegmentId]


class Mark:
    """What all messages taken one after the other from one segment have in common."""

    __slots__ = ("number", "others", "step", "title", "topic")

    def __init__(
        self,
        title: str,
        number: SegmentId,
        *,
        names_topic: bool,
        others: Mapping[Step, Delivered[Any]] | None = None,
    ) -> None:
        self.title = title
        """The topic."""
        self.number = number
        self.step = (title, number)
        self.topic = title if names_topic else None
        """The same where ids must tell it."""
        self.others = others
        """The last message that was taken from every other segment; None where it is not needed."""

    def identify(self, delivered: Delivered[Any]) -> MessageId:
        entry = delivered.id
        if self.others is None:
            return MessageId(self.number, entry, topic=self.topic)
        vectors: dict[str, dict[SegmentId, EntryId]] = {self.title: {}}
        for (title, number), last in self.others.items():
            vectors.setdefault(title, {})[number] = last.id
        own = vectors[self.title]
        own[self.number] = entry
        return MessageId(
            self.number, entry, own, self.topic, None if self.topic is None else vectors
        )


class Trail:
    """The last message taken from each segment. What others have is copied only on a change
    from one segment to another, not for each message.
    """

    def __init__(self, *, names_topic: bool) -> None:
        self._names_topic = names_topic
        self._last: dict[Step, Delivered[Any]] = {}
        self._mark: Mark | None = None

    def step(self, title: str, number: SegmentId, last: Delivered[Any]) -> Mark:
        """The application gets messages of a segment, up to `last`."""
        mark = self._mark
        if mark is None or mark.number != number or mark.title != title:
            key = (title, number)
            others = {each: message for each, message in self._last.items() if each != key}
            mark = Mark(title, number, names_topic=self._names_topic, others=others)
            self._mark = mark
        self._last[mark.step] = last
        return mark

    def last_id(self, title: str, number: SegmentId) -> EntryId | None:
        last = self._last.get((title, number))
        return None if last is None else last.id

    def forget(self, title: str, number: SegmentId) -> None:
        self._last.pop((title, number), None)
        self._mark = None

    def clear(self) -> None:
        self._last.clear()
        self._mark = None
