"""The log of a topic and its cursors, over every ledger store that brokers keep messages in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from magnetar.errors import BrokerError, TopicFenced, TopicTerminated
from magnetar.ledger.flight import PlainRun
from magnetar.model.position import EARLIEST, LedgerId
from tests.contract.ledger_place import ON_BOOKIES, Opening, opening_of
from tests.unit.ledger.log_place import Answers, Place, append, fill, read_all, until


@pytest.fixture(params=["memory", "file", ON_BOOKIES])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    return opening_of(request.param, tmp_path)


def run(opening: Opening, body: Callable[[Place], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with opening() as store:
            await body(Place(inner=store))

    asyncio.run(inside())


def test_runs_are_answered_in_order_over_several_ledgers_and_span_none(opening: Opening) -> None:
    async def body(place: Place) -> None:
        log = await place.open()
        answers, sent = Answers(), []
        for number in range(20):
            entries = [f"{number}.{index}".encode() for index in range(number % 4 + 1)]
            sent += entries
            log.flights.append(PlainRun(entries, [1] * len(entries), answers.expect(str(number))))
        await until(lambda: len(answers.all) == 20)
        assert answers.labels == [str(number) for number in range(20)]
        assert answers.errors == [] and answers.positions == sorted(answers.positions)
        assert len(log.sequence.describe()) > 3
        assert await read_all(log) == sent
        await log.close()

    run(opening, body)


def test_the_next_owner_finds_what_was_answered_and_acknowledged(opening: Opening) -> None:
    """After a close in order and after none; the former owner gets nothing more in."""

    async def body(place: Place) -> None:
        written: list[bytes] = []
        for turn in range(4):
            log = await place.open()
            assert await read_all(log) == written
            assert len(log.cursors) == min(turn, 1)
            cursor = await log.cursors.open("s", start=EARLIEST)
            for number in range(7):
                written.append(f"{turn}.{number}".encode())
                last = await append(log, written[-1])
            cursor.acknowledge_through(last)
            await cursor.flush()
            if turn % 2:
                await log.close()
        former, log = await place.open(), await place.open()
        assert log.cursors["s"].mark_delete == last and log.cursors["s"].backlog == 0
        with pytest.raises(BrokerError):
            await append(former, b"late")
        with pytest.raises(TopicFenced):
            await append(former, b"later")
        written.append(b"next")
        await append(log, written[-1])
        assert await read_all(log) == written
        await log.close()

    run(opening, body)


def test_a_terminated_log_stays_so_for_the_next_owner(opening: Opening) -> None:
    async def body(place: Place) -> None:
        log = await place.open()
        places = await fill(log, 3)
        assert await log.terminate() == places[-1]
        await log.close()
        log = await place.open()
        assert log.record.terminated == places[-1]
        with pytest.raises(TopicTerminated):
            await append(log, b"x")
        await log.close()

    run(opening, body)


def test_what_every_cursor_has_passed_is_deleted_and_a_deleted_log_leaves_nothing(
    opening: Opening,
) -> None:
    async def body(place: Place) -> None:
        log = await place.open()
        cursor = await log.cursors.open("s", start=EARLIEST)
        places = await fill(log, 25)
        made = {LedgerId(each.ledger_id) for each in places}
        cursor.acknowledge_through(places[19])
        place.clock.ms += 1
        await log.trim()
        assert await read_all(log) == [b"20", b"21", b"22", b"23", b"24"]
        assert made & set(await place.ledgers()) == {LedgerId(places[-1].ledger_id)}
        await log.delete()
        assert not made & set(await place.ledgers())
        with pytest.raises(TopicFenced):
            await append(log, b"x")

    run(opening, body)
