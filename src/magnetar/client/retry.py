"""Which refusals pass by themselves, and trying again until they do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from datetime import timedelta
from typing import Any, TypeVar

from magnetar.client.error import (
    AlreadyClosedError,
    AuthenticationError,
    AuthorizationError,
    ConfigurationError,
    ConnectError,
    NotFoundError,
    ProducerFencedError,
    PulsarError,
    PulsarTimeoutError,
    TopicTerminatedError,
    UnavailableError,
    WrongPortError,
)
from magnetar.client.policy import ConnectionPolicy
from magnetar.client.quantity import Duration
from magnetar.errors import WireCode
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger


def find_deadline(timeout: Duration | None, clock: Clock) -> float | None:
    """The clock's time at which waiting ends; one that is over already waits for nothing."""
    if timeout is None:
        return None
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    if not isinstance(timeout, int | float) or isinstance(timeout, bool):
        raise ConfigurationError(f"timeout is seconds or a timedelta, not {timeout!r}")
    return clock.monotonic() + timeout


async def wait_all(
    waiting: Collection[asyncio.Future[Any]], *, clock: Clock, timeout: float | None
) -> None:
    """Until each of them has ended, well or not, or the time is over."""
    try:
        async with clock.timeout(timeout):
            await asyncio.wait(waiting)
    except TimeoutError:
        pass  # the caller looks at what has ended


async def run_together(bodies: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All at once; the first failure ends the others and is raised."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for body in bodies:
                tasks.create_task(body)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


T = TypeVar("T")

_log = Logger(__name__)


def is_passing(error: PulsarError) -> bool:
    """Tell whether a first attempt may succeed later: the broker moves, restarts or is busy."""
    if error.code is WireCode.PRODUCER_BLOCKED_QUOTA_HOLD:
        return True
    if isinstance(error, WrongPortError):
        return False
    return isinstance(error, UnavailableError | ConnectError | PulsarTimeoutError)


def is_final(error: PulsarError) -> bool:
    """Tell whether what once worked can never work again; everything else is tried again."""
    return isinstance(
        error,
        AlreadyClosedError
        | AuthenticationError
        | AuthorizationError
        | NotFoundError
        | ProducerFencedError
        | TopicTerminatedError,
    )


async def in_time(action: Awaitable[T], *, clock: Clock, timeout: float, what: str) -> T:
    """Wait for it so many seconds; connecting has a limit of its own, which may be longer."""
    try:
        async with clock.timeout(timeout) as limit:
            return await action
    except TimeoutError:
        if not limit.expired():
            raise
        raise PulsarTimeoutError(f"{what} took longer than {timeout:g} seconds") from None


async def insist(
    action: Callable[[], Awaitable[T]], *, clock: Clock, policy: ConnectionPolicy, timeout: float
) -> T:
    """Try until it works, a refusal stands, or the time is over; then raise the last refusal.

    A broker that cannot be reached may be starting, so it is tried as long as any other, or as long
    as its error says; the log says so at once, and why.
    """
    backoff = policy.backoff.begin(clock.chance)
    deadline = clock.monotonic() + timeout
    is_told = False
    while True:
        try:
            return await action()
        except PulsarError as error:
            delay = backoff.next_s()
            now, until = clock.monotonic(), deadline
            if isinstance(error, ConnectError) and error.retry_until is not None:
                until = min(deadline, error.retry_until)
            if not is_passing(error) or now + delay >= until:
                raise
            if isinstance(error, ConnectError) and not is_told:
                is_told = True
                _log.warning(f"{error.sentence}; trying again for up to {until - now:.0f} s")
        await clock.sleep(delay)
