"""Why Spark could not finish, for the person who started the job."""

from __future__ import annotations

from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last):"


def explain(text: str) -> str:
    """What Spark says, in a line: of a Python worker's failure the exception that ended it."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    reason = ""
    in_traceback = False
    for line in lines:
        if line.endswith(_TRACEBACK):
            in_traceback = True
        elif in_traceback and not line[0].isspace():
            in_traceback = False
            reason = line
    if reason:
        name, separator, told = reason.partition(": ")
        return told if separator and " " not in name else reason
    return lines[0].strip() if lines else ""
