"""What a policy would have done with a topic, had it been in force all along.

Every decision is the controller's own: `rules.scale_column.choose`. It is asked only at steps at
which it can do something; those are found by bisection in stretches of heat and cold. Asking it at
every step gives the same, a thousand times slower.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from magnetar.rules.scale_column import NEVER, Action, Columns, Limits, Situation, choose
from magnetar.spark.job.load import Marks, Range, TopicLoad
from magnetar.spark.job.span import length_of_union


class Change(NamedTuple):
    step: int
    action: int
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
        return sum(change.action == Action.SPLIT for change in self.changes)

    @property
    def merges(self) -> int:
        return len(self.changes) - self.splits


@dataclass(slots=True)
class _Segment:
    id: int
    span: Range
    merged: frozenset[int] = frozenset()
    """The merges that lie behind it, each by the segment it made; as long as none is pruned."""
    born: int = 0
    made_by: int = Action.STAY
    hot_at: int = -1
    """The next step at which it is hot, as was found from an earlier one."""
    cold_at: tuple[int, int, int] = (-1, -1, -1)
    """The same of it and its right neighbour: the neighbour, consumers they may have, the step."""

    @property
    def merges(self) -> int:
        return len(self.merged)

    @property
    def width(self) -> int:
        return self.span[1] - self.span[0] + 1


class Replay:
    """One topic under one policy."""

    def __init__(
        self, load: TopicLoad, limits: Limits, *, overload: Marks, flap_steps: int
    ) -> None:
        self._load = load
        self._limits = limits
        self._overload = overload
        self._flap_steps = flap_steps
        self._segments = [_Segment(place, span) for place, span in enumerate(load.layout)]
        self._next_id = len(self._segments)
        self._consumers_most = int(load.consumers.max())
        self._last = {Action.SPLIT: -1, Action.MERGE: -1}
        self._split_wait = _steps(limits.split_cooldown_ms, load.step_ms)
        self._merge_wait = _steps(limits.merge_cooldown_ms, load.step_ms)
        self._window = _steps(limits.merge_window_ms, load.step_ms)
        self._changes: list[Change] = []
        self._segment_steps = self._overloaded_steps = self._flaps = 0
        self._accounted = 0
        self._most = len(self._segments)

    @property
    def layout(self) -> list[Range]:
        """The active segments, by ascending hash."""
        return [each.span for each in self._segments]

    @property
    def merge_depths(self) -> list[int]:
        """How many merges lie behind each of them."""
        return [each.merges for each in self._segments]

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
        if not self._limits.enabled:
            return None
        found = [self._next_split(step), self._next_merge(step)]
        return min((each for each in found if each is not None), default=None)

    def _next_split(self, step: int) -> int | None:
        limits, count = self._limits, len(self._segments)
        if count >= limits.segments_max:
            return None
        step = max(step, _after(self._last[Action.SPLIT], self._split_wait))
        best = self._load.steps
        for each in self._segments:
            if each.width > 1:
                if each.hot_at < step:
                    found = self._load.hot(each.span, limits.split).first_from(step)
                    each.hot_at = self._load.steps if found is None else found
                best = min(best, each.hot_at)
        if limits.consumers_per_segment:
            crowded = self._load.crowded(count * limits.consumers_per_segment).first_from(step)
            best = best if crowded is None else min(best, crowded)
        return best if best < self._load.steps else None

    def _next_merge(self, step: int) -> int | None:
        limits, count = self._limits, len(self._segments)
        if count < 2 or count <= limits.segments_min:
            return None
        step = max(step, _after(self._last[Action.MERGE], self._merge_wait))
        fewer = (count - 1) * limits.consumers_per_segment
        if fewer >= self._consumers_most:
            fewer = 0  # there are never so many
        best = self._load.steps
        for left, right in pairwise(self._segments):
            if max(left.merges, right.merges) >= limits.depth_max:
                continue
            neighbour, allowed, known = left.cold_at
            if neighbour != right.id or allowed != fewer or known < step:
                found = self._next_cold(left, right, step, fewer)
                known = self._load.steps if found is None else found
                left.cold_at = right.id, fewer, known
            best = min(best, known)
        return best if best < self._load.steps else None

    def _next_cold(self, left: _Segment, right: _Segment, step: int, fewer: int) -> int | None:
        """The first step at which both have been cold for long enough and nobody needs them."""
        limits, span = self._limits, (left.span[0], right.span[1])
        above = limits.split if limits.may_split_again else None
        cold = self._load.cold_together(left.span, right.span, limits.merge, self._window)
        born = max(left.born, right.born)
        free = self._load.free(span, above, fewer) if fewer > 0 or above is not None else None
        for place in range(bisect_right(cold.ends, step), len(cold.starts)):
            ripe = max(step, max(cold.starts[place], born) + self._window)
            found = ripe if free is None else free.first_from(ripe)
            if found is None or found < cold.ends[place]:
                return found
        return None

    # ------------------------------------------------------------------ asking and doing

    def ask(self, step: int) -> None:
        """The controller's own decision at one step, carried out."""
        choice = choose(self._columns(step), self._limits, self._situation(step))
        if choice.action == Action.SPLIT:
            self._split(choice.first, step)
        elif choice.action == Action.MERGE:
            self._merge(choice.first, step)

    def _columns(self, step: int) -> Columns:
        segments, merge = self._segments, self._limits.merge
        rates = [self._load.carried(each.span)[:, step].tolist() for each in segments]
        ages = []
        for each in segments:
            begun = self._load.cold(each.span, merge).begun(step)
            since = step if begun is None else max(begun, each.born)
            ages.append(float((step - since) * self._load.step_ms))
        return Columns(
            [each.id for each in segments],
            [each[0] for each in rates],
            [each[1] for each in rates],
            [each[2] for each in rates],
            [each[3] for each in rates],
            ages,
            [each.merges for each in segments],
            [each.width for each in segments],
            [0.0] * len(segments),
        )

    def _situation(self, step: int) -> Situation:
        return Situation(
            int(self._load.consumers[step]),
            self._since_ms(Action.SPLIT, step),
            self._since_ms(Action.MERGE, step),
        )

    def _since_ms(self, action: Action, step: int) -> float:
        last = self._last[action]
        return NEVER if last < 0 else float((step - last) * self._load.step_ms)

    def _split(self, place: int, step: int) -> None:
        parent = self._segments[place]
        first, last = parent.span
        middle = first + (last - first) // 2
        children = [
            self._make((first, middle), parent.merged, step, Action.SPLIT),
            self._make((middle + 1, last), parent.merged, step, Action.SPLIT),
        ]
        self._apply(place, 1, children, step, Action.SPLIT)

    def _merge(self, place: int, step: int) -> None:
        left, right = self._segments[place : place + 2]
        span = (left.span[0], right.span[1])
        merged = left.merged | right.merged | {self._next_id}
        child = self._make(span, merged, step, Action.MERGE)
        self._apply(place, 2, [child], step, Action.MERGE)

    def _make(self, span: Range, merged: frozenset[int], step: int, made_by: Action) -> _Segment:
        self._next_id += 1
        return _Segment(self._next_id - 1, span, merged, step, made_by)

    def _apply(
        self, place: int, count: int, children: list[_Segment], step: int, action: Action
    ) -> None:
        self._account(step)
        parents = self._segments[place : place + count]
        undone = Action.MERGE if action is Action.SPLIT else Action.SPLIT
        self._flaps += any(
            each.made_by == undone and step - each.born < self._flap_steps for each in parents
        )
        self._segments[place : place + count] = children
        self._last[action] = step
        self._most = max(self._most, len(self._segments))
        span = (parents[0].span[0], parents[-1].span[1])
        self._changes.append(Change(step, action, span, len(self._segments)))

    def _account(self, step: int) -> None:
        """What the segments cost and suffered since the last change."""
        if step <= self._accounted:
            return
        hot = (self._load.hot(each.span, self._overload) for each in self._segments)
        self._overloaded_steps += length_of_union(hot, self._accounted, step)
        self._segment_steps += len(self._segments) * (step - self._accounted)
        self._accounted = step


def _steps(span_ms: float, step_ms: int) -> int:
    """After how many steps so much time has passed."""
    return int(-(-span_ms // step_ms))


def _after(last: int, wait: int) -> int:
    return 0 if last < 0 else last + wait
