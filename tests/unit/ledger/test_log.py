from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from magnetar.errors import Conflict, SubscriptionNotFound, TopicFenced, TopicTerminated
from magnetar.ledger.flight import PlainRun
from magnetar.ledger.info import LogPolicy
from magnetar.ledger.store import Replication
from magnetar.model.position import EARLIEST, LATEST, Position
from tests.unit.ledger.log_place import BYTES, Answers, Place, append, fill, read_all, until


def test_a_new_log_is_recorded_and_has_no_ledger() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        assert place.shelf.log is not None
        assert await place.ledgers() == ()
        assert log.sequence.last_position == EARLIEST
        assert not log.reader.is_readable(EARLIEST)
        assert await log.reader.read(EARLIEST, 10, BYTES) is None
        assert (log.sequence.total_entries, log.sequence.total_bytes, log.record.state.value) == (
            0,
            0,
            "LedgerOpened",
        )
        await log.close()

    asyncio.run(body())


def test_entries_stand_where_the_answer_said_and_runs_never_span_ledgers() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        answers = Answers()
        expected = {}
        for number in range(20):
            run = [f"{number}.{index}".encode() for index in range(number % 4 + 1)]
            log.flights.append(PlainRun(run, [1] * len(run), answers.expect(str(number))))
        await until(lambda: len(answers.all) == 20)
        assert answers.labels == [str(number) for number in range(20)]
        assert answers.errors == []
        for number, first in enumerate(answers.positions):
            for index in range(number % 4 + 1):
                position = Position(first.ledger_id, first.entry_id + index)
                expected[position] = f"{number}.{index}".encode()
        assert len(expected) == log.sequence.total_entries
        for position, data in expected.items():
            run = await log.reader.read(position, 1, BYTES)
            assert run is not None and run.data == [data]
        assert len(log.sequence.describe()) > 3
        assert await read_all(log) == [expected[position] for position in sorted(expected)]
        await log.close()

    asyncio.run(body())


def test_runs_that_wait_for_the_same_commit_share_a_flight() -> None:
    async def body() -> None:
        place = Place(policy=LogPolicy())
        log = await place.open()
        await append(log, b"first")
        sent = place.store.appends
        answers = Answers()
        log.flights.append(PlainRun([b"a", b"b"], [1, 1], answers.expect("one")))
        log.flights.append(PlainRun([b"c"], [1], answers.expect("two")))
        assert (log.flights.runs, log.flights.waiting_bytes) == (2, 3)
        assert place.store.appends == sent
        await until(lambda: len(answers.all) == 2)
        assert place.store.appends == sent + 1
        assert [each.entry_id for each in answers.positions] == [1, 3]
        log.flights.append(PlainRun([b"d"], [1], answers.expect("three")))
        await until(lambda: len(answers.all) == 3)
        assert place.store.appends == sent + 2
        assert answers.labels == ["one", "two", "three"]
        assert await read_all(log) == [b"first", b"a", b"b", b"c", b"d"]
        assert (log.sequence.total_bytes, log.flights.runs, log.flights.waiting_bytes) == (9, 0, 0)
        await log.close()

    asyncio.run(body())


def test_the_policy_says_how_the_next_ledger_of_log_and_cursors_is_replicated() -> None:
    async def body() -> None:
        place = Place(policy=LogPolicy(replication=Replication(3, 2, 2)))
        log = await place.open()
        first = await append(log, b"first")
        log.policy = LogPolicy(replication=Replication(5, 3, 2))
        cursor = await log.cursors.open("s", start=EARLIEST, properties={}, cursor_properties={})
        cursor.acknowledge_through(first)
        await until(lambda: len(place.store.replications) == 2)
        log.change_ledger()
        await until(lambda: len(place.store.replications) == 3)
        wanted = [Replication(3, 2, 2), Replication(5, 3, 2), Replication(5, 3, 2)]
        assert place.store.replications == wanted
        await log.close()

    asyncio.run(body())


def test_what_is_not_stored_is_answered_in_its_turn() -> None:
    async def body() -> None:
        place = Place(policy=LogPolicy())
        log = await place.open()
        await append(log, b"first")
        place.store.hold_answers()
        answers = Answers()
        log.flights.append(PlainRun([b"a"], [1], answers.expect("a")))
        log.flights.follow(PlainRun([], [], answers.expect("nothing")))
        log.flights.append(PlainRun([b"b"], [1], answers.expect("b")))
        await until(lambda: log.flights.waiting_bytes == 0)
        log.flights.follow(PlainRun([], [], answers.expect("nothing, after it was sent")))
        assert answers.all == []
        place.store.release_answers()
        await until(lambda: len(answers.all) == 4)
        assert answers.labels == ["a", "nothing", "b", "nothing, after it was sent"]
        assert await read_all(log) == [b"first", b"a", b"b"]
        await log.close()

    asyncio.run(body())


def test_runs_wait_in_order_while_a_ledger_is_made() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        answers = Answers()
        place.store.hold_creates()
        for number in range(35):
            log.flights.append(PlainRun([b"x"], [1], answers.expect(str(number))))
        for _ in range(20):
            await asyncio.sleep(0)
        assert answers.all == []
        assert log.flights.runs == 35
        place.store.release_creates()
        await until(lambda: len(answers.all) == 35)
        assert answers.labels == [str(number) for number in range(35)]
        assert answers.positions == sorted(answers.positions)
        assert [part.entries for part in log.sequence.describe() if part.entries] == [10, 10, 10, 5]
        await log.close()

    asyncio.run(body())


def test_listeners_hear_once_for_many_runs() -> None:
    async def body() -> None:
        log = await Place(policy=LogPolicy()).open()
        await append(log, b"first")
        await asyncio.sleep(0)
        calls = []
        log.appended.append(lambda: calls.append(log.sequence.total_entries))
        answers = Answers()
        for _ in range(50):
            log.flights.append(PlainRun([b"x", b"y"], [1, 1], answers.expect("")))
        await until(lambda: len(answers.all) == 50)
        await asyncio.sleep(0)
        assert calls == [101]
        await log.close()

    asyncio.run(body())


def test_positions_step_across_ledgers() -> None:
    async def body() -> None:
        log = await Place().open()
        places = await fill(log, 25)
        assert places == sorted(places)
        assert log.sequence.first_position == places[0]
        assert log.sequence.last_position == places[-1]
        for earlier, later in pairwise(places):
            assert log.sequence.next_position(earlier) == later
            assert log.sequence.previous_position(later) == earlier
        end = log.sequence.next_position(places[-1])
        assert end == Position(places[-1].ledger_id, places[-1].entry_id + 1)
        assert log.sequence.previous_position(end) == places[-1]
        assert log.sequence.previous_position(places[0]) == Position(places[0].ledger_id, -1)
        for first in range(26):
            position = places[first] if first < 25 else end
            assert log.sequence.entries_between(position, end) == 25 - first
            for skipped in range(27):
                target = min(first + skipped, 25)
                expected = places[target] if target < 25 else end
                assert log.sequence.position_after(position, skipped) == expected
        assert log.sequence.entries_between(end, places[0]) == 0
        assert log.sequence.bytes_between(places[0], end) == log.sequence.total_bytes == 10 + 2 * 15
        assert log.sequence.bytes_between(places[5], places[15]) == 5 + 2 * 5
        assert log.sequence.ceiling(places[12]) == places[12]
        assert log.sequence.ceiling(end) is None
        await log.close()

    asyncio.run(body())


@pytest.mark.parametrize("wanted", [0, 1, 9, 10, 17, 24, 25])
def test_the_first_entry_that_satisfies_is_found(wanted: int) -> None:
    async def body() -> None:
        log = await Place().open()
        places = await fill(log, 25)
        found = await log.reader.find_first(lambda entry: int(entry) >= wanted)
        assert found == (places[wanted] if wanted < 25 else None)
        await log.close()

    asyncio.run(body())


def test_a_terminated_log_refuses_appends_for_ever() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        answers = Answers()
        for number in range(3):
            log.flights.append(PlainRun([b"x"], [1], answers.expect(f"before {number}")))
        await until(lambda: len(answers.all) == 3)
        log.flights.append(PlainRun([b"x"], [1], answers.expect("under way")))
        terminating = asyncio.ensure_future(log.terminate())
        await asyncio.sleep(0)
        log.flights.append(PlainRun([b"x"], [1], answers.expect("too late")))
        last = await terminating
        await until(lambda: len(answers.all) == 5)
        assert answers.labels[-2:] == ["under way", "too late"]
        assert answers.errors == [TopicTerminated]
        assert last == answers.positions[-1] == log.record.terminated == await log.terminate()
        await log.close()

        again = await place.open()
        assert (again.record.terminated, again.record.state.value) == (last, "Terminated")
        with pytest.raises(TopicTerminated):
            await append(again, b"x")
        await again.trim()
        assert again.sequence.last_position == last
        await again.close()

    asyncio.run(body())


def test_a_closed_log_answers_what_is_under_way_and_refuses_the_rest() -> None:
    async def body() -> None:
        log = await Place().open()
        answers = Answers()
        log.flights.append(PlainRun([b"x"], [1], answers.expect("waits for its ledger")))
        await until(lambda: len(answers.all) == 1)
        log.flights.append(PlainRun([b"x"], [1], answers.expect("under way")))
        await log.close()
        assert answers.labels == ["waits for its ledger", "under way"]
        assert answers.errors == []
        with pytest.raises(TopicFenced):
            await append(log, b"x")
        with pytest.raises(TopicFenced):
            await log.reader.read(EARLIEST, 1, BYTES)
        with pytest.raises(TopicFenced):
            await log.cursors.open("s")
        assert log.record.state.value == "Closed"

    asyncio.run(body())


def test_a_reopened_log_has_everything_that_was_answered() -> None:
    async def body() -> None:
        place = Place()
        written = []
        for round_number in range(4):
            log = await place.open()
            assert await read_all(log) == written
            for number in range(7):
                written.append(f"{round_number}.{number}".encode())
                await append(log, written[-1])
            if round_number % 2:
                await log.close()
        log = await place.open()
        assert await read_all(log) == written
        assert log.sequence.total_entries == 28
        assert log.sequence.total_bytes == sum(map(len, written))
        await log.close()

    asyncio.run(body())


def test_properties_are_kept() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        await log.record.set_properties({"a": "1"})
        log = await place.open()
        assert log.record.properties == {"a": "1"}
        await append(log, b"x")
        await log.close()
        assert (await place.open()).record.properties == {"a": "1"}

    asyncio.run(body())


def test_deleting_leaves_nothing() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        cursor = await log.cursors.open("s", start=EARLIEST)
        log.cursors.open_transient("r", LATEST)
        await fill(log, 25)
        cursor.acknowledge_through(log.sequence.last_position)
        await cursor.flush()
        assert len(await place.ledgers()) == 4
        await log.delete()
        assert await place.ledgers() == ()
        assert (place.shelf.log, place.shelf.cursors, log.cursors) == (None, {}, {})
        with pytest.raises(TopicFenced):
            await append(log, b"x")

    asyncio.run(body())


def test_cursors_are_opened_once_and_names_do_not_clash() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        first, second = await asyncio.gather(log.cursors.open("s"), log.cursors.open("s"))
        assert first is second
        reader = log.cursors.open_transient("r", EARLIEST)
        assert not reader.durable
        with pytest.raises(Conflict):
            await log.cursors.open("r")
        with pytest.raises(Conflict):
            log.cursors.open_transient("s", EARLIEST)
        await reader.close()
        assert list(log.cursors) == ["s"]
        await log.cursors.delete("s")
        assert (log.cursors, place.shelf.cursors) == ({}, {})
        with pytest.raises(SubscriptionNotFound):
            await log.cursors.delete("s")
        await log.close()

    asyncio.run(body())


def test_a_ledger_rolls_by_age_but_not_before_its_least_age() -> None:
    async def body() -> None:
        place = Place(policy=LogPolicy(entries_max=2, roll_min_ms=1000, roll_max_ms=5000))
        log = await place.open()
        await fill(log, 4)
        assert [part.entries for part in log.sequence.describe()] == [4]
        place.clock.ms += 1000
        await log.roll_if_due()
        assert [part.created_ms for part in log.sequence.describe()] == [place.clock.ms]
        await append(log, b"x")
        place.clock.ms += 4999
        await log.roll_if_due()
        assert [part.created_ms > 0 for part in log.sequence.describe()] == [True, False]
        place.clock.ms += 1
        await log.roll_if_due()
        assert [part.created_ms > 0 for part in log.sequence.describe()] == [True, True]
        await log.roll()
        assert len(log.sequence.describe()) == 2
        await log.close()

    asyncio.run(body())
