"""One TCP connection to a broker: handshake, keep-alive, answers to requests, pushes to owners."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from magnetar import __version__
from magnetar.client.address import BrokerAddress
from magnetar.client.authentication import Authentication, load_data
from magnetar.client.dispatch import ANSWERS, DELIVERIES, PUSHES, Ends, Requests
from magnetar.client.error import (
    AuthenticationError,
    ConfigurationError,
    ConnectError,
    PulsarError,
    WrongPortError,
    decode_refusal,
    is_refusal,
    tell_cause,
)
from magnetar.client.policy import ConnectionPolicy
from magnetar.errors import ProtocolViolation
from magnetar.runtime.clock import SYSTEM, Clock, Timer
from magnetar.runtime.task import TaskScope
from magnetar.wire.command import (
    NO_REQUEST,
    PROTOCOL_VERSION,
    AuthData,
    BaseCommand,
    CommandAuthResponse,
    CommandConnect,
    FeatureFlags,
    body_of,
    decode_command,
    encode_command,
    make_command,
    ping,
    pong,
)
from magnetar.wire.frame import FRAME_PADDING_BYTES, FrameDecoder
from magnetar.wire.send import RECEIPT_HEAD, decode_receipt

_WRITE_BYTES: Final = 64 * 1024
"""So many are written at once, without waiting for the end of the turn."""


class Outbox:
    """A system call costs more than a frame; the transport bounds and buffers what follows."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._frames: list[bytes] = []
        self._bytes = 0

    def put(self, frame: bytes) -> None:
        self._frames.append(frame)
        self._bytes += len(frame)
        if self._bytes >= _WRITE_BYTES:
            self.write()
        elif len(self._frames) == 1:
            self._loop.call_soon(self.write)

    def write(self) -> None:
        """Hand everything to the transport."""
        if self._frames:
            frames, self._frames, self._bytes = self._frames, [], 0
            self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))


async def dial(
    address: BrokerAddress,
    make: Callable[[], asyncio.Protocol],
    *,
    policy: ConnectionPolicy,
    tls: ssl.SSLContext | None,
) -> None:
    """Connect `make()` to the broker; its certificate is its own, also behind a proxy."""
    reached = policy.proxy or address
    context = (tls or ssl.create_default_context()) if address.secure else None
    transport, _ = await asyncio.get_running_loop().create_connection(
        make,
        reached.host,
        reached.port,
        ssl=context,
        server_hostname=None if context is None else address.host,
    )
    raw = transport.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(policy.tcp_no_delay))


Type = BaseCommand.Type
MESSAGE_BYTES_DEFAULT: Final = 5 * 1024 * 1024
_GOODBYE_S_MAX: Final = 1.0


class Connection(asyncio.Protocol):
    """Opened by `open`, closed once."""

    def __init__(
        self,
        address: BrokerAddress,
        authentication: Authentication,
        policy: ConnectionPolicy,
        proxy_to: str | None,
        description: str,
        clock: Clock,
        on_lost: Callable[[str, PulsarError], None] | None = None,
    ) -> None:
        self._on_lost = on_lost
        self.address = address
        self.message_bytes_max = MESSAGE_BYTES_DEFAULT
        self.server_version = ""
        self.features = FeatureFlags()
        self.reason: PulsarError | None = None
        self._clock = clock
        self._authentication = authentication
        self._policy = policy
        self._proxy_to = proxy_to
        self._description = description
        self._credentials = b""
        self._tasks = TaskScope("connection")
        self._loop = asyncio.get_running_loop()
        self._decoder = FrameDecoder(frame_bytes_max=MESSAGE_BYTES_DEFAULT + FRAME_PADDING_BYTES)
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._ended = asyncio.Event()
        self._requests = Requests(clock)
        self._used_at = self._clock.monotonic()
        self.ends: Ends[Connection] = Ends(self)
        self._keep_alive: Timer | None = None
        self._is_ping_unanswered = False

    @classmethod
    async def open(
        cls,
        address: BrokerAddress,
        *,
        authentication: Authentication,
        policy: ConnectionPolicy,
        tls: ssl.SSLContext | None = None,
        proxy_to: str | None = None,
        description: str = "",
        clock: Clock = SYSTEM,
        on_lost: Callable[[str, PulsarError], None] | None = None,
    ) -> Connection:
        """Connect and shake hands; `proxy_to` names the broker behind a proxy, as host:port."""
        connection = cls(address, authentication, policy, proxy_to, description, clock, on_lost)
        try:
            async with clock.timeout(policy.connection_timeout):
                connection._credentials = await load_data(authentication, address.host)
                await dial(address, lambda: connection, policy=policy, tls=tls)
                await connection._connected
        except TimeoutError:
            connection.close(ConnectError(f"{address} did not answer in time"))
        except PulsarError as error:
            connection.close(error)
        except OSError as error:
            detail = tell_cause(error)
            if address.secure and isinstance(error, ConnectionResetError):
                detail += "; it may be a port without TLS, which is spoken to with pulsar://"
            failure = ConnectError(f"Cannot connect to {address}: {detail}")
            failure.is_refused = is_refusal(error)
            connection.close(failure)
        except asyncio.CancelledError:
            connection.close(ConnectError(f"Connecting to {address} was given up"))
            raise
        if connection.reason is not None:
            raise connection.reason
        return connection

    @property
    def is_open(self) -> bool:
        return self.reason is None

    @property
    def idle_s(self) -> float:
        """For how long it has been idle; 0 while it is in use."""
        if self._requests or self.ends:
            return 0.0
        return self._clock.monotonic() - self._used_at

    def touch(self) -> None:
        """A caller is about to use it, or has just stopped."""
        self._used_at = self._clock.monotonic()

    def send(self, frame: bytes) -> None:
        """A whole frame; on a closed connection it goes nowhere."""
        if self.reason is None and self._outbox is not None:
            self._outbox.put(frame)

    def hurry(self) -> None:
        """Write what was sent in this turn without waiting for its end."""
        if self._outbox is not None:
            self._outbox.write()

    def send_body(self, body: Any) -> None:
        self.send(encode_command(make_command(body)))

    def tell(self, body: Any) -> None:
        """Send a body that has a request_id and do not wait for its answer."""
        body.request_id = self._requests.next_id()
        self.send_body(body)

    async def request(self, body: Any, expect: int, *, timeout: float) -> Any:
        """Send a body that has a request_id and return the body of its answer."""
        if self.reason is not None:
            raise self.reason
        requests, whom = self._requests, self.address
        try:
            return await requests.ask(body, expect, self.send_body, timeout=timeout, whom=whom)
        finally:
            self.touch()

    def close(self, reason: PulsarError | None = None, *, is_lost: bool = True) -> None:
        """End the connection and tell everybody on it why; closing again changes nothing. One that
        the client does without is not `is_lost`: no application wants to know.
        """
        if self.reason is not None:
            return
        self.reason = reason or ConnectError(f"The connection to {self.address} was closed")
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        if self._transport is not None and self._outbox is not None:
            self._outbox.write()
            self._transport.close()
        if not self._connected.done():
            self._connected.set_result(None)
        elif is_lost and self._on_lost is not None and not self._connected.cancelled():
            self._on_lost(str(self.address), self.reason)
        self._requests.refuse_all(self.reason)
        self.ends.close()

    async def wait_ended(self) -> None:
        """Until the socket is closed; a peer that does not take the rest is cut off."""
        await self._tasks.close()
        if self._transport is not None:
            try:
                async with self._clock.timeout(_GOODBYE_S_MAX):
                    await self._ended.wait()
            except TimeoutError:
                self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are no subclass.
        self._transport = transport = cast(asyncio.Transport, transport)
        self._outbox = Outbox(transport)
        if self.reason is not None:
            transport.close()
            return
        data, self._credentials = self._credentials, b""
        method, proxy_to = self._authentication.method_name, self._proxy_to
        self.send_body(make_connect(method, data, proxy_to, self._description))

    def connection_lost(self, error: Exception | None) -> None:
        self._ended.set()
        detail = f": {tell_cause(error)}" if error is not None else ""
        if not self._connected.done() and not self.address.secure:
            detail += "; it may be a port for TLS, which is spoken to with pulsar+ssl://"
        self.close(ConnectError(f"{self.address} closed the connection{detail}"))

    def data_received(self, data: bytes) -> None:
        if not self._connected.done() and (other := _recognize(data)) is not None:
            self.close(WrongPortError(f"{self.address} {other}"))
            return
        self._decoder.feed(data)
        try:
            while self.reason is None and (frame := self._decoder.next_frame()) is not None:
                self._is_ping_unanswered = False
                if frame.command.startswith(RECEIPT_HEAD):
                    self.ends.on_receipt(decode_receipt(frame.command), b"")
                else:
                    self._dispatch(decode_command(frame.command), frame.body)
        except ProtocolViolation as error:
            self.close(ConnectError(f"{self.address} broke the protocol: {error.sentence}"))

    def _dispatch(self, command: BaseCommand, body: bytes) -> None:
        deliver = DELIVERIES.get(command.type)
        if deliver is not None:
            deliver(self.ends, body_of(command), body)
        elif (handler := _HANDLERS.get(command.type)) is not None:
            handler(self, body_of(command), body)
        elif command.type in PUSHES:
            self.ends.on_push(command.type, body_of(command))
        elif command.type in ANSWERS:
            self._requests.on_answer(command.type, body_of(command))
        # Anything else is an unknown push: newer brokers may send some.

    def _on_error(self, error: Any, _: bytes) -> None:
        refusal = decode_refusal(error.error, error.message)
        if error.request_id == NO_REQUEST or not self._connected.done():
            self.close(refusal)
        else:
            self._requests.refuse(error.request_id, refusal)

    def _on_connected(self, connected: Any, _: bytes) -> None:
        if self._connected.done():
            raise ProtocolViolation("a second CONNECTED")
        self.server_version = connected.server_version
        self.features = connected.feature_flags
        if connected.max_message_size > 0:
            self.message_bytes_max = connected.max_message_size
            # Nothing follows CONNECTED before we speak, so no byte is left in the old decoder.
            frame_bytes_max = self.message_bytes_max + FRAME_PADDING_BYTES
            self._decoder = FrameDecoder(frame_bytes_max=frame_bytes_max)
        self._connected.set_result(None)
        self._keep_alive = self._clock.call_later(self._policy.keep_alive, self._tick)

    def _on_challenge(self, challenge: Any, _: bytes) -> None:
        self._tasks.start(self._respond(challenge.challenge.auth_data), "respond")

    async def _respond(self, challenge: bytes) -> None:
        """Without fresh credentials the broker would end this soon: end it now and say why."""
        try:
            async with self._clock.timeout(self._policy.connection_timeout):
                host = self.address.host
                data = await load_data(self._authentication, host, challenge)
        except PulsarError as error:
            self.close(error)
        except TimeoutError:
            self.close(AuthenticationError("Fresh credentials could not be had in time"))
        else:
            self.send_body(make_response(self._authentication.method_name, data))

    def _tick(self) -> None:
        if self._is_ping_unanswered:
            self.close(ConnectError(f"{self.address} stopped answering"))
            return
        self._is_ping_unanswered = True
        self.send(encode_command(ping()))
        self._keep_alive = self._clock.call_later(self._policy.keep_alive, self._tick)

    def _on_ping(self, _: Any, __: bytes) -> None:
        self.send(encode_command(pong()))


def _recognize(data: bytes) -> str | None:
    """What answers instead of a broker; no frame of one is as large as these bytes would say."""
    if data.startswith(b"HTTP"):
        return "answers with HTTP: it is a web port; clients connect to the broker's other port"
    if data.startswith(b"\x15\x03"):
        return "answers with TLS: connect to it with pulsar+ssl://"
    return None


def _ignore(connection: Connection, body: Any, payload: bytes) -> None:
    """PONG: that something came is all it says."""


_HANDLERS: Final[Mapping[int, Callable[[Connection, Any, bytes], None]]] = {
    Type.PING: Connection._on_ping,
    Type.PONG: _ignore,
    Type.ERROR: Connection._on_error,
    Type.CONNECTED: Connection._on_connected,
    Type.AUTH_CHALLENGE: Connection._on_challenge,
}


CLIENT_VERSION: Final = f"Magnetar-Python-v{__version__}"


DESCRIPTION_CHARS_MAX: Final = 64


def parse_description(text: str | None) -> str:
    """What an application calls itself, as brokers list it behind the version of the client."""
    if text is not None and len(text) > DESCRIPTION_CHARS_MAX:
        raise ConfigurationError(f"description is at most {DESCRIPTION_CHARS_MAX} characters long")
    return text or ""


def make_connect(
    method: str, data: bytes, proxy_to: str | None, description: str = ""
) -> CommandConnect:
    connect = CommandConnect(
        client_version=f"{CLIENT_VERSION}-{description}" if description else CLIENT_VERSION,
        protocol_version=PROTOCOL_VERSION,
        auth_method_name=method,
        auth_data=data,
        feature_flags=FeatureFlags(
            supports_auth_refresh=True,
            supports_broker_entry_metadata=True,
            supports_topic_watchers=True,
            supports_get_partitioned_metadata_without_auto_creation=True,
            supports_scalable_topics=True,
        ),
    )
    if proxy_to is not None:
        connect.proxy_to_broker_url = proxy_to
    return connect


def make_response(method: str, data: bytes) -> CommandAuthResponse:
    return CommandAuthResponse(
        client_version=CLIENT_VERSION,
        protocol_version=PROTOCOL_VERSION,
        response=AuthData(auth_method_name=method, auth_data=data),
    )
