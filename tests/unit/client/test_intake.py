"""Entries keep their order although some need something first."""

from __future__ import annotations

import asyncio

from magnetar.client.delivery import Intake
from magnetar.client.schema.book import Unprepared
from magnetar.runtime.task import TaskScope
from magnetar.wire.command import CommandMessage


class Desk:
    """Accepts entries whose first byte it knows."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.accepted: list[bytes] = []
        self.asked: list[int] = []
        self.gate = asyncio.Event()

    def accept(self, command: CommandMessage, entry: bytes) -> None:
        if entry[0] not in self.known:
            raise Unprepared(lambda: self.learn(entry[0]))
        self.accepted.append(entry)

    async def learn(self, what: int) -> None:
        self.asked.append(what)
        await self.gate.wait()
        self.known.add(what)


def test_entries_behind_one_that_is_not_ready_wait_for_it() -> None:
    async def body() -> None:
        async with TaskScope("test") as scope:
            desk = Desk()
            desk.known.add(ord("b"))
            intake = Intake(scope, "t", desk.accept)
            entries = [b"b0", b"a1", b"b2", b"c3", b"a4"]
            for entry in entries:
                intake.put(CommandMessage(), entry)
            assert desk.accepted == [b"b0"]
            desk.gate.set()
            async with asyncio.timeout(10):
                while len(desk.accepted) < len(entries):
                    await asyncio.sleep(0)
            assert desk.accepted == entries and desk.asked == [ord("a"), ord("c")]
            intake.put(CommandMessage(), b"a5")
            assert desk.accepted[-1] == b"a5"

    asyncio.run(body())


def test_starting_over_drops_what_waits() -> None:
    async def body() -> None:
        async with TaskScope("test") as scope:
            desk = Desk()
            intake = Intake(scope, "t", desk.accept)
            intake.put(CommandMessage(), b"a1")
            await asyncio.sleep(0)
            assert [entry for _, entry in intake.clear()] == [b"a1"]
            intake.put(CommandMessage(), b"a2")
            desk.gate.set()
            async with asyncio.timeout(10):
                while not desk.accepted:
                    await asyncio.sleep(0)
            for _ in range(5):
                await asyncio.sleep(0)
            assert desk.accepted == [b"a2"]

    asyncio.run(body())
