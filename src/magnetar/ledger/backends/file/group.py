"""What one group commit carries: appends of many ledgers gathered while the group before was on its
way."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from magnetar.ledger.backends.file.record import Kind
from magnetar.ledger.store import Appended


class Gathered:
    """The consecutive appends of one ledger within a group; as a rule it is one."""

    __slots__ = ("_more", "_one", "first", "size")

    def __init__(self, first: int, entries: Sequence[bytes], size: int) -> None:
        self.first = first
        self.size = size
        self._one = entries
        self._more: list[bytes] = []

    def add(self, entries: Sequence[bytes], size: int) -> None:
        self._more += entries
        self.size += size

    @property
    def entries(self) -> Sequence[bytes]:
        return [*self._one, *self._more] if self._more else self._one


class Control(NamedTuple):
    kind: Kind
    ledger: int
    number: int
    body: bytes


@dataclass(slots=True)
class Group:
    """Runs stand before controls on disk: a ledger is created in an earlier group, sealed and
    deleted after its runs."""

    runs: dict[int, Gathered] = field(default_factory=dict)
    controls: list[Control] = field(default_factory=list)
    done: list[Appended] = field(default_factory=list)
    payload_bytes: int = 0


def cut_entries(
    entries: Sequence[bytes], bytes_max: int
) -> Iterator[tuple[int, Sequence[bytes], int]]:
    """Cut entries into runs of at most `bytes_max`, but at least one entry: (index of the first,
    entries, bytes)."""
    ends = list(accumulate(map(len, entries)))
    start = passed = 0
    while start < len(entries):
        stop = max(start + 1, bisect_right(ends, passed + bytes_max))
        yield start, entries[start:stop], ends[stop - 1] - passed
        passed = ends[stop - 1]
        start = stop
