"""Measures how long the event loop is held, and names what holds it.

A timer of the loop notes how late it comes: that is what every client has to wait. A thread looks
at the loop's stack when the timer is overdue, so work is named while it runs, even if it never
ends; nothing is paid for it while all is well. Functions say what to call the work they do.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias, TypeVar

from magnetar.runtime.log import Logger, PacedLog
from magnetar.runtime.metric import Gauge, Histogram, Labels, MetricText, format_labels

_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_STUCK_S: Final = 1.0
_BEATS: Final = 2
"""How often the loop is looked at within the time that is worth a warning: each look wakes a
process that may have nothing else to do.
"""

Label: TypeAlias = Callable[[Mapping[str, Any]], str]
Function = TypeVar("Function", bound=Callable[..., Any])

_log = Logger(__name__)
_labels: dict[CodeType, Label] = {}


def names_work(label: Label) -> Callable[[Function], Function]:
    """Say what a function works on, from its local variables; some may not be there yet."""

    def note(function: Function) -> Function:
        _labels[function.__code__] = label
        return function

    return note


@dataclass(frozen=True, slots=True)
class LoopSample:
    """What the loop was seen to do."""

    work: str = ""
    place: str = ""


def describe(frame: FrameType | None) -> LoopSample:
    """The innermost work that has a name, and the line that runs."""
    if frame is None:
        return LoopSample()
    code = frame.f_code
    place = f"{'/'.join(Path(code.co_filename).parts[-2:])}:{frame.f_lineno} {code.co_name}"
    each: FrameType | None = frame
    while each is not None:
        label = _labels.get(each.f_code)
        if label is not None:
            try:
                return LoopSample(label(each.f_locals), place)
            # The other thread may be anywhere in the function: whatever a label cannot read yet
            # leaves the work to the caller's name.
            except (KeyError, AttributeError, ValueError):
                pass
        each = each.f_back
    return LoopSample("", place)


class Watchdog:
    def __init__(self, *, warn_ms: int) -> None:
        """More than `warn_ms` is named in the log; 0 measures and names nothing."""
        self.sights = 0
        """How often the loop was found overdue and looked at."""
        self._warn_s = warn_ms / 1000
        self._held = Histogram(
            "magnetar_event_loop_held_seconds",
            "Seconds that the event loop was late",
            _BOUNDS_S,
        )
        self._longest = Gauge(
            "magnetar_event_loop_held_longest_seconds",
            "Seconds that the event loop was late at most",
        )
        self._due = 0.0
        self._sight = LoopSample()
        self._stop = threading.Event()
        self._warned = ""
        self._warnings = PacedLog(_log)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch the loop that runs, until the end of the block."""
        if not self._warn_s:
            yield
            return
        loop, interval_s = asyncio.get_running_loop(), self._warn_s / _BEATS
        timer: asyncio.TimerHandle

        def beat() -> None:
            nonlocal timer
            self._on_beat(time.monotonic() - self._due)
            self._due = time.monotonic() + interval_s
            timer = loop.call_later(interval_s, beat)

        self._due = time.monotonic() + interval_s
        timer = loop.call_later(interval_s, beat)
        loop_thread = threading.get_ident()
        watching = threading.Thread(
            target=self._watch, args=(loop_thread,), name="watchdog", daemon=True
        )
        watching.start()
        try:
            yield
        finally:
            timer.cancel()
            self._stop.set()
            watching.join()

    def _on_beat(self, held_s: float) -> None:
        held_s = max(0.0, held_s)
        self._held.observe(held_s)
        self._longest.value = max(self._longest.value, held_s)
        if held_s > self._warn_s:
            seen, self._sight = self._sight, LoopSample()
            if seen.work != self._warned:  # only what repeats itself is left out
                self._warned, self._warnings = seen.work, PacedLog(_log)
            self._warnings.warning(
                "event loop was held",
                held_ms=round(held_s * 1000),
                work=seen.work or "unknown: perhaps the process was not run",
                at=seen.place,
            )

    def _watch(self, loop_thread: int) -> None:
        """Sleep until the timer that is set now would be overdue: mostly it is set again then."""
        stuck_s, pause_s = _STUCK_S, self._warn_s
        while not self._stop.wait(pause_s):
            held_s = time.monotonic() - self._due
            if held_s <= self._warn_s:
                stuck_s, pause_s = _STUCK_S, self._warn_s - held_s
                continue
            pause_s = self._warn_s / 2
            seen = describe(sys._current_frames().get(loop_thread))
            if not self._sight.work:
                self._sight = seen
            self.sights += 1
            if held_s > stuck_s:
                stuck_s *= 4
                _log.error(
                    "event loop is held",
                    held_ms=round(held_s * 1000),
                    work=seen.work or "unknown",
                    at=seen.place,
                )

    @property
    def held_sum_s(self) -> float:
        """How late the loop was, summed over all looks."""
        return self._held.sum

    @property
    def looks(self) -> int:
        """How often the loop was looked at."""
        return self._held.count

    @property
    def held_longest_s(self) -> float:
        return self._longest.value

    def write(self, text: MetricText, labels: Labels) -> None:
        self._held.write(text, labels)
        self._longest.write(text, format_labels(labels))
