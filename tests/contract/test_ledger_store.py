"""What every ledger store must do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from magnetar.errors import (
    BrokerError,
    LedgerFenced,
    LedgerNotFound,
    LedgerSealed,
    StoreClosed,
)
from magnetar.ledger.store import LedgerStore
from magnetar.model.position import EntryId, LedgerId, Term
from tests.contract.bookkeeper_place import bookkeeper_store
from tests.contract.ledger_place import ON_BOOKIES, Opening, file_store, opening_of
from tests.unit.ledger.file_place import ONE, append, numbered, read_all


@pytest.fixture(
    params=["memory", "file", "file without sync", "file on a simulated disk", "joint", ON_BOOKIES]
)
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    return opening_of(request.param, tmp_path)


def run(opening: Opening, body: Callable[[LedgerStore], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with opening() as store:
            await body(store)

    asyncio.run(inside())


def test_entries_are_read_back_in_order(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=ONE, properties={})
        assert await append(writer, numbered(3)) == 0
        assert await append(writer, numbered(4, start=3)) == 3
        assert writer.last_confirmed == 6
        assert await read_all(store, writer.id) == numbered(7)

    run(opening, body)


def test_pipelined_appends_are_answered_in_order(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=ONE, properties={})
        answers: list[tuple[int, BrokerError | None, EntryId]] = []
        finished = asyncio.Event()

        def answer(number: int, error: BrokerError | None) -> None:
            answers.append((number, error, writer.last_confirmed))
            if len(answers) == 50:
                finished.set()

        firsts = [
            writer.append([b"%d" % number] * 3, partial(answer, number)) for number in range(50)
        ]
        assert firsts == list(range(0, 150, 3))
        await finished.wait()
        assert [number for number, _, _ in answers] == list(range(50))
        assert all(error is None for _, error, _ in answers)
        assert all(confirmed >= 3 * number + 2 for number, _, confirmed in answers)
        assert store.queued_bytes == 0

    run(opening, body)


def test_a_writer_is_asked_just_before_the_commit_it_wants(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=ONE, properties={})
        answers: list[BrokerError | None] = []
        waiting = [b"0"]
        asked: list[int] = []

        def write() -> None:
            asked.append(len(waiting))
            writer.append(waiting, answers.append)

        store.commit_soon(write)
        assert (asked, store.queued_bytes) == ([], 0)
        waiting += [b"1", b"2"]
        async with asyncio.timeout(10):
            while not answers:
                await asyncio.sleep(0.001)
        assert (asked, answers) == ([3], [None])
        assert await append(writer, [b"3"]) == 3
        assert asked == [3]
        store.commit_soon(lambda: None)  # nothing came of it
        assert await append(writer, [b"4"]) == 4
        assert await read_all(store, writer.id) == [b"%d" % number for number in range(5)]

    run(opening, body)


def test_an_append_is_not_answered_before_append_returns(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=ONE, properties={})
        answers: list[BrokerError | None] = []
        writer.append([b"entry"], answers.append)
        assert answers == []
        assert store.queued_bytes == 5
        await writer.seal()
        assert answers == [None]

    run(opening, body)


def test_a_sealed_ledger_refuses_appends(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=ONE, properties={})
        await append(writer, [b"one", b"two"])
        info = await writer.seal()
        assert (info.sealed, info.last, info.length) == (True, 1, 6)
        with pytest.raises(LedgerSealed):
            writer.append([b"three"], lambda _: None)
        assert await writer.seal() == info
        assert await store.describe(writer.id) == info

    run(opening, body)


def test_an_empty_ledger_can_be_sealed(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=ONE, properties={})
        info = await writer.seal()
        assert (info.last, info.length) == (-1, 0)
        assert await read_all(store, writer.id) == []

    run(opening, body)


def test_empty_entries_count(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=ONE, properties={})
        await append(writer, [b"", b"x", b""])
        assert await read_all(store, writer.id) == [b"", b"x", b""]
        assert (await store.describe(writer.id)).length == 1

    run(opening, body)


def test_recovery_fences_the_writer_and_seals(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=ONE, properties={})
        await append(writer, numbered(5))
        info = await store.recover(writer.id, term=Term(2))
        assert (info.sealed, info.last) == (True, 4)
        assert store.is_shared or info.term == 2
        with pytest.raises(LedgerSealed):
            writer.append([b"late"], lambda _: None)
        assert await store.recover(writer.id, term=Term(2)) == info
        assert await read_all(store, writer.id) == numbered(5)

    run(opening, body)


def test_recovery_with_the_same_term_is_the_owner_coming_back(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=Term(7), properties={})
        await append(writer, numbered(2))
        assert (await store.recover(writer.id, term=Term(7))).last == 1

    run(opening, body)


def test_recovery_with_a_lower_term_is_refused_and_harms_nobody(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=Term(7), properties={})
        if store.is_shared:  # terms of processes do not order those who share it
            assert (await store.recover(writer.id, term=Term(6))).sealed
            return
        with pytest.raises(LedgerFenced):
            await store.recover(writer.id, term=Term(6))
        assert await append(writer, [b"still mine"]) == 0

    run(opening, body)


def test_every_append_queued_before_a_fence_is_answered_and_what_was_granted_is_there(
    opening: Opening,
) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=ONE, properties={})
        answers: list[BrokerError | None] = []
        for entry in numbered(5):
            writer.append([entry], answers.append)
        info = await store.recover(writer.id, term=Term(2))
        while len(answers) < 5:
            await asyncio.sleep(0)
        granted = answers.count(None)
        assert answers[:granted] == [None] * granted
        assert info.last + 1 >= granted
        assert (await read_all(store, writer.id))[:granted] == numbered(granted)

    run(opening, body)


def test_a_read_keeps_to_its_limits(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=ONE, properties={})
        entries = [b"x" * 10] * 4 + [b"y" * 100] + [b"z" * 10] * 3
        await append(writer, entries[:3])
        await append(writer, entries[3:])

        async def read(first: int, entries_max: int, bytes_max: int) -> list[bytes]:
            return await store.read(
                writer.id, EntryId(first), entries_max=entries_max, bytes_max=bytes_max
            )

        assert await read(0, 2, 1000) == entries[:2]
        assert await read(0, 100, 25) == entries[:2]
        assert await read(0, 100, 30) == entries[:3]
        assert await read(4, 100, 5) == entries[4:5]
        assert (await read(1, 100, 1000))[:2] == entries[1:3]
        assert await read(8, 100, 1000) == []
        assert await read(0, 0, 1000) == []

    run(opening, body)


def test_a_missing_ledger_is_named(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        missing = LedgerId(999_999_999)
        with pytest.raises(LedgerNotFound):
            await store.describe(missing)
        with pytest.raises(LedgerNotFound):
            await store.read(missing, EntryId(0), entries_max=1, bytes_max=1)
        with pytest.raises(LedgerNotFound):
            await store.recover(missing, term=ONE)
        await store.delete(missing)

    run(opening, body)


def test_a_deleted_ledger_is_gone_and_its_id_is_not_used_again(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        first = await store.create(term=ONE, properties={})
        second = await store.create(term=ONE, properties={})
        await append(second, [b"entry"])
        await second.seal()
        await store.delete(second.id)
        with pytest.raises(LedgerNotFound):
            await store.describe(second.id)
        third = await store.create(term=ONE, properties={})
        assert third.id not in (first.id, second.id)
        there = await store.ledgers()
        assert there == tuple(sorted(there))
        if store.is_shared:
            assert {first.id, third.id} <= set(there) and second.id not in there
        else:
            assert there == tuple(sorted((first.id, third.id)))

    run(opening, body)


def test_deleting_an_open_ledger_ends_its_writer(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=ONE, properties={})
        await append(writer, [b"entry"])
        await store.delete(writer.id)
        with pytest.raises(LedgerSealed):
            writer.append([b"late"], lambda _: None)

    run(opening, body)


def test_properties_and_term_are_kept(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=Term(3), properties={"topic": "überall", "kind": "cursor"})
        info = await store.describe(writer.id)
        assert info.properties == {"topic": "überall", "kind": "cursor"}
        assert (info.id, info.sealed, info.last) == (writer.id, False, -1)
        assert store.is_shared or info.term == 3

    run(opening, body)


def test_ledgers_do_not_mix(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writers = [await store.create(term=ONE, properties={}) for _ in range(5)]
        for number in range(20):
            writer = writers[number * 7 % 5]
            await append(writer, [b"%d-%d" % (writer.id, number)] * 2)
        for writer in writers:
            entries = await read_all(store, writer.id)
            assert len(entries) == 8
            assert all(entry.startswith(b"%d-" % writer.id) for entry in entries)

    run(opening, body)


def test_closing_answers_what_was_queued_and_then_refuses(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=ONE, properties={})
        answers: list[BrokerError | None] = []
        writer.append([b"entry"], answers.append)
        await store.close()
        assert answers == [None]
        with pytest.raises(LedgerSealed):
            writer.append([b"late"], lambda _: None)
        with pytest.raises(StoreClosed):
            await store.create(term=ONE, properties={})
        with pytest.raises(StoreClosed):
            await store.read(writer.id, EntryId(0), entries_max=1, bytes_max=1)
        await store.close()

    run(opening, body)


def test_what_joins_a_commit_is_durable_with_it(opening: Opening) -> None:
    async def body(store: LedgerStore) -> None:
        first = await store.create(term=ONE, properties={})
        second = await store.create(term=ONE, properties={})
        order: list[str] = []
        store.join(lambda: note(second.append([b"joined"], lambda _: order.append("joined"))))
        await asyncio.sleep(0.01)
        assert store.queued_bytes == 0  # nothing to commit, so nothing joins
        await append(first, [b"paid for"])
        if store.is_shared:  # ledgers share no commit: it left together, and comes on its own
            async with asyncio.timeout(10):
                while not order:
                    await asyncio.sleep(0.001)
        assert (await store.describe(second.id)).last == 0
        await append(first, [b"again"])
        assert order == ["joined"]  # called once
        assert await read_all(store, second.id) == [b"joined"]

    def note(_: EntryId) -> None: ...

    run(opening, body)


@pytest.mark.parametrize("where", ["file", ON_BOOKIES])
def test_one_that_joins_and_fails_does_not_hold_the_commit(where: str, tmp_path: Path) -> None:
    async def body(store: LedgerStore) -> None:
        writer = await store.create(term=ONE, properties={})

        def fail() -> None:
            raise ValueError("a bug")

        store.join(fail)
        assert await append(writer, [b"one"]) == 0

    on_files = partial(file_store, tmp_path / "ledgers", sync=False)
    run(on_files if where == "file" else bookkeeper_store, body)
