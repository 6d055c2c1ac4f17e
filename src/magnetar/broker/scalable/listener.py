"""Listeners by what they listen to."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from magnetar.metadata.store import Cancel

K = TypeVar("K", bound=Hashable)
L = TypeVar("L")


class Listeners(Generic[K, L]):
    def __init__(self) -> None:
        self._listeners: dict[K, dict[object, L]] = {}

    def __iter__(self) -> Iterator[K]:
        """The keys that have listeners."""
        return iter(tuple(self._listeners))

    def of(self, key: K) -> tuple[L, ...]:
        return tuple(self._listeners.get(key, {}).values())

    def add(self, key: K, listener: L) -> Cancel:
        token = object()
        self._listeners.setdefault(key, {})[token] = listener

        def cancel() -> None:
            listeners = self._listeners.get(key)
            if listeners is not None and listeners.pop(token, None) is not None and not listeners:
                del self._listeners[key]

        return cancel
