"""What a process costs and what a broker counts, read from outside."""

from __future__ import annotations

import os
import statistics
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Processor time the process has used so far, in user code and in the system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


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
