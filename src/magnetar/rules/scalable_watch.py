"""What clients that watch a namespace or a topic are told, and when nothing need be said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True, slots=True)
class NamespaceWatch:
    """The topics a watcher knows, and those there are; changes that undo each other vanish."""

    filters: Mapping[str, str] = field(default_factory=dict)
    told: frozenset[str] = frozenset()
    present: frozenset[str] = frozenset()

    def start(self, topics: Iterable[str]) -> NamespaceWatch:
        """Once the first list is known; the caller sends it unless `is_known`."""
        names = frozenset(topics)
        return replace(self, told=names, present=names)

    def change(self, topic: str, properties: Mapping[str, str] | None) -> NamespaceWatch:
        """A topic was written; one that is gone has no properties."""
        if properties is not None and matches_filters(properties, self.filters):
            return replace(self, present=self.present | {topic})
        return replace(self, present=self.present - {topic})

    @property
    def snapshot(self) -> tuple[str, ...]:
        return tuple(sorted(self.told))

    @property
    def is_settled(self) -> bool:
        """Nothing waits to be told."""
        return self.told == self.present

    def flush(self) -> tuple[Diff | None, NamespaceWatch]:
        """What to send now, and the watch once it is sent."""
        if self.is_settled:
            return None, self
        added = tuple(sorted(self.present - self.told))
        removed = tuple(sorted(self.told - self.present))
        return Diff(added, removed), replace(self, told=self.present)


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
