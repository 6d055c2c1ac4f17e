"""Virtual time, and processes that end between two steps."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from magnetar.testing.simulation.loop import Process, Stuck, VirtualLoop


def play(body: Coroutine[Any, Any, None], loop: VirtualLoop) -> None:
    try:
        loop.run_until_complete(loop.spawn(Process("test"), body, "test"))
    finally:
        loop.close()


def test_waiting_is_a_jump_in_time() -> None:
    loop = VirtualLoop(Random(0))

    async def body() -> None:
        await asyncio.sleep(3600)
        assert loop.time() == pytest.approx(3600)

    play(body(), loop)


def test_a_wait_that_nothing_can_end_is_found() -> None:
    loop = VirtualLoop(Random(0))

    async def body() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        play(body(), loop)


def test_nothing_of_a_killed_process_runs_again() -> None:
    loop = VirtualLoop(Random(0))
    steps: list[str] = []
    victim = Process("victim")
    woken = asyncio.Event()

    async def live(name: str) -> None:
        try:
            steps.append(f"{name} waits")
            await woken.wait()
            steps.append(f"{name} goes on")
        finally:
            steps.append(f"{name} ends")

    async def body() -> None:
        loop.spawn(victim, live("victim"), "victim")
        loop.spawn(Process("other"), live("other"), "other")
        await asyncio.sleep(1)
        loop.kill(victim)
        woken.set()
        await asyncio.sleep(1)

    play(body(), loop)
    assert steps == ["victim waits", "other waits", "other goes on", "other ends"]
    loop.bury([victim])
    assert steps[4:] == ["victim ends"]


def test_what_reaches_a_process_in_a_pause_waits_for_its_end() -> None:
    loop = VirtualLoop(Random(0))
    steps: list[str] = []
    victim = Process("victim")
    woken = asyncio.Event()

    async def tick() -> None:
        while len(steps) < 4:
            await asyncio.sleep(1)
            steps.append(f"tick at {loop.time():.0f}")

    async def listen() -> None:
        await woken.wait()
        steps.append(f"woken at {loop.time():.0f}")

    async def body() -> None:
        ticking = loop.spawn(victim, tick(), "tick")
        loop.spawn(victim, listen(), "listen")
        await asyncio.sleep(1.5)
        loop.pause(victim)
        woken.set()
        await asyncio.sleep(5.5)
        assert steps == ["tick at 1"]
        loop.resume(victim)
        await ticking

    play(body(), loop)
    assert steps == ["tick at 1", "woken at 7", "tick at 7", "tick at 8"]


def test_a_process_that_is_killed_in_a_pause_does_not_go_on() -> None:
    loop = VirtualLoop(Random(0))
    steps: list[float] = []
    victim = Process("victim")

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            steps.append(loop.time())

    async def body() -> None:
        loop.spawn(victim, tick(), "tick")
        await asyncio.sleep(1.5)
        loop.pause(victim)
        loop.kill(victim)
        loop.resume(victim)
        await asyncio.sleep(5)

    play(body(), loop)
    assert steps == [pytest.approx(1)]
    loop.bury([victim])


def test_what_a_process_starts_belongs_to_it() -> None:
    loop = VirtualLoop(Random(0))
    steps: list[int] = []
    victim = Process("victim")

    async def child() -> None:
        while True:
            steps.append(1)
            await asyncio.sleep(1)

    async def parent() -> None:
        asyncio.get_running_loop().call_later(5, steps.append, 2)
        await asyncio.create_task(child())

    async def body() -> None:
        loop.spawn(victim, parent(), "parent")
        await asyncio.sleep(2.5)
        loop.kill(victim)
        await asyncio.sleep(10)

    play(body(), loop)
    assert steps == [1, 1, 1]


def test_work_for_a_thread_is_done_on_the_loop_and_later() -> None:
    loop = VirtualLoop(Random(0))

    async def body() -> None:
        began = loop.time()
        assert await asyncio.to_thread(lambda: 6 * 7) == 42
        assert loop.time() > began
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)

    play(body(), loop)
