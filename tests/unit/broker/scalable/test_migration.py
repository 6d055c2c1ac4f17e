from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct

from magnetar.broker.administration.topic import delete_topic
from magnetar.errors import (
    BrokerError,
    Conflict,
    MethodNotAllowed,
    PreconditionFailed,
    TopicNotFound,
)
from magnetar.metadata.store import ABSENT, Change
from magnetar.model.layout import Layout
from magnetar.model.migration import (
    LOCKS,
    PREPARATIONS,
    Preparation,
    legacy_names,
    preparation_path,
)
from magnetar.model.name import parse_topic
from magnetar.model.policy import RetentionPolicies
from magnetar.model.position import EARLIEST
from magnetar.model.scalable import ChangeKind, MigrationOrigin
from magnetar.model.segment import SegmentId, scalable_name
from magnetar.wire.command import BaseCommand, CommandFlow, CommandProducer, CommandSubscribe
from magnetar.wire.migration import encode_preparation
from tests.unit.broker.broker_place import NAMESPACE, Place, run, until
from tests.unit.broker.scalable.migration_place import (
    NAME,
    REGULAR,
    TOPIC,
    Follower,
    live,
    make_regular,
    migrate,
    parts,
)


async def refusal_of(place: Place, full: str = REGULAR, *, force: bool = False) -> BrokerError:
    with pytest.raises(BrokerError) as refused:
        await migrate(place, parse_topic(full), force=force)
    return refused.value


async def check_untouched(place: Place, partitions: int = 0) -> None:
    store = place.service.store
    assert not await place.service.scalable.exists(TOPIC)
    assert await store.children("/managed-ledgers/shop/eu/segment/orders") == ()
    assert await store.children(f"{PREPARATIONS}/shop/eu") == ()
    assert await store.children(f"{LOCKS}/shop/eu") == ()
    for part in parts(REGULAR, partitions):
        assert (await live(place, part)).log.record.terminated is None


def when_prepared(place: Place, act: Callable[[], None]) -> None:
    """Act once, when the first look is over and segments are about to be made."""
    acts = [act]

    def listener(change: Change) -> None:
        if acts and change.path == preparation_path(TOPIC):
            acts.pop()()

    place.service.store.watch(PREPARATIONS, listener)


def start(place: Place, body: Coroutine[Any, Any, None]) -> None:
    place.service.tasks.start(body, name="meanwhile")


@pytest.mark.parametrize("partitions", [0, 1, 3])
def test_partitions_become_sealed_parents_of_as_many_children(partitions: int) -> None:
    async def body(place: Place) -> None:
        await make_regular(place, partitions)
        await migrate(place)
        record = await place.service.scalable.records.require(TOPIC)
        count = max(1, partitions)
        assert (record.layout.epoch, record.layout.next_id) == (0, 2 * count)
        assert [each.legacy_topic for each in record.layout.sealed] == parts(REGULAR, partitions)
        olds = tuple(each.id for each in record.layout.sealed)
        assert olds == tuple(range(count))
        assert all(each.parents == olds for each in record.layout.active)
        assert not any(each.is_legacy for each in record.layout.active)
        assert record.migrated_from == MigrationOrigin(REGULAR, partitions)
        assert [event.kind for event in record.history] == [ChangeKind.MIGRATE]
        assert record.intent is None
        for part in parts(REGULAR, partitions):
            assert (await live(place, part)).log.record.terminated is not None
        assert await place.service.store.children(f"{PREPARATIONS}/shop/eu") == ()
        assert await place.service.store.children(f"{LOCKS}/shop/eu") == ()

    run(body)


def test_every_subscription_is_on_the_children_and_parents_keep_their_cursors() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        first, second = [await live(place, part) for part in parts(REGULAR, 2)]
        peer = place.connect()
        await peer.produce(first.name.full)
        await peer.send(5)
        await peer.close_producer()
        for kind in (CommandSubscribe.Shared, CommandSubscribe.Exclusive):
            name = f"kind-{kind}"
            await peer.subscribe(first.name.full, name, kind, consumer_id=1)
            await until(lambda: len(peer.messages(1)) >= 5)
            peer.ack(1, peer.messages(1)[-4])
            await peer.close_consumer(1)
            peer._wire.received.clear()
        own = {"team": "eu"}
        await first.subscriptions.create("nobody", position=EARLIEST, properties=own)
        await second.subscriptions.create("nobody", position=EARLIEST)
        await second.subscriptions.create("second only", position=EARLIEST)
        marks = {name: each.cursor.backlog for name, each in first.subscriptions.items()}
        await migrate(place)
        controller = await place.service.scalable.controller(TOPIC)
        names = {"kind-0", "kind-1", "nobody", "second only"}
        assert set(controller.subscriptions.registry.records) == names
        for segment in controller.layout.active:
            child = await live(place, segment.name_in(TOPIC).full)
            assert set(child.subscriptions) == names
            assert child.subscriptions["nobody"].properties == own
        assert {name: first.subscriptions[name].backlog for name in marks} == marks
        assert marks == {"kind-0": 4, "kind-1": 4, "nobody": 5}

    run(body)


def test_a_subscription_without_a_cursor_on_a_parent_does_not_wait_for_it() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        first, second = [await live(place, part) for part in parts(REGULAR, 2)]
        peer = place.connect()
        await peer.produce(first.name.full)
        await peer.send(3)
        await peer.close_producer()
        await second.subscriptions.create("s", position=EARLIEST)
        await migrate(place)
        client = Follower(place)
        response = await client.register("a", consumer_id=1)
        assert [each.segment_id for each in response.assignment.segments] == [2, 3]

    run(body)


@pytest.mark.parametrize(
    ("full", "kind", "words"),
    [
        ("persistent://shop/eu/missing", TopicNotFound, "Topic does not exist"),
        ("persistent://shop/eu/orders-partition-1", PreconditionFailed, "called like a partition"),
        ("persistent://shop/eu/__change_events", PreconditionFailed, "belongs to the system"),
    ],
)
def test_what_cannot_be_migrated_is_refused(full: str, kind: type[BrokerError], words: str) -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        await place.topic("persistent://shop/eu/__change_events")
        refusal = await refusal_of(place, full)
        assert type(refusal) is kind and words in refusal.sentence

    run(body)


def test_a_scalable_topic_is_refused_as_such() -> None:
    async def body(place: Place) -> None:
        await make_regular(place)
        await migrate(place)
        refusal = await refusal_of(place)
        assert isinstance(refusal, Conflict)
        assert refusal.sentence == f"Topic is already scalable: {TOPIC}"

    run(body)


def test_the_switch_turns_migration_off() -> None:
    async def body(place: Place) -> None:
        await make_regular(place)
        assert isinstance(await refusal_of(place), MethodNotAllowed)
        await check_untouched(place)

    run(body, enableScalableTopicMigration=False)


def test_a_replicated_topic_is_refused() -> None:
    async def body(place: Place) -> None:
        await make_regular(place)
        await place.service.resources.namespaces.update(
            NAMESPACE,
            lambda present: replace_struct(
                present, replication_clusters=("standalone", "overseas")
            ),
        )
        refusal = await refusal_of(place)
        assert isinstance(refusal, PreconditionFailed) and "overseas" in refusal.sentence

    run(body)


def test_who_cannot_follow_is_named_and_counted() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        peer = place.connect()
        await peer.produce(parts(REGULAR, 2)[0], producer_name="till-7")
        shared = CommandSubscribe.Shared
        await peer.subscribe(parts(REGULAR, 2)[1], "audit", shared, consumer_id=1)
        follower = Follower(place)
        await follower.attach_producer(parts(REGULAR, 2)[0])
        await follower.attach_consumer(parts(REGULAR, 2)[0])
        refusal = await refusal_of(place)
        assert isinstance(refusal, Conflict)
        assert refusal.sentence.startswith("1 legacy v4 client connection(s) still attached")
        assert "producer till-7 from /127.0.0.1:5555 (Test-1.0)" in refusal.sentence
        assert "consumer audit-1 of audit from /127.0.0.1:5555 (Test-1.0)" in refusal.sentence
        await check_untouched(place, 2)
        peer.leave()
        await migrate(place)

    run(body)


def test_a_reader_that_watches_the_layout_can_follow_though_it_does_not_say_so() -> None:
    async def body(place: Place) -> None:
        await make_regular(place)
        reader = Follower(place)
        reader.connection.host = "10.0.0.7"
        await reader.attach_consumer(REGULAR, durable=False, mark=False)
        assert "reader s-1 of s" in (await refusal_of(place)).sentence
        reader.look_up(1, REGULAR)
        await until(lambda: bool(reader.layouts(1)))
        await migrate(place)

    run(body)


def test_force_locks_v4_clients_out() -> None:
    async def body(place: Place) -> None:
        await make_regular(place)
        peer = place.connect()
        await peer.produce(REGULAR)
        await peer.send(2)
        left = Follower(place)
        await left.attach_consumer(REGULAR, mark=False)
        follower = Follower(place)
        await follower.attach_consumer(REGULAR)
        await migrate(place, force=True)
        assert peer.count(BaseCommand.CLOSE_PRODUCER) == 1
        assert left.count(BaseCommand.CLOSE_CONSUMER) == 1
        assert follower.count(BaseCommand.CLOSE_CONSUMER) == 0
        answer = await peer.produce(REGULAR, producer_id=2)
        assert answer.error.error == 15  # TopicTerminatedError
        assert str(TOPIC) in answer.error.message

    run(body)


def test_of_two_operators_at_once_one_migrates_and_one_is_told_so() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 4)
        outcomes = await asyncio.gather(*(migrate(place) for _ in range(4)), return_exceptions=True)
        assert outcomes.count(None) == 1
        assert [type(each) for each in outcomes if each is not None] == [Conflict] * 3

    run(body)


def test_a_v4_client_that_comes_between_the_look_and_the_write_stops_it() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        peer = place.connect()
        name = parts(REGULAR, 2)[0]
        for number in range(200):  # so that making the segments takes a while
            await (await live(place, name)).subscriptions.create(f"s{number}", position=EARLIEST)
        request = CommandProducer(topic=name, producer_id=7, request_id=99)
        when_prepared(place, lambda: peer.say(request))
        with pytest.raises(Conflict, match="1 legacy v4 client"):
            await migrate(place)
        await check_untouched(place, 2)
        assert peer.count(BaseCommand.CLOSE_PRODUCER) == 1  # it was held back meanwhile
        answer = await peer.produce(name, producer_id=8)
        assert answer.type == BaseCommand.PRODUCER_SUCCESS

    run(body)


def test_a_v4_client_that_comes_while_writers_are_held_back_hears_what_became_of_the_topic() -> (
    None
):
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        first, second = parts(REGULAR, 2)
        follower, peer = Follower(place), place.connect()
        await follower.attach_producer(first)
        place.ledgers.hold_creates()
        sending = asyncio.ensure_future(follower.send(1))
        await asyncio.sleep(0)
        migrating = asyncio.ensure_future(migrate(place))
        held = (await live(place, second)).termination
        await until(lambda: held.is_under_way)
        attaching = asyncio.ensure_future(peer.produce(second))
        subscribing = asyncio.ensure_future(
            place.connect().subscribe(second, "s", CommandSubscribe.Shared, consumer_id=1)
        )
        for _ in range(20):
            await asyncio.sleep(0)
        assert not attaching.done() and not subscribing.done()
        place.ledgers.release_creates()
        await sending  # what was taken is answered
        await migrating
        assert (await attaching).error.error == 15  # TopicTerminatedError
        assert (await subscribing).error.error == 11  # TopicNotFound

    run(body)


def test_a_topic_is_not_changed_by_others_while_it_is_migrated() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        refusals: list[str] = []

        def change() -> None:
            with pytest.raises(Conflict) as refused:
                place.service.scalable.migrations.check_idle(NAME.partition(1))
            refusals.append(refused.value.sentence)

        when_prepared(place, change)
        await migrate(place)
        assert refusals == [f"{REGULAR} is being migrated to a scalable topic"]
        place.service.scalable.migrations.check_idle(NAME)

    run(body)


def test_a_partition_deleted_in_mid_flight_stops_it() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        deleting = place.service.resources.partitioned.delete
        when_prepared(place, lambda: start(place, deleting(NAME)))
        with pytest.raises(TopicNotFound):
            await migrate(place)
        assert not await place.service.scalable.exists(TOPIC)
        assert await place.service.store.children(f"{PREPARATIONS}/shop/eu") == ()

    run(body)


def test_a_partition_that_was_never_made_is_no_obstacle() -> None:
    async def body(place: Place) -> None:
        await place.service.resources.partitioned.create(NAME, 3, {"team": "x"})
        await place.topic(f"{REGULAR}-partition-1")
        await migrate(place)
        record = await place.service.scalable.records.require(TOPIC)
        assert len(record.layout.sealed) == 3 and record.intent is None
        assert record.properties == {"team": "x"}

    run(body)


@pytest.mark.parametrize("local", ["with space", "per%cent+plus", "ümläut", "a-partition-b"])
def test_names_that_need_escaping_are_migrated_too(local: str) -> None:
    async def body(place: Place) -> None:
        full = f"persistent://shop/eu/{local}"
        name = await make_regular(place, 2, full)
        await migrate(place, name)
        record = await place.service.scalable.records.require(scalable_name(name))
        assert [each.legacy_topic for each in record.layout.sealed] == parts(full, 2)
        client = Follower(place)
        answer = await client.attach_producer(f"{full}-partition-0")
        assert answer.error.error == 15 and f"topic://shop/eu/{local}" in answer.error.message

    run(body)


def test_policies_of_the_topic_go_with_it() -> None:
    async def body(place: Place) -> None:
        await make_regular(place)
        kept = RetentionPolicies(retentionTimeInMinutes=-1, retentionSizeInMB=-1)
        policies = place.service.policies
        await policies.update(NAME, lambda each: replace_struct(each, retentionPolicies=kept))
        await migrate(place)
        applied = await policies.get_applied(TOPIC)
        assert applied.retentionPolicies == kept
        await place.service.scalable.delete_topic(TOPIC, force=True)
        assert await policies.get(TOPIC) is None and await policies.get(NAME) is None

    run(body)


def test_a_migrated_topic_is_deleted_with_what_it_was() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        await migrate(place)
        await place.service.scalable.delete_topic(TOPIC, force=True)
        for name in legacy_names(NAME, 2):
            assert not await place.service.catalog.topic_exists(name)
        assert await place.service.resources.partitioned.get(NAME) is None
        await make_regular(place, 3)  # the name is free
        await migrate(place)

    run(body)


def test_seek_skip_and_delete_of_a_subscription_reach_the_parents() -> None:
    async def body(place: Place) -> None:
        await make_regular(place)
        old = await live(place, REGULAR)
        peer = place.connect()
        await peer.produce(REGULAR)
        await peer.send(4, publish_time=place.clock.now_ms())
        await peer.close_producer()
        await old.subscriptions.create("s", position=EARLIEST)
        place.clock.pass_s(10)
        await migrate(place)
        controller = await place.service.scalable.controller(TOPIC)
        parent = SegmentId(0)
        assert (await controller.subscriptions.registry.backlog("s"))[parent] == 4
        await controller.subscriptions.clear_backlog("s")
        assert (await controller.subscriptions.registry.backlog("s"))[parent] == 0
        await controller.subscriptions.seek("s", 0)
        assert (await controller.subscriptions.registry.backlog("s"))[parent] == 4
        place.clock.pass_s(10)
        await controller.subscriptions.expire("s", 5)
        assert (await controller.subscriptions.registry.backlog("s"))[parent] == 0
        await controller.subscriptions.delete("s")
        assert not old.subscriptions

    run(body)


def test_parents_are_pruned_when_all_have_read_them_and_their_names_never_come_back() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        for part in parts(REGULAR, 2):
            await (await live(place, part)).subscriptions.create("s", position=EARLIEST)
        peer = place.connect()
        await peer.produce(parts(REGULAR, 2)[0])
        await peer.send(3)
        await peer.close_producer()
        await migrate(place)
        controller = await place.service.scalable.controller(TOPIC)
        assert await controller.changes.prune() == (1,)
        await controller.subscriptions.clear_backlog("s")
        assert await controller.changes.prune() == (0,)
        client = Follower(place)
        for part in [REGULAR, *parts(REGULAR, 2)]:
            answer = await client.attach_producer(part)
            assert answer.error.error == 15 and str(TOPIC) in answer.error.message
            answer = await client.attach_consumer(part)
            assert answer.error.error == 11 and str(TOPIC) in answer.error.message
        assert await place.service.catalog.list_topics(NAMESPACE, NAME.domain) == []
        assert await place.service.resources.partitioned.get(NAME) is None

    run(body)


def test_a_topic_with_readers_only_and_a_compacted_one_are_migrated() -> None:
    async def body(place: Place) -> None:
        await make_regular(place)
        old = await live(place, REGULAR)
        peer = place.connect()
        await peer.produce(REGULAR)
        await peer.send(6, keys=lambda index: f"k{index % 2}")
        await peer.close_producer()
        await old.compactor.start()
        await until(lambda: old.compactor.status()["status"] == "SUCCESS")
        client = Follower(place)
        client.look_up(1, REGULAR)
        await until(lambda: bool(client.layouts(1)))
        await client.attach_consumer(REGULAR, durable=False, mark=False)
        await migrate(place)
        controller = await place.service.scalable.controller(TOPIC)
        assert controller.subscriptions.registry.records == {}
        assert old.log.sequence.total_entries == 6
        answer = await client.attach_consumer(
            REGULAR, consumer_id=2, durable=False, mark=False, name="again"
        )
        assert answer.type == BaseCommand.SUCCESS
        exclusive = CommandSubscribe.Exclusive
        answer = await client.attach_consumer(
            REGULAR,
            consumer_id=3,
            durable=False,
            name="compact",
            read_compacted=True,
            subType=exclusive,
        )
        assert answer.type == BaseCommand.SUCCESS
        for consumer_id in (1, 2, 3):
            client.say(CommandFlow(consumer_id=consumer_id, messagePermits=100))
        await until(lambda: len(client.messages(2)) >= 6)
        await until(lambda: len(client.messages(3)) >= 2)
        assert [len(client.messages(each)) for each in (1, 2, 3)] == [6, 6, 2]

    run(body)


def test_a_topic_deleted_in_mid_flight_is_not_migrated() -> None:
    """Over REST that is refused; a broker that has not heard of the migration may do it all the
    same.
    """

    async def body(place: Place) -> None:
        await make_regular(place)
        refusals: list[BrokerError] = []

        async def delete() -> None:
            try:
                await delete_topic(place.service, NAME, force=True)
            except Conflict as refusal:
                refusals.append(refusal)
            await place.service.catalog.delete_topic(NAME, force=True)

        when_prepared(place, lambda: start(place, delete()))
        with pytest.raises(BrokerError) as refused:
            await migrate(place)
        assert isinstance(refused.value, Conflict | TopicNotFound)
        assert [each.sentence for each in refusals] == [
            f"{REGULAR} is being migrated to a scalable topic"
        ]
        store = place.service.store
        assert not await place.service.scalable.exists(TOPIC)
        assert await store.children("/managed-ledgers/shop/eu/segment/orders") == ()
        assert await store.children(f"{PREPARATIONS}/shop/eu") == ()
        assert not await place.service.catalog.topic_exists(NAME)

    run(body)


def test_a_rehearsal_tells_what_is_in_the_way_and_what_is_to_be_read() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        first = await live(place, parts(REGULAR, 2)[0])
        await first.subscriptions.create("s", position=EARLIEST)
        peer = place.connect()
        await peer.produce(first.name.full, producer_name="till-7")
        await peer.send(3)
        found = await place.service.scalable.migrations.rehearse(NAME)
        assert found.partitions == 2
        assert [client.name for client in found.clients] == ["till-7"]
        assert len(found.refusals) == 1 and "till-7" in found.refusals[0]
        assert list(found.segments.values()) == ["SEALED", "SEALED", "ACTIVE", "ACTIVE"]
        assert found.backlogs["s"].entries == 3 and found.backlogs["s"].drain_s is None
        await check_untouched(place, 2)

    run(body)


def test_inactive_topics_are_not_removed_once_they_are_part_of_a_scalable_one() -> None:
    async def body(place: Place) -> None:
        await make_regular(place)
        await (await live(place, REGULAR)).subscriptions.create("s", position=EARLIEST)
        await migrate(place)
        upkeep = place.service.upkeep
        place.clock.pass_s(1_000_000)
        await upkeep.delete_inactive_topics()
        place.clock.pass_s(1_000_000)
        await upkeep.delete_inactive_topics()
        await upkeep.delete_unused_subscriptions()
        assert set((await live(place, REGULAR)).subscriptions) == {"s"}

    run(
        body,
        brokerDeleteInactiveTopicsMode="delete_when_subscriptions_caught_up",
        subscriptionExpirationTimeMinutes=1,
    )


def test_an_operator_waits_while_what_a_crash_left_is_taken_back() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        store, access = place.service.store, place.service.scalable.segments_of(TOPIC)
        left = tuple(segment.ref for segment in Layout.initial(3, now_ms=1).segments)
        for ref in left:
            await access.create(ref, ())
        await store.put(
            preparation_path(TOPIC), encode_preparation(Preparation(left, 1)), expect=ABSENT
        )
        await asyncio.gather(place.service.scalable.migrations.resume(), migrate(place))
        layout = (await place.service.scalable.records.require(TOPIC)).layout
        stored = await store.children("/managed-ledgers/shop/eu/segment/orders")
        assert set(stored) == {f"{each.range}-{each.id}" for each in layout.active}

    run(body)
