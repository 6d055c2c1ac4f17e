"""A session in which a broker tells news by itself, taken up again after every loss."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from magnetar.client.connection import Connection
from magnetar.client.error import (
    AlreadyClosedError,
    ConnectError,
    FeatureNotSupportedError,
    PulsarError,
    PulsarTimeoutError,
    UnavailableError,
    decode_refusal,
)
from magnetar.client.policy import Delays
from magnetar.client.retry import in_time, insist
from magnetar.client.session import Session
from magnetar.errors import InvalidName, ProtocolViolation
from magnetar.runtime.log import Logger

_BACKOFF_S_MAX: Final = 30.0

_log = Logger(__name__)


def make_backoff(session: Session, most_s: float = _BACKOFF_S_MAX) -> Delays:
    """Between two tries to get back what was lost."""
    return session.policy.backoff.capped(most_s).begin(session.clock.chance)


def check_scalable(connection: Connection) -> None:
    if not connection.features.supports_scalable_topics:
        raise FeatureNotSupportedError(
            f"{connection.address} has no scalable topics; client.consumer and client.reader are"
            " for regular ones"
        )


class _Opening:
    """One session on one connection; what an older one still receives is void."""

    def __init__(self, watch: Watch, connection: Connection, id: int) -> None:
        self.connection = connection
        self.id = id
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watch = watch

    def on_push(self, body: Any) -> None:
        if body.HasField("error"):
            self.connection.ends.remove_listener(self._watch.kind, self.id)
            self._refuse(decode_refusal(body.error, body.message))
            return
        try:
            self._watch.on_told(self, body)
        except (ProtocolViolation, InvalidName) as error:
            self.close()
            self._refuse(UnavailableError(f"{self.connection.address} sent {error.sentence}"))
            return
        self.settle()

    def on_closed(self, connection: Connection, assigned: str | None) -> None:
        self._refuse(connection.reason or ConnectError(f"{connection.address} is gone"))

    def settle(self) -> None:
        if not self.answered.done():
            self.answered.set_result(None)

    def close(self) -> None:
        self.connection.ends.remove_listener(self._watch.kind, self.id)
        self.connection.send_body(self._watch.goodbye(self.id))

    def _refuse(self, error: PulsarError) -> None:
        if not self.answered.done():
            self.answered.set_exception(error)
        else:
            self._watch.on_lost(self, error)


class Watch(ABC):
    """The first opening raises what the broker answers. A watch that is lost later comes back by
    itself; until then what was told last stays in use, and `failure` says why it may be old.
    """

    kind: ClassVar[int]
    """Of the command that brings the news."""

    def __init__(self, session: Session, subject: str) -> None:
        self.server_version = ""
        self.failure: PulsarError | None = None
        self._session = session
        self._subject = subject
        self._current: _Opening | None = None
        self._returning: asyncio.Task[None] | None = None
        self._is_closed = False

    @abstractmethod
    async def _connect(self) -> Connection: ...

    @abstractmethod
    def _hello(self, id: int, *, is_first: bool) -> Any:
        """The command that opens the session."""

    @abstractmethod
    def goodbye(self, id: int) -> Any:
        """The command that ends it."""

    @abstractmethod
    def _on_news(self, body: Any) -> None:
        """Raise ProtocolViolation for what cannot be."""

    def _is_silence_an_answer(self, *, is_first: bool) -> bool:
        """Whether a broker says nothing when there is nothing new."""
        return False

    async def open(self) -> None:
        session = self._session

        async def attempt() -> None:
            await self._attempt(is_first=True)

        await insist(
            attempt,
            clock=session.clock,
            policy=session.policy,
            timeout=session.operation_timeout,
        )

    def refresh(self) -> None:
        """Ask anew: something happened that should have been told and was not."""
        if not self._is_closed:
            self._come_back(0.0)

    def close(self) -> None:
        self._is_closed = True
        if self._returning is not None:
            self._returning.cancel()
        if self._current is not None:
            self._current.close()

    def on_told(self, opening: _Opening, body: Any) -> None:
        if opening is self._current and not self._is_closed:
            self._on_news(body)
            self.failure = None

    def on_lost(self, opening: _Opening, error: PulsarError) -> None:
        if opening is self._current and not self._is_closed:
            self.failure = error
            if not isinstance(error, AlreadyClosedError):
                self._come_back(self._session.policy.backoff.initial)

    def _come_back(self, delay_s: float) -> None:
        if self._returning is None:
            self._returning = self._session.scope.start(
                self._return(delay_s), f"watch {self._subject}"
            )

    async def _return(self, delay_s: float) -> None:
        backoff = make_backoff(self._session)
        try:
            await self._session.clock.sleep(delay_s)
            while not self._is_closed:
                try:
                    await self._attempt(is_first=False)
                    return
                except AlreadyClosedError as error:
                    self.failure = error
                    return
                except PulsarError as error:
                    self.failure = error
                    _log.debug("watch not opened", subject=self._subject, reason=error)
                await self._session.clock.sleep(backoff.next_s())
        finally:
            self._returning = None

    async def _attempt(self, *, is_first: bool) -> None:
        connection = await in_time(
            self._connect(),
            clock=self._session.clock,
            timeout=self._session.operation_timeout,
            what=f"Connecting to be told about {self._subject}",
        )
        check_scalable(connection)
        opening = _Opening(self, connection, self._session.next_watch_id())
        previous, self._current = self._current, opening
        if previous is not None:
            previous.close()
        self.server_version = connection.server_version
        connection.ends.add_listener(self.kind, opening.id, opening)
        connection.send_body(self._hello(opening.id, is_first=is_first))
        if self._is_silence_an_answer(is_first=is_first):
            self.failure = None
            opening.settle()
            return
        try:
            async with self._session.clock.timeout(self._session.operation_timeout):
                await opening.answered
        except TimeoutError:
            opening.close()
            raise PulsarTimeoutError(
                f"{connection.address} did not tell about {self._subject} in time"
            ) from None
        except asyncio.CancelledError:
            opening.close()
            raise
