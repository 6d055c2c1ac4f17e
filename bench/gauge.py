"""What a process costs and what a broker counts, read from outside."""

from __future__ import annotations

import statistics
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROCESS_CLOCK = 2
"""The kind of clock that counts what all threads of a process ran (CPUCLOCK_SCHED)."""


def cpu_s(pid: int) -> float:
    """Processor time the process has used so far, in user code and in the system.

    By the clock of the process, which counts nanoseconds; /proc/PID/stat counts steps of 10 ms,
    a tenth of what a short run takes. The number of that clock is as clock_getcpuclockid(3) has it.
    """
    return time.clock_gettime(~pid << 3 | PROCESS_CLOCK)


def rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"process {pid} shows no VmRSS")


def peak_mib(pid: int, *, again: bool = False) -> float:
    """The most memory the process had; `again` counts anew from here on."""
    if again:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"process {pid} shows no VmHWM")


def counters(admin_url: str, names: Sequence[str]) -> dict[str, float]:
    """The named Prometheus counters, each summed over its labels."""
    with urllib.request.urlopen(f"{admin_url}/metrics") as answer:
        text = answer.read().decode()
    found = dict.fromkeys(names, 0.0)
    seen = set()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            sample, _, value = line.rpartition(" ")
            name = sample.partition("{")[0]
            if name in found:
                found[name] += float(value)
                seen.add(name)
    missing = set(names) - seen
    if missing:
        raise LookupError(f"{admin_url}/metrics has no {', '.join(sorted(missing))}")
    return found


def grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {name: after[name] - before[name] for name in before}


def percentile_ms(seconds: Sequence[float], share: float) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


@dataclass(slots=True)
class Watch:
    """Time on the clock and on the processor, of this process with all its threads."""

    began: float = 0.0
    cpu: float = 0.0

    def start(self) -> None:
        self.began, self.cpu = time.perf_counter(), time.process_time()

    def rate(self, count: int) -> dict[str, Any]:
        seconds, cpu = time.perf_counter() - self.began, time.process_time() - self.cpu
        return {
            "messages": count,
            "seconds": round(seconds, 3),
            "rate_per_s": round(count / seconds),
            "cpu_us": round(cpu / count * 1e6, 2),
        }
