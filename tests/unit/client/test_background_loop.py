"""A loop on a thread of its own, and the work that other threads hand to it."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from magnetar.client.background_loop import BackgroundLoop, Burst, CallOutcome
from magnetar.client.error import AlreadyClosedError, ConfigurationError


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


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop(nothing)
    yield loop
    loop.close()


def test_a_burst_of_calls_wakes_the_loop_once_and_keeps_its_order(loop: BackgroundLoop) -> None:
    runs: list[list[int]] = []
    burst = Burst(loop)
    held = threading.Event()

    def work(items: Sequence[int]) -> None:
        runs.append(list(items))

    loop.wake(lambda: held.wait())  # what comes meanwhile is one burst
    for number in range(1000):
        burst.call(work, number)
    held.set()
    loop.call(lambda: None)
    assert runs == [list(range(1000))]


def test_what_was_received_is_told_before_what_is_said_about_it(loop: BackgroundLoop) -> None:
    received: deque[int] = deque()
    told: set[int] = set()
    early: list[int] = []

    def settle() -> None:
        told.update(received.popleft() for _ in range(len(received)))

    burst = Burst(loop, settle)

    def work(items: Sequence[int]) -> None:
        early.extend(item for item in items if item not in told)

    def run(start: int) -> None:
        for number in range(start, start + 5_000):
            received.append(number)
            burst.wake()
            burst.call(work, number)

    threads = [threading.Thread(target=run, args=(start,)) for start in (0, 10_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loop.call(lambda: None)
    assert not early and len(told) == 10_000 and not len(burst)


def test_an_error_is_raised_at_the_next_occasion_and_once(loop: BackgroundLoop) -> None:
    burst = Burst(loop)

    def work(items: Sequence[int]) -> None:
        raise ConfigurationError("refused")

    burst.call(work, 1)
    loop.call(lambda: None)
    with pytest.raises(ConfigurationError, match="refused"):
        burst.check()
    burst.check()


class InterruptedLoop(BackgroundLoop):
    """Ctrl-C comes when the loop is woken, once."""

    is_interrupted = False

    def wake(self, function: Callable[[], object]) -> None:
        if not self.is_interrupted:
            self.is_interrupted = True
            raise KeyboardInterrupt
        super().wake(function)


def test_ctrl_c_while_the_loop_is_woken_delays_a_call_and_loses_none() -> None:
    loop = InterruptedLoop(nothing)
    burst, seen = Burst(loop), deque[int]()
    with pytest.raises(KeyboardInterrupt):
        burst.call(seen.extend, 1)
    burst.call(seen.extend, 2)
    loop.call(lambda: None)
    assert list(seen) == [1, 2]
    loop.close()


class HeldLoop(BackgroundLoop):
    """The first thread that wakes the loop is held up just before."""

    def __init__(self) -> None:
        super().__init__(nothing)
        self.is_held, self.may_go_on = threading.Event(), threading.Event()

    def wake(self, function: Callable[[], object]) -> None:
        if not self.is_held.is_set():
            self.is_held.set()
            self.may_go_on.wait(30)
        super().wake(function)


def test_what_a_thread_asks_of_the_loop_comes_behind_its_own_calls() -> None:
    loop = HeldLoop()
    burst, seen = Burst(loop), deque[int]()
    other = threading.Thread(target=burst.call, args=(seen.extend, 1))
    other.start()
    loop.is_held.wait(30)
    burst.call(seen.extend, 2)
    assert 2 in loop.call(lambda: list(seen))
    loop.may_go_on.set()
    other.join()
    loop.close()


def test_an_item_that_is_refused_takes_no_other_with_it(loop: BackgroundLoop) -> None:
    seen: list[int] = []
    burst, held = Burst(loop), threading.Event()

    def work(items: Sequence[int]) -> None:
        for item in items:
            if item == 1:
                raise ConfigurationError("refused")
            seen.append(item)

    loop.wake(lambda: held.wait())
    for number in range(4):
        burst.call_alone(work, number)
    held.set()
    loop.call(lambda: None)
    assert seen == [0, 2, 3]
    with pytest.raises(ConfigurationError, match="refused"):
        burst.check()
