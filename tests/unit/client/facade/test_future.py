"""The futures of submitted messages are as good as those of the standard library."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import ALL_COMPLETED, CancelledError, as_completed, wait

import pytest

from magnetar.client.facade import producer as facade
from magnetar.client.facade.producer import SendFuture


def test_it_ends_once_with_nobody_looking() -> None:
    future: SendFuture[int] = SendFuture()
    assert not future.done() and not future.cancelled()
    future.set_result(7)
    assert future.done() and future.result() == 7 and future.exception() is None
    assert not future.cancel()


def test_it_raises_what_it_ended_with() -> None:
    future: SendFuture[int] = SendFuture()
    future.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        future.result(1)


def test_threads_that_wait_are_woken() -> None:
    futures: list[SendFuture[int]] = [SendFuture() for _ in range(200)]
    called: list[int] = []
    for future in futures[::3]:
        future.add_done_callback(lambda each: called.append(each.result()))

    def end() -> None:
        for number, future in enumerate(futures):
            future.set_result(number)

    thread = threading.Thread(target=end)
    thread.start()
    done, rest = wait(futures, 30, ALL_COMPLETED)
    assert len(done) == 200 and not rest
    assert sorted(each.result() for each in as_completed(futures, 30)) == list(range(200))
    thread.join()
    assert called == list(range(0, 200, 3))


def test_one_that_was_cancelled_stays_so() -> None:
    future: SendFuture[int] = SendFuture()
    assert future.cancel() and future.cancelled() and future.done()
    future.set_result(1)
    with pytest.raises(CancelledError):
        future.result(0)
    assert not wait([future], 0).not_done


def test_an_event_loop_can_await_it() -> None:
    async def body() -> int:
        future: SendFuture[int] = SendFuture()
        threading.Timer(0.01, future.set_result, (5,)).start()
        return await asyncio.wrap_future(future)

    assert asyncio.run(body()) == 5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_is_forked_while_one_ends_has_futures_of_its_own() -> None:
    with facade._lock:  # as the parent's loop may hold it
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            future: SendFuture[int] = SendFuture()
            future.set_result(1)
            os._exit(future.result(0) - 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
