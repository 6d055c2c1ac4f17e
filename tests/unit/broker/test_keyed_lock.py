"""Locks by key: one holder at a time, others are independent, waiting does not take the lock."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.broker.keyed_lock import KeyedLock


def test_holders_of_one_key_come_one_after_the_other() -> None:
    async def body() -> None:
        lock = KeyedLock()
        inside: list[int] = []
        seen: list[int] = []

        async def hold(number: int) -> None:
            async with lock.hold("a"):
                inside.append(number)
                seen.append(len(inside))
                await asyncio.sleep(0)
                inside.remove(number)

        await asyncio.gather(*map(hold, range(5)))
        assert seen == [1] * 5
        assert "a" not in lock

    asyncio.run(body())


def test_keys_are_independent() -> None:
    async def body() -> None:
        lock = KeyedLock()
        async with lock.hold("a"), lock.hold("b"):
            assert "a" in lock
            await lock.wait("c")

    asyncio.run(body())


def test_a_waiter_that_is_cancelled_leaves_the_lock_to_its_holder() -> None:
    async def body() -> None:
        lock = KeyedLock()
        async with lock.hold("a"):
            waiting = asyncio.ensure_future(lock.wait("a"))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert "a" in lock
        await lock.wait("a")

    asyncio.run(body())


def test_a_body_that_fails_frees_its_key() -> None:
    async def body() -> None:
        lock = KeyedLock()
        with pytest.raises(ValueError, match="no"):
            async with lock.hold("a"):
                raise ValueError("no")
        assert "a" not in lock

    asyncio.run(body())
