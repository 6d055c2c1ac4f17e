"""What is sent to clients that watch a namespace or a topic, and when nothing need be sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

T = TypeVar("T")


def matches_filters(properties: Mapping[str, str], filters: Mapping[str, str]) -> bool:
    """Every filter names a property and its exact value."""
    return all(properties.get(key) == value for key, value in filters.items())


@dataclass(frozen=True, slots=True)
class Diff:
    """Clients apply what was removed first."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


class NamespaceWatch:
    """The topics a watcher knows, and what was not sent yet; changes that undo each other vanish.

    It changes in place: a change costs the same however many topics there are.
    """

    def __init__(self, filters: Mapping[str, str] | None = None) -> None:
        self.filters: Mapping[str, str] = filters or {}
        self._told: set[str] = set()
        self._untold: dict[str, bool] = {}

    def start(self, topics: Iterable[str]) -> None:
        """Once the first list is known; the caller sends it unless `is_known`."""
        self._told = set(topics)

    def change(self, topic: str, properties: Mapping[str, str] | None) -> None:
        """A topic was written; one that is gone has no properties."""
        exists = properties is not None and matches_filters(properties, self.filters)
        if exists == (topic in self._told):
            self._untold.pop(topic, None)
        else:
            self._untold[topic] = exists

    @property
    def untold_count(self) -> int:
        """How many changes wait to be sent."""
        return len(self._untold)

    def flush(self) -> Diff | None:
        """What to send now, if anything: from then on it counts as sent."""
        if not self._untold:
            return None
        added = {topic for topic, exists in self._untold.items() if exists}
        removed = self._untold.keys() - added
        self._untold = {}
        self._told |= added
        self._told -= removed
        return Diff(tuple(sorted(added)), tuple(sorted(removed)))


def is_known(server_hash: str, client_hash: str | None) -> bool:
    """A watcher that comes back with the same list needs no snapshot."""
    return client_hash == server_hash


@dataclass(frozen=True)
class LayoutFeed(Generic[T]):
    """What one watcher of a topic is sent: the newest content, in order, and nothing twice.

    Content is offered with the version of the record it was made from. Readings may finish out of
    order, so an older version than the newest offered is dropped; the epoch cannot tell, because
    a migration publishes epoch 0 over epoch 0. While one push is being sent, later ones merge.
    """

    version: int = -1
    sent: T | None = None
    waiting: T | None = None
    is_sending: bool = False

    def offer(self, version: int, content: T) -> LayoutFeed[T]:
        if version < self.version:
            return self
        news = None if content == self.sent else content
        return replace(self, version=version, waiting=news)

    def take(self) -> tuple[T | None, LayoutFeed[T]]:
        """What to send now, if anything; call `done` when it is sent."""
        if self.is_sending or self.waiting is None:
            return None, self
        return self.waiting, replace(self, sent=self.waiting, waiting=None, is_sending=True)

    def done(self) -> LayoutFeed[T]:
        return replace(self, is_sending=False)
