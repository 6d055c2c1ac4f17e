"""One budget of memory for the entries of all logs.

A log's newest entries lie in chunks of parallel lists (data, counts), so that reading is slicing.
Chunks are evicted oldest first across all logs. What a cold read brought beyond its need is kept
in chunks too, but those compete among themselves for a quarter of the budget: one reader far behind
does not push out what the others are about to read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from magnetar.ledger.run import EntryRun

_CHUNK_BYTES: Final = 512 * 1024
_ENTRY_OVERHEAD_BYTES: Final = 64  # the bytes object, its two list slots and its count
_COLD_SHARE: Final = 4


def cut_run(
    data: list[bytes], counts: list[int], *, entries_max: int, bytes_max: int
) -> tuple[list[bytes], list[int]]:
    """The longest prefix within both limits, but always one entry."""
    if len(data) > entries_max:
        data, counts = data[:entries_max], counts[:entries_max]
    if sum(map(len, data)) > bytes_max:
        fitting = max(1, bisect_right(list(accumulate(map(len, data))), bytes_max))
        data, counts = data[:fitting], counts[:fitting]
    return data, counts


class _Chunk:
    __slots__ = ("_owner", "cold", "counts", "data", "first", "ledger_id", "used")

    def __init__(self, owner: CacheView, ledger_id: int, first: int, *, cold: bool) -> None:
        self._owner = owner
        self.ledger_id = ledger_id
        self.first = first
        self.cold = cold
        self.data: list[bytes] = []
        self.counts: list[int] = []
        self.used = 0

    @property
    def end(self) -> int:
        return self.first + len(self.data)

    def discard(self) -> None:
        self._owner.discard(self)


class EntryCache:
    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0
        self._cold_used = 0
        self._hot: OrderedDict[_Chunk, None] = OrderedDict()
        self._cold: OrderedDict[_Chunk, None] = OrderedDict()

    def view(self) -> CacheView:
        return CacheView(self)

    def charge(self, chunk: _Chunk, size: int) -> None:
        """Count `size` more bytes of a chunk, then make room."""
        (self._cold if chunk.cold else self._hot)[chunk] = None
        self._count(chunk, size)
        while self._cold and self._cold_used > self.bytes_max // _COLD_SHARE:
            next(iter(self._cold)).discard()
        while self._hot and self.bytes_used > self.bytes_max:
            next(iter(self._hot)).discard()

    def release(self, chunk: _Chunk) -> None:
        del (self._cold if chunk.cold else self._hot)[chunk]
        self._count(chunk, -chunk.used)

    def _count(self, chunk: _Chunk, size: int) -> None:
        chunk.used += size
        self.bytes_used += size
        if chunk.cold:
            self._cold_used += size


class CacheView:
    """The part of the cache that belongs to one log."""

    __slots__ = ("_cache", "_chunks", "_keys", "_tail", "is_enabled")

    def __init__(self, cache: EntryCache) -> None:
        self._cache = cache
        self.is_enabled = False
        self._keys: list[tuple[int, int]] = []
        self._chunks: list[_Chunk] = []
        self._tail: _Chunk | None = None

    def switch(self, is_enabled: bool) -> None:
        """Whether entries are kept from now on; if not, none is."""
        self.is_enabled = is_enabled
        if not is_enabled:
            self.clear()

    def append(
        self, ledger_id: int, first: int, data: Sequence[bytes], counts: Sequence[int], size: int
    ) -> None:
        """Keep entries that just became durable. `size` is the sum of their lengths."""
        if not self.is_enabled:
            return
        chunk = self._tail
        if (
            chunk is None
            or chunk.used >= _CHUNK_BYTES
            or chunk.ledger_id != ledger_id
            or chunk.end != first
        ):
            chunk = self._tail = self._insert(ledger_id, first, cold=False)
        chunk.data.extend(data)
        chunk.counts.extend(counts)
        self._cache.charge(chunk, size + _ENTRY_OVERHEAD_BYTES * len(data))

    def keep(self, run: EntryRun) -> None:
        """Keep a run that was read from the store, for other readers."""
        if not self.is_enabled:
            return
        index = bisect_left(self._keys, (run.ledger_id, run.first))
        if index < len(self._keys) and self._keys[index] == (run.ledger_id, run.first):
            if len(self._chunks[index].data) >= len(run):
                return
            self.discard(self._chunks[index])
        chunk = self._insert(run.ledger_id, run.first, cold=True)
        chunk.data, chunk.counts = run.data, run.counts
        size = sum(map(len, run.data)) + _ENTRY_OVERHEAD_BYTES * len(run)
        self._cache.charge(chunk, size)

    def get(
        self, ledger_id: int, entry_id: int, entries_max: int, bytes_max: int
    ) -> EntryRun | None:
        """Entries from this one on, as far as they are here without a gap; None when this one is
        not.
        """
        chunk = self._tail
        if (
            chunk is None
            or ledger_id != chunk.ledger_id
            or not chunk.first <= entry_id < chunk.first + len(chunk.data)
        ):
            chunk = self._find(ledger_id, entry_id)
            if chunk is None:
                return None
        start = entry_id - chunk.first
        data = chunk.data[start : start + entries_max]
        counts = chunk.counts[start : start + entries_max]
        used = chunk.used
        while len(data) < entries_max and used < bytes_max and chunk is not self._tail:
            chunk = self._find(ledger_id, chunk.end)
            if chunk is None:
                break
            start = entry_id + len(data) - chunk.first
            room = entries_max - len(data)
            data += chunk.data[start : start + room]
            counts += chunk.counts[start : start + room]
            used += chunk.used
        if used > bytes_max:
            data, counts = cut_run(data, counts, entries_max=entries_max, bytes_max=bytes_max)
        return EntryRun(ledger_id, entry_id, data, counts)

    def discard(self, chunk: _Chunk) -> None:
        index = bisect_left(self._keys, (chunk.ledger_id, chunk.first))
        assert self._chunks[index] is chunk, "one chunk a key"
        del self._keys[index], self._chunks[index]
        if self._tail is chunk:
            self._tail = None
        self._cache.release(chunk)

    def drop_ledger(self, ledger_id: int) -> None:
        for chunk in [chunk for chunk in self._chunks if chunk.ledger_id == ledger_id]:
            self.discard(chunk)

    def clear(self) -> None:
        for chunk in self._chunks:
            self._cache.release(chunk)
        self._chunks.clear()
        self._keys.clear()
        self._tail = None

    def _find(self, ledger_id: int, entry_id: int) -> _Chunk | None:
        index = bisect_right(self._keys, (ledger_id, entry_id)) - 1
        if index < 0:
            return None
        chunk = self._chunks[index]
        return chunk if chunk.ledger_id == ledger_id and entry_id < chunk.end else None

    def _insert(self, ledger_id: int, first: int, *, cold: bool) -> _Chunk:
        chunk = _Chunk(self, ledger_id, first, cold=cold)
        index = bisect_left(self._keys, (ledger_id, first))
        self._keys.insert(index, (ledger_id, first))
        self._chunks.insert(index, chunk)
        return chunk
