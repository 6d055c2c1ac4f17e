"""Log of the latest auto-scale decisions of a topic."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

from magnetar.model.answer.scalable import ScaleDecisionAnswer
from magnetar.model.scalable import SegmentLoad
from magnetar.model.segment import SegmentId
from magnetar.rules.scale import Merge, ScaleDecision, Split
from magnetar.wire.scalable import format_load

ENTRIES_MAX: Final = 100


class Trigger(StrEnum):
    """Why it is asked whether a topic should scale."""

    TICK = "tick"
    JOIN = "consumer-joined"
    LEAVE = "consumer-left"
    LOAD = "load-changed"
    FOLLOW_UP = "cooldown-over"


@dataclass(slots=True)
class DecisionEntry:
    """One decision, or a run of equal ones that changed nothing."""

    at_ms: Final[int]
    trigger: Final[Trigger]
    epoch: Final[int]
    active: Final[int]
    consumers: Final[int]
    loads: Final[Mapping[SegmentId, SegmentLoad]]
    """Of the segments it is about: the hottest one, or those that change."""
    decision: Final[ScaleDecision]
    sentences: Final[tuple[str, ...]]
    failure: str = ""
    times: int = 1
    first_ms: int = 0
    """When the run began, if it is one."""

    def format(self) -> ScaleDecisionAnswer:
        shown: ScaleDecisionAnswer = {
            "atMs": self.at_ms,
            "trigger": self.trigger.value,
            "epoch": self.epoch,
            "activeSegments": self.active,
            "consumers": self.consumers,
            "loads": {str(number): format_load(load) for number, load in self.loads.items()},
            "decision": _describe(self.decision),
            "reason": self.decision.reason,
            "heldBy": [bar.value for bar in self.decision.held_by],
            "explanation": list(self.sentences),
        }
        match self.decision.change:
            case Split(segment):
                shown["segments"] = [segment]
            case Merge(left, right):
                shown["segments"] = [left, right]
            case None:
                pass
        if self.times > 1:
            shown |= {"firstAtMs": self.first_ms, "times": self.times}
        if self.failure:
            shown["failure"] = self.failure
        return shown


def _describe(decision: ScaleDecision) -> str:
    match decision.change:
        case Split():
            return "split"
        case Merge():
            return "merge"
        case None:
            return "stay"


class DecisionLog:
    """Bounded: the oldest go. A topic at rest fills one entry, however long it rests."""

    def __init__(self) -> None:
        self._entries: deque[DecisionEntry] = deque(maxlen=ENTRIES_MAX)
        self._earlier: list[ScaleDecisionAnswer] = []
        """As they are shown: what an earlier controller decided."""

    def __iter__(self) -> Iterator[DecisionEntry]:
        """Oldest first."""
        return iter(tuple(self._entries))

    @property
    def last(self) -> DecisionEntry | None:
        return self._entries[-1] if self._entries else None

    def restore(self, shown: Iterable[Mapping[str, Any]]) -> None:
        """Take over what an earlier controller decided, as it stored that."""
        self._earlier = [cast(ScaleDecisionAnswer, each) for each in shown]
        self._entries.clear()

    def describe(self) -> list[ScaleDecisionAnswer]:
        """The latest as they are shown, oldest first."""
        return [*self._earlier, *(entry.format() for entry in self)][-ENTRIES_MAX:]

    def add(self, entry: DecisionEntry) -> bool:
        """Say whether it is more than a rest that goes on."""
        last = self.last
        if last is not None and _is_same_rest(last, entry):
            entry.first_ms, entry.times = last.first_ms or last.at_ms, last.times + 1
            self._entries[-1] = entry
            return False
        if last is None and self._earlier and _is_rest_shown(self._earlier[-1], entry):
            shown = self._earlier.pop()
            entry.first_ms = shown.get("firstAtMs", shown["atMs"])
            entry.times = shown.get("times", 1) + 1
        self._entries.append(entry)
        return True


def _is_rest_shown(shown: Mapping[str, Any], entry: DecisionEntry) -> bool:
    """The same question of what an earlier controller decided."""
    alike = ("epoch", "decision", "reason", "heldBy", "failure")
    formatted = entry.format()
    return formatted["decision"] == "stay" and all(
        shown.get(key) == formatted.get(key) for key in alike
    )


def _is_same_rest(last: DecisionEntry, entry: DecisionEntry) -> bool:
    return (
        last.decision.change is None
        and last.decision == entry.decision
        and (last.epoch, last.failure) == (entry.epoch, entry.failure)
    )
