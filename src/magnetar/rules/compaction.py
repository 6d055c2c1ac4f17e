"""Which messages a compacted topic keeps: the last of every key, unless that one says the key is
gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from magnetar.model.position import Position


@dataclass(slots=True)
class Retained:
    """Where the last message of each key stands."""

    last: dict[str, tuple[Position, int]] = field(default_factory=dict)
    _kept: dict[Position, set[int]] | None = None

    def kept_indexes(self, position: Position, count: int) -> set[int]:
        """Indexes of the messages to keep in the entry at `position`."""
        if self._kept is None:
            self._kept = {}
            for at, index in self.last.values():
                self._kept.setdefault(at, set()).add(index)
        return {index for index in self._kept.get(position, ()) if index < count}


def plan_retained(
    retained: Retained, position: Position, messages: Sequence[tuple[str | None, bool]]
) -> None:
    """Count the messages of the next entry, each as (key, whether it deletes the key)."""
    for index, (key, is_deleted) in enumerate(messages):
        if key is None:
            continue
        if is_deleted:
            retained.last.pop(key, None)
        else:
            retained.last[key] = (position, index)
