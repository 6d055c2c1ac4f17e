"""Time and chance, handed in: what reads a clock, waits, sets a timer or draws a number asks a
`Clock`.

Waiting is done with timers of the event loop, so it follows the loop's time. A simulation runs
nodes on a loop whose time is virtual and hands each a clock that reads it, with a seeded source of
chance.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Protocol

from magnetar.runtime import wall

_CHANCE: Final = random.SystemRandom()
"""Keeps no state: processes that are forked do not draw the same numbers."""


class Timer(Protocol):
    def cancel(self) -> None:
        """Keep the call from being made; does nothing when it was made already."""


class Clock(Protocol):
    @property
    def chance(self) -> random.Random:
        """The source of jitter and of generated names; not for secrets."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as people and stored records count them; may step."""

    def monotonic(self) -> float:
        """Seconds from an unknown start; never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Wait. Nothing is waited for with 0, but other tasks have their turn."""

    def call_later(self, seconds: float, call: Callable[..., object], *arguments: Any) -> Timer:
        """Call on the event loop after so many seconds."""

    def call_at(self, when: float, call: Callable[..., object], *arguments: Any) -> Timer:
        """Call on the event loop at a time of `monotonic`; at once when it is past."""

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        """`async with`: raise TimeoutError in the block after so many seconds; None: never."""

    def timeout_at(self, when: float | None) -> asyncio.Timeout:
        """As `timeout`, with the deadline as a time of `monotonic`."""


class LoopClock(ABC):
    """Waits with timers of the running event loop; what the time is, a subclass knows.

    A subclass's `monotonic` must go as fast as the loop's time.
    """

    chance: random.Random = _CHANCE

    @abstractmethod
    def now_ms(self) -> int: ...

    @abstractmethod
    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, call: Callable[..., object], *arguments: Any) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, call, *arguments)

    # A loop may count its time from another start than `monotonic`: uvloop does.

    def call_at(self, when: float, call: Callable[..., object], *arguments: Any) -> Timer:
        return self.call_later(max(0.0, when - self.monotonic()), call, *arguments)

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        return asyncio.timeout(seconds)

    def timeout_at(self, when: float | None) -> asyncio.Timeout:
        return asyncio.timeout(None if when is None else when - self.monotonic())


class SystemClock(LoopClock):
    """The machine's."""

    now_ms = staticmethod(wall.now_ms)

    def monotonic(self) -> float:
        return time.monotonic()


SYSTEM: Final = SystemClock()


def make_token(chance: random.Random, size: int) -> str:
    """`size` random bytes in hexadecimal: a name that no other is likely to have. No secret."""
    return chance.randbytes(size).hex()
