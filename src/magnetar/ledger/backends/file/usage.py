"""How much of the journal's extents is still needed, and when that is too much."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from magnetar.ledger.backends.file.index import Share


@dataclass(frozen=True, slots=True)
class FilePolicy:
    """Sizes and limits of the file store; the journal's limits bound the time that recovery
    takes."""

    extent_bytes_max: int = 64 * 1024 * 1024
    extent_records_max: int = 100_000
    run_bytes_max: int = 1024 * 1024
    settle_after_s: float = 1.0
    """How long a sealed ledger waits: many are deleted soon and then nothing is copied."""
    retry_after_s: float = 5.0
    journal_records_max: int = 400_000
    journal_bytes_max: int = 2 * 1024 * 1024 * 1024
    journal_extents_max: int = 64
    garbage_bytes_min: int = 512 * 1024 * 1024
    """From this size on, a journal that is more than half garbage is too big as well."""
    cached_bytes_max: int = 32 * 1024 * 1024


@dataclass(slots=True)
class ExtentUsage:
    number: int
    end: int
    records: int = 0
    live_runs: int = 0
    live_bytes: int = 0


class JournalUsage:
    """The extents that exist, ascending."""

    def __init__(self) -> None:
        self._extents: dict[int, ExtentUsage] = {}

    def __len__(self) -> int:
        return len(self._extents)

    @property
    def newest(self) -> int | None:
        return max(self._extents, default=None)

    @property
    def records(self) -> int:
        return sum(extent.records for extent in self._extents.values())

    @property
    def total_bytes(self) -> int:
        return sum(extent.end for extent in self._extents.values())

    @property
    def live_bytes(self) -> int:
        return sum(extent.live_bytes for extent in self._extents.values())

    def note(self, number: int, end: int, records: int) -> bool:
        """Note where an extent ends now; True when it is new."""
        extent = self._extents.get(number)
        if extent is None:
            self._extents[number] = ExtentUsage(number, end, records)
            return True
        extent.end = end
        extent.records = records
        return False

    def records_in(self, number: int) -> int:
        return self._extents[number].records if number in self._extents else 0

    def occupy(self, number: int, size: int) -> None:
        extent = self._extents[number]
        extent.live_runs += 1
        extent.live_bytes += size

    def release(self, shares: Iterable[Share]) -> None:
        for share in shares:
            extent = self._extents[share.extent]
            extent.live_runs -= share.runs
            extent.live_bytes -= share.size

    def freed(self, current: int) -> list[int]:
        """Extents that hold nothing any more; the one being written is not among them."""
        return [
            extent.number
            for extent in self._extents.values()
            if extent.live_runs == 0 and extent.number != current
        ]

    def ends(self, *, without: Iterable[int]) -> list[tuple[int, int]]:
        left_out = set(without)
        return [
            (extent.number, extent.end)
            for extent in self._extents.values()
            if extent.number not in left_out
        ]

    def remove(self, number: int) -> None:
        del self._extents[number]

    def plan_relief(self, policy: FilePolicy, current: int) -> int | None:
        """When the journal is too big: the last extent to empty so that half of what is allowed
        remains."""
        records, size, extents = self.records, self.total_bytes, len(self)
        bytes_max = policy.journal_bytes_max
        if size > policy.garbage_bytes_min and self.live_bytes * 2 < size:
            bytes_max = policy.garbage_bytes_min
        if (
            records <= policy.journal_records_max
            and size <= bytes_max
            and extents <= policy.journal_extents_max
        ):
            return None
        chosen = None
        for extent in self._extents.values():
            if extent.number == current or (
                records <= policy.journal_records_max // 2
                and size <= bytes_max // 2
                and extents <= policy.journal_extents_max // 2
            ):
                break
            chosen = extent.number
            records -= extent.records
            size -= extent.end
            extents -= 1
        return chosen
