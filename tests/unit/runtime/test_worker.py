from __future__ import annotations

import asyncio
import threading

import pytest

from magnetar.runtime.worker import ThreadWorker, Workers, run_in_thread
from magnetar.testing.worker import InlineWorker

KINDS = pytest.mark.parametrize("workers", [ThreadWorker, InlineWorker])


def _fail() -> None:
    raise OSError("no")


@KINDS
def test_a_call_s_value_and_its_failure_come_back(workers: Workers) -> None:
    async def body() -> None:
        worker = workers("test")
        assert await worker.run(divmod, 7, 3) == (2, 1)
        with pytest.raises(OSError, match="no"):
            await worker.run(_fail)
        worker.close()
        with pytest.raises(RuntimeError, match="closed"):
            await worker.run(divmod, 7, 3)

    asyncio.run(body())


@KINDS
def test_one_thread_makes_calls_in_order_and_closing_waits_for_them(workers: Workers) -> None:
    async def body() -> list[int]:
        worker, made = workers("test"), list[int]()
        for number in range(100):
            worker.submit(made.append, number)
        worker.close()
        return made

    assert asyncio.run(body()) == list(range(100))


@KINDS
def test_a_failure_that_no_caller_waits_for_is_logged(
    workers: Workers, caplog: pytest.LogCaptureFixture
) -> None:
    worker, made = workers("test"), list[int]()
    worker.submit(_fail)
    worker.submit(made.append, 1)
    worker.close()
    assert made == [1]
    assert "call beside the event loop failed" in caplog.text


def test_calls_are_made_on_other_threads_up_to_the_bound() -> None:
    async def body() -> None:
        worker, gate = ThreadWorker("test", 2), threading.Barrier(2)

        def meet() -> int:
            gate.wait(timeout=60)
            return threading.get_ident()

        idents = await asyncio.gather(worker.run(meet), worker.run(meet))
        assert len({*idents, threading.get_ident()}) == 3
        assert await run_in_thread(threading.get_ident) != threading.get_ident()
        worker.close()

    asyncio.run(body())


def test_a_call_that_is_not_begun_is_cancelled_by_a_close_that_does_not_wait() -> None:
    async def body() -> None:
        worker, began, gate = ThreadWorker("test"), threading.Event(), threading.Event()

        def hold() -> str:
            began.set()
            gate.wait(timeout=60)
            return "done"

        first = asyncio.create_task(worker.run(hold))
        await run_in_thread(began.wait)
        second = asyncio.create_task(worker.run(divmod, 7, 3))
        given_up = asyncio.create_task(worker.run(divmod, 7, 0))
        await asyncio.sleep(0)
        given_up.cancel()
        worker.close(wait=False)
        gate.set()
        assert await first == "done"
        for task in (second, given_up):
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(body())


def test_a_loop_that_is_closed_is_not_told() -> None:
    worker, began, gate = ThreadWorker("test"), threading.Event(), threading.Event()

    def hold() -> None:
        began.set()
        gate.wait(timeout=60)

    async def body() -> None:
        asyncio.create_task(worker.run(hold))  # noqa: RUF006
        await run_in_thread(began.wait)

    asyncio.run(body())
    gate.set()
    worker.close()
