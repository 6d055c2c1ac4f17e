"""Judges what brokers dispatch, and how often clients receive it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from magnetar.testing.simulation.history import Dispatched, Entry, Received, Requeued
from magnetar.testing.simulation.tap import scalable_topic


@dataclass(slots=True)
class _Queue:
    """What one process of a broker knows of a subscription to a segment or partition. Events are
    counted.
    """

    dispatched: dict[str, int] = field(default_factory=dict)
    caused: dict[str, int] = field(default_factory=dict)
    opened: int = 0

    def has_cause(self, entry: str) -> bool:
        last = self.dispatched.get(entry)
        caused = max(self.caused.get(each, -1) for each in ("", entry))
        return last is None or self.opened > 0 or caused > last


def find_redispatched(entries: Iterable[Entry], topics: Collection[str]) -> Iterator[str]:
    """A process of a broker dispatches an entry again only if something has happened since: a
    consumer came or left, or demanded it.
    """
    queues: defaultdict[tuple[str, str, str, str], _Queue] = defaultdict(_Queue)
    known = {scalable_topic(each) for each in topics}
    for index, entry in enumerate(entries):
        match entry.event:
            case Requeued(topic, part, subscription, broker, _, what, _, opening):
                queue = queues[topic, part, subscription, broker]
                queue.opened += opening
                queue.caused[what] = index
            case Dispatched(topic, part, subscription, broker, consumer, what) if topic in known:
                queue = queues[topic, part, subscription, broker]
                if not queue.has_cause(what):
                    yield (
                        f"dispatched again: {what} of {part} by {broker} to {consumer} of"
                        f" {subscription} at {entry.at_s:.3f}, without a cause"
                    )
                queue.dispatched[what] = index


def find_duplicated(entries: Iterable[Entry], topics: Collection[str]) -> Iterator[str]:
    """A client hands a message over as often as it was dispatched to it, and no more."""
    names = {each: scalable_topic(each) for each in topics}
    dispatched: Counter[tuple[str, str, str]] = Counter()
    received: Counter[tuple[str, str, str]] = Counter()
    for entry in entries:
        match entry.event:
            case Dispatched(topic, _, _, _, consumer, what):
                dispatched[topic, consumer, what] += 1
            case Received(topic, _, consumer, key, number, message_id) if topic in names:
                received[topic, consumer, message_id] += 1
                stored = stored_in(message_id)
                if (
                    received[topic, consumer, message_id]
                    > dispatched[names[topic], consumer, stored]
                ):
                    yield (
                        f"duplicated: {key}#{number} of {topic} by {consumer} at {entry.at_s:.3f},"
                        f" more often than {stored} was dispatched to it"
                    )


def stored_in(message_id: str) -> str:
    """The entry of a message, as it is dispatched."""
    place = message_id.rpartition("@")[2].rpartition("/")[2]
    return ":".join(place.split(":")[:2])
