"""One try at a time to bring something in line with the store, and waiting for it."""

from __future__ import annotations

import asyncio

from magnetar.errors import StoreClosed, StoreUnavailable
from magnetar.metadata.settle import Settler
from magnetar.runtime.task import TaskScope


class Work:
    """Fails with what it is given, then waits for its gate."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.gate = asyncio.Event()
        self.tries = 0

    async def __call__(self) -> None:
        self.tries += 1
        if self.failures:
            raise self.failures.pop(0)
        await self.gate.wait()


async def is_settled(settler: Settler) -> bool:
    waiting = asyncio.ensure_future(settler.settled())
    for _ in range(5):
        await asyncio.sleep(0)
    if not waiting.done():
        waiting.cancel()
        return False
    return True


def test_settled_waits_for_the_requests_made_so_far() -> None:
    async def body() -> None:
        work = Work()
        async with TaskScope("test") as scope:
            settler = Settler(scope, "work", work)
            assert await is_settled(settler)
            settler.request()
            assert not await is_settled(settler)
            settler.request()  # while the first one is carried out: once more
            work.gate.set()
            await settler.settled()
            assert work.tries == 2

    asyncio.run(body())


def test_a_store_that_does_not_answer_is_asked_again() -> None:
    async def body() -> None:
        work = Work(StoreUnavailable("away"), StoreUnavailable("still away"))
        work.gate.set()
        async with TaskScope("test") as scope:
            settler = Settler(scope, "work", work, retry_first_s=0.001, retry_most_s=0.001)
            settler.request()
            async with asyncio.timeout(10):
                await settler.settled()
            assert work.tries == 3

    asyncio.run(body())


def test_nothing_is_waited_for_once_it_is_closed() -> None:
    async def body() -> None:
        async with TaskScope("test") as scope:
            closed, ended = Work(), Work(StoreClosed("closed"))
            for work in (closed, ended):
                settler = Settler(scope, "work", work)
                settler.request()
                if work is closed:
                    assert not await is_settled(settler)
                    settler.close()
                await settler.settled()
                settler.request()
                assert await is_settled(settler)
                assert work.tries == 1

    asyncio.run(body())
