"""A consumer's place in a group: registered with the topic's controller, which assigns segments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from magnetar.client.address import parse_addresses
from magnetar.client.connection import Connection, Type
from magnetar.client.error import (
    AlreadyClosedError,
    AuthorizationError,
    ConfigurationError,
    ConnectError,
    NotFoundError,
    PulsarError,
    PulsarTimeoutError,
    decode_refusal,
)
from magnetar.client.event import SegmentsAssigned
from magnetar.client.layout import resolve_layout
from magnetar.client.retry import in_time, insist
from magnetar.client.session import Session
from magnetar.client.watch import check_scalable, make_backoff
from magnetar.errors import ProtocolViolation
from magnetar.model.name import TopicName
from magnetar.model.scalable import ConsumerAssignment, ConsumerKind, LayoutView
from magnetar.runtime.log import Logger
from magnetar.wire.command import CommandCloseConsumer, CommandScalableTopicSubscribe
from magnetar.wire.layout import decode_assignment, encode_consumer_kind

_log = Logger(__name__)


class Membership:
    """Holds a connection of its own: a broker that knows no other way to leave sees its end.

    `on_assigned` gets each new assignment, `on_lost` says that there will be none any more. After a
    loss it registers again under the same name, so that the group does not move.
    """

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        group: str,
        name: str,
        kind: ConsumerKind,
        *,
        on_assigned: Callable[[ConsumerAssignment], None],
        on_lost: Callable[[PulsarError], None],
    ) -> None:
        self._session = session
        self.topic = topic
        self._group = group
        self._name = name
        self._kind = kind
        self._on_assigned = on_assigned
        self._on_lost = on_lost
        self._id = session.next_consumer_id()
        self._connection: Connection | None = None
        self._pushed: ConsumerAssignment | None = None
        """The newest of this registration, until it can be delivered."""
        self._is_open = False
        self._is_closed = False
        self._returning: asyncio.Task[None] | None = None

    async def open(self, view: LayoutView) -> ConsumerAssignment:
        """Register; `view` is what is known of the layout, asked again when it does not help."""
        session = self._session
        known: list[LayoutView] = [view]

        async def attempt() -> ConsumerAssignment:
            if not known:
                known.append((await resolve_layout(session, self.topic))[1])
            return await self._register(known.pop())

        assignment = await insist(
            attempt,
            clock=session.clock,
            policy=session.policy,
            timeout=session.operation_timeout,
        )
        self._is_open = True
        self._report(assignment)
        return assignment

    def close(self) -> None:
        self._is_closed = True
        if self._returning is not None:
            self._returning.cancel()
        self._hang_up()

    def on_push(self, body: Any) -> None:
        try:
            assignment = decode_assignment(body.assignment)
        except ProtocolViolation as error:
            _log.warning("assignment not understood", topic=self.topic, reason=error.sentence)
            return
        if self._pushed is None or assignment.epoch >= self._pushed.epoch:
            self._pushed = assignment
            if self._is_open:
                self._report(assignment)
                self._on_assigned(assignment)

    def on_closed(self, connection: Connection, assigned: str | None) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        if isinstance(connection.reason, AlreadyClosedError):
            return
        if self._is_open and not self._is_closed and self._returning is None:
            name = f"membership of {self._name} in {self._group}"
            self._returning = self._session.scope.start(self._return(), name)

    def _report(self, assignment: ConsumerAssignment) -> None:
        segments = tuple(sorted(each.id for each in assignment.segments))
        event = SegmentsAssigned(self.topic.full, self._group, self._name, segments)
        self._session.events.report(event)

    async def _return(self) -> None:
        backoff = make_backoff(self._session)
        try:
            while not self._is_closed:
                await self._session.clock.sleep(backoff.next_s())
                try:
                    _, view = await resolve_layout(self._session, self.topic)
                    assignment = await self._register(view)
                except (AlreadyClosedError, AuthorizationError, NotFoundError) as error:
                    self._on_lost(error)
                    return
                except PulsarError as error:
                    _log.debug("not registered", topic=self.topic, reason=error)
                    continue
                self._report(assignment)
                self._on_assigned(assignment)
                if self._connection is not None:
                    return
        finally:
            self._returning = None

    async def _register(self, view: LayoutView) -> ConsumerAssignment:
        connection = await in_time(
            self._connect(view),
            clock=self._session.clock,
            timeout=self._session.operation_timeout,
            what=f"Connecting to the controller of {self.topic}",
        )
        self._connection = connection
        connection.ends.add_listener(Type.SCALABLE_TOPIC_ASSIGNMENT_UPDATE, self._id, self)
        self._pushed = None
        body = CommandScalableTopicSubscribe(
            topic=self.topic.full,
            subscription=self._group,
            consumer_name=self._name,
            consumer_id=self._id,
        )
        body.consumer_type = encode_consumer_kind(self._kind)  # type: ignore[assignment]
        try:
            answer = await connection.request(
                body,
                Type.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE,
                timeout=self._session.operation_timeout,
            )
            if answer.HasField("error"):
                raise decode_refusal(answer.error, answer.message)
            try:
                assignment = decode_assignment(answer.assignment)
            except ProtocolViolation as error:
                raise ConnectError(f"{connection.address} sent {error.sentence}") from None
        except BaseException:
            self._hang_up()
            raise
        # The broker pushes the same before its answer, and may push a newer one right after it.
        if self._pushed is None or self._pushed.epoch < assignment.epoch:
            self._pushed = assignment
        return self._pushed

    async def _connect(self, view: LayoutView) -> Connection:
        """To the controller; to any broker when there is none yet, or it cannot be reached."""
        pool = self._session.pool
        shared = await pool.get_service()
        controller = view.controller
        url = ""
        if controller is not None:
            url = controller.url_tls if shared.address.secure else controller.url
        connection: Connection | None = None
        if url:
            try:
                connection = await pool.open_own(parse_addresses(url)[0])
            except (ConnectError, ConfigurationError, PulsarTimeoutError) as error:
                _log.debug("controller not reached", url=url, reason=error)
        if connection is None:
            connection = await pool.open_own(shared.address)
        check_scalable(connection)
        return connection

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.ends.remove_listener(Type.SCALABLE_TOPIC_ASSIGNMENT_UPDATE, self._id)
            if self._is_closed:  # for good: others need not wait whether we come back
                connection.tell(CommandCloseConsumer(consumer_id=self._id))
            connection.close(AlreadyClosedError(f"{self._name} left {self._group}"))
