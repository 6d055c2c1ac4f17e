"""Bytes that may wait for their receipts."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.session import MemoryLimit


def test_who_finds_no_room_waits_in_turn() -> None:
    async def body() -> None:
        memory = MemoryLimit(100)
        assert memory.try_take(60) and not memory.try_take(50)
        order: list[str] = []

        async def wait(name: str, size: int) -> None:
            await memory.take(size)
            order.append(name)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(wait("large", 90))
            await asyncio.sleep(0)
            tasks.create_task(wait("small", 10))
            await asyncio.sleep(0)
            assert not memory.try_take(1)  # others came first
            memory.give(60)
        assert order == ["large", "small"] and memory.used == 100

    asyncio.run(body())


def test_a_message_larger_than_everything_goes_alone() -> None:
    memory = MemoryLimit(100)
    assert memory.try_take(500) and not memory.try_take(1)
    memory.give(500)
    assert memory.try_take(1)


def test_zero_means_no_limit() -> None:
    memory = MemoryLimit(0)
    assert all(memory.try_take(10**9) for _ in range(10))


def test_who_gives_up_waiting_leaves_the_room_to_others() -> None:
    async def body() -> None:
        memory = MemoryLimit(10)
        await memory.take(10)
        async with asyncio.TaskGroup() as tasks:
            leaver = tasks.create_task(memory.take(10))
            stayer = tasks.create_task(memory.take(10))
            await asyncio.sleep(0)
            leaver.cancel()
            await asyncio.sleep(0)
            memory.give(10)
            await stayer
        assert memory.used == 10

    asyncio.run(body())


def test_room_handed_to_one_who_was_cancelled_comes_back() -> None:
    async def body() -> None:
        memory = MemoryLimit(10)
        await memory.take(10)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(memory.take(10))
            await asyncio.sleep(0)
            memory.give(10)
            waiting.cancel()
        assert memory.used == 0

    asyncio.run(body())


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 100))
def test_everybody_is_served_and_the_limit_holds(sizes: list[int], limit: int) -> None:
    async def body() -> None:
        memory = MemoryLimit(limit)

        async def use(size: int) -> None:
            await memory.take(size)
            assert memory.used <= max(limit, size)
            await asyncio.sleep(0)
            memory.give(size)

        await asyncio.gather(*(use(size) for size in sizes))
        assert memory.used == 0

    asyncio.run(body())
