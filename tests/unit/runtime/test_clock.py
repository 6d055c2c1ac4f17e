from __future__ import annotations

import asyncio
import random

import pytest

from magnetar.runtime.clock import LoopClock, SystemClock, make_token


class _Late(LoopClock):
    """Counts from another start than the event loop."""

    def __init__(self) -> None:
        self.chance = random.Random(1)
        self._start = asyncio.get_running_loop().time()

    def now_ms(self) -> int:
        return round(self.monotonic() * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() - self._start


def test_a_timer_is_set_by_the_clock_s_own_time_and_can_be_cancelled() -> None:
    async def body() -> list[str]:
        clock, calls, done = _Late(), list[str](), asyncio.Event()
        clock.call_at(clock.monotonic() + 3600, calls.append, "in an hour").cancel()
        clock.call_at(clock.monotonic() - 3600, calls.append, "an hour ago")
        clock.call_later(0.002, calls.append, "soon")
        clock.call_at(clock.monotonic() + 0.004, done.set)
        await done.wait()
        return calls

    assert asyncio.run(body()) == ["an hour ago", "soon"]


def test_a_deadline_ends_what_takes_longer() -> None:
    async def body() -> None:
        clock = _Late()
        with pytest.raises(TimeoutError):
            async with clock.timeout(0.001):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            async with clock.timeout_at(clock.monotonic()):
                await asyncio.Event().wait()
        async with clock.timeout(None), clock.timeout_at(None):
            await clock.sleep(0)

    asyncio.run(body())


def test_the_system_clock_reads_and_waits() -> None:
    async def body() -> None:
        clock = SystemClock()
        before, before_ms = clock.monotonic(), clock.now_ms()
        await clock.sleep(0.002)
        assert clock.monotonic() > before and clock.now_ms() >= before_ms > 1_700_000_000_000

    asyncio.run(body())


def test_names_follow_from_the_source_of_chance() -> None:
    assert make_token(random.Random(1), 5) == make_token(random.Random(1), 5)
    assert len({make_token(SystemClock().chance, 5) for _ in range(100)}) == 100
