from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import NoOwner, RecordUnreadable, StoreClosed, StoreUnavailable
from magnetar.runtime.clock import LoopClock, Timer
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope


class _Instant(LoopClock):
    """Waits take one turn of the event loop each and are noted."""

    def __init__(self) -> None:
        self.chance = random.Random(1)
        self.waits: list[float] = []

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)

    def call_later(self, seconds: float, call: Callable[..., object], *arguments: object) -> Timer:
        self.waits.append(seconds)
        return super().call_later(0, call, *arguments)


async def _turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class _Rounds:
    """Counts rounds; each takes `length` turns and fails as `failures` say, first to last."""

    def __init__(self, *failures: Exception | None, length: int = 1) -> None:
        self.failures = list(failures)
        self.length = length
        self.began = self.ended = 0
        self.meanwhile: Callable[[], None] = lambda: None

    async def run(self) -> None:
        assert self.began == self.ended, "two rounds at once"
        self.began += 1
        failure = self.failures.pop(0) if self.failures else None
        try:
            self.meanwhile()
            await _turns(self.length)
            if failure is not None:
                raise failure
        finally:
            self.ended += 1


def _run(
    rounds: _Rounds, body: Callable[[Reconciler, _Instant], Awaitable[None]], **options: object
) -> None:
    async def main() -> None:
        clock = _Instant()
        async with TaskScope("test") as scope:
            await body(Reconciler(scope, "round", rounds.run, clock=clock, **options), clock)  # type: ignore[arg-type]

    asyncio.run(main())


def test_requests_before_a_round_share_it_and_those_during_it_share_the_next() -> None:
    rounds = _Rounds(length=3)

    async def body(reconciler: Reconciler, clock: _Instant) -> None:
        for _ in range(5):
            reconciler.request()
        await _turns(2)
        assert rounds.began == 1 and reconciler.is_busy and reconciler.is_stale
        for _ in range(5):
            reconciler.request()
        await reconciler.catch_up()
        assert rounds.ended == 2
        await _turns()
        assert rounds.began == 2 and not reconciler.is_busy and not reconciler.is_stale
        assert clock.waits == []

    _run(rounds, body)


def test_a_store_that_does_not_answer_is_asked_again_after_growing_delays() -> None:
    rounds = _Rounds(*[StoreUnavailable("away")] * 8)

    async def body(reconciler: Reconciler, clock: _Instant) -> None:
        reconciler.request()
        await reconciler.catch_up()
        assert rounds.ended == 9
        limits = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
        assert all(0.8 * m <= w <= m for w, m in zip(clock.waits, limits, strict=True))
        rounds.failures = [StoreUnavailable("away")]
        reconciler.request()
        await reconciler.catch_up()
        assert clock.waits[8] <= 0.1  # begins anew after a success

    _run(rounds, body)


def test_catching_up_waits_for_a_round_that_knows_every_request_and_for_no_later_one() -> None:
    rounds = _Rounds(length=5)

    async def body(reconciler: Reconciler, clock: _Instant) -> None:
        await reconciler.catch_up()
        assert rounds.began == 0  # nothing to wait for
        reconciler.request()
        await _turns(2)
        reconciler.request()  # the round under way does not know of this
        rounds.meanwhile = reconciler.request  # and another comes in each round from now on
        await reconciler.catch_up()
        assert rounds.ended == 2

    _run(rounds, body)


def test_what_a_completed_round_leaves_is_tried_later_and_not_waited_for() -> None:
    rounds = _Rounds()

    async def body(reconciler: Reconciler, clock: _Instant) -> None:
        rounds.meanwhile = reconciler.request_later
        reconciler.request()
        await reconciler.catch_up()
        assert rounds.ended == 1 and reconciler.is_busy and not reconciler.is_stale
        await _turns(50)
        assert rounds.ended > 4
        assert clock.waits[:4] == sorted(clock.waits[:4])
        rounds.meanwhile = lambda: None
        await _turns(50)
        assert not reconciler.is_busy

    _run(rounds, body)


def test_a_request_does_not_wait_for_what_is_due_later() -> None:
    rounds = _Rounds()

    async def body(reconciler: Reconciler, clock: _Instant) -> None:
        reconciler.request_later()
        reconciler.request_later()
        assert len(clock.waits) == 1 and rounds.began == 0
        reconciler.request()
        await reconciler.catch_up()
        assert rounds.ended == 1 and not reconciler.is_busy  # it came with this round

    _run(rounds, body)


def test_a_round_that_begins_again_meets_the_requests_made_meanwhile() -> None:
    async def body() -> None:
        began = 0

        async def twice() -> None:
            nonlocal began
            began += 1
            assert not reconciler.renew()
            reconciler.request()
            assert reconciler.renew()

        async with TaskScope("test") as scope:
            reconciler = Reconciler(scope, "round", twice, clock=_Instant())
            reconciler.request()
            await reconciler.catch_up()
            await _turns()
            assert began == 1 and not reconciler.is_stale

    asyncio.run(body())


def test_a_caller_chooses_what_is_retried() -> None:
    rounds = _Rounds(NoOwner("moving"))

    async def body(reconciler: Reconciler, clock: _Instant) -> None:
        reconciler.request()
        await reconciler.catch_up()
        assert rounds.ended == 2 and clock.waits[0] <= 7.0

    _run(rounds, body, retried=NoOwner, first_s=7.0, most_s=7.0)


def test_another_failure_is_logged_and_keeps_no_caller_and_no_request_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rounds = _Rounds(RecordUnreadable("torn"))

    async def body(reconciler: Reconciler, clock: _Instant) -> None:
        rounds.meanwhile = lambda: reconciler.request() if rounds.began == 1 else None
        reconciler.request()
        await reconciler.catch_up()
        await _turns()
        assert rounds.ended == 2 and clock.waits == []
        assert "round failed" in caplog.text

    _run(rounds, body)


@pytest.mark.parametrize("failure", [None, StoreUnavailable("away")])
def test_closing_ends_the_rounds_and_the_waiting(failure: Exception | None) -> None:
    rounds = _Rounds(failure, length=3)

    async def body(reconciler: Reconciler, clock: _Instant) -> None:
        reconciler.request()
        await _turns(2)
        reconciler.request()
        waiting = asyncio.create_task(reconciler.catch_up())
        await asyncio.sleep(0)
        reconciler.request_later()
        reconciler.close()
        reconciler.request()
        reconciler.request_later()
        await waiting
        await reconciler.catch_up()
        await _turns()
        assert rounds.began == rounds.ended == 1 and not reconciler.is_busy

    _run(rounds, body)


def test_a_closed_store_and_a_closed_scope_end_it() -> None:
    rounds = _Rounds(StoreClosed("over"))

    async def body(reconciler: Reconciler, clock: _Instant) -> None:
        reconciler.request()
        await reconciler.catch_up()
        reconciler.request()
        await _turns()
        assert rounds.ended == 1

    _run(rounds, body)

    async def cut() -> None:
        endless = _Rounds(length=10**6)
        scope = TaskScope("test")
        reconciler = Reconciler(scope, "round", endless.run, clock=_Instant())
        reconciler.request()
        waiting = asyncio.create_task(reconciler.catch_up())
        await _turns()
        await scope.close()
        await waiting

    asyncio.run(cut())


_EVENTS = st.sampled_from(["request", "later", "settle", "turn", "turns"])


@given(
    events=st.lists(_EVENTS, max_size=40),
    failures=st.lists(st.sampled_from([None, StoreUnavailable("away")]), max_size=10),
    length=st.integers(0, 4),
)
def test_every_request_has_a_round_that_began_after_it(
    events: list[str], failures: list[Exception | None], length: int
) -> None:
    """`_Rounds` checks that no two run at once."""
    rounds = _Rounds(*failures, length=length)
    settles: list[asyncio.Task[None]] = []

    async def body(reconciler: Reconciler, clock: _Instant) -> None:
        requested_after = -1  # how many rounds had begun when the last request was made

        async def settle(begun: int) -> None:
            await reconciler.catch_up()
            assert rounds.ended > begun

        for event in events:
            match event:
                case "request":
                    requested_after = rounds.began
                    reconciler.request()
                case "later":
                    reconciler.request_later()
                case "settle":
                    settles.append(asyncio.create_task(settle(requested_after)))
                    await asyncio.sleep(0)
                case "turn":
                    await asyncio.sleep(0)
                case _:
                    await _turns(7)
        await reconciler.catch_up()
        await asyncio.gather(*settles)
        assert rounds.ended > requested_after
        await _turns(200)
        assert not reconciler.is_busy and not reconciler.is_stale

    _run(rounds, body)
