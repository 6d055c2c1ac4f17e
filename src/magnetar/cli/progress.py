"""How far long work has come: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, TextIO

from magnetar.cli.screen import CLEAR_LINE, is_terminal
from magnetar.runtime.clock import SystemClock

_WIDTH: Final = 30
_EVERY_S: Final = 0.1


def format_bar(done: int, total: int) -> str:
    share = min(1.0, done / total) if total else 1.0
    filled = int(share * _WIDTH)
    return f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {int(share * 100):3}%"


def show_bytes(what: str, total: int) -> Progress:
    """Of work on files, on the standard error."""
    return Progress(f"bytes {what}", total, sys.stderr, SystemClock().monotonic)


class Progress:
    """One line that is written over and over; a context manager that takes it away in the end."""

    def __init__(
        self, what: str, total: int | None, stream: TextIO, monotonic: Callable[[], float]
    ) -> None:
        """Without a total there is no bar, but the count."""
        self._what = what
        self._total = total
        self._stream = stream
        self._monotonic = monotonic
        self.is_shown = is_terminal(stream)
        self._next_s = 0.0
        self._done = 0

    def __enter__(self) -> Progress:
        return self

    def add(self, count: int = 1) -> None:
        self._done += count
        if not self.is_shown or (now := self._monotonic()) < self._next_s:
            return
        self._next_s = now + _EVERY_S
        bar = "" if self._total is None else f"{format_bar(self._done, self._total)}  "
        of = "" if self._total is None else f" of {self._total:,}"
        self._stream.write(f"\r{bar}{self._done:,}{of} {self._what}{CLEAR_LINE}")
        self._stream.flush()

    def __exit__(self, *raised: object) -> None:
        if self.is_shown and self._done:
            self._stream.write(f"\r{CLEAR_LINE}")
            self._stream.flush()
