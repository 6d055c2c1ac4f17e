from __future__ import annotations

import asyncio
import io
import logging

import pytest

from magnetar.errors import StoreUnavailable
from magnetar.runtime.log import configure_logs
from magnetar.runtime.task import TaskScope


def test_closing_cancels_and_waits_for_every_task() -> None:
    async def body() -> None:
        ended: list[str] = []

        async def work(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append(name)

        async with TaskScope("scope") as scope:
            scope.start(work("a"), "a")
            scope.start(work("b"), "b")
            await asyncio.sleep(0)
            assert len(scope) == 2
        assert sorted(ended) == ["a", "b"]
        assert len(scope) == 0
        await scope.close()

    asyncio.run(body())


@pytest.mark.parametrize(
    ("failure", "has_trace"),
    [(RuntimeError("broken pipe dream"), True), (StoreUnavailable("broken pipe dream"), False)],
)
def test_a_failure_is_logged_by_name_and_leaves_the_others_alone(
    failure: Exception, has_trace: bool
) -> None:
    """A refusal by its sentence, a defect with its trace."""
    stream = io.StringIO()
    root = logging.getLogger("magnetar")
    before = root.handlers, root.level, root.propagate
    configure_logs(stream=stream)

    async def fail() -> None:
        raise failure

    async def body() -> None:
        async with TaskScope("scope") as scope:
            other = scope.start(asyncio.Event().wait(), "other")  # type: ignore[arg-type]
            failed = scope.start(fail(), "clock")
            await asyncio.wait([failed])
            await asyncio.sleep(0)
            assert not other.done()
            assert len(scope) == 1

    try:
        asyncio.run(body())
    finally:
        root.handlers, root.level, root.propagate = before
    assert 'task failed task="scope: clock"' in stream.getvalue()
    assert "broken pipe dream" in stream.getvalue()
    assert ("Traceback" in stream.getvalue()) is has_trace


def test_a_closed_scope_starts_nothing() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    async def body() -> None:
        scope = TaskScope("scope")
        await scope.close()
        with pytest.raises(RuntimeError, match="scope: closed, cannot start late"):
            scope.start(work(), "late")

    asyncio.run(body())


def test_a_task_may_close_its_own_scope() -> None:
    async def body() -> None:
        scope = TaskScope("scope")
        waiting = scope.start(asyncio.sleep(3600), "sleeper")
        closing = scope.start(scope.close(), "closer")
        await closing
        assert waiting.cancelled()

    asyncio.run(body())


def test_a_periodic_call_goes_on_after_a_failure() -> None:
    async def body() -> None:
        rounds = 0
        enough = asyncio.Event()

        def tick() -> None:
            nonlocal rounds
            rounds += 1
            if rounds == 3:
                enough.set()
            raise ValueError(rounds)

        async def slow_tick() -> None:
            await asyncio.sleep(0)
            tick()

        async with TaskScope("scope") as scope:
            scope.periodic(0.0, tick, "tick")
            await asyncio.wait_for(enough.wait(), 10)
        rounds = 0
        enough.clear()
        async with TaskScope("scope") as scope:
            scope.periodic(0.0, slow_tick, "tick")
            await asyncio.wait_for(enough.wait(), 10)

    logging.disable(logging.ERROR)
    try:
        asyncio.run(body())
    finally:
        logging.disable(logging.NOTSET)
