from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from magnetar.broker.scalable.turn import Turns
from magnetar.errors import NotAllowed, ServiceNotReady


def run(body: Callable[[Turns], Coroutine[Any, Any, None]]) -> None:
    async def inside() -> None:
        turns = Turns("test")
        await body(turns)
        await turns.close()

    asyncio.run(inside())


def test_turns_are_taken_one_after_the_other_in_the_order_they_were_asked_for() -> None:
    async def body(turns: Turns) -> None:
        seen: list[str] = []

        async def take(name: str) -> str:
            seen.append(f"{name} begins")
            for _ in range(5):
                await asyncio.sleep(0)
            seen.append(f"{name} ends")
            return name

        asked = [turns.run(lambda name=name: take(name)) for name in "abc"]  # type: ignore[misc]
        assert await asyncio.gather(*asked) == ["a", "b", "c"]
        assert seen == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]
        assert not turns.is_busy

    run(body)


def test_a_turn_inside_a_turn_is_the_same_turn() -> None:
    async def body(turns: Turns) -> None:
        async def inner() -> int:
            return 7

        async def outer() -> int:
            return await turns.run(inner)

        assert await asyncio.wait_for(turns.run(outer), 5) == 7

    run(body)


def test_a_turn_ends_even_when_nobody_waits_for_it_any_more() -> None:
    async def body(turns: Turns) -> None:
        gate, done = asyncio.Event(), asyncio.Event()

        async def change() -> None:
            await gate.wait()
            done.set()

        asking = asyncio.ensure_future(turns.run(change))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        gate.set()
        await asyncio.wait_for(done.wait(), 5)

    run(body)


def test_a_failure_belongs_to_whoever_asked_and_the_next_turn_comes_all_the_same() -> None:
    async def body(turns: Turns) -> None:
        async def fail() -> None:
            raise NotAllowed("no")

        async def work() -> str:
            return "done"

        turns.start(fail)
        with pytest.raises(NotAllowed):
            await turns.run(fail)
        assert await turns.run(work) == "done"

    run(body)


def test_whoever_waits_when_turns_end_is_refused() -> None:
    async def body(turns: Turns) -> None:
        begun = asyncio.Event()

        async def stay() -> None:
            begun.set()
            await asyncio.Event().wait()

        asked = [asyncio.ensure_future(turns.run(stay)) for _ in range(2)]
        await asyncio.wait_for(begun.wait(), 5)
        await turns.close()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ServiceNotReady, ServiceNotReady]
        with pytest.raises(ServiceNotReady):
            await turns.run(stay)

    run(body)
