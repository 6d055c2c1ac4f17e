"""How far a query has read: a checkpoint over the segments of each topic, as readable JSON.

`{"public/default/orders": {"positions": {"0": "12:99:-1:-1"}, "ended": [0], "next": 3}}`: of
segment 0 everything up to entry 99 of ledger 12, which is its end; segments from 3 on were never
seen. The part of one topic is the JSON of the SDK's checkpoint too. A regular topic has its
partitions for segments, under the numbers they keep when it is migrated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from magnetar.errors import MagnetarError
from magnetar.model.position import Position

HOLD: Final = "hold"
"""Beside the topics: the name of the query's subscriptions."""


class InvalidOffset(MagnetarError):
    """An offset that this source did not write."""


class Place(NamedTuple):
    """The last message that was read. A batch index of -1 is the whole entry, an entry of -1 the
    place before a ledger's first.
    """

    ledger: int
    entry: int
    batch: int = -1

    @property
    def position(self) -> Position:
        return Position(self.ledger, self.entry)

    @property
    def sort_key(self) -> tuple[int, int, int]:
        """A whole entry comes after its messages."""
        return (self.ledger, self.entry, self.batch if self.batch >= 0 else 1 << 62)

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}:-1:{self.batch}"


BEFORE_ALL: Final = Place(-1, -1)


def parse_place(text: object) -> Place:
    """`ledger:entry`, `ledger:entry:partition:batch`, either with `/batch_size` behind it."""
    place, _, size = str(text).partition("/")
    try:
        numbers = [int(each) for each in place.split(":")]
        count = int(size) if size else 0
    except ValueError:
        raise InvalidOffset(f"{text!r} is not a position; write ledger:entry") from None
    if len(numbers) not in (2, 4):
        raise InvalidOffset(f"{text!r} is not a position; write ledger:entry")
    batch = numbers[3] if len(numbers) == 4 else -1
    return Place(numbers[0], numbers[1], -1 if count and batch == count - 1 else batch)


@dataclass(frozen=True, slots=True)
class TopicOffset:
    """`ended` are segments that were sealed and are read to the end; they may be gone by now.

    `sizes` are the bytes that the batch up to here was planned with: tasks are made by them, and
    must be the same when the batch is run again.
    """

    places: Mapping[int, Place] = field(default_factory=dict)
    ended: frozenset[int] = frozenset()
    next: int = 0
    sizes: Mapping[int, int] = field(default_factory=dict)

    def place(self, segment: int) -> Place:
        return self.places.get(segment, BEFORE_ALL)


_UNREAD: Final = TopicOffset()


@dataclass(frozen=True, slots=True)
class Offset:
    topics: Mapping[str, TopicOffset] = field(default_factory=dict)
    hold: str | None = None

    def of(self, topic: str) -> TopicOffset:
        return self.topics.get(topic, _UNREAD)


def format_offset(offset: Offset) -> dict[str, Any]:
    """In an order that does not depend on how it came to be: equal offsets are equal text."""
    topics = ((name, format_topic_offset(offset.topics[name])) for name in sorted(offset.topics))
    return _with_hold(offset, topics)


def _with_hold(offset: Offset, topics: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    document: dict[str, Any] = {} if offset.hold is None else {HOLD: offset.hold}
    document.update(topics)
    return document


def format_topic_offset(topic: TopicOffset) -> dict[str, Any]:
    return {
        "positions": {str(each): str(topic.places[each]) for each in sorted(topic.places)},
        "ended": sorted(topic.ended),
        "next": topic.next,
        "bytes": {str(each): topic.sizes[each] for each in sorted(topic.sizes)},
    }


def parse_offset(document: Mapping[str, Any]) -> Offset:
    topics = {}
    hold = document.get(HOLD)
    if hold is not None and not isinstance(hold, str):
        raise InvalidOffset(f"The name of a hold is text, not {hold!r}")
    for name, stated in document.items():
        if name != HOLD:
            topics[name] = parse_topic_offset(name, stated)
    return Offset(topics, hold)


def parse_topic_offset(name: str, stated: object) -> TopicOffset:
    if not isinstance(stated, dict) or not isinstance(stated.get("positions"), dict):
        raise InvalidOffset(
            f'The offset of {name} is {stated!r}; expected {{"positions": {{"0": "12:3"}}}}'
        )
    positions: dict[str, Any] = stated["positions"]
    ended: list[Any] = stated.get("ended", [])
    following = stated.get("next", 0)
    sizes: dict[str, Any] = stated.get("bytes", {})
    numbers = (*positions, *ended, following, *sizes, *sizes.values())
    if not all(str(each).isdecimal() for each in numbers):
        raise InvalidOffset(f"Segments are numbers; the offset of {name} is {stated!r}")
    places = {int(each): parse_place(place) for each, place in positions.items()}
    done = frozenset(int(each) for each in ended)
    seen = max([int(following), *(each + 1 for each in (*places, *done))])
    planned = {int(each): int(size) for each, size in sizes.items()}
    return TopicOffset(places, done, seen, planned)


class OffsetCache:
    """Spark hands back what it was given: over many topics, telling so is sooner done than reading
    it again.
    """

    def __init__(self) -> None:
        self._known: list[tuple[Mapping[str, Any], Offset]] = []
        """The last two."""

    def format(self, offset: Offset) -> dict[str, Any]:
        """The text of a topic that stays where it was stays too."""
        told, last = self._known[0] if self._known else ({}, Offset())
        topics = (
            (name, told[name] if last.topics.get(name) is topic else format_topic_offset(topic))
            for name, topic in sorted(offset.topics.items())
        )
        document = _with_hold(offset, topics)
        self._known = [(document, offset), *self._known[:1]]
        return document

    def parse(self, document: Mapping[str, Any]) -> Offset:
        for known, offset in self._known:
            if known == document:
                return offset
        offset = parse_offset(document)
        self._known = [(document, offset), *self._known[:1]]
        return offset
