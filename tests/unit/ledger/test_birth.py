"""Cursors that a chain is made with: there without a record of their own, and gone for good."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from magnetar.errors import RecordUnreadable, StoreUnavailable, TopicFenced
from magnetar.ledger.birth import format_born, parse_born, without_born
from magnetar.ledger.chain import Chain
from tests.unit.ledger.chain_place import Place, append, fill

NAMES = ("a/1", "b", "ü\n")


async def opened(place: Place, born: Collection[str] | None = None) -> Chain:
    return await place.open(birth=born)


def test_a_chain_and_all_its_cursors_are_one_write() -> None:
    async def body() -> None:
        place = Place()
        chain = await opened(place, NAMES)
        assert place.shelf.writes == 1 and not place.shelf.cursors
        places = await fill(chain, 12)
        for _ in range(3):
            assert set(chain.cursors) == set(NAMES)
            assert {each.backlog for each in chain.cursors.values()} == {12}
            assert {each.first_unacked() for each in chain.cursors.values()} == {places[0]}
            chain = await place.crash()
        await chain.close()
        assert not place.shelf.cursors  # whoever did nothing has nothing to remember

    asyncio.run(body())


def test_a_cursor_that_moved_is_found_where_it_was() -> None:
    async def body() -> None:
        place = Place()
        chain = await opened(place, NAMES)
        places = await fill(chain, 12)
        chain.cursors["b"].acknowledge_through(places[6])
        await chain.cursors["b"].flush()
        chain = await place.crash()
        assert {name: each.backlog for name, each in chain.cursors.items()} == {
            "a/1": 12,
            "b": 5,
            "ü\n": 12,
        }
        await chain.close()
        chain = await place.open()
        assert chain.cursors["b"].mark_delete == places[6]
        await chain.close()

    asyncio.run(body())


@pytest.mark.parametrize("moved", [False, True])
def test_a_deleted_cursor_does_not_come_back(moved: bool) -> None:
    async def body() -> None:
        place = Place()
        chain = await opened(place, NAMES)
        await chain.set_properties({**chain.properties, "owner": "alice"})
        places = await fill(chain, 3)
        if moved:
            chain.cursors["b"].acknowledge(*places[0])
            await chain.cursors["b"].flush()
        await chain.delete_cursor("b")
        chain = await place.crash()
        assert set(chain.cursors) == {"a/1", "ü\n"}
        assert chain.properties["owner"] == "alice"
        for name in ("a/1", "ü\n"):
            await chain.delete_cursor(name)
        chain = await place.crash()
        assert chain.cursors == {} and chain.properties == {"owner": "alice"}
        made = await chain.open_cursor("b")  # one of the same name is another one
        assert made.backlog == 0
        chain = await place.crash()
        assert chain.cursors["b"].backlog == 0
        await chain.close()

    asyncio.run(body())


def test_a_cursor_whose_name_could_not_be_taken_off_the_list_stays() -> None:
    async def body() -> None:
        place = Place()
        chain = await opened(place, NAMES)
        place.records.fail_next(StoreUnavailable("no answer"))
        with pytest.raises(StoreUnavailable):
            await chain.delete_cursor("b")
        assert "b" in chain.cursors
        chain = await place.crash()
        assert "b" in chain.cursors
        await chain.close()

    asyncio.run(body())


def test_a_chain_that_is_there_after_all_keeps_what_it_has() -> None:
    async def body() -> None:
        place = Place()
        chain = await opened(place)
        cursor = await chain.open_cursor("old")
        await append(chain, b"x")
        assert cursor.backlog == 1
        other = await opened(place, NAMES)  # by somebody who saw none
        assert set(other.cursors) == {"old"}
        assert other.cursors["old"].backlog == 1
        with pytest.raises(TopicFenced):
            await chain.set_properties({})
        await other.close()

    asyncio.run(body())


def test_cursors_are_spelled_and_read() -> None:
    assert format_born(()) == {}
    assert parse_born({}) == ()
    assert parse_born({"x": "y", **format_born(NAMES)}) == NAMES
    assert without_born({"x": "y"}, "b") is None
    left = without_born({"x": "y", **format_born(NAMES)}, "b")
    assert left is not None and parse_born(left) == ("a/1", "ü\n") and left["x"] == "y"
    (key,) = format_born(NAMES)
    for text in ("", "{}", "[1]", '"a"', "["):
        with pytest.raises(RecordUnreadable):
            parse_born({key: text})
