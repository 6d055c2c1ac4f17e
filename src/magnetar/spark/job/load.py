"""The load of one topic over time, for any range of hashes.

History tells what each segment carried that there was. Another policy would have had other
segments, so what one of them would have carried is put together from those that overlap it; within
a segment the load counts as evenly spread over its hashes, as it is measured no finer.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from magnetar.model.autoscale import Rates
from magnetar.spark.job.span import Mask, Spans, Steps, find_spans, intersect, keep_long

Floats: TypeAlias = NDArray[np.float64]
Range: TypeAlias = tuple[int, int]
"""First and last hash, both included."""

RATES: Final = ("msg_rate_in", "bytes_rate_in", "msg_rate_out", "bytes_rate_out")
_RANGES_KEPT: Final = 128
_GAP_INTERVALS: Final = 3
_ROUNDING: Final = 1 + 1e-9


class Samples(NamedTuple):
    """Rows of one topic: one for each segment at each time it was looked at."""

    at_ms: Steps
    first: Steps
    last: Steps
    rates: Floats
    """A row for each rate, a column for each sample."""
    consumers: Steps


@dataclass(frozen=True, slots=True)
class _Era:
    """Times with the same segments."""

    firsts: Steps
    lasts: Steps
    rates: Floats
    """By rate, time and segment; nothing is there instead of NaN."""
    is_unknown: Mask | None
    """By time and segment; None when all is known."""

    def carry(self, span: Range) -> Floats:
        """What a range of hashes carries: by rate and time."""
        overlap = np.minimum(self.lasts, span[1]) - np.maximum(self.firsts, span[0]) + 1
        share = np.clip(overlap, 0, None) / (self.lasts - self.firsts + 1)
        here = np.flatnonzero(share)
        if not len(here):
            return np.full(self.rates.shape[:2], np.nan)
        total: Floats = self.rates[:, :, here] @ share[here]
        if self.is_unknown is not None:
            total[:, self.is_unknown[:, here].any(axis=1)] = np.nan
        return total


class TopicLoad:
    """A step is a look of the controller; they are `step_ms` apart."""

    def __init__(self, samples: Samples, *, step_ms: int | None = None) -> None:
        times, counts = np.unique(samples.at_ms, return_counts=True)
        order = np.lexsort((samples.first, samples.at_ms))
        interval = int(np.median(np.diff(times))) if len(times) > 1 else 60_000
        self.step_ms = step_ms or max(1, interval)
        self.start_ms = int(times[0])
        self.steps = int((times[-1] - times[0] + interval) // self.step_ms) or 1
        self._eras = _cut_eras(samples, order, counts)
        instants = self.start_ms + np.arange(self.steps, dtype=np.int64) * self.step_ms
        self._place = np.searchsorted(times, instants, side="right") - 1
        gap_ms = max(interval, self.step_ms) * _GAP_INTERVALS
        self._is_gap: Mask = instants - times[self._place] >= gap_ms
        starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
        most = np.maximum.reduceat(samples.consumers[order], starts)
        self.consumers: Steps = np.where(self._is_gap, 0, most[self._place])
        self._carried: OrderedDict[Range, Floats] = OrderedDict()
        self._by_step: OrderedDict[Range, Floats] = OrderedDict()
        self._spans: dict[tuple[str, Rates, Range], Spans] = {}
        self._pairs: dict[tuple[Range, Range, Rates, int], Spans] = {}
        self._free: dict[tuple[Range, Rates | None, int], Spans] = {}
        self._crowded: dict[int, Spans] = {}

    @property
    def layout(self) -> list[Range]:
        """The segments at the beginning, by ascending hash."""
        era = self._eras[0]
        return list(zip(era.firsts.tolist(), era.lasts.tolist(), strict=True))

    @property
    def is_tiled(self) -> bool:
        """Whether the first sample covers all hashes: only then is there a layout to begin with."""
        ranges = self.layout
        ends = [-1, *(last for _, last in ranges)]
        return ends[-1] == 0xFFFF and all(
            first == end + 1 for (first, _), end in zip(ranges, ends, strict=False)
        )

    def carried(self, span: Range) -> Floats:
        """By rate and step; NaN without a measurement."""
        known = self._carried.get(span)
        if known is not None:
            self._carried.move_to_end(span)
            return known
        total = np.concatenate([era.carry(span) for era in self._eras], axis=1)[:, self._place]
        total[:, self._is_gap] = np.nan
        self._carried[span] = total
        if len(self._carried) > _RANGES_KEPT:
            self._carried.popitem(last=False)
        return total

    def carried_by_step(self, span: Range) -> Floats:
        """The same, by step and rate: one step stands together."""
        known = self._by_step.get(span)
        if known is None:
            known = self._by_step[span] = np.ascontiguousarray(self.carried(span).T)
            if len(self._by_step) > _RANGES_KEPT:
                self._by_step.popitem(last=False)
        return known

    def hot(self, span: Range, above: Rates) -> Spans:
        """When a range carries more than one of the limits."""
        return self._find("hot", span, above)

    def cold(self, span: Range, below: Rates) -> Spans:
        """When it carries less than every one of them."""
        return self._find("cold", span, below)

    def cold_together(self, left: Range, right: Range, below: Rates, longer_than: int) -> Spans:
        """When two ranges are cold at once, for more than so many steps."""
        key = (left, right, below, longer_than)
        known = self._pairs.get(key)
        if known is None:
            cold = (keep_long(self.cold(each, below), longer_than) for each in (left, right))
            known = self._pairs[key] = keep_long(intersect(*cold), longer_than)
        return known

    def free(self, span: Range, above: Rates | None, count: int) -> Spans:
        """When two that make up a range may be one: no subscription has more than `count`
        consumers, unless that is 0, and the range does not carry more than one of the limits.
        """
        key = (span, above, count)
        known = self._free.get(key)
        if known is None:
            mask = self.consumers <= count if count > 0 else np.ones(self.steps, bool)
            if above is not None:
                # A sum may come out a little higher one way than the other, and the rules have the
                # last word: nothing they would do may be left out here.
                limits = np.array(above)[:, None] * _ROUNDING
                mask &= ~(self.carried(span) > limits).any(0)
            known = self._free[key] = find_spans(mask)
        return known

    def crowded(self, count: int) -> Spans:
        """When a subscription has more consumers."""
        known = self._crowded.get(count)
        if known is None:
            known = self._crowded[count] = find_spans(self.consumers > count)
        return known

    def _find(self, kind: str, span: Range, marks: Rates) -> Spans:
        known = self._spans.get((kind, marks, span))
        if known is None:
            columns = np.array(marks)[:, None]
            rates = self.carried(span)
            hot = kind == "hot"
            mask = np.any(rates > columns, 0) if hot else np.all(rates < columns, 0)
            known = self._spans[kind, marks, span] = find_spans(np.asarray(mask))
        return known


def _cut_eras(samples: Samples, order: Steps, counts: Steps) -> list[_Era]:
    """Neighbouring times with the same segments stand together."""
    first, last, rates = samples.first[order], samples.last[order], samples.rates[:, order]
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    signs = (first.astype(np.uint64) << np.uint64(16) | last.astype(np.uint64)) + np.uint64(1)
    signs *= np.uint64(0x9E37_79B9_7F4A_7C15)
    signs ^= signs >> np.uint64(29)
    sums = np.add.reduceat(signs, starts)
    cuts = np.flatnonzero((sums[1:] != sums[:-1]) | (counts[1:] != counts[:-1])) + 1
    eras = []
    edges = [0, *cuts.tolist(), len(counts)]
    for begin, end in pairwise(edges):
        width, start = int(counts[begin]), int(starts[begin])
        stop = start + width * (end - begin)
        table = rates[:, start:stop].reshape(len(RATES), end - begin, width)
        unknown = np.asarray(~((table >= 0.0) & (table < np.inf)).all(axis=0))
        eras.append(
            _Era(
                first[start : start + width],
                last[start : start + width],
                np.where(unknown, 0.0, table) if unknown.any() else table,
                unknown if unknown.any() else None,
            )
        )
    return eras
