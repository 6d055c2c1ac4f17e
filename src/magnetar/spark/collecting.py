"""Planning over thousands of topics without looking through what was made so far again and again.

What a plan makes has no cycles, and most of it stays: Python's collector would take as long as the
plan itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collecting_later() -> Iterator[None]:
    """Of the whole process: cycles are looked for when it is over."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
