"""What a policy would have done with a topic, had it been in force all along.

Every decision is the controller's own, over columns (`column.choose`). It is asked only at steps at
which it can do something; those are found by bisection in stretches of heat and cold. Asking it at
every step gives the same, a thousand times slower.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple

from magnetar.model.autoscale import AutoScalePolicy, Rates
from magnetar.model.scalable import ChangeKind
from magnetar.model.segment import SegmentId
from magnetar.rules.scale import NEVER, Merge, Split, Surroundings
from magnetar.spark.job.column import Columns, choose, may_split_again
from magnetar.spark.job.load import Floats, Range, TopicLoad
from magnetar.spark.job.span import (
    NEVER_AGAIN,
    NEVER_STRETCH,
    Spans,
    Stretches,
    length_of_union,
)

_UNDOES: Final = {ChangeKind.SPLIT: ChangeKind.MERGE, ChangeKind.MERGE: ChangeKind.SPLIT}


class Change(NamedTuple):
    step: int
    kind: ChangeKind
    span: Range
    """The hashes of what was split, or of both that were merged."""
    segments: int
    """How many are active then."""


@dataclass(frozen=True, slots=True)
class Outcome:
    changes: tuple[Change, ...]
    segment_steps: int
    """Active segments, summed over all steps."""
    overloaded_steps: int
    """Steps with a segment that carries more than it should."""
    flaps: int
    """Changes that undo one which was made shortly before."""
    segments_most: int
    steps: int

    @property
    def splits(self) -> int:
        return sum(change.kind is ChangeKind.SPLIT for change in self.changes)

    @property
    def merges(self) -> int:
        return len(self.changes) - self.splits


class _Segments:
    """The active segments, by ascending hash: a list for each thing that is known of them.

    A replay asks of all of them at every change, so the lists are what the rules take, and what
    does not change with a step is found once.
    """

    def __init__(self, load: TopicLoad, overload: Rates) -> None:
        self._load = load
        self._overload = overload
        self.ids: Final[list[SegmentId]] = []
        self.spans: Final[list[Range]] = []
        self.widths: Final[list[int]] = []
        self.merged: Final[list[int]] = []
        """The merges that lie behind each, a bit for the segment that each made; as long as none
        is pruned."""
        self.merges: Final[list[int]] = []
        self.born: Final[list[int]] = []
        self.made_by: Final[list[ChangeKind | None]] = []
        self.rates: Final[list[Floats]] = []
        """By step and rate."""
        self.cold: Final = Stretches()
        self.overloaded: Final[list[Spans]] = []
        self.overloaded_at: Final[list[int]] = []
        """The first step with too much load, of those that are not accounted for yet."""
        self.hot: Final = Stretches()
        self.ripe: Final = Stretches()
        """When each may merge with its right neighbour."""
        self.next_id = 0

    def __len__(self) -> int:
        return len(self.ids)

    def put(
        self,
        place: int,
        count: int,
        spans: list[Range],
        step: int,
        made_by: ChangeKind | None = None,
    ) -> None:
        """These instead of so many; the last of them is made last."""
        old = slice(place, place + count)
        merged = 0
        for each in self.merged[old]:
            merged |= each
        fresh = [SegmentId(self.next_id + index) for index in range(len(spans))]
        if made_by is ChangeKind.MERGE:
            merged |= 1 << self.next_id
        self.next_id += len(spans)
        load = self._load
        self.ids[old] = fresh
        self.spans[old] = spans
        self.widths[old] = [last - first + 1 for first, last in spans]
        self.merged[old] = [merged] * len(spans)
        self.merges[old] = [merged.bit_count()] * len(spans)
        self.born[old] = [step] * len(spans)
        self.made_by[old] = [made_by] * len(spans)
        self.rates[old] = [load.carried_by_step(span) for span in spans]
        self.cold.forget(place, count, len(spans))
        overloaded = [load.hot(span, self._overload) for span in spans]
        self.overloaded[old] = overloaded
        self.overloaded_at[old] = [_or_never(each.first_from(step)) for each in overloaded]
        self.hot.forget(place, count, len(spans))
        self.ripe.forget(max(0, place - 1), count + (place > 0), len(spans) + (place > 0))


class Replay:
    """One topic under one policy."""

    def __init__(
        self, load: TopicLoad, policy: AutoScalePolicy, *, overload: Rates, flap_steps: int
    ) -> None:
        self._load = load
        self._policy = policy
        self._split_above, self._merge_below = policy.split_above, policy.merge_below
        self._may_split_again = may_split_again(policy)
        self._flap_steps = flap_steps
        self._segments = _Segments(load, overload)
        self._segments.put(0, 0, load.layout, 0)
        self._consumers_most = int(load.consumers.max())
        self._fewer = 0
        self._last = {ChangeKind.SPLIT: -1, ChangeKind.MERGE: -1}
        self._split_wait = count_steps(policy.splitCooldownSeconds, load.step_ms)
        self._merge_wait = count_steps(policy.mergeCooldownSeconds, load.step_ms)
        self._window = count_steps(policy.mergeWindowSeconds, load.step_ms)
        self._changes: list[Change] = []
        self._segment_steps = self._overloaded_steps = self._flaps = 0
        self._accounted = 0
        self._most = len(self._segments)

    @property
    def layout(self) -> list[Range]:
        """The active segments, by ascending hash."""
        return list(self._segments.spans)

    @property
    def merge_depths(self) -> list[int]:
        """How many merges lie behind each of them."""
        return list(self._segments.merges)

    def run(self) -> Outcome:
        step = 0
        while (found := self._next_step(step)) is not None:
            self.ask(found)
            step = found + 1
        return self.finish()

    def run_slowly(self) -> Outcome:
        """Ask at every step: what `run` must agree with."""
        for step in range(self._load.steps):
            self.ask(step)
        return self.finish()

    def finish(self) -> Outcome:
        self._account(self._load.steps)
        return Outcome(
            tuple(self._changes),
            self._segment_steps,
            self._overloaded_steps,
            self._flaps,
            self._most,
            self._load.steps,
        )

    # ------------------------------------------------------------------ when to ask

    def _next_step(self, step: int) -> int | None:
        if not self._policy.enabled:
            return None
        found = min(self._next_split(step), self._next_merge(step))
        return found if found < self._load.steps else None

    def _next_split(self, step: int) -> int:
        policy, count = self._policy, len(self._segments)
        if count >= policy.maxSegments:
            return NEVER_AGAIN
        step = max(step, _after(self._last[ChangeKind.SPLIT], self._split_wait))
        best = self._segments.hot.first_from(step, self._find_hot)
        if policy.consumersPerSegment:
            crowded = self._load.crowded(count * policy.consumersPerSegment).first_from(step)
            best = min(best, _or_never(crowded))
        return best

    def _find_hot(self, place: int, step: int) -> tuple[int, int]:
        segments = self._segments
        if segments.widths[place] < 2:
            return NEVER_STRETCH
        return self._load.hot(segments.spans[place], self._split_above).next_stretch(step)

    def _next_merge(self, step: int) -> int:
        policy, count = self._policy, len(self._segments)
        if count < 2 or count <= policy.minSegments:
            return NEVER_AGAIN
        step = max(step, _after(self._last[ChangeKind.MERGE], self._merge_wait))
        fewer = (count - 1) * policy.consumersPerSegment
        if fewer >= self._consumers_most:
            fewer = 0  # there are never so many
        if fewer != self._fewer:
            self._fewer = fewer
            self._segments.ripe.forget(0, count, count)
        return self._segments.ripe.first_from(step, self._find_ripe)

    def _find_ripe(self, place: int, step: int) -> tuple[int, int]:
        """When it and the next have been cold for long enough and no consumer needs both."""
        segments, fewer = self._segments, self._fewer
        if place + 1 == len(segments):
            return NEVER_STRETCH
        if max(segments.merges[place], segments.merges[place + 1]) >= self._policy.maxDagDepth:
            return NEVER_STRETCH
        left, right = segments.spans[place], segments.spans[place + 1]
        above = self._split_above if self._may_split_again else None
        cold = self._load.cold_together(left, right, self._merge_below, self._window)
        born = max(segments.born[place], segments.born[place + 1])
        free = None
        if fewer > 0 or above is not None:
            free = self._load.free((left[0], right[1]), above, fewer)
        for index in range(bisect_right(cold.ends, step), len(cold.starts)):
            start = max(cold.starts[index], born) + self._window
            end = cold.ends[index]
            if free is not None:
                # From the step on: what is free may begin and end several times meanwhile.
                begun, ended = free.next_stretch(max(step, start))
                start, end = max(start, begun), min(end, ended)
            if max(step, start) < end:
                return start, end
        return NEVER_STRETCH

    # ------------------------------------------------------------------ asking and doing

    def ask(self, step: int) -> None:
        """The controller's own decision at one step, carried out."""
        ids = self._segments.ids
        match choose(self._columns(step), self._policy, self._look_around(step)):
            case Split(segment):
                self._split(ids.index(segment), step)
            case Merge(left, _):
                self._merge(ids.index(left), step)
            case None:
                pass

    def _columns(self, step: int) -> Columns:
        segments, step_ms = self._segments, self._load.step_ms
        rates = [each[step].tolist() for each in segments.rates]
        ages = [
            0.0 if begun > step else float((step - (begun if begun > born else born)) * step_ms)
            for begun, born in zip(
                segments.cold.starts_at(step, self._find_cold), segments.born, strict=True
            )
        ]
        by_rate = list(zip(*rates, strict=True))
        return Columns(segments.ids, by_rate, ages, segments.merges, segments.widths)

    def _find_cold(self, place: int, step: int) -> tuple[int, int]:
        return self._load.cold(self._segments.spans[place], self._merge_below).next_stretch(step)

    def _look_around(self, step: int) -> Surroundings:
        return Surroundings(
            (int(self._load.consumers[step]),),
            self._since_ms(ChangeKind.SPLIT, step),
            self._since_ms(ChangeKind.MERGE, step),
        )

    def _since_ms(self, kind: ChangeKind, step: int) -> float:
        last = self._last[kind]
        return NEVER if last < 0 else float((step - last) * self._load.step_ms)

    def _split(self, place: int, step: int) -> None:
        first, last = self._segments.spans[place]
        middle = first + (last - first) // 2
        self._apply(place, 1, [(first, middle), (middle + 1, last)], step, ChangeKind.SPLIT)

    def _merge(self, place: int, step: int) -> None:
        spans = self._segments.spans
        whole = (spans[place][0], spans[place + 1][1])
        self._apply(place, 2, [whole], step, ChangeKind.MERGE)

    def _apply(
        self, place: int, count: int, children: list[Range], step: int, kind: ChangeKind
    ) -> None:
        self._account(step)
        segments = self._segments
        undone = _UNDOES[kind]
        self._flaps += any(
            segments.made_by[each] is undone and step - segments.born[each] < self._flap_steps
            for each in range(place, place + count)
        )
        segments.put(place, count, children, step, kind)
        self._last[kind] = step
        self._most = max(self._most, len(segments))
        span = (children[0][0], children[-1][1])
        self._changes.append(Change(step, kind, span, len(segments)))

    def _account(self, step: int) -> None:
        """What the segments cost and suffered since the last change."""
        if step <= self._accounted:
            return
        segments = self._segments
        if min(segments.overloaded_at) < step:
            places = [place for place, at in enumerate(segments.overloaded_at) if at < step]
            hot = (segments.overloaded[place] for place in places)
            self._overloaded_steps += length_of_union(hot, self._accounted, step)
            for place in places:
                following = segments.overloaded[place].first_from(step)
                segments.overloaded_at[place] = _or_never(following)
        self._segment_steps += len(segments) * (step - self._accounted)
        self._accounted = step


def _or_never(step: int | None) -> int:
    return NEVER_AGAIN if step is None else step


def count_steps(seconds: int, step_ms: int) -> int:
    """After how many steps so much time has passed."""
    return -(-seconds * 1000 // step_ms)


def _after(last: int, wait: int) -> int:
    return 0 if last < 0 else last + wait
