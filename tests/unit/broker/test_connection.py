"""What a connection does beside its handlers: attachments, reasons to hold it, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from magnetar.broker.attachment import Link
from magnetar.broker.connection import Connection
from magnetar.model.limit import Limits
from magnetar.model.permission import Need, Target
from tests.unit.broker.broker_place import Peer, Place, run


class Notes:
    """An attachment that counts its calls."""

    def __init__(self, link: Link, limits: Limits) -> None:
        self.link, self.limits = link, limits
        self.calls: list[str] = []

    def needs(self) -> Iterable[tuple[Need, Target]]:
        return ()

    def on_writable(self) -> None:
        self.calls.append("writable")

    def close(self) -> None:
        self.calls.append("closed")


def connect(place: Place) -> tuple[Connection, Peer]:
    peer = Peer(place.service)
    return peer._connection, peer


def test_an_attachment_is_made_once_and_ends_with_its_connection() -> None:
    async def body(place: Place) -> None:
        connection, peer = connect(place)
        notes = connection.attached(Notes)
        assert notes.link is connection and notes.limits is place.service.limits
        assert connection.attached(Notes) is notes and connection.attachments == [notes]
        connection.pause_writing()
        connection.resume_writing()
        peer.leave()
        assert notes.calls == ["writable", "closed"]
        assert connection not in place.service.connections

    run(body)


def test_a_connection_is_read_again_when_every_reason_to_hold_it_is_gone() -> None:
    async def body(place: Place) -> None:
        connection, peer = connect(place)
        assert connection.pause("one") and connection.pause("two")
        assert not connection.pause("one"), "it holds already"
        connection.resume("one")
        connection.resume("unknown")
        assert peer._wire.is_held
        connection.resume("two")
        assert not peer._wire.is_held

    run(body)


def test_a_large_answer_waits_for_the_peer_to_read_or_to_leave() -> None:
    async def body(place: Place) -> None:
        connection, peer = connect(place)
        made: list[int] = []

        async def answer(number: int) -> None:
            async with connection.answering():
                made.append(number)

        connection.pause_writing()
        waiting = [asyncio.ensure_future(answer(number)) for number in (1, 2)]
        await asyncio.sleep(0)
        assert not made
        connection.resume_writing()
        await asyncio.gather(*waiting)
        assert made == [1, 2]
        connection.pause_writing()
        last = asyncio.ensure_future(answer(3))
        await asyncio.sleep(0)
        peer.leave()
        await last
        assert made == [1, 2, 3], "which goes nowhere"

    run(body)
