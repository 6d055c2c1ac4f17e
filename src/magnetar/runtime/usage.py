"""What this process uses of its machine, processor time and memory, and what it may use."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MIB: Final = 2**20
_STATM: Final = Path("/proc/self/statm")
_GROUPS: Final = Path("/sys/fs/cgroup")
_LIMIT: Final = _GROUPS / "memory.max"
_OWN_GROUP: Final = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    processor_s: float = 0.0
    """Since the process began."""
    memory_mib: float = 0.0
    memory_limit_mib: float = 0.0


def read_usage() -> ProcessUsage:
    times = os.times()
    return ProcessUsage(times.user + times.system, _read_memory(), _read_limit())


def _read_memory() -> float:
    page = os.sysconf("SC_PAGE_SIZE")
    try:
        return int(_STATM.read_text().split()[1]) * page / _MIB
    except OSError:  # not Linux: the most there ever was, in KiB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _read_limit() -> float:
    """What a container allows, else all memory of the machine."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _MIB
    try:
        return min(machine, int(_LIMIT.read_text()) / _MIB)
    except (OSError, ValueError):
        return machine


def count_cores(groups: Path = _GROUPS, own_group: Path = _OWN_GROUP) -> int:
    """Whole cores that the process may keep busy: it may run on so many, and its container, or any
    control group around it, is given so much of their time.
    """
    quotas = (parse_quota(each) for each in _read_quotas(groups, own_group))
    cores = min([len(os.sched_getaffinity(0)), *(each for each in quotas if each is not None)])
    return max(1, int(cores))


def parse_quota(text: str) -> float | None:
    """How many cores a control group is given by its `cpu.max`: microseconds of the processor in
    each period, and the period. None: as many as there are (`max 100000`).
    """
    try:
        quota, period = map(int, text.split())
    except ValueError:
        return None
    return quota / period if quota > 0 and period > 0 else None


def _read_quotas(groups: Path, own_group: Path) -> Iterator[str]:
    """The limits of the group of the process and of those around it, as far as they can be seen;
    in the words of the second version of control groups, also where the first one has them.
    """
    first = groups / "cpu"
    with suppress(OSError):
        quota = (first / "cpu.cfs_quota_us").read_text()
        yield f"{quota} {(first / 'cpu.cfs_period_us').read_text()}"
    with suppress(OSError):
        for line in own_group.read_text().splitlines():
            path = line.removeprefix("0::/")
            if path != line:
                folder = groups / path
                for each in (folder, *folder.parents):
                    if each.is_relative_to(groups):
                        with suppress(OSError):
                            yield (each / "cpu.max").read_text()
