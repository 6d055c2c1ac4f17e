"""Work that threads hand to the loop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import pytest

from magnetar.client.error import ConfigurationError
from magnetar.client.facade.loop import BackgroundLoop, Burst


async def goodbye() -> None:
    pass


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop(goodbye)
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
    loop = InterruptedLoop(goodbye)
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
        super().__init__(goodbye)
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
