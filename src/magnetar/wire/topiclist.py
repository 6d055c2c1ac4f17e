"""The hash by which two sides find out that their lists of topics are equal."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from sys import intern

from crc32c import crc32c


def _java_order(name: str) -> bytes:
    """Java compares UTF-16 units; characters beyond them sort differently than here."""
    return name.encode("utf-16-be")


def hash_topics(names: Iterable[str]) -> str:
    """CRC32C of the sorted names, spelled from its lowest byte up."""
    return _hash(sorted(names, key=_java_order))


def _hash(ordered: list[str]) -> str:
    return crc32c(",".join(ordered).encode()).to_bytes(4, "little").hex()


class TopicSet:
    """Names that are kept in the order of the hash: a change costs a search, not a sort.

    Sets of the same topics share their names.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = sorted(map(intern, set(names)), key=_java_order)
        self._hash: str | None = None

    def __contains__(self, name: str) -> bool:
        place = self._place(name)
        return place < len(self._names) and self._names[place] == name

    @property
    def names(self) -> list[str]:
        """In order; the caller does not change it."""
        return self._names

    @property
    def hash(self) -> str:
        if self._hash is None:
            self._hash = _hash(self._names)
        return self._hash

    def add(self, name: str) -> None:
        if name not in self:
            self._names.insert(self._place(name), intern(name))
            self._hash = None

    def remove(self, name: str) -> None:
        if name in self:
            del self._names[self._place(name)]
            self._hash = None

    def _place(self, name: str) -> int:
        return bisect_left(self._names, _java_order(name), key=_java_order)
