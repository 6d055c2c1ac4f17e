from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from magnetar.errors import Conflict, SubscriptionNotFound, TopicFenced, TopicTerminated
from magnetar.ledger.chain import ChainPolicy
from magnetar.model.position import EARLIEST, LATEST, Position
from tests.unit.ledger.chain_place import BYTES, Answers, Place, append, fill, read_all, until


def test_a_new_chain_is_recorded_and_has_no_ledger() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        assert place.shelf.chain is not None
        assert await place.ledgers() == ()
        assert chain.last_position == EARLIEST
        assert not chain.is_readable(EARLIEST)
        assert await chain.read(EARLIEST, 10, BYTES) is None
        assert (chain.total_entries, chain.total_bytes, chain.state) == (0, 0, "LedgerOpened")
        await chain.close()

    asyncio.run(body())


def test_entries_stand_where_the_answer_said_and_runs_never_span_ledgers() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        answers = Answers()
        expected = {}
        for number in range(20):
            run = [f"{number}.{index}".encode() for index in range(number % 4 + 1)]
            chain.append(run, [1] * len(run), answers.expect(str(number)))
        await until(lambda: len(answers.all) == 20)
        assert answers.labels == [str(number) for number in range(20)]
        assert answers.errors == []
        for number, first in enumerate(answers.positions):
            for index in range(number % 4 + 1):
                position = Position(first.ledger_id, first.entry_id + index)
                expected[position] = f"{number}.{index}".encode()
        assert len(expected) == chain.total_entries
        for position, data in expected.items():
            run = await chain.read(position, 1, BYTES)
            assert run is not None and run.data == [data]
        assert len(chain.ledgers) > 3
        assert await read_all(chain) == [expected[position] for position in sorted(expected)]
        await chain.close()

    asyncio.run(body())


def test_a_run_grows_while_it_waits_and_nothing_else_came() -> None:
    async def body() -> None:
        chain = await Place(policy=ChainPolicy()).open()
        await append(chain, b"first")
        answers = Answers()
        one, two, counts = [b"a"], [b"d"], [1]
        assert not chain.extend(one, [b"x"], 1)
        chain.append(one, counts, answers.expect("one"), 1)
        assert chain.extend(one, [b"b", b"c"], 2)
        one += [b"b", b"c"]
        counts += [1, 1]
        chain.append(two, [1], answers.expect("two"))
        assert not chain.extend(one, [b"x"], 1)
        await until(lambda: len(answers.all) == 2)
        assert not chain.extend(two, [b"x"], 1)
        assert [each.entry_id for each in answers.positions] == [1, 4]
        assert await read_all(chain) == [b"first", b"a", b"b", b"c", b"d"]
        assert chain.total_bytes == 9
        await chain.close()
        assert not chain.extend(two, [b"x"], 1)

    asyncio.run(body())


def test_runs_wait_in_order_while_a_ledger_is_made() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        answers = Answers()
        place.store.hold_creates()
        for number in range(35):
            chain.append([b"x"], [1], answers.expect(str(number)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert answers.all == []
        assert chain.pending_appends == 35
        place.store.release_creates()
        await until(lambda: len(answers.all) == 35)
        assert answers.labels == [str(number) for number in range(35)]
        assert answers.positions == sorted(answers.positions)
        assert [part.entries for part in chain.ledgers if part.entries] == [10, 10, 10, 5]
        await chain.close()

    asyncio.run(body())


def test_listeners_hear_once_for_many_runs() -> None:
    async def body() -> None:
        chain = await Place(policy=ChainPolicy()).open()
        await append(chain, b"first")
        await asyncio.sleep(0)
        calls = []
        chain.appended.append(lambda: calls.append(chain.total_entries))
        answers = Answers()
        for _ in range(50):
            chain.append([b"x", b"y"], [1, 1], answers.expect(""))
        await until(lambda: len(answers.all) == 50)
        await asyncio.sleep(0)
        assert calls == [101]
        await chain.close()

    asyncio.run(body())


def test_positions_step_across_ledgers() -> None:
    async def body() -> None:
        chain = await Place().open()
        places = await fill(chain, 25)
        assert places == sorted(places)
        assert chain.first_position == places[0]
        assert chain.last_position == places[-1]
        for earlier, later in pairwise(places):
            assert chain.next_position(earlier) == later
            assert chain.previous_position(later) == earlier
        end = chain.next_position(places[-1])
        assert end == Position(places[-1].ledger_id, places[-1].entry_id + 1)
        assert chain.previous_position(end) == places[-1]
        assert chain.previous_position(places[0]) == Position(places[0].ledger_id, -1)
        for first in range(26):
            position = places[first] if first < 25 else end
            assert chain.entries_between(position, end) == 25 - first
            for skipped in range(27):
                target = min(first + skipped, 25)
                expected = places[target] if target < 25 else end
                assert chain.position_after(position, skipped) == expected
        assert chain.entries_between(end, places[0]) == 0
        assert chain.bytes_between(places[0], end) == chain.total_bytes == 10 + 2 * 15
        assert chain.bytes_between(places[5], places[15]) == 5 + 2 * 5
        assert chain.has_entry(places[12])
        assert not chain.has_entry(end)
        await chain.close()

    asyncio.run(body())


@pytest.mark.parametrize("wanted", [0, 1, 9, 10, 17, 24, 25])
def test_the_first_entry_that_satisfies_is_found(wanted: int) -> None:
    async def body() -> None:
        chain = await Place().open()
        places = await fill(chain, 25)
        found = await chain.find_first(lambda entry: int(entry) >= wanted)
        assert found == (places[wanted] if wanted < 25 else None)
        await chain.close()

    asyncio.run(body())


def test_a_terminated_chain_refuses_appends_for_ever() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        answers = Answers()
        for number in range(3):
            chain.append([b"x"], [1], answers.expect(f"before {number}"))
        await until(lambda: len(answers.all) == 3)
        chain.append([b"x"], [1], answers.expect("under way"))
        terminating = asyncio.ensure_future(chain.terminate())
        await asyncio.sleep(0)
        chain.append([b"x"], [1], answers.expect("too late"))
        last = await terminating
        await until(lambda: len(answers.all) == 5)
        assert answers.labels[-2:] == ["under way", "too late"]
        assert answers.errors == [TopicTerminated]
        assert last == answers.positions[-1] == chain.terminated == await chain.terminate()
        await chain.close()

        again = await place.open()
        assert (again.terminated, again.state) == (last, "Terminated")
        with pytest.raises(TopicTerminated):
            await append(again, b"x")
        await again.trim()
        assert again.last_position == last
        await again.close()

    asyncio.run(body())


def test_a_closed_chain_answers_what_is_under_way_and_refuses_the_rest() -> None:
    async def body() -> None:
        chain = await Place().open()
        answers = Answers()
        chain.append([b"x"], [1], answers.expect("waits for its ledger"))
        await until(lambda: len(answers.all) == 1)
        chain.append([b"x"], [1], answers.expect("under way"))
        await chain.close()
        assert answers.labels == ["waits for its ledger", "under way"]
        assert answers.errors == []
        with pytest.raises(TopicFenced):
            await append(chain, b"x")
        with pytest.raises(TopicFenced):
            await chain.read(EARLIEST, 1, BYTES)
        with pytest.raises(TopicFenced):
            await chain.open_cursor("s")
        assert chain.state == "Closed"

    asyncio.run(body())


def test_a_reopened_chain_has_everything_that_was_answered() -> None:
    async def body() -> None:
        place = Place()
        written = []
        for round_number in range(4):
            chain = await place.open()
            assert await read_all(chain) == written
            for number in range(7):
                written.append(f"{round_number}.{number}".encode())
                await append(chain, written[-1])
            if round_number % 2:
                await chain.close()
        chain = await place.open()
        assert await read_all(chain) == written
        assert chain.total_entries == 28
        assert chain.total_bytes == sum(map(len, written))
        await chain.close()

    asyncio.run(body())


def test_properties_are_kept() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        await chain.set_properties({"a": "1"})
        chain = await place.open()
        assert chain.properties == {"a": "1"}
        await append(chain, b"x")
        await chain.close()
        assert (await place.open()).properties == {"a": "1"}

    asyncio.run(body())


def test_deleting_leaves_nothing() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        cursor = await chain.open_cursor("s", start=EARLIEST)
        chain.transient_cursor("r", LATEST)
        await fill(chain, 25)
        cursor.acknowledge_through(chain.last_position)
        await cursor.flush()
        assert len(await place.ledgers()) == 4
        await chain.delete()
        assert await place.ledgers() == ()
        assert (place.shelf.chain, place.shelf.cursors, chain.cursors) == (None, {}, {})
        with pytest.raises(TopicFenced):
            await append(chain, b"x")

    asyncio.run(body())


def test_cursors_are_opened_once_and_names_do_not_clash() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        first, second = await asyncio.gather(chain.open_cursor("s"), chain.open_cursor("s"))
        assert first is second
        reader = chain.transient_cursor("r", EARLIEST)
        assert not reader.durable
        with pytest.raises(Conflict):
            await chain.open_cursor("r")
        with pytest.raises(Conflict):
            chain.transient_cursor("s", EARLIEST)
        await reader.close()
        assert list(chain.cursors) == ["s"]
        await chain.delete_cursor("s")
        assert (chain.cursors, place.shelf.cursors) == ({}, {})
        with pytest.raises(SubscriptionNotFound):
            await chain.delete_cursor("s")
        await chain.close()

    asyncio.run(body())


def test_a_ledger_rolls_by_age_but_not_before_its_least_age() -> None:
    async def body() -> None:
        place = Place(policy=ChainPolicy(entries_max=2, roll_min_ms=1000, roll_max_ms=5000))
        chain = await place.open()
        await fill(chain, 4)
        assert [part.entries for part in chain.ledgers] == [4]
        place.clock.ms += 1000
        await chain.roll_if_due()
        assert [part.created_ms for part in chain.ledgers] == [place.clock.ms]
        await append(chain, b"x")
        place.clock.ms += 4999
        await chain.roll_if_due()
        assert [part.created_ms > 0 for part in chain.ledgers] == [True, False]
        place.clock.ms += 1
        await chain.roll_if_due()
        assert [part.created_ms > 0 for part in chain.ledgers] == [True, True]
        await chain.roll()
        assert len(chain.ledgers) == 2
        await chain.close()

    asyncio.run(body())
