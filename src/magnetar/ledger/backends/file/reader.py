"""Reading runs back, from the journal and from settled parts, checksums verified."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, groupby
from pathlib import Path
from typing import Final, NamedTuple

from magnetar.errors import LedgerCorrupt
from magnetar.ledger.backends.file.disk import Disk
from magnetar.ledger.backends.file.extent import extent_name, extent_seed
from magnetar.ledger.backends.file.ledger import FileLedger, Part
from magnetar.ledger.backends.file.part import SEALED_DIRECTORY, PartIndex, load_index, part_seed
from magnetar.ledger.backends.file.record import decode_body, split_entries
from magnetar.ledger.backends.file.settlement import JOURNAL_DIRECTORY
from magnetar.runtime.worker import Workers

_INDEXES_MAX: Final = 256
_THREADS: Final = 2


class _Source(NamedTuple):
    """Where one run stands."""

    path: Path
    seed: int
    ledger: int
    first: int
    offset: int
    size: int


class _Loaded(NamedTuple):
    first: int
    entries: list[bytes]


class RunReader:
    """Reads in a worker of its own; keeps the runs that a caller has read only a part of."""

    def __init__(self, root: Path, disk: Disk, *, cached_bytes_max: int, workers: Workers) -> None:
        self._root = root
        self._disk = disk
        self._worker = workers("ledger-read", _THREADS)
        self._indexes: OrderedDict[Path, PartIndex] = OrderedDict()
        self._runs: OrderedDict[tuple[Path, int], _Loaded] = OrderedDict()
        self._cached_bytes = 0
        self._cached_bytes_max = cached_bytes_max

    async def read(
        self, ledger: FileLedger, first: int, *, entries_max: int, bytes_max: int
    ) -> list[bytes]:
        """Entries from `first` on, which is durable and not behind damage. Raise FileNotFoundError
        when they moved."""
        part = ledger.part_of(first)
        if part is None:
            sources = self._in_journal(ledger, first, entries_max, bytes_max)
        else:
            sources = await self._in_part(ledger.id, part, first, entries_max, bytes_max)
        loaded = await self._load(sources)
        entries = _take(loaded, first, entries_max, bytes_max)
        self._keep_unfinished(sources, loaded, first + len(entries))
        return entries

    def forget(self, path: Path) -> None:
        """A part is gone."""
        self._indexes.pop(path, None)

    def close(self) -> None:
        self._worker.close()

    def _in_journal(
        self, ledger: FileLedger, first: int, entries_max: int, bytes_max: int
    ) -> list[_Source]:
        runs = ledger.runs_from(first, entries_max=entries_max, bytes_max=bytes_max)
        directory = self._root / JOURNAL_DIRECTORY
        sources = []
        for extent, group in groupby(runs, key=lambda run: run.extent):
            path, seed = directory / extent_name(extent), extent_seed(extent)
            sources += [
                _Source(path, seed, ledger.id, run.first, run.offset, run.size) for run in group
            ]
        return sources

    async def _in_part(
        self, ledger: int, part: Part, first: int, entries_max: int, bytes_max: int
    ) -> list[_Source]:
        path = self._root / SEALED_DIRECTORY / part.name(ledger)
        index = self._indexes.get(path)
        if index is None:
            index = await self._worker.run(
                partial(
                    load_index,
                    self._disk,
                    path,
                    part.size,
                    ledger=ledger,
                    first=part.first,
                    end=part.last + 1,
                ),
            )
            self._indexes[path] = index
            if len(self._indexes) > _INDEXES_MAX:
                self._indexes.popitem(last=False)
        self._indexes.move_to_end(path)
        seed = part_seed(ledger, part.first)
        sources = []
        entries = size = 0
        for run in index.from_entry(first):
            sources.append(_Source(path, seed, ledger, run.first, run.offset, run.size))
            entries += run.entry_count - (first - run.first if run.first < first else 0)
            size += run.payload_bytes if run.first > first else 0
            if entries >= entries_max or size >= bytes_max:
                break
        return sources

    async def _load(self, sources: list[_Source]) -> list[_Loaded]:
        """The runs up to the first damaged one; raise LedgerCorrupt when that is the very first."""
        known = [self._runs.get((source.path, source.offset)) for source in sources]
        missing = [source for source, run in zip(sources, known, strict=True) if run is None]
        found: Iterator[_Loaded | LedgerCorrupt] = iter(())
        if missing:
            found = iter(await self._worker.run(_load_runs, self._disk, missing))
        loaded: list[_Loaded] = []
        for run in known:
            outcome = run if run is not None else next(found)
            if isinstance(outcome, LedgerCorrupt):
                if not loaded:
                    raise outcome
                break
            loaded.append(outcome)
        return loaded

    def _keep_unfinished(
        self, sources: list[_Source], loaded: list[_Loaded], following: int
    ) -> None:
        """Keep the run that holds entry `following`: the next read begins inside it."""
        for source, run in zip(sources, loaded, strict=False):
            key = (source.path, source.offset)
            if run.first < following < run.first + len(run.entries):
                if key not in self._runs:
                    self._runs[key] = run
                    self._cached_bytes += _run_bytes(run)
                self._runs.move_to_end(key)
            elif key in self._runs:
                del self._runs[key]
                self._cached_bytes -= _run_bytes(run)
        while self._cached_bytes > self._cached_bytes_max:
            _, run = self._runs.popitem(last=False)
            self._cached_bytes -= _run_bytes(run)


def _run_bytes(run: _Loaded) -> int:
    return sum(map(len, run.entries))


def _load_runs(disk: Disk, sources: Sequence[_Source]) -> list[_Loaded | LedgerCorrupt]:
    loaded: list[_Loaded | LedgerCorrupt] = []
    for path, group in groupby(sources, key=lambda source: source.path):
        wanted = list(group)
        spans = [(source.offset, source.size) for source in wanted]
        for source, data in zip(wanted, disk.read(path, spans), strict=True):
            try:
                count, body = decode_body(
                    data,
                    ledger=source.ledger,
                    number=source.first,
                    offset=source.offset,
                    seed=source.seed,
                )
                loaded.append(_Loaded(source.first, split_entries(body, count)))
            except ValueError as error:
                place = f"{path} at offset {source.offset}"
                sentence = f"ledger {source.ledger}, entry {source.first}, {place}: {error}"
                loaded.append(LedgerCorrupt(sentence))
    return loaded


def _take(loaded: Sequence[_Loaded], first: int, entries_max: int, bytes_max: int) -> list[bytes]:
    entries: list[bytes] = []
    for run in loaded:
        entries += run.entries[max(0, first - run.first) :]
    del entries[entries_max:]
    ends = list(accumulate(map(len, entries)))
    del entries[max(1, bisect_right(ends, bytes_max)) :]
    return entries
