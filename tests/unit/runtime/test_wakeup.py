"""Waking what waits on a loop."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.runtime.wakeup import Wakeup


def test_all_that_wait_are_woken_and_later_ones_wait_for_the_next_change() -> None:
    async def body() -> None:
        wakeup = Wakeup()
        wakeup.wake()  # nobody waits: it is not remembered
        woken: list[int] = []

        async def wait(number: int) -> None:
            await wakeup.wait()
            woken.append(number)

        waiting = [asyncio.create_task(wait(number)) for number in range(3)]
        await asyncio.sleep(0)
        wakeup.wake()
        await asyncio.gather(*waiting)
        assert woken == [0, 1, 2]
        late = asyncio.create_task(wait(3))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert woken == [0, 1, 2] and not late.done()
        wakeup.wake()
        await late
        assert woken == [0, 1, 2, 3]

    asyncio.run(body())


def test_one_that_gives_up_waiting_leaves_nothing_behind() -> None:
    async def body() -> None:
        wakeup = Wakeup()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await wakeup.wait()
        assert not wakeup._waiting
        waiting = asyncio.create_task(wakeup.wait())
        await asyncio.sleep(0)
        wakeup.wake()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        wakeup.wake()

    asyncio.run(body())
