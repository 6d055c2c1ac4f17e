"""Layout session of one client: first the layout of a topic, then every change of it.

Changes are sent in order, and those that come while the client is slow to read are sent as one. The
deletion of the topic is sent as well, and ends the session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from magnetar.broker.attachment import AttachmentOwner, Link
from magnetar.broker.scalable.connection_registry import ConnectionRegistry
from magnetar.errors import (
    BrokerError,
    LayoutTooLarge,
    NamespaceNotFound,
    NotAllowed,
    TenantNotFound,
    TooManyRequests,
    TopicNotFound,
    Unauthorized,
    fault_of,
)
from magnetar.metadata.store import Cancel
from magnetar.model.name import TopicName
from magnetar.model.scalable import LayoutView
from magnetar.model.segment import scalable_name
from magnetar.rules.scalable_watch import LayoutFeed
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope
from magnetar.wire.command import CommandScalableTopicUpdate, ServerError, make_command
from magnetar.wire.layout import encode_layout

_log = Logger(__name__)

_RETRY_FIRST_S: Final = 1.0
_RETRY_MOST_S: Final = 5.0
_MISSING: Final = (TopicNotFound, NamespaceNotFound, TenantNotFound)
_TOLD_AS_THEY_ARE: Final = (LayoutTooLarge, NotAllowed, Unauthorized, TooManyRequests)


class WatchingLink(Link, AttachmentOwner, Protocol):
    """The connection of a client that watches layouts."""

    def send(self, frame: bytes) -> None: ...


class LayoutSource(Protocol):
    """Where layouts come from."""

    async def resolve(
        self, name: TopicName, *, create_if_missing: bool
    ) -> tuple[TopicName, LayoutView]: ...

    def watch(self, name: TopicName, listener: Callable[[], None]) -> Cancel:
        """Call the listener after each change of what `resolve` says of the name."""


class LayoutSession:
    def __init__(
        self,
        connection: WatchingLink,
        session_id: int,
        name: TopicName,
        source: LayoutSource,
        *,
        clock: Clock,
        tasks: TaskScope,
        frame_bytes_max: int,
    ) -> None:
        self.id = session_id
        self.topic: TopicName | None = None
        """The scalable topic it is about, once that is known."""
        self.subject = scalable_name(name)
        """The one it asks for, be it there or not."""
        self._name = name
        self._connection = connection
        self._source = source
        self._frame_bytes_max = frame_bytes_max
        self._feed: LayoutFeed[LayoutView] = LayoutFeed()
        self._version = 0
        self._is_stale = False
        """Whether something changed while the first layout was read."""
        self._reconciler = Reconciler(
            tasks,
            "layout",
            self._follow,
            clock=clock,
            first_s=_RETRY_FIRST_S,
            most_s=_RETRY_MOST_S,
        )
        self._cancel: Cancel | None = None
        self._closed = False

    async def start(self, *, create_if_missing: bool) -> None:
        """Send the layout, or why there is none; a refusal ends the session."""
        if self._closed:
            return
        try:
            if self._name.is_partition:
                raise TopicNotFound(
                    f"{self._name} is an individual partition; ask for {self._name.base}"
                )
            # Before reading: no change falls between.
            self._cancel = self._source.watch(self._name, self._on_change)
            await self._read(create_if_missing=create_if_missing)
        except BrokerError as refusal:
            self.refuse(refusal)

    # ------------------------------------------------------------------ changes

    def _on_change(self) -> None:
        if self._feed.version < 0:
            self._is_stale = True
        else:
            self._reconciler.request()

    async def _follow(self) -> None:
        try:
            await self._read(create_if_missing=False)
        except _MISSING as refusal:
            self.refuse(refusal)
        except BrokerError as failure:
            # An error would end the session for good; the client has a layout to go on with.
            _log.warning("layout not read", topic=self._name.full, reason=failure.sentence)
            self._reconciler.request_later()

    async def _read(self, *, create_if_missing: bool) -> None:
        topic, view = await self._source.resolve(self._name, create_if_missing=create_if_missing)
        self.topic = topic
        self._version += 1
        self._feed = self._feed.offer(self._version, view)
        self._send()
        if self._is_stale:
            self._is_stale = False
            self._on_change()

    def on_writable(self) -> None:
        self._send()

    def _send(self) -> None:
        """Send the newest layout now, or when the client has read what it was sent before."""
        if self._closed or not self._connection.writable or self.topic is None:
            return
        view, self._feed = self._feed.take()
        if view is None:
            return
        frame = encode_layout(self.id, view, self.topic.full)
        if len(frame) > self._frame_bytes_max:
            # Nothing writes such a layout; one that is there would make the client hang up.
            self.refuse(LayoutTooLarge(f"The layout of {self.topic} takes {len(frame)} bytes"))
            return
        self._connection.send(frame)
        self._feed = self._feed.done()

    # ------------------------------------------------------------------ the end

    def refuse(self, refusal: BrokerError) -> None:
        if self._closed:
            return
        self._connection.send_command(make_command(encode_refusal(self.id, refusal)))
        self._connection.attached(ConnectionRegistry).layouts.pop(self.id, None)
        self.close()

    def close(self) -> None:
        self._closed = True
        self._reconciler.close()
        if self._cancel is not None:
            self._cancel()
            self._cancel = None


def encode_refusal(session_id: int, refusal: BrokerError) -> CommandScalableTopicUpdate:
    """Clients tell a missing topic from what is not allowed, and from what passes: that they ask
    for again. For them all else is a missing one.
    """
    fault = fault_of(refusal)
    known = fault.retry or isinstance(refusal, _TOLD_AS_THEY_ARE)
    code = (fault if known else fault_of(TopicNotFound())).code
    return CommandScalableTopicUpdate(
        session_id=session_id,
        error=ServerError.Name(code),
        message=refusal.sentence,
    )
