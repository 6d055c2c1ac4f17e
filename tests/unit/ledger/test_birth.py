"""Cursors that a log is made with: there without a record of their own, and gone for good."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from magnetar.errors import RecordUnreadable, StoreUnavailable, TopicFenced
from magnetar.ledger.birth import format_born, parse_born, without_born
from magnetar.ledger.log import Log
from tests.unit.ledger.log_place import Place, append, fill

NAMES = ("a/1", "b", "ü\n")


async def opened(place: Place, born: Collection[str] | None = None) -> Log:
    return await place.open(birth=born)


def test_a_log_and_all_its_cursors_are_one_write() -> None:
    async def body() -> None:
        place = Place()
        log = await opened(place, NAMES)
        assert place.shelf.writes == 1 and not place.shelf.cursors
        places = await fill(log, 12)
        for _ in range(3):
            assert set(log.cursors) == set(NAMES)
            assert {each.backlog for each in log.cursors.values()} == {12}
            assert {each.first_unacked() for each in log.cursors.values()} == {places[0]}
            log = await place.crash()
        await log.close()
        assert not place.shelf.cursors  # whoever did nothing has nothing to remember

    asyncio.run(body())


def test_a_cursor_that_moved_is_found_where_it_was() -> None:
    async def body() -> None:
        place = Place()
        log = await opened(place, NAMES)
        places = await fill(log, 12)
        log.cursors["b"].acknowledge_through(places[6])
        await log.cursors["b"].flush()
        log = await place.crash()
        assert {name: each.backlog for name, each in log.cursors.items()} == {
            "a/1": 12,
            "b": 5,
            "ü\n": 12,
        }
        await log.close()
        log = await place.open()
        assert log.cursors["b"].mark_delete == places[6]
        await log.close()

    asyncio.run(body())


@pytest.mark.parametrize("moved", [False, True])
def test_a_deleted_cursor_does_not_come_back(moved: bool) -> None:
    async def body() -> None:
        place = Place()
        log = await opened(place, NAMES)
        await log.record.set_properties({**log.record.properties, "owner": "alice"})
        places = await fill(log, 3)
        if moved:
            log.cursors["b"].acknowledge(*places[0])
            await log.cursors["b"].flush()
        await log.cursors.delete("b")
        log = await place.crash()
        assert set(log.cursors) == {"a/1", "ü\n"}
        assert log.record.properties["owner"] == "alice"
        for name in ("a/1", "ü\n"):
            await log.cursors.delete(name)
        log = await place.crash()
        assert log.cursors == {} and log.record.properties == {"owner": "alice"}
        made = await log.cursors.open("b")  # one of the same name is another one
        assert made.backlog == 0
        log = await place.crash()
        assert log.cursors["b"].backlog == 0
        await log.close()

    asyncio.run(body())


def test_a_cursor_whose_name_could_not_be_taken_off_the_list_stays() -> None:
    async def body() -> None:
        place = Place()
        log = await opened(place, NAMES)
        place.records.fail_next(StoreUnavailable("no answer"))
        with pytest.raises(StoreUnavailable):
            await log.cursors.delete("b")
        assert "b" in log.cursors
        log = await place.crash()
        assert "b" in log.cursors
        await log.close()

    asyncio.run(body())


def test_a_log_that_is_there_after_all_keeps_what_it_has() -> None:
    async def body() -> None:
        place = Place()
        log = await opened(place)
        cursor = await log.cursors.open("old")
        await append(log, b"x")
        assert cursor.backlog == 1
        other = await opened(place, NAMES)  # by somebody who saw none
        assert set(other.cursors) == {"old"}
        assert other.cursors["old"].backlog == 1
        with pytest.raises(TopicFenced):
            await log.record.set_properties({})
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


def test_in_a_shared_store_every_cursor_has_a_record_from_its_birth() -> None:
    async def body() -> None:
        place = Place()
        place.inner.is_shared = True
        log = await opened(place, NAMES)
        assert set(place.shelf.cursors) == set(NAMES)
        assert place.shelf.log is not None and not place.shelf.log[0].properties
        await fill(log, 3)
        await log.cursors.delete("b")
        log = await place.crash()
        assert {name: each.backlog for name, each in log.cursors.items()} == {"a/1": 3, "ü\n": 3}
        await log.close()

    asyncio.run(body())


def test_a_shared_store_gives_records_to_cursors_that_a_list_names() -> None:
    async def body() -> None:
        place = Place()
        log = await opened(place, NAMES)
        places = await fill(log, 12)
        log.cursors["b"].acknowledge_through(places[6])
        await log.close()
        place.inner.is_shared = True
        log = await place.open()
        await log.close()
        assert {name: info.mark_delete for name, (info, _) in place.shelf.cursors.items()} == {
            "a/1": (places[0].ledger_id, -1),
            "b": places[6],
            "ü\n": (places[0].ledger_id, -1),
        }
        assert place.shelf.log is not None and not place.shelf.log[0].properties

    asyncio.run(body())
