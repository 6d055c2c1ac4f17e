from __future__ import annotations

import asyncio

import pytest

from magnetar.errors import LedgerFenced, StorageFailed, StorageFull, StoreUnavailable, TopicFenced
from magnetar.ledger.chain import ChainPolicy
from magnetar.model.position import Term
from tests.unit.ledger.chain_place import Answers, Place, append, fill, read_all, until


def test_after_a_failed_append_the_chain_goes_on_in_a_fresh_ledger() -> None:
    async def body() -> None:
        place = Place(policy=ChainPolicy())
        chain = await place.open()
        await append(chain, b"kept")
        answers = Answers()
        chain.append([b"a"], [1], answers.expect("a"))
        place.store.fail_next(StorageFailed("no disk"))
        chain.append([b"b"], [1], answers.expect("b"))
        chain.append([b"c"], [1], answers.expect("c"))
        await until(lambda: len(answers.all) == 3)
        assert answers.labels == ["a", "b", "c"]
        assert answers.errors == [StorageFailed, StorageFailed]
        last = await append(chain, b"d")
        assert last.ledger_id > answers.positions[0].ledger_id
        assert await read_all(chain) == [b"kept", b"a", b"d"]
        await chain.close()
        assert await read_all(await place.open()) == [b"kept", b"a", b"d"]

    asyncio.run(body())


def test_a_refused_run_takes_the_queued_ones_behind_it_along() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        await fill(chain, 9)
        answers = Answers()
        place.store.hold_creates()
        place.store.fail_next(StorageFull("full"))
        chain.append([b"tenth fills the ledger"], [1], answers.expect("failing"))
        chain.append([b"waits for the next ledger"], [1], answers.expect("queued"))
        await until(lambda: len(answers.all) == 2)
        assert answers.labels == ["failing", "queued"]
        assert answers.errors == [StorageFull, StorageFull]
        place.store.release_creates()
        await append(chain, b"later")
        assert (await read_all(chain))[-2:] == [b"8", b"later"]
        await chain.close()

    asyncio.run(body())


def test_when_no_ledger_can_be_made_runs_are_refused_until_one_can() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        place.store.fail_next_create(StorageFull("full"))
        with pytest.raises(StorageFull):
            await append(chain, b"x")
        await append(chain, b"y")
        assert await read_all(chain) == [b"y"]
        await chain.close()

    asyncio.run(body())


def test_a_new_owner_fences_the_old_one_which_never_answers_again() -> None:
    async def body() -> None:
        place = Place()
        old = await place.open()
        await append(old, b"a")
        heard = []
        old.fenced.append(lambda: heard.append(old.state))
        answers = Answers()
        old.append([b"lost"], [1], answers.expect("under way"))
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
        assert old.state == "Fenced"
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
        chain = await place.open()
        await append(chain, b"a")
        await chain.roll()
        place.records.fail_next(StoreUnavailable("no answer"), written=written)
        with pytest.raises(StoreUnavailable):
            await append(chain, b"refused")
        await append(chain, b"b")
        assert await read_all(chain) == [b"a", b"b"]
        assert place.shelf.chain is not None
        named = {part.ledger_id for part in place.shelf.chain[0].ledgers}
        await until(lambda: chain.pending_appends == 0)
        await chain.roll()
        assert set(await place.ledgers()) == named
        await chain.close()

    asyncio.run(body())


def test_terminating_can_be_tried_again() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        await append(chain, b"a")
        place.records.fail_next(StoreUnavailable("no answer"))
        with pytest.raises(StoreUnavailable):
            await chain.terminate()
        assert chain.terminated is None
        last = await append(chain, b"b")
        assert await chain.terminate() == last
        await chain.close()

    asyncio.run(body())


def test_an_open_ledger_without_entries_leaves_no_trace() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        place.store.fail_next(StorageFailed("no disk"))
        with pytest.raises(StorageFailed):
            await append(chain, b"x")
        await chain.close()
        assert await place.ledgers() == ()
        assert place.shelf.chain is not None
        assert place.shelf.chain[0].ledgers == ()

    asyncio.run(body())


def test_a_ledger_of_a_later_term_cannot_be_taken_back() -> None:
    async def body() -> None:
        place = Place()
        chain = await place.open()
        await append(chain, b"a")
        place.term = 0
        with pytest.raises(LedgerFenced):
            await place.open()
        assert chain.term == Term(2)
        await append(chain, b"b")
        await chain.close()

    asyncio.run(body())
