"""Keeping one producer or consumer on the broker that serves its topic, wherever that moves."""

from __future__ import annotations

from typing import Protocol

from magnetar.client.connection import Connection
from magnetar.client.error import AlreadyClosedError, ConnectError, PulsarError
from magnetar.client.retry import insist, is_final
from magnetar.client.session import Session
from magnetar.model.name import TopicName
from magnetar.runtime.wakeup import Wakeup
from magnetar.wire.command import CommandFlow


class Attached(Protocol):
    """A producer or a consumer, as what keeps it on a connection sees it."""

    async def attach(self, connection: Connection) -> None:
        """Introduce itself; again after every loss."""

    def detach(self, connection: Connection) -> None:
        """Take that back."""

    def finish(self, failure: PulsarError) -> None:
        """It cannot be attached any more."""


class Attachment:
    """The first attachment insists until the operation timeout. Later ones go on until they succeed
    or a refusal is final.
    """

    def __init__(self, session: Session, topic: TopicName, owner: Attached) -> None:
        self._session = session
        self._topic = topic
        self._owner = owner
        self._is_closed = False
        self._turn = session.next_turn()
        self._changed = Wakeup()
        self._candidate: Connection | None = None
        self.connection: Connection | None = None

    async def open(self) -> None:
        session = self._session

        async def attempt() -> None:
            await self._attempt(None)

        await insist(
            attempt,
            clock=session.clock,
            policy=session.policy,
            timeout=session.operation_timeout,
        )

    def lose(self, connection: Connection, assigned: str | None = None) -> None:
        """The connection ended, or the broker let go; `assigned` is the URL it pointed to."""
        if connection is self._candidate:
            self._candidate = None  # the attempt under way sees it and fails
        if connection is not self.connection:
            return
        self.connection = None
        if not self._is_closed and not isinstance(connection.reason, AlreadyClosedError):
            name = f"attach {self._topic}"
            self._session.scope.start(self._attach_again(assigned), name)

    async def wait(self, timeout: float) -> Connection:
        """The connection, once attached."""
        try:
            async with self._session.clock.timeout(timeout):
                # What was attached may be lost again before a caller that waited for it runs.
                while self.connection is None:
                    if self._is_closed:
                        raise AlreadyClosedError(f"{self._topic} was closed")
                    await self._changed.wait()
        except TimeoutError:
            raise ConnectError(f"{self._topic} is not connected") from None
        return self.connection

    def close(self) -> Connection | None:
        """Stop attaching; returns the connection in use, to say goodbye on."""
        self._is_closed = True
        self._changed.wake()  # those that wait are refused
        connection, self.connection = self.connection, None
        return connection

    async def _attach_again(self, assigned: str | None) -> None:
        backoff = self._session.policy.backoff.begin(self._session.clock.chance)
        while not self._is_closed:
            try:
                await self._attempt(assigned)
                return
            except PulsarError as error:
                if self._is_closed:
                    return
                if is_final(error):
                    self._owner.finish(error)
                    return
            assigned = None
            await self._session.clock.sleep(backoff.next_s())

    async def _attempt(self, assigned: str | None) -> None:
        lookup = self._session.lookup
        if assigned is None:
            connection = await lookup.connect(self._topic, self._turn)
        else:
            connection = await lookup.connect_to(assigned, self._turn)
        self._candidate = connection
        await self._owner.attach(connection)
        is_kept, self._candidate = self._candidate is connection, None
        if self._is_closed:
            self._owner.detach(connection)
            raise AlreadyClosedError(f"{self._topic} was closed")
        if not is_kept:
            raise ConnectError(f"The broker let {self._topic} go at once")
        self.connection = connection
        self._changed.wake()


class Permits:
    """How many messages a consumer asks for: as many as it has room for, half of them at once."""

    def __init__(self, attachment: Attachment, consumer_id: int, size: int) -> None:
        self.is_paused = False
        self._attachment = attachment
        self._consumer_id = consumer_id
        self._size = size
        self._least = max(1, size // 2)
        self._count = 0

    def add(self, count: int) -> None:
        """There is room for so many more."""
        self._count += count
        if self.is_paused or self._count < self._least:
            return
        connection = self._attachment.connection
        if connection is not None:
            self._ask(connection, self._count)
            self._count = 0

    def begin(self, connection: Connection) -> None:
        """Delivery starts anew on a connection."""
        self._count = self._size if self.is_paused else 0
        if not self.is_paused:
            self._ask(connection, self._size)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self.add(0)

    def _ask(self, connection: Connection, count: int) -> None:
        connection.send_body(CommandFlow(consumer_id=self._consumer_id, messagePermits=count))
