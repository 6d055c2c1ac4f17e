"""The recorded texts: compared with, or with MAGNETAR_RECORD=1 written anew."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "admin"
_SHOWN_MAX: Final = 5


def compare(name: str, exchanges: Sequence[str]) -> None:
    """Fail with the first exchanges that differ from the recorded ones."""
    text, path = "\n".join(exchanges), GOLDEN / name
    if os.environ.get("MAGNETAR_RECORD"):
        path.write_text(text)
        return
    recorded = path.read_text()
    if text == recorded:
        return
    pairs = zip_longest(_split(recorded), _split(text), fillvalue="")
    changes = [(before, after) for before, after in pairs if before != after]
    shown = "\n".join(_format(*change) for change in changes[:_SHOWN_MAX])
    raise AssertionError(f"{name}: {len(changes)} exchanges differ, the first ones:\n{shown}")


def differing(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """The exchanges of `other` that are not as in `one`."""
    assert len(one) == len(other)
    return [b for a, b in zip(one, other, strict=True) if a != b]


def _split(text: str) -> list[str]:
    return [f"> {exchange}" for exchange in text.removeprefix("> ").split("\n> ")]


def _format(before: str, after: str) -> str:
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return "\n".join(line for line in lines if not line.startswith("?"))
