"""What a hold was moved past although its query has not read it: noted, told and forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from magnetar.broker.administration.read_part import find_part_owners
from magnetar.broker.administration.read_plan import move_hold, plan_read
from magnetar.broker.hold import Passed, add_passed, clear_passed, note_passed, parse_passed
from magnetar.broker.persistent import PersistentTopic
from magnetar.model.caller import ANONYMOUS
from magnetar.model.choice import BacklogAction, BacklogQuotaType
from magnetar.model.position import Position
from magnetar.model.read_plan import HoldMove, PartState, ReadQuery
from tests.unit.broker.broker_place import Place, run
from tests.unit.broker.test_upkeep import TOPIC, fill, quota, set_policies

KEY = TOPIC.partition("://")[2]
EVICT = BacklogAction.CONSUMER_BACKLOG_EVICTION


async def move(place: Place, position: str) -> None:
    service = place.service
    moves = (HoldMove(TOPIC, position),)
    owners, scalable = find_part_owners(service), service.scalable
    await move_hold(service.authorization, owners, scalable, "keeper", moves, ANONYMOUS)


async def look(place: Place, position: str | None = None) -> PartState:
    positions = {} if position is None else {KEY: {"0": position}}
    query = ReadQuery(topics=(KEY,), hold="keeper", positions=positions)
    plan = await plan_read(place.service, find_part_owners(place.service), query, ANONYMOUS)
    return plan.topics[0].parts[0]


async def expire(place: Place, topic: PersistentTopic) -> None:
    await set_policies(place, message_ttl_in_seconds=60)
    place.clock.pass_s(61)
    await place.service.upkeep.expire_messages()


async def evict_by_age(place: Place, topic: PersistentTopic) -> None:
    await set_policies(place, **quota(BacklogQuotaType.MESSAGE_AGE, EVICT, 60))
    place.clock.pass_s(61)
    await place.service.upkeep.check_backlog_quotas()


async def evict_by_size(place: Place, topic: PersistentTopic) -> None:
    await set_policies(place, **quota(BacklogQuotaType.DESTINATION_STORAGE, EVICT, 1))
    await place.service.upkeep.check_backlog_quotas()


async def truncate(place: Place, topic: PersistentTopic) -> None:
    await topic.truncate()


@pytest.mark.parametrize("pass_by", [expire, evict_by_age, evict_by_size, truncate])
def test_what_others_acknowledge_for_a_hold_is_told_until_the_query_has_read_on(
    pass_by: Callable[[Place, PersistentTopic], Awaitable[None]],
) -> None:
    async def body(place: Place) -> None:
        topic, _ = await fill(place)
        ledger = topic.log.sequence.last_position.ledger_id
        await move(place, f"{ledger}:2")
        assert (await look(place)).passed == ()
        await pass_by(place, topic)
        passed = (f"{ledger}:3", f"{ledger}:9")
        assert (await look(place)).passed == passed
        await place.service.catalog.unload_topic(topic.name)
        for position in (None, f"{ledger - 1}:5"):
            assert (await look(place, position)).passed == passed
        await move(place, f"{ledger}:5")
        assert (await look(place)).passed == passed
        await move(place, f"{ledger}:9")
        assert (await look(place)).passed == ()
        await place.service.catalog.unload_topic(topic.name)
        assert (await look(place, f"{ledger - 1}:5")).passed == ()
        live = await place.topic(TOPIC)
        assert parse_passed(live.subscriptions["slow"].cursor.properties) is None

    run(body)


def test_a_topic_that_is_not_loaded_stays_so_when_its_hold_has_passed_nothing() -> None:
    async def body(place: Place) -> None:
        topic, _ = await fill(place)
        await move(place, "-1:-1")
        await place.service.catalog.unload_topic(topic.name)
        assert (await look(place)).entries == 10
        assert TOPIC not in place.service.catalog.topics

    run(body)


def test_what_is_passed_at_several_times_is_one_range_beside_other_properties() -> None:
    at = [Position(4, entry) for entry in range(9)]
    once = add_passed(None, at[2], at[3])
    assert once == Passed(at[2], at[3])
    assert add_passed(once, at[4], at[3]) == once  # nothing was left to pass
    twice = add_passed(once, at[6], at[7])
    assert twice == Passed(at[2], at[7])
    assert clear_passed(twice, at[6]) == twice
    assert clear_passed(twice, at[7]) is None
    noted = note_passed({"other": 5}, twice)
    assert parse_passed(noted) == twice
    assert note_passed(noted, None) == {"other": 5}
    assert parse_passed({"other": 5}) is None
