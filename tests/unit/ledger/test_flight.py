from __future__ import annotations

import asyncio
import math

import pytest

from magnetar.errors import BrokerError, StorageFailed
from magnetar.ledger.flight import Flight, FlightState, OpenLedger, PlainRun, measure_room
from magnetar.ledger.info import LogPolicy
from magnetar.ledger.sequence import LedgerSequence
from magnetar.model.position import Position, Term
from magnetar.testing.memory_ledger import MemoryLedgerStore
from tests.unit.ledger.log_place import Answers

LIMITS = LogPolicy(entries_max=10, bytes_max=100, roll_min_ms=1000)


async def open_ledger(created_ms: int = 0) -> OpenLedger:
    writer = await MemoryLedgerStore().create(term=Term(1), properties={})
    return OpenLedger(writer, LedgerSequence().add(writer.id), created_ms)


def run_of(answers: Answers, label: str, *entries: bytes) -> PlainRun:
    return PlainRun(entries, [1] * len(entries), answers.expect(label))


def test_a_flight_takes_runs_until_it_is_full() -> None:
    answers = Answers()
    by_entries, by_bytes = Flight(3, math.inf), Flight(math.inf, 4)
    by_entries.add(run_of(answers, "two", b"a", b"b"))
    by_bytes.add(run_of(answers, "three bytes", b"abc"))
    assert by_entries.state is by_bytes.state is FlightState.OPEN
    by_entries.add(run_of(answers, "goes beyond", b"c", b"d"))
    by_bytes.add(run_of(answers, "one more", b"d"))
    assert by_entries.state is by_bytes.state is FlightState.FULL
    assert by_entries.is_waiting and not by_entries.is_over
    with pytest.raises(AssertionError):
        by_entries.add(run_of(answers, "late", b"e"))


def test_a_flight_that_was_sent_takes_nothing_and_answers_each_run_where_it_stands() -> None:
    async def body() -> None:
        ledger, answers = await open_ledger(), Answers()
        settled: list[BrokerError | None] = []
        flight = Flight(math.inf, math.inf)
        flight.add(run_of(answers, "one", b"a", b"bc"))
        flight.add(run_of(answers, "two", b"d"))
        flight.send(ledger, settled.append)
        assert flight.state is FlightState.SENT
        assert (ledger.entries_sent, ledger.bytes_sent, ledger.part.entries) == (3, 4, 0)
        with pytest.raises(AssertionError):
            flight.add(run_of(answers, "late", b"e"))
        while not settled:
            await asyncio.sleep(0)
        flight.land()
        flight.answer()
        ledger_id = ledger.part.ledger_id
        assert answers.positions == [Position(ledger_id, 0), Position(ledger_id, 2)]
        assert (ledger.part.entries, ledger.part.size) == (3, 4)

    asyncio.run(body())


def test_what_sealing_has_told_is_not_counted_again() -> None:
    async def body() -> None:
        ledger = await open_ledger()
        flight = Flight(math.inf, math.inf)
        flight.add(run_of(Answers(), "one", b"ab"))
        flight.send(ledger, lambda error: None)
        ledger.part.entries, ledger.part.size, ledger.part.sealed_ms = 1, 2, 5
        flight.land()
        assert (ledger.part.entries, ledger.part.size) == (1, 2)

    asyncio.run(body())


def test_a_sender_that_fails_does_not_keep_the_others_from_their_answer() -> None:
    def fail(first: Position | None, error: BrokerError | None) -> None:
        raise RuntimeError("a bug")

    answers = Answers()
    flight = Flight(math.inf, math.inf)
    flight.add(run_of(answers, "one", b"a"))
    flight.add(PlainRun([b"b"], [1], fail))
    flight.add(run_of(answers, "three", b"c"))
    flight.refuse(StorageFailed("no disk"))
    assert flight.is_over
    flight.answer()
    assert (answers.labels, answers.errors) == (["one", "three"], [StorageFailed] * 2)


def test_a_ledger_has_room_up_to_the_limits_once_it_is_old_enough() -> None:
    async def body() -> None:
        ledger = await open_ledger(created_ms=5000)
        ledger.entries_sent, ledger.bytes_sent = 4, 30
        assert measure_room(ledger, LIMITS, now_ms=5999) == (math.inf, math.inf)
        assert measure_room(ledger, LIMITS, now_ms=6000) == (6, 70)
        assert measure_room(None, LIMITS, now_ms=6000) == (math.inf, math.inf)
        at_once = LogPolicy(entries_max=10, bytes_max=100, roll_min_ms=0)
        assert measure_room(None, at_once, now_ms=6000) == (10, 100)

    asyncio.run(body())
