"""A loop on a thread of its own."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

import pytest

from magnetar.client.error import AlreadyClosedError, ConfigurationError
from magnetar.client.facade.loop import BackgroundLoop, CallOutcome


async def nothing() -> None:
    """What a loop without a client does at its end."""


def test_a_call_runs_on_the_loops_thread_and_returns_or_raises_here() -> None:
    loop = BackgroundLoop(nothing)

    async def name() -> str:
        return threading.current_thread().name

    async def fail() -> None:
        raise KeyError("x")

    assert loop.run(name()) == "magnetar client" != threading.current_thread().name
    with pytest.raises(KeyError):
        loop.run(fail())
    loop.close()


def test_a_future_of_the_loop_is_a_future_here() -> None:
    loop = BackgroundLoop(nothing)
    inside: list[asyncio.Future[int]] = []

    async def begin() -> asyncio.Future[int]:
        inside.append(asyncio.get_running_loop().create_future())
        return inside[-1]

    first, second = loop.start(begin()), loop.start(begin())
    assert isinstance(first, Future) and not first.done()
    loop.call(lambda: inside[0].set_result(7))
    loop.call(lambda: inside[1].cancel())
    assert first.result(10) == 7
    with pytest.raises(AlreadyClosedError):
        second.result(10)
    loop.close()


def test_closing_ends_what_runs_and_refuses_what_comes() -> None:
    loop = BackgroundLoop(nothing)
    ended = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def call() -> None:
        with pytest.raises(AlreadyClosedError):
            loop.run(forever())

    caller = threading.Thread(target=call)
    caller.start()
    loop.run(asyncio.sleep(0))
    loop.close()
    loop.close()
    caller.join(10)
    assert ended.wait(10) and not caller.is_alive()
    with pytest.raises(AlreadyClosedError):
        loop.run(asyncio.sleep(0))


def test_a_blocking_call_from_the_loops_own_thread_is_refused() -> None:
    loop = BackgroundLoop(nothing)

    async def nested() -> None:
        loop.run(asyncio.sleep(0))

    with pytest.raises(ConfigurationError, match="would never return"):
        loop.run(nested())
    loop.close()


def test_a_loop_that_is_forgotten_ends_its_thread() -> None:
    before = threading.active_count()
    loop = BackgroundLoop(nothing)
    loop.run(asyncio.sleep(0))
    assert threading.active_count() == before + 1
    del loop
    gc.collect()
    assert threading.active_count() == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_is_told_to_make_its_own() -> None:
    loop = BackgroundLoop(nothing)
    child = os.fork()
    if child == 0:
        try:
            loop.run(asyncio.sleep(0))
        except AlreadyClosedError as error:
            os._exit(0 if "after the fork" in error.sentence else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    loop.run(asyncio.sleep(0))
    loop.close()


def test_goodbye_is_said_once_before_the_thread_ends() -> None:
    said: list[str] = []

    async def goodbye() -> None:
        said.append(threading.current_thread().name)

    loop = BackgroundLoop(goodbye)
    loop.close()
    loop.close()
    assert said == ["magnetar client"]


def test_an_outcome_ends_once_and_wakes_its_thread() -> None:
    loop = BackgroundLoop(nothing)
    told: list[CallOutcome[int]] = []
    try:

        def begin(outcome: CallOutcome[int]) -> None:
            outcome.add_done_callback(told.append)
            asyncio.get_running_loop().call_later(0.01, outcome.set_result, 7)

        assert loop.run_outcome(begin) == 7
        assert told[0].done() and not told[0].cancelled() and told[0].exception() is None

        def refuse(outcome: CallOutcome[int]) -> None:
            raise ConfigurationError("refused")

        with pytest.raises(ConfigurationError, match="refused"):
            loop.run_outcome(refuse)
        given_up: CallOutcome[int] = CallOutcome()
        assert given_up.cancel() and given_up.cancelled() and not given_up.cancel()
    finally:
        loop.close()


class ClosingLoop(BackgroundLoop):
    """It is closed right after a caller has seen that it is open."""

    def check(self) -> None:
        super().check()
        self.close()


def test_a_call_that_comes_as_the_loop_closes_is_told_so() -> None:
    loop = ClosingLoop(nothing)
    with pytest.raises(AlreadyClosedError):
        loop.run(asyncio.sleep(0))
    loop = ClosingLoop(nothing)
    with pytest.raises(AlreadyClosedError):
        loop.run_outcome(lambda outcome: outcome.set_result(1))


class LateLoop(BackgroundLoop):
    """A caller has seen that it is open, and goes on when its tasks are being ended."""

    def __init__(self) -> None:
        super().__init__(nothing)
        self.is_checked, self.is_ending, self.is_late = (threading.Event() for _ in range(3))

    def check(self) -> None:
        super().check()
        if threading.current_thread().name == "late":
            self.is_checked.set()
            self.is_ending.wait(30)
            self.is_late.set()


def test_a_call_that_comes_while_the_last_tasks_end_ends_with_them() -> None:
    loop = LateLoop()
    raised: list[BaseException] = []

    async def hold() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            loop.is_ending.set()
            while not loop.is_late.is_set():
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)  # the late call arrives here

    async def forever() -> None:
        await asyncio.Event().wait()

    def call(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            loop.run(body())
        except BaseException as error:
            raised.append(error)

    threads = [
        threading.Thread(target=call, args=(hold,)),
        threading.Thread(target=call, args=(forever,), name="late"),
    ]
    for thread in threads:
        thread.daemon = True
        thread.start()
    loop.is_checked.wait(30)
    loop.run(asyncio.sleep(0))
    loop.close()
    for thread in threads:
        thread.join(30)
    assert [type(each) for each in raised] == [AlreadyClosedError] * 2


def test_an_outcome_keeps_the_first_of_two_ends() -> None:
    outcome: CallOutcome[int] = CallOutcome()
    outcome.set_exception(ConfigurationError("refused"))
    outcome.set_result(1)
    outcome.set_exception(AlreadyClosedError("closed"))
    with pytest.raises(ConfigurationError):
        outcome.result()
