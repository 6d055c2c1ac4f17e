"""What a topic remembers of scaling itself, across controllers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ScaleTally:
    """Counted since the topic was made."""

    splits: int = 0
    merges: int = 0
    splits_capped: int = 0
    """Splits that the highest number of segments forbade."""
    merges_capped: int = 0
    """Merges that the depth of the history forbade."""
    epoch: int = -1
    """Of the latest change that is counted."""


@dataclass(frozen=True, slots=True)
class ScaleMemory:
    tally: ScaleTally = ScaleTally()
    decisions: tuple[Mapping[str, Any], ...] = ()
    """The latest ones as they are shown, oldest first."""
