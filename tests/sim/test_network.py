"""The simulated network keeps what TCP promises, and breaks what a network breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from magnetar.testing.simulation.loop import Process, VirtualLoop
from magnetar.testing.simulation.network import Address, Network, SimulatedTransport

SERVER = Address("server", 6650)


class End(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""
        self.transport: SimulatedTransport | None = None
        self.is_lost = False
        self.is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimulatedTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False


def play(body: Callable[[Network, Process, End, End], Awaitable[None]], seed: int = 0) -> None:
    """A client and a server that are connected."""
    random = Random(seed)
    loop = VirtualLoop(random)
    network = Network(loop, random)
    far = End()
    server = Process("server")

    async def serve() -> None:
        network.listen(SERVER, lambda: far)

    async def inside() -> None:
        loop.spawn(server, serve(), "serve")
        await asyncio.sleep(0.1)
        near = End()
        await loop.create_connection(lambda: near, SERVER.host, SERVER.port)
        await body(network, server, near, far)

    try:
        loop.run_until_complete(loop.spawn(Process("client"), inside(), "client"))
    finally:
        loop.close()


@pytest.mark.parametrize("seed", range(20))
def test_bytes_arrive_whole_and_in_order(seed: int) -> None:
    async def body(network: Network, server: Process, near: End, far: End) -> None:
        assert near.transport is not None
        sent = [bytes([number]) * (number + 1) for number in range(100)]
        for piece in sent:
            near.transport.write(piece)
            await asyncio.sleep(0.0005)
        await asyncio.sleep(2)
        assert far.data == b"".join(sent)

    play(body, seed)


def test_what_was_written_before_a_close_arrives() -> None:
    async def body(network: Network, server: Process, near: End, far: End) -> None:
        assert near.transport is not None
        near.transport.write(b"last words")
        near.transport.close()
        await asyncio.sleep(2)
        assert far.data == b"last words"
        assert near.is_lost and far.is_lost

    play(body)


def test_a_cut_is_heard_at_both_ends() -> None:
    async def body(network: Network, server: Process, near: End, far: End) -> None:
        assert network.cut_one()
        await asyncio.sleep(1)
        assert near.is_lost and far.is_lost
        assert not network.cut_one()

    play(body)


def test_nothing_crosses_a_parted_network_until_it_heals() -> None:
    async def body(network: Network, server: Process, near: End, far: End) -> None:
        assert near.transport is not None
        network.part(frozenset({"server"}))
        near.transport.write(b"patience")
        await asyncio.sleep(60)
        assert far.data == b"" and not near.is_lost
        with pytest.raises(TimeoutError):
            await asyncio.get_running_loop().create_connection(End, SERVER.host, SERVER.port)
        network.heal()
        await asyncio.sleep(1)
        assert far.data == b"patience"

    play(body)


def test_a_peer_that_does_not_read_is_felt_by_the_writer() -> None:
    async def body(network: Network, server: Process, near: End, far: End) -> None:
        assert near.transport is not None and far.transport is not None
        far.transport.pause_reading()
        near.transport.set_write_buffer_limits(high=1000)
        near.transport.write(bytes(2000))
        await asyncio.sleep(1)
        assert near.is_paused and far.data == b""
        far.transport.resume_reading()
        await asyncio.sleep(1)
        assert not near.is_paused and len(far.data) == 2000

    play(body)


@pytest.mark.parametrize("silently", [False, True])
def test_a_killed_process_resets_its_connections_and_one_without_power_does_not(
    silently: bool,
) -> None:
    async def body(network: Network, server: Process, near: End, far: End) -> None:
        network.on_killed(server, silently=silently)
        await asyncio.sleep(1)
        assert near.is_lost != silently
        with pytest.raises(ConnectionRefusedError):
            await asyncio.get_running_loop().create_connection(End, SERVER.host, SERVER.port)

    play(body)
