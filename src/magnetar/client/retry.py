"""Which refusals pass by themselves, and trying again until they do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from magnetar.client.error import (
    AlreadyClosedError,
    AuthenticationError,
    AuthorizationError,
    ConnectError,
    NotFoundError,
    ProducerFencedError,
    PulsarError,
    PulsarTimeoutError,
    TopicTerminatedError,
    UnavailableError,
)
from magnetar.client.policy import ConnectionPolicy
from magnetar.errors import WireCode
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger

T = TypeVar("T")

_PATIENCE_S: Final = 1.0

_log = Logger(__name__)


def is_passing(error: PulsarError) -> bool:
    """Tell whether a first attempt may succeed later: the broker moves, restarts or is busy."""
    if error.code is WireCode.PRODUCER_BLOCKED_QUOTA_HOLD:
        return True
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

    A broker that cannot be reached may be starting, so it is tried as long as any other; after a
    second the log says that, and why.
    """
    backoff = policy.backoff.begin(clock.chance)
    began = clock.monotonic()
    deadline = began + timeout
    is_told = False
    while True:
        try:
            return await action()
        except PulsarError as error:
            delay = backoff.next_s()
            now = clock.monotonic()
            if not is_passing(error) or now + delay >= deadline:
                raise
            if isinstance(error, ConnectError) and not is_told and now - began >= _PATIENCE_S:
                is_told = True
                _log.warning(f"{error.sentence}; trying again for up to {deadline - now:.0f} s")
        await clock.sleep(delay)
