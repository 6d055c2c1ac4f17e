"""A network between simulated processes: it delays, cuts, parts and heals.

A connection is a stream in each direction: bytes arrive in order, in other pieces than they were
written, each direction with delays of its own, so that connections overtake each other.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol

from magnetar.testing.simulation.loop import Process, VirtualLoop, current_process

_DELAY_S: Final = (0.0001, 0.004)
_SLOW_S: Final = 0.25
_SLOW_CHANCE: Final = 0.01
_TORN_CHANCE: Final = 0.05
_REFUSAL_S: Final = 0.01
_SILENCE_S: Final = 20.0
_BUFFER_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int


class Watch(Protocol):
    """Sees what passes the listening end of a connection."""

    def on_arrived(self, data: bytes) -> None: ...

    def on_written(self, data: bytes) -> None: ...

    def on_lost(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Listener:
    process: Process
    context: contextvars.Context
    make: Callable[[], asyncio.Protocol]
    watch: Callable[[str], Watch] | None


class Network:
    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self._loop = loop
        self._random = random
        self._listeners: dict[Address, _Listener] = {}
        self._transports: list[SimulatedTransport] = []
        self._parted: frozenset[str] = frozenset()
        self._ports = 40_000
        loop.connect = self._connect

    def listen(
        self,
        address: Address,
        make: Callable[[], asyncio.Protocol],
        *,
        watch: Callable[[str], Watch] | None = None,
    ) -> None:
        """Called within the process that serves the address. A host that is back after a loss of
        power resets the connections that its peers believe in. `watch` is made for each connection,
        with the name of the process that connects.
        """
        process = current_process()
        context = contextvars.copy_context()
        self._listeners[address] = _Listener(process, context, make, watch)
        for transport in self._transports:
            other = transport.peer.process
            if other.name == process.name and not other.is_alive:
                transport.on_reset_later()

    def part(self, names: frozenset[str]) -> None:
        """Processes of these names reach each other, and the others each other; nothing crosses."""
        self._parted = names

    def heal(self) -> None:
        """What was written before still arrives, if its connection was not given up."""
        self._parted = frozenset()
        for transport in self._transports:
            transport.go_on()

    def is_parted(self, left: Process, right: Process) -> bool:
        return (left.name in self._parted) != (right.name in self._parted)

    def cut_one(self, process: Process | None = None) -> bool:
        """Reset some connection, of one process or of any: both ends lose what is on its way."""
        open_ones = [
            each
            for each in self._transports
            if not each.is_closing() and process in (None, each.process)
        ]
        if not open_ones:
            return False
        self._random.choice(open_ones).reset()
        return True

    def cut_between(self, left: Process, right: Process) -> None:
        """Reset every connection of two processes."""
        for each in list(self._transports):
            if each.process is left and each.peer.process is right and not each.is_closing():
                each.reset()

    def on_killed(self, process: Process, *, silently: bool) -> None:
        """The peers of a killed process get a reset; those of one without power get nothing."""
        self._listeners = {
            address: listener
            for address, listener in self._listeners.items()
            if listener.process is not process
        }
        for transport in list(self._transports):
            if transport.process is process:
                self._transports.remove(transport)
                if not silently:
                    transport.peer.on_reset_later()

    def forget(self, transport: SimulatedTransport) -> None:
        if transport in self._transports:
            self._transports.remove(transport)

    def delay_s(self) -> float:
        if self._random.random() < _SLOW_CHANCE:
            return self._random.uniform(_DELAY_S[1], _SLOW_S)
        return self._random.uniform(*_DELAY_S)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if len(data) > 1 and self._random.random() < _TORN_CHANCE:
            at = self._random.randrange(1, len(data))
            yield data[:at]
            yield data[at:]
        else:
            yield data

    async def _connect(
        self, make: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[SimulatedTransport, asyncio.Protocol]:
        process, context = current_process(), contextvars.copy_context()
        await asyncio.sleep(self.delay_s())
        listener = self._listeners.get(Address(host, port))
        if listener is not None and self.is_parted(process, listener.process):
            await asyncio.sleep(_SILENCE_S)
            raise TimeoutError(f"{host}:{port} does not answer")
        if listener is None:
            await asyncio.sleep(_REFUSAL_S)
            raise ConnectionRefusedError(f"{host}:{port} refuses connections")
        self._ports += 1
        near = SimulatedTransport(self, self._loop, process, context, make(), Address(host, port))
        far = SimulatedTransport(
            self,
            self._loop,
            listener.process,
            listener.context.copy(),
            listener.context.copy().run(listener.make),
            Address(process.name, self._ports),
        )
        near.peer, far.peer = far, near
        far.watch = None if listener.watch is None else listener.watch(process.name)
        self._transports += (near, far)
        far.run(far.protocol.connection_made, far)
        near.protocol.connection_made(near)
        return near, near.protocol


class SimulatedTransport(asyncio.Transport):
    """One end of a connection. What is written is delivered to the peer's protocol."""

    peer: SimulatedTransport
    watch: Watch | None = None

    def __init__(
        self,
        network: Network,
        loop: VirtualLoop,
        process: Process,
        context: contextvars.Context,
        protocol: asyncio.Protocol,
        remote: Address,
    ) -> None:
        super().__init__({"peername": (remote.host, remote.port)})
        self.process = process
        self.protocol = protocol
        self._network = network
        self._loop = loop
        self._context = context
        self._arrived: deque[bytes | None] = deque()
        """What came and was not handed over; None: the peer has closed."""
        self._sent: deque[bytes | None] = deque()
        self._sent_bytes = 0
        self._arrives_at_s = 0.0
        self._is_delivering = False
        self._is_reading = True
        self._is_closing = False
        self._is_gone = False
        self._is_paused = False
        self._high = _BUFFER_BYTES

    def run(self, callback: Callable[..., None], *args: Any) -> None:
        """In the context of this end's process, as a loop of its own would."""
        self._context.copy().run(callback, *args)

    # ------------------------------------------------------------------ the writing side

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self._is_gone or not data:
            return
        if self.watch is not None:
            self.watch.on_written(bytes(data))
        for piece in self._network.pieces(bytes(data)):
            self._sent.append(piece)
            self._sent_bytes += len(piece)
        self._deliver_later()
        self._check_room()

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._sent.append(None)
            self._deliver_later()
            self._loop.call_soon(self._lose, None, context=self._context)

    def abort(self) -> None:
        if not self._is_gone:
            self._is_closing = True
            self._sent.clear()
            self._sent_bytes = 0
            self.peer.on_reset_later()
            self._loop.call_soon(self._lose, None, context=self._context)

    def reset(self) -> None:
        self.on_reset_later()
        self.peer.on_reset_later()

    def go_on(self) -> None:
        self._deliver_later()

    def _deliver_later(self) -> None:
        if self._is_delivering or not self._sent:
            return
        if self._network.is_parted(self.process, self.peer.process):
            return
        self._is_delivering = True
        now = self._loop.time()
        self._arrives_at_s = max(self._arrives_at_s, now + self._network.delay_s())
        self._loop.call_at(self._arrives_at_s, self._deliver, context=self.peer._context)

    def _deliver(self) -> None:
        """Everything that was sent by now, unless the network was parted meanwhile."""
        self._is_delivering = False
        if self._network.is_parted(self.process, self.peer.process):
            return
        while self._sent and self.peer._is_reading:
            piece = self._sent.popleft()
            if piece is not None:
                self._sent_bytes -= len(piece)
            self.peer._receive(piece)
        if self._is_paused and self._sent_bytes <= self._high // 4:
            self._is_paused = False
            self._loop.call_soon(self.protocol.resume_writing, context=self._context)

    def _check_room(self) -> None:
        if not self._is_paused and self._sent_bytes > self._high:
            self._is_paused = True
            self.protocol.pause_writing()

    # ------------------------------------------------------------------ the reading side

    def _receive(self, piece: bytes | None) -> None:
        if self._is_gone:
            return
        if piece is None:
            self._is_closing = True
            self._lose(None)
        elif not self._is_closing:
            if self.watch is not None:
                self.watch.on_arrived(piece)
            self.protocol.data_received(piece)

    def on_reset_later(self) -> None:
        self._loop.call_later(
            self._network.delay_s(),
            self._lose,
            ConnectionResetError("Connection reset by peer"),
            context=self._context,
        )

    def _lose(self, error: Exception | None) -> None:
        if self._is_gone:
            return
        self._is_gone = self._is_closing = True
        if error is not None:
            self._sent.clear()
        self._network.forget(self)
        if self.watch is not None:
            self.watch.on_lost()
        self.protocol.connection_lost(error)

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self.peer.go_on()

    def is_reading(self) -> bool:
        return self._is_reading

    # ------------------------------------------------------------------ asking

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return self._sent_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _BUFFER_BYTES if high is None else high

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol
