"""How long to wait before the next try."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Delays that double from `first_s` to `most_s`, each cut by chance so that waiters spread."""

    first_s: float
    most_s: float
    chance: random.Random
    """Where jitter comes from: a clock's."""
    jitter: float = 0.2
    """The largest share that chance may take off a delay."""
    _next_s: float = field(init=False)

    def __post_init__(self) -> None:
        assert 0 < self.first_s <= self.most_s and 0 <= self.jitter < 1
        self._next_s = self.first_s

    def next_s(self) -> float:
        delay = self._next_s
        self._next_s = min(delay * 2, self.most_s)
        return delay * (1 - self.jitter * self.chance.random())

    def reset(self) -> None:
        """What was tried has worked."""
        self._next_s = self.first_s
