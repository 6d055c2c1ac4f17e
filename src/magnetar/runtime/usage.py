"""What this process uses of its machine: processor time and memory."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MIB: Final = 2**20
_STATM: Final = Path("/proc/self/statm")
_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


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
