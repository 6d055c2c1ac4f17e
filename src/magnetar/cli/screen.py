"""What is written to a terminal and to nothing else: colours, and a picture drawn anew."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from typing import Final, TextIO

from magnetar.cli.moment import format_time
from magnetar.errors import MagnetarError

BOLD: Final = "1"
RED: Final = "31"
_HOME: Final = "\x1b[H"
CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"
_COLOURS: Final = re.compile(r"\x1b\[[0-9]*m")


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty()


def has_colours(stream: TextIO) -> bool:
    """Not in a file or a pipe, nor where the user asked for none (no-color.org)."""
    return (
        is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def paint(text: str, code: str, stream: TextIO) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if text and has_colours(stream) else text


def follow(
    look: Callable[[], str],
    stream: TextIO,
    *,
    title: str,
    now_ms: Callable[[], int],
    pause: Callable[[], bool],
) -> None:
    """Show what `look` finds until `pause` says that it is enough: in place on a terminal, else one
    after the other. What is refused later than the first time may be over soon, and is shown.
    """
    is_first = True
    while True:
        try:
            text = look()
        except MagnetarError as refusal:
            if is_first:
                raise
            text = refusal.sentence
        head = f"{title}  {format_time(now_ms())}"
        if is_terminal(stream):
            stream.write(draw(f"{paint(head, BOLD, stream)}\n\n{text}", is_first=is_first))
        else:
            stream.write(f"{head}\n{text}\n\n")
        stream.flush()
        is_first = False
        if not pause():
            return


def draw(text: str, *, is_first: bool) -> str:
    """As many lines as the terminal has, over those that were there."""
    width, height = shutil.get_terminal_size()
    lines = text.split("\n")
    if len(lines) >= height:
        lines = [*lines[: height - 2], f"… {len(lines) - height + 2} more lines"]
    shown = "".join(f"{_cut(line, width)}{CLEAR_LINE}\n" for line in lines)
    start = f"{_HOME}{_CLEAR_BELOW}" if is_first else _HOME
    return f"{start}{shown}{_CLEAR_BELOW}"


def _cut(line: str, width: int) -> str:
    """A line that is too long loses its colours too."""
    shown = _COLOURS.sub("", line)
    return line if len(shown) <= width else f"{shown[: width - 1]}…"
