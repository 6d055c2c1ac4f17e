"""What time it is, for commands that ask nothing else of a clock and want to start quickly."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since 1970; may step."""
    return time.time_ns() // 1_000_000
