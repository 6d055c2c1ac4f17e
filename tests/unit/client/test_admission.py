from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from magnetar.client.address import parse_addresses
from magnetar.client.admission import Admission
from magnetar.client.authentication import NoAuthentication
from magnetar.client.error import AlreadyClosedError, PulsarTimeoutError, QueueFullError
from magnetar.client.lookup import Lookup
from magnetar.client.outgoing import Outgoing
from magnetar.client.policy import ConnectionPolicy
from magnetar.client.pool import ConnectionPool
from magnetar.client.publication import ProducerSettings
from magnetar.client.session import MemoryLimit, Session
from magnetar.runtime.clock import SystemClock


def make_session(bytes_max: int) -> Session:
    clock, policy = SystemClock(), ConnectionPolicy()
    pool = ConnectionPool(
        parse_addresses("pulsar://localhost:1"),
        authentication=NoAuthentication(),
        policy=policy,
        tls=None,
    )
    lookup = Lookup(pool, clock=clock, policy=policy, timeout=1)
    return Session(pool, lookup, clock, policy, 1, memory=MemoryLimit(bytes_max))


class Desk:
    """An admission whose messages go nowhere until the test says so."""

    def __init__(self, *, room: int = 1, bytes_max: int = 1000, timeout: float = 0) -> None:
        self.session = make_session(bytes_max)
        self.out: list[Outgoing] = []
        settings = ProducerSettings(max_pending_messages=room, send_timeout=timeout)
        self.admission: Admission[Outgoing] = Admission(
            self.session,
            settings,
            name=lambda: "t",
            send=self.out.append,
            explain=lambda message: PulsarTimeoutError("late"),
        )

    def message(self, size: int = 1) -> Outgoing:
        return Outgoing(b"x" * size, asyncio.get_running_loop().create_future(), None, {}, size)

    async def send(self, message: Outgoing) -> None:
        if not self.admission.try_enter(message):
            await self.admission.enter(message)


def run(body: Callable[[], object]) -> None:
    async def wrapped() -> None:
        await body()  # type: ignore[misc]

    asyncio.run(wrapped())


def test_room_is_given_first_come_first_served_and_a_leaver_passes_it_on() -> None:
    async def body() -> None:
        desk = Desk(room=1)
        first, leaver, last = desk.message(), desk.message(), desk.message()
        await desk.send(first)
        async with asyncio.TaskGroup() as tasks:
            leaving = tasks.create_task(desk.send(leaver))
            staying = tasks.create_task(desk.send(last))
            await asyncio.sleep(0)
            assert not desk.admission.try_enter(desk.message())
            leaving.cancel()
            await asyncio.sleep(0)
            desk.admission.confirm([first], ["id"])
            await staying
        assert desk.out == [first, last]
        assert first.sent.result() == "id" and leaver.sent.cancelled()
        assert (desk.admission.sent, desk.admission.pending) == (1, 1)

    run(body)


def test_every_message_ends_once_and_gives_its_memory_back_once() -> None:
    async def body() -> None:
        desk = Desk(room=10)
        message, dropped = desk.message(100), desk.message(50)
        await desk.send(message)
        await desk.send(dropped)
        assert desk.session.memory.used == 150
        dropped.sent.cancel()
        desk.admission.confirm([message, dropped], [1, 2])
        desk.admission.confirm([message], [3])
        desk.admission.fail([message], AlreadyClosedError("x"))
        assert message.sent.result() == 1
        assert desk.session.memory.used == 0
        assert (desk.admission.sent, desk.admission.failed) == (2, 0)

    run(body)


def test_a_late_message_fails_and_a_receipt_that_comes_afterwards_changes_nothing() -> None:
    async def body() -> None:
        desk = Desk(room=2, timeout=0.01)
        message = desk.message()
        await desk.send(message)
        with pytest.raises(PulsarTimeoutError):
            await message.sent
        desk.admission.confirm([message], [1])
        assert (desk.admission.sent, desk.admission.failed) == (0, 1)
        assert desk.session.memory.used == 0

    run(body)


def test_closing_fails_what_is_out_and_what_waits() -> None:
    async def body() -> None:
        desk = Desk(room=1)
        out, waiting = desk.message(), desk.message()
        await desk.send(out)
        task = asyncio.ensure_future(desk.send(waiting))
        await asyncio.sleep(0)
        assert isinstance(desk.admission.full(desk.message()), QueueFullError)
        desk.admission.close(AlreadyClosedError("closed"))
        with pytest.raises(AlreadyClosedError):
            await task
        with pytest.raises(AlreadyClosedError):
            await out.sent
        assert desk.admission.pending == 0

    run(body)


def test_what_takes_the_place_of_a_message_ends_it_and_gives_its_room_back() -> None:
    async def body() -> None:
        desk = Desk(room=3, bytes_max=100)
        whole = desk.message(30)
        whole.count = 3
        await desk.admission.enter_all([whole])
        assert desk.out == [whole] and not desk.admission.try_enter(desk.message())
        parts = [desk.message(8) for _ in range(3)]
        desk.admission.exchange(whole, parts)
        assert desk.session.memory.used == 24 and desk.admission.pending == 3
        desk.admission.confirm(parts[:2], ["a", "b"])
        await asyncio.sleep(0)
        assert not whole.sent.done()
        desk.admission.confirm(parts[2:], ["c"])
        await asyncio.sleep(0)
        assert whole.sent.result() == "c"
        assert (desk.admission.sent, desk.session.memory.used) == (3, 0)
        desk.admission.exchange(whole, parts)
        assert desk.admission.pending == 0, "it has ended"
        assert desk.admission.try_enter(desk.message())

    run(body)


def test_a_message_fails_with_the_first_of_its_parts() -> None:
    async def body() -> None:
        desk = Desk(room=2)
        whole = desk.message(2)
        await desk.admission.enter_all([whole])
        parts = [desk.message(), desk.message()]
        desk.admission.exchange(whole, parts)
        desk.admission.fail(parts[1:], PulsarTimeoutError("late"))
        await asyncio.sleep(0)
        assert isinstance(whole.sent.exception(), PulsarTimeoutError)
        desk.admission.confirm(parts[:1], ["a"])
        assert isinstance(parts[1].sent.exception(), PulsarTimeoutError)

    run(body)


def test_several_enter_together_once_there_is_any_room() -> None:
    async def body() -> None:
        desk = Desk(room=2)
        first = desk.message()
        first.count = 2
        await desk.admission.enter_all([first])
        more = [desk.message(), desk.message(), desk.message()]
        async with asyncio.TaskGroup() as tasks:
            entering = tasks.create_task(desk.admission.enter_all(more))
            await asyncio.sleep(0)
            assert desk.out == [first] and not entering.done()
            desk.admission.confirm([first], ["id"])
        assert desk.out == [first, *more]

    run(body)


def test_what_waits_to_enter_together_is_refused_by_a_close() -> None:
    async def body() -> None:
        for room, bytes_max in ((1, 1000), (10, 1)):  # it waits for room, and for memory
            desk = Desk(room=room, bytes_max=bytes_max)
            first, late = desk.message(), desk.message()
            await desk.send(first)
            entering = asyncio.ensure_future(desk.admission.enter_all([late]))
            await asyncio.sleep(0)
            desk.admission.close(AlreadyClosedError("closed"))
            for each in (entering, first.sent):
                with pytest.raises(AlreadyClosedError):
                    await each
            assert desk.out == [first] and desk.session.memory.used == 0
            with pytest.raises(AlreadyClosedError):
                await desk.admission.enter_all([desk.message()])

    run(body)
