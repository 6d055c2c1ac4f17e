"""One client connection: bytes in, runs and commands out, and what the client attached over it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias

from magnetar.broker.attached import Consumers, Producers
from magnetar.broker.attachment import A, Attachment
from magnetar.broker.authentication import Authenticator
from magnetar.broker.client_limit import ConnectionLimit
from magnetar.broker.client_socket import ClientSocket
from magnetar.broker.consumer import Consumer
from magnetar.broker.handshake import Handshake
from magnetar.broker.liveness import Liveness
from magnetar.broker.producer import Producer
from magnetar.broker.request import PendingRequests
from magnetar.broker.unread import UnreadBytes
from magnetar.errors import NotAllowed, ProtocolViolation, fault_of
from magnetar.model.caller import Caller
from magnetar.model.limit import Limits
from magnetar.model.scalable import BrokerAddress
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope
from magnetar.runtime.watchdog import names_work
from magnetar.wire.command import (
    NO_REQUEST,
    BaseCommand,
    FeatureFlags,
    close_consumer,
    close_producer,
    decode_command,
    encode_command,
    error,
    pong,
)
from magnetar.wire.frame import FrameDecoder
from magnetar.wire.limit import unchecked_bytes
from magnetar.wire.run import Item, SendRun, gather_runs

_log = Logger(__name__)

Handler: TypeAlias = Callable[["Connection", BaseCommand], Awaitable[None] | None]

_UNSYNCED_BYTES_MAX: Final = 32 << 20
"""What one connection may have on its way to the disk before it is not read any more."""
_QUEUED_BYTES_MAX: Final = 256 << 20
"""The same for all connections together."""
_CLOSE_VERSION: Final = 5
"""Of the protocol: older clients do not know that one producer or consumer may be closed."""
_PONG: Final = encode_command(pong())


class Connections:
    """The connections of a broker, and how much of theirs is on its way to the disk."""

    def __init__(self) -> None:
        self.unsynced_bytes = 0
        self._members: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._members))

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._members

    def add(self, connection: Connection) -> None:
        self._members.add(connection)

    def discard(self, connection: Connection) -> None:
        self._members.discard(connection)


class ConnectionHost(Protocol):
    """What a connection needs of its broker."""

    @property
    def config(self) -> Configuration: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def tasks(self) -> TaskScope: ...

    @property
    def authentication(self) -> Authenticator: ...

    @property
    def unread(self) -> UnreadBytes: ...

    @property
    def connection_limit(self) -> ConnectionLimit: ...

    @property
    def connections(self) -> Connections: ...

    @property
    def closing(self) -> bool: ...


class Connection(ClientSocket):
    """Reads the protocol: starts what comes, in order, until something pauses the connection."""

    def __init__(
        self, host: ConnectionHost, handlers: Mapping[int, Handler], *, is_counted: bool = False
    ) -> None:
        """One that is counted has its place among the connections already."""
        super().__init__(host.clock, host.unread)
        self.producers: Final = Producers(host.clock)
        self.consumers: Final = Consumers()
        self._host = host
        self._connections = host.connections
        self._handlers = handlers
        self._is_counted = is_counted
        self._decoder = FrameDecoder(
            frame_bytes_max=host.limits.connect_frame_bytes,
            command_bytes_max=host.limits.command_bytes,
        )
        self.handshake: Final = Handshake(
            self,
            self._decoder,
            host.authentication,
            config=host.config,
            clock=host.clock,
            tasks=host.tasks,
        )
        self._liveness = Liveness(self, self.handshake, config=host.config, clock=host.clock)
        self._unchecked_bytes = unchecked_bytes(host.limits)
        self._requests = PendingRequests(self, host.limits, host.tasks)
        self._attachments: dict[type[Attachment], Attachment] = {}
        self._kept: list[Item] = []
        """Read, and not started since the connection is held."""
        self._unsynced_bytes = 0
        self._is_held_back = False  # not read until more of that is on the disk

    @property
    def client_version(self) -> str:
        return self.handshake.client_version

    @property
    def protocol_version(self) -> int:
        return self.handshake.protocol_version

    @property
    def features(self) -> FeatureFlags:
        return self.handshake.features

    @property
    def caller(self) -> Caller:
        return self.handshake.caller

    # ------------------------------------------------------------------ from beginning to end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._host.closing:
            self.abort()
            return
        if not self._is_counted:
            limit = self._host.connection_limit
            try:
                limit.enter(self.host)
            except NotAllowed as refusal:
                limit.on_refused(self.address, refusal)
                self.send_command(error(NO_REQUEST, fault_of(refusal).code, refusal.sentence))
                self.close()
                return
            self._is_counted = True
        self._connections.add(self)
        self._liveness.start()

    def pause_writing(self) -> None:
        super().pause_writing()
        for consumer in self.consumers:
            consumer.on_writable(False)

    def resume_writing(self) -> None:
        super().resume_writing()
        for consumer in self.consumers:
            consumer.on_writable(True)
        for attachment in self.attachments:
            attachment.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._kept.clear()
        self._connections.discard(self)
        if self._is_counted:
            self._is_counted = False
            self._host.connection_limit.leave(self.host)
        self._liveness.close()
        self.handshake.close()
        for attachment in self.attachments:
            attachment.close()
        self.producers.close()
        self.consumers.close()

    async def is_alive(self) -> bool:
        """Ask the peer for a sign of life; a dead connection is closed."""
        return await self._liveness.ask()

    # ------------------------------------------------------------------ reading

    def data_received(self, data: bytes) -> None:
        self._liveness.is_heard = True
        self._decoder.feed(data)
        if not self._kept:
            self._take()

    def _take(self) -> None:
        """Start what is whole of what was read. Read no more while too much is on its way to the
        disk: some of it is from here, so the end of that releases the connection.
        """
        try:
            while True:
                data, stretches = self._decoder.cut()
                if not stretches or not self._start(gather_runs(data, stretches)):
                    break
        except ProtocolViolation as violation:
            self._on_violation(violation)
            return
        if self._unsynced_bytes and (
            self._unsynced_bytes > _UNSYNCED_BYTES_MAX
            or self._connections.unsynced_bytes > _QUEUED_BYTES_MAX
        ):
            self._is_held_back = True
            self.pause("disk")

    @names_work(lambda local: "SEND")
    def _start(self, items: list[Item]) -> bool:
        """Start runs and commands until the connection is held; return whether that was all."""
        for index, item in enumerate(items):
            if self.closed:
                return False
            if self._pauses:
                self._kept = items[index:]
                return False
            if type(item) is SendRun:
                producer = self.producers.get(item.producer_id)
                if producer is not None and producer.is_ready:
                    producer.topic.publish(producer, item)
                else:
                    self.producers.check_stray(item.producer_id)
            else:
                self._on_command(item)  # type: ignore[arg-type]
        return True

    def _read_on(self) -> None:
        if self._kept and not self._pauses:
            self._loop.call_soon(self._go_on)
        else:
            super()._read_on()

    def _go_on(self) -> None:
        """Nothing pauses the connection any more: start what was kept, then read on."""
        if self.closed or self._pauses:
            return
        items, self._kept = self._kept, []
        try:
            is_done = self._start(items)
        except ProtocolViolation as violation:
            self._on_violation(violation)
            return
        if is_done:
            self._take()
        super()._read_on()

    def _on_violation(self, violation: ProtocolViolation) -> None:
        _log.warning("connection closed", address=self.address, reason=violation.sentence)
        self.close()

    @names_work(lambda local: BaseCommand.Type.Name(local["command"].type))
    def _on_command(self, data: bytes) -> None:
        command = decode_command(data)
        kind = command.type
        if kind != BaseCommand.CONNECT and not self.handshake.is_done:
            raise ProtocolViolation("a command before CONNECT")
        if len(data) > self._unchecked_bytes and not self._requests.check(command, data):
            return
        if not self.handshake.is_done:
            self.handshake.on_connect(command.connect)
            return
        if kind == BaseCommand.PING:
            self.send(_PONG)
            return
        if kind == BaseCommand.PONG:
            self._liveness.on_pong()
            return
        handler = self._handlers.get(kind)
        if handler is None:
            raise ProtocolViolation(
                f"a {BaseCommand.Type.Name(kind)} command, which a client may not send"
            )
        waiting = handler(self, command)
        if waiting is not None:
            self._requests.start(waiting, command)

    def count_unsynced(self, size: int) -> None:
        """More (or less) is on its way to the disk; read on when little enough is."""
        self._unsynced_bytes += size
        self._connections.unsynced_bytes += size
        if self._is_held_back and self._unsynced_bytes <= _UNSYNCED_BYTES_MAX // 2:
            self._is_held_back = False
            self.resume("disk")

    # ------------------------------------------------------------------ what is attached

    def attached(self, kind: type[A]) -> A:
        """The one attachment of a kind, made with its first use."""
        found = self._attachments.get(kind)
        if not isinstance(found, kind):
            found = self._attachments[kind] = kind(self, self._host.limits)
        return found

    @property
    def attachments(self) -> list[Attachment]:
        return list(self._attachments.values())

    def close_producer(self, producer: Producer) -> None:
        """Tell the client to reconnect its producer, unless it has left; SENDs still on their way
        are dropped.
        """
        if self.producers.disconnect(producer):
            self._tell_closed(close_producer(producer.id, producer.topic.moved_to))

    def close_consumer(self, consumer: Consumer, *, returns: bool = False) -> None:
        """Tell the client to subscribe again, unless the consumer has left; one that `returns` may
        still be asked for by its id.
        """
        if returns:
            self.consumers.away.add(consumer, now=self._clock.monotonic())
        if self.consumers.discard(consumer):
            place = consumer.subscription
            self.recall_consumer(consumer.id, None if place is None else place.topic.moved_to)

    def recall_consumer(self, consumer_id: int, moved_to: BrokerAddress | None = None) -> None:
        """Tell the client to subscribe again, and where, if that is known."""
        self._tell_closed(close_consumer(consumer_id, moved_to))

    def _tell_closed(self, command: BaseCommand) -> None:
        if self.protocol_version >= _CLOSE_VERSION:
            self.send_command(command)
        else:
            self.close()
