"""Time, handed in."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970, as people and stored records count them; may step."""

    def monotonic(self) -> float:
        """Seconds from an unknown start; never goes back."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
