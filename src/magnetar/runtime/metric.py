"""Metrics as text in Prometheus' exposition format, and the few kinds a broker counts with."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels: TypeAlias = Mapping[str, str]


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


def format_labels(labels: Labels) -> str:
    """`{a="1",b="2"}`, or nothing. Format once what many samples share."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def format_number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


class MetricText:
    """Collects samples in any order and writes them by name, each group under HELP and TYPE.

    The format wants the samples of one name together, while an owner knows all samples of one topic
    together; so the text keeps a list of lines for each name.
    """

    def __init__(self, meanings: Mapping[str, str] | None = None) -> None:
        self._groups: dict[str, list[str]] = {}
        self._meanings = meanings or {}

    def declare(self, name: str, kind: MetricKind, meaning: str = "") -> None:
        """Begin a group, or do nothing when it exists."""
        if name in self._groups:
            return
        lines = self._groups[name] = []
        meaning = meaning or self._meanings.get(name, "")
        if meaning:
            escaped = meaning.replace("\\", "\\\\").replace("\n", "\\n")
            lines.append(f"# HELP {name} {escaped}")
        lines.append(f"# TYPE {name} {kind.value}")

    def add(
        self, name: str, labels: str, value: float, *, kind: MetricKind = MetricKind.GAUGE
    ) -> None:
        """Add a sample; `labels` come from `format_labels`. The first one sets the kind."""
        group = self._groups.get(name)
        if group is None:
            self.declare(name, kind)
            group = self._groups[name]
        group.append(f"{name}{labels} {format_number(value)}")

    def add_summary(self, name: str, labels: str, total: float, count: int) -> None:
        """How much there was in all, and how often: enough for a mean."""
        self.declare(name, MetricKind.SUMMARY)
        told = format_number(total)
        self.add_lines(name, (f"{name}_sum{labels} {told}", f"{name}_count{labels} {count}"))

    def add_lines(self, group: str, lines: Iterable[str]) -> None:
        """Add samples already written, to a declared group."""
        self._groups[group].extend(lines)

    def render(self) -> str:
        if not self._groups:
            return ""
        return "\n".join(line for group in self._groups.values() for line in group) + "\n"


@dataclass(slots=True)
class Gauge:
    """A number that goes up and down."""

    name: str
    meaning: str
    value: float = 0

    def write(self, text: MetricText, labels: str) -> None:
        text.declare(self.name, MetricKind.GAUGE, self.meaning)
        text.add(self.name, labels, self.value)


class Histogram:
    """Counts of values in buckets, whose upper bounds are included."""

    __slots__ = ("_bounds", "_counts", "meaning", "name", "sum")

    def __init__(self, name: str, meaning: str, bounds: Sequence[float]) -> None:
        assert list(bounds) == sorted(set(bounds)), "bounds rise"
        self.name = name
        self.meaning = meaning
        self.sum = 0.0
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)

    def observe(self, value: float, count: int = 1) -> None:
        """Count a value, or `count` times the same."""
        self._counts[bisect_left(self._bounds, value)] += count
        self.sum += value * count

    @property
    def count(self) -> int:
        return sum(self._counts)

    def write(self, text: MetricText, labels: Labels) -> None:
        text.declare(self.name, MetricKind.HISTOGRAM, self.meaning)
        total = 0
        lines = []
        for bound, count in zip((*self._bounds, math.inf), self._counts, strict=True):
            total += count
            at = format_labels({**labels, "le": format_number(bound)})
            lines.append(f"{self.name}_bucket{at} {total}")
        plain = format_labels(labels)
        lines.append(f"{self.name}_sum{plain} {format_number(self.sum)}")
        lines.append(f"{self.name}_count{plain} {total}")
        text.add_lines(self.name, lines)
