from __future__ import annotations

import asyncio

import pytest

from magnetar.errors import LedgerFenced, StorageFailed, StorageFull, StoreUnavailable, TopicFenced
from magnetar.ledger.flight import PlainRun
from magnetar.ledger.info import LogPolicy
from magnetar.model.position import Term
from tests.unit.ledger.log_place import Answers, Place, append, fill, read_all, until


def test_after_a_failed_append_the_log_goes_on_in_a_fresh_ledger() -> None:
    async def body() -> None:
        place = Place(policy=LogPolicy())
        log = await place.open()
        await append(log, b"kept")
        answers = Answers()
        place.store.hold_answers()
        log.flights.append(PlainRun([b"a"], [1], answers.expect("a")))
        await until(lambda: log.flights.waiting_bytes == 0)
        place.store.fail_next(StorageFailed("no disk"))
        log.flights.append(PlainRun([b"b"], [1], answers.expect("b")))
        log.flights.append(PlainRun([b"c"], [1], answers.expect("c")))
        await until(lambda: log.flights.waiting_bytes == 0)
        log.flights.append(PlainRun([b"behind"], [1], answers.expect("d")))
        assert answers.all == []
        place.store.release_answers()
        await until(lambda: len(answers.all) == 4)
        assert answers.labels == ["a", "b", "c", "d"]
        assert answers.errors == [StorageFailed, StorageFailed, StorageFailed]
        last = await append(log, b"d")
        assert last.ledger_id > answers.positions[0].ledger_id
        assert await read_all(log) == [b"kept", b"a", b"d"]
        await log.close()
        assert await read_all(await place.open()) == [b"kept", b"a", b"d"]

    asyncio.run(body())


def test_a_refused_run_takes_the_queued_ones_behind_it_along() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        await fill(log, 9)
        answers = Answers()
        place.store.hold_creates()
        place.store.fail_next(StorageFull("full"))
        log.flights.append(PlainRun([b"tenth fills the ledger"], [1], answers.expect("failing")))
        log.flights.append(PlainRun([b"waits for the next ledger"], [1], answers.expect("queued")))
        await until(lambda: len(answers.all) == 2)
        assert answers.labels == ["failing", "queued"]
        assert answers.errors == [StorageFull, StorageFull]
        place.store.release_creates()
        await append(log, b"later")
        assert (await read_all(log))[-2:] == [b"8", b"later"]
        await log.close()

    asyncio.run(body())


def test_when_no_ledger_can_be_made_runs_are_refused_until_one_can() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        place.store.fail_next_create(StorageFull("full"))
        with pytest.raises(StorageFull):
            await append(log, b"x")
        await append(log, b"y")
        assert await read_all(log) == [b"y"]
        await log.close()

    asyncio.run(body())


def test_a_new_owner_fences_the_old_one_which_never_answers_again() -> None:
    async def body() -> None:
        place = Place()
        old = await place.open()
        await append(old, b"a")
        heard = []
        old.record.fenced.append(lambda: heard.append(old.record.state.value))
        answers = Answers()
        old.flights.append(PlainRun([b"lost"], [1], answers.expect("under way")))
        new = await place.open()
        await until(lambda: bool(answers.all))
        assert answers.errors in ([LedgerFenced], [TopicFenced])
        with pytest.raises(TopicFenced):
            await append(old, b"x")
        await append(new, b"b")
        assert await read_all(new) == [b"a", b"b"]
        assert heard == ["Fenced"]
        await old.close()
        assert await read_all(await place.open()) == [b"a", b"b"]

    asyncio.run(body())


def test_an_idle_old_owner_is_stopped_by_the_record() -> None:
    async def body() -> None:
        place = Place()
        old = await place.open()
        new = await place.open()
        await append(new, b"b")
        with pytest.raises(TopicFenced):
            await append(old, b"a")
        assert old.record.state.value == "Fenced"
        with pytest.raises(TopicFenced):
            await old.trim()
        await old.close()
        assert await read_all(new) == [b"b"]
        assert len(await place.ledgers()) == 1
        await new.close()

    asyncio.run(body())


@pytest.mark.parametrize("written", [True, False])
def test_a_lost_answer_of_the_metadata_store_is_not_taken_for_another_owner(written: bool) -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        await append(log, b"a")
        await log.roll()
        place.records.fail_next(StoreUnavailable("no answer"), written=written)
        with pytest.raises(StoreUnavailable):
            await append(log, b"refused")
        await append(log, b"b")
        assert await read_all(log) == [b"a", b"b"]
        assert place.shelf.log is not None
        named = {part.ledger_id for part in place.shelf.log[0].ledgers}
        await until(lambda: log.flights.runs == 0)
        await log.roll()
        assert set(await place.ledgers()) == named
        await log.close()

    asyncio.run(body())


def test_terminating_can_be_tried_again() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        await append(log, b"a")
        place.records.fail_next(StoreUnavailable("no answer"))
        with pytest.raises(StoreUnavailable):
            await log.terminate()
        assert log.record.terminated is None
        last = await append(log, b"b")
        assert await log.terminate() == last
        await log.close()

    asyncio.run(body())


def test_an_open_ledger_without_entries_leaves_no_trace() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        place.store.fail_next(StorageFailed("no disk"))
        with pytest.raises(StorageFailed):
            await append(log, b"x")
        await log.close()
        assert await place.ledgers() == ()
        assert place.shelf.log is not None
        assert place.shelf.log[0].ledgers == ()

    asyncio.run(body())


def test_a_ledger_of_a_later_term_cannot_be_taken_back() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        await append(log, b"a")
        place.term = 0
        with pytest.raises(LedgerFenced):
            await place.open()
        assert log.term == Term(2)
        await append(log, b"b")
        await log.close()

    asyncio.run(body())
