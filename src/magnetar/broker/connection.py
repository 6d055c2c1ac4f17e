"""One client connection: bytes in, runs and commands out; replies gathered and written once per
turn of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from magnetar.broker.consumer import ConsumersAway
from magnetar.broker.handshake import Handshake
from magnetar.broker.liveness import Liveness
from magnetar.broker.scalable.connection_registry import ConnectionRegistry
from magnetar.errors import (
    BrokerError,
    MagnetarError,
    NotAllowed,
    ProtocolViolation,
    WireCode,
    fault_of,
)
from magnetar.model.caller import NOBODY, Caller
from magnetar.model.certificate import common_name
from magnetar.runtime.log import Log
from magnetar.runtime.watchdog import names_work
from magnetar.wire.command import (
    NO_REQUEST,
    BaseCommand,
    FeatureFlags,
    body_of,
    close_consumer,
    close_producer,
    decode_command,
    encode_command,
    error,
    pong,
)
from magnetar.wire.frame import FRAME_PADDING_BYTES, FrameDecoder
from magnetar.wire.limit import check_command, unchecked_bytes
from magnetar.wire.refusal import encode_refusal
from magnetar.wire.run import Item, SendRun, gather_runs

if TYPE_CHECKING:
    from magnetar.broker.consumer import Consumer
    from magnetar.broker.producer import Producer
    from magnetar.broker.service import Service
    from magnetar.broker.topiclist import TopicListWatcher

_log = Log(__name__)

Handler: TypeAlias = Callable[["Connection", BaseCommand], Awaitable[None] | None]

_WRITE_BUFFER_BYTES: Final = 1 << 20
_UNSYNCED_BYTES_MAX: Final = 32 << 20
"""What one connection may have on its way to the disk before it is not read any more."""
_QUEUED_BYTES_MAX: Final = 256 << 20
"""The same for all connections together."""
_CLOSED_PRODUCER_GRACE_S: Final = 30.0
_LINGER_S: Final = 2.0
_PONG: Final = encode_command(pong())


class Connection(asyncio.Protocol):
    """Owns the socket, the producers and the consumers that came over it."""

    def __init__(
        self, service: Service, handlers: Mapping[int, Handler], *, is_counted: bool = False
    ) -> None:
        """One that is counted has its place among the connections already."""
        self.service = service
        self.producers: dict[int, Producer] = {}
        self.producers_coming: dict[int, object] = {}
        """Creations under way, by producer id. One that is not here any more was given up."""
        self.consumers: dict[int, Consumer] = {}
        self.consumers_coming: dict[int, object] = {}
        self.consumers_away = ConsumersAway()
        self.watchers: dict[int, TopicListWatcher] = {}
        self.scalable = ConnectionRegistry(service.limits)
        self.closed_producers: dict[int, float] = {}
        self.writable = True
        self.closed = False
        self.client_version = ""
        self.protocol_version = 0
        self.features = FeatureFlags()
        self.address = ""
        self.host = ""
        self.caller = NOBODY
        self.certificate_name: str | None = None
        self.handshake = Handshake(self)
        self.unsynced_bytes = 0
        self._is_held_back = False  # not read until more of that is on the disk
        self._is_counted = is_counted
        self._handlers = handlers
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder(
            frame_bytes_max=service.limits.connect_frame_bytes,
            command_bytes_max=service.limits.command_bytes,
        )
        self._kept: list[Item] = []
        """Read, and not started since the connection is held."""
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._flushing = False
        self._limits = service.limits
        self._unchecked_bytes = unchecked_bytes(service.limits)
        self._liveness = Liveness(self)
        self._requests_in_flight = 0
        self._holds: set[str] = set()
        self._answer_turn = asyncio.Lock()
        self._drained: asyncio.Future[None] | None = None

    # ------------------------------------------------------------------ the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        peer = transport.get_extra_info("peername")
        self.address = f"/{peer[0]}:{peer[1]}" if peer else "unknown"
        self.host = str(peer[0]) if peer else ""
        self.certificate_name = common_name(transport.get_extra_info("peercert"))
        if self.service.closing:
            self.abort()
            return
        if not self._is_counted:
            try:
                self.service.connection_limit.enter(self.host)
            except NotAllowed as refusal:
                self.service.connection_limit.on_refused(self.address, refusal)
                self.send_command(error(NO_REQUEST, fault_of(refusal).code, refusal.sentence))
                self.close()
                return
            self._is_counted = True
        self.service.connections.add(self)
        self._liveness.start()

    @property
    def is_made(self) -> bool:
        """Whether the connection was made, be it gone by now."""
        return self._transport is not None

    def data_received(self, data: bytes) -> None:
        self._liveness.is_heard = True
        self._decoder.feed(data)
        if not self._kept:
            self._take()

    def _take(self) -> None:
        """Start what is whole of what was read."""
        try:
            while True:
                data, stretches = self._decoder.cut()
                if not stretches or not self._start(gather_runs(data, stretches)):
                    break
        except ProtocolViolation as violation:
            self._on_violation(violation)
            return
        if self.unsynced_bytes:
            self._hold_back()

    @names_work(lambda local: "SEND")
    def _start(self, items: list[Item]) -> bool:
        """Start runs and commands until the connection is held; return whether that was all."""
        for index, item in enumerate(items):
            if self.closed:
                return False
            if self._holds:
                self._kept = items[index:]
                return False
            if type(item) is SendRun:
                producer = self.producers.get(item.producer_id)
                if producer is not None and producer.is_ready:
                    producer.topic.publish(producer, item)
                else:
                    self._on_stray(item)
            else:
                self._on_command(item)  # type: ignore[arg-type]
        return True

    def _go_on(self) -> None:
        """Nothing holds the connection any more: start what was kept, then read on."""
        if self.closed or self._holds:
            return
        items, self._kept = self._kept, []
        try:
            is_done = self._start(items)
        except ProtocolViolation as violation:
            self._on_violation(violation)
            return
        if is_done:
            self._take()
        self._read_on()

    def _read_on(self) -> None:
        if not self._holds and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _on_violation(self, violation: ProtocolViolation) -> None:
        _log.warning("connection closed", address=self.address, reason=violation.sentence)
        self.close()

    def pause_writing(self) -> None:
        """The peer does not read: hold its requests too, so that what it waits for is bounded."""
        self.writable = False
        self.hold("peer")
        for consumer in self.consumers.values():
            consumer.on_writable(False)

    def resume_writing(self) -> None:
        self.writable = True
        self.service.unread.forget(self)
        self._wake_answers()
        self.release("peer")
        for consumer in list(self.consumers.values()):
            consumer.on_writable(True)
        for watcher in list(self.watchers.values()):
            watcher.on_writable()
        self.scalable.on_writable(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._out.clear()
        self._kept.clear()
        self.service.unread.forget(self)
        self._wake_answers()
        self.service.connections.discard(self)
        if self._is_counted:
            self._is_counted = False
            self.service.connection_limit.leave(self.host)
        self._liveness.close()
        self.handshake.close()
        for watcher in self.watchers.values():
            watcher.close()
        self.watchers.clear()
        self.scalable.close(self)
        self.producers_coming.clear()
        self.consumers_coming.clear()
        for producer in list(self.producers.values()):
            producer.detach()
        for consumer in list(self.consumers.values()):
            consumer.detach()
        self.producers.clear()
        self.consumers.clear()
        self.consumers_away.clear()

    def close(self) -> None:
        """Write what is gathered, then end the connection; one whose peer does not read, soon."""
        if self.closed or self._transport is None:
            return
        self._flush()
        self.closed = True
        self._transport.close()
        if self.unread_bytes:
            self.service.clock.call_later(_LINGER_S, self._transport.abort)

    # ------------------------------------------------------------------ writing

    def send(self, data: bytes) -> None:
        """Gather bytes; everything gathered in this turn of the loop leaves in one write."""
        if self.closed:
            return
        self._out.append(data)
        self._gather(len(data))

    def send_many(self, parts: list[bytes], size: int) -> None:
        """`size` is about that of all parts."""
        if self.closed:
            return
        self._out += parts
        self._gather(size)

    def _gather(self, size: int) -> None:
        """A full buffer is written at once: the transport then tells whether the peer reads."""
        self._out_bytes += size
        if self._out_bytes > _WRITE_BUFFER_BYTES:
            self._flush()
        elif not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def send_command(self, command: BaseCommand) -> None:
        self.send(encode_command(command))

    def refuse(self, command: BaseCommand, refusal: BrokerError) -> None:
        """Answer a command by the response of its own kind, if the protocol has one."""
        code = fault_of(refusal).code
        answer = encode_refusal(command, refusal) or error(NO_REQUEST, code, refusal.sentence)
        self.send_command(answer)

    def _flush(self) -> None:
        self._flushing = False
        if self._out and not self.closed and self._transport is not None:
            out, self._out, self._out_bytes = self._out, [], 0
            self._transport.write(b"".join(out) if len(out) > 1 else out[0])
            if not self.writable:
                self.service.unread.check(self)

    @property
    def unread_bytes(self) -> int:
        """What the peer has not read, beyond what the system keeps for it."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """Make one large answer at a time, and only when the peer has read those before."""
        async with self._answer_turn:
            while not self.writable and not self.closed:
                if self._drained is None:
                    self._drained = self._loop.create_future()
                await self._drained
            yield

    def _wake_answers(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    # ------------------------------------------------------------------ back-pressure

    def hold(self, reason: str) -> bool:
        """Stop reading from the peer until every reason to hold it is gone; return whether this
        one is new.
        """
        if reason in self._holds:
            return False
        if not self._holds and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._holds.add(reason)
        return True

    def release(self, reason: str) -> None:
        if reason not in self._holds:
            return
        self._holds.discard(reason)
        if self._kept and not self._holds:
            self._loop.call_soon(self._go_on)
        else:
            self._read_on()

    def _hold_back(self) -> None:
        """Read no more while too much is on its way: some of it is from here, so the end of that
        releases the connection.
        """
        queued = self.service.unsynced_bytes
        if self.unsynced_bytes > _UNSYNCED_BYTES_MAX or queued > _QUEUED_BYTES_MAX:
            self._is_held_back = True
            self.hold("disk")

    def count_unsynced(self, size: int) -> None:
        """More (or less) is on its way to the disk; read on when little enough is."""
        self.unsynced_bytes += size
        self.service.unsynced_bytes += size
        if self._is_held_back and self.unsynced_bytes <= _UNSYNCED_BYTES_MAX // 2:
            self._is_held_back = False
            self.release("disk")

    # ------------------------------------------------------------------ commands

    def admit(self, caller: Caller) -> None:
        """Its credentials are good: more than those may be sent."""
        self.caller = caller
        self._decoder.frame_bytes_max = self.service.config.maxMessageSize + FRAME_PADDING_BYTES

    def _on_stray(self, run: SendRun) -> None:
        if run.producer_id in self.producers:
            raise ProtocolViolation(f"a SEND of {run.producer_id}, which waits for its turn")
        closed_at = self.closed_producers.get(run.producer_id)
        if (
            closed_at is not None
            and self.service.clock.monotonic() - closed_at < _CLOSED_PRODUCER_GRACE_S
        ):
            # sent before the client heard that its producer was closed: it will send them again
            return
        raise ProtocolViolation(f"a SEND for the unknown producer {run.producer_id}")

    @names_work(lambda local: BaseCommand.Type.Name(local["command"].type))
    def _on_command(self, data: bytes) -> None:
        command = decode_command(data)
        kind = command.type
        if kind != BaseCommand.CONNECT and not self.handshake.is_done:
            raise ProtocolViolation("a command before CONNECT")
        if len(data) > self._unchecked_bytes and not self._is_within_limits(command, data):
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
            self._requests_in_flight += 1
            if self._requests_in_flight >= self.service.limits.requests_pending:
                self.hold("requests")
            self.service.tasks.start(self._serve(waiting, command), name="request")

    def _is_within_limits(self, command: BaseCommand, data: bytes) -> bool:
        try:
            check_command(self._limits, command, data)
        except BrokerError as refusal:
            answer = encode_refusal(command, refusal)
            if answer is None:
                raise ProtocolViolation(refusal.sentence) from None
            self.send_command(answer)
            return False
        return True

    @names_work(lambda local: BaseCommand.Type.Name(local["command"].type))
    async def _serve(self, waiting: Awaitable[None], command: BaseCommand) -> None:
        request_id: int = getattr(body_of(command), "request_id", NO_REQUEST)
        try:
            await waiting
        except BrokerError as refusal:
            self.refuse(command, refusal)
        except MagnetarError as failure:
            _log.warning("request failed", address=self.address, reason=failure.sentence)
            self.send_command(error(request_id, WireCode.UNKNOWN, failure.sentence))
        except Exception as bug:
            _log.error(
                "request failed",
                error=bug,
                address=self.address,
                command=BaseCommand.Type.Name(command.type),
            )
            self.send_command(
                error(request_id, WireCode.UNKNOWN, f"internal error: {type(bug).__name__}")
            )
        finally:
            self._requests_in_flight -= 1
            if self._requests_in_flight <= self.service.limits.requests_pending // 2:
                self.release("requests")

    # ------------------------------------------------------------------ keep-alive

    def abort(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    async def is_alive(self) -> bool:
        """Ask the peer for a sign of life; a dead connection is closed."""
        return await self._liveness.ask()

    # ------------------------------------------------------------------ who comes and goes

    def expect_producer(self, producer_id: int) -> object:
        """Note that a creation begins; it is given up when this is not noted any more."""
        creation = self.producers_coming[producer_id] = object()
        return creation

    def expect_consumer(self, consumer_id: int) -> object:
        creation = self.consumers_coming[consumer_id] = object()
        return creation

    def close_producer(self, producer: Producer) -> None:
        """Tell the client to reconnect its producer, unless it has left; SENDs still on their way
        are dropped.
        """
        if self.producers.get(producer.id) is not producer:  # the id may be used again
            return
        del self.producers[producer.id]
        now = self.service.clock.monotonic()
        for known, at in list(self.closed_producers.items()):
            if now - at >= _CLOSED_PRODUCER_GRACE_S:
                del self.closed_producers[known]
        self.closed_producers[producer.id] = now
        if self.protocol_version >= 5:
            self.send_command(close_producer(producer.id))
        else:
            self.close()

    def close_consumer(self, consumer: Consumer, *, returns: bool = False) -> None:
        """Tell the client to subscribe again, unless the consumer has left; one that `returns` may
        still be asked for by its id.
        """
        if returns:
            self.consumers_away.add(consumer, now=self.service.clock.monotonic())
        if self.consumers.get(consumer.id) is consumer:
            del self.consumers[consumer.id]
            self.recall_consumer(consumer.id)

    def recall_consumer(self, consumer_id: int) -> None:
        """Tell the client to subscribe again."""
        if self.protocol_version >= 5:
            self.send_command(close_consumer(consumer_id))
        else:
            self.close()
