"""Two owners of one log in a shared store: what the former one still answers for its cursors."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.errors import StoreUnavailable, TopicFenced, VersionConflict
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.log import Log
from magnetar.model.position import EARLIEST, Position
from magnetar.model.stored_log import LogInfo
from magnetar.testing.log_record import MemoryLogRecords
from tests.unit.ledger.log_place import Place, fill, until


async def opened(place: Place) -> tuple[Log, Cursor, list[Position]]:
    place.inner.is_shared = True
    log = await place.open()
    cursor = await log.cursors.open("s", start=EARLIEST)
    return log, cursor, await fill(log, 8)


@pytest.mark.parametrize("is_written", [False, True])
def test_a_former_owner_confirms_no_acknowledgement_that_the_new_one_has_not_read(
    is_written: bool,
) -> None:
    """Neither has written the record since the new one read it, so that its version stops none."""

    async def body() -> None:
        place = Place(interval_s=60.0)
        _, old, places = await opened(place)
        if is_written:  # to a ledger of its own, which is fenced
            old.acknowledge(*places[0])
            await old.flush()
        new = (await place.open()).cursors["s"]
        old.acknowledge(*places[5])
        for _ in range(2):
            with pytest.raises(TopicFenced):
                await old.flush()
        new.acknowledge_through(places[1])
        await new.flush()
        await old.close()
        again = (await place.crash()).cursors["s"]
        assert (again.mark_delete, again.ranges) == (places[1], ())

    asyncio.run(body())


def test_what_a_former_owner_wrote_behind_is_not_confirmed_later() -> None:
    async def body() -> None:
        place = Place()
        _, old, places = await opened(place)
        new = (await place.open()).cursors["s"]
        old.acknowledge(*places[5])
        await until(lambda: old.ledger_last_entry >= 0)
        with pytest.raises(TopicFenced):
            await old.flush()
        assert new.backlog == 8

    asyncio.run(body())


def test_a_former_owner_neither_makes_nor_moves_nor_deletes_cursors() -> None:
    async def body() -> None:
        place = Place(interval_s=60.0)
        log, old, places = await opened(place)
        new = await place.open()
        with pytest.raises(TopicFenced):
            await old.reset(places[3])
        log = await place.open()
        await place.open()
        with pytest.raises(TopicFenced):
            await log.cursors.open("t")
        log = await place.open()
        new = await place.open()
        with pytest.raises(TopicFenced):
            await log.cursors.delete("s")
        new.cursors["s"].acknowledge_through(places[6])
        await new.cursors["s"].flush()
        assert (await place.crash()).cursors["s"].mark_delete == places[6]

    asyncio.run(body())


class SlowRecords(MemoryLogRecords):
    """A write of the log's record takes a while; the next one may get no answer."""

    loses: bool | None = None

    async def store(self, info: LogInfo, *, expect: int) -> int:
        await asyncio.sleep(0.001)
        if self.loses is not None:
            self.fail_next(StoreUnavailable("no answer"), written=self.loses)
            self.loses = None
        return await super().store(info, expect=expect)


@pytest.mark.parametrize("written", [True, False])
def test_an_owner_whose_proof_got_no_answer_gives_it_again(written: bool) -> None:
    async def body() -> None:
        place = Place(interval_s=60.0, make_records=SlowRecords)
        _, cursor, places = await opened(place)
        assert isinstance(place.records, SlowRecords)
        place.records.loses = written
        cursor.acknowledge(*places[1])
        with pytest.raises(StoreUnavailable):
            await cursor.flush()
        await cursor.flush()
        again = (await place.crash()).cursors["s"]
        assert again.ranges == ((places[1], places[1]),)

    asyncio.run(body())


def test_an_owner_without_an_answer_does_not_take_the_next_ones_record_for_its_own() -> None:
    """The new one wrote what the former one was about to write."""

    async def body() -> None:
        place = Place(interval_s=60.0, make_records=SlowRecords)
        log, old, places = await opened(place)
        await log.roll()
        assert isinstance(place.records, SlowRecords)
        place.records.loses = False
        with pytest.raises(StoreUnavailable):
            await log.record.confirm()
        new = (await place.open()).cursors["s"]
        new.acknowledge(*places[0])
        await new.flush()
        with pytest.raises(TopicFenced):
            await log.record.confirm()
        old.acknowledge_through(places[7])
        with pytest.raises(VersionConflict):
            await old.close()
        assert (await place.crash()).cursors["s"].mark_delete == places[0]

    asyncio.run(body())


def test_cursors_share_the_proof_of_their_log_and_give_none_to_nobody() -> None:
    async def body() -> None:
        place = Place(interval_s=60.0, make_records=SlowRecords)
        log, _, places = await opened(place)
        cursors = [await log.cursors.open(f"s{number}", start=EARLIEST) for number in range(20)]

        async def acknowledge(position: Position) -> int:
            before = place.shelf.writes
            for cursor in cursors:
                cursor.acknowledge(*position)
            await asyncio.gather(*(cursor.flush() for cursor in cursors))
            return place.shelf.writes - before

        assert 20 < await acknowledge(places[0]) < 30  # each a ledger of its own, from here on
        assert await acknowledge(places[1]) == 0
        before = place.shelf.writes
        for cursor in cursors:
            cursor.acknowledge(*places[2])
            await cursor.close()
        assert place.shelf.writes == before + 20

    asyncio.run(body())
