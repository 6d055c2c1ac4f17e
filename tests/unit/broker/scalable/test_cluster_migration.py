"""A regular topic whose partitions are at several brokers becomes a scalable one."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.broker.persistent import PersistentTopic
from magnetar.errors import BrokerError, Conflict
from magnetar.metadata.store import Change
from magnetar.model.migration import LOCKS, PREPARATIONS, legacy_names, lock_path
from magnetar.model.name import parse_topic
from magnetar.model.segment import scalable_name
from magnetar.rules.route import KeyHash, route_partition
from magnetar.wire.command import BaseCommand, CommandSubscribe
from tests.unit.broker.scalable.cluster_place import Broker, Cluster, eventually, run_cluster

NAME = parse_topic("persistent://shop/eu/orders")
TOPIC = scalable_name(NAME)
PARTS = legacy_names(NAME, 3)


async def _make(cluster: Cluster) -> Broker:
    """A partition at each broker; the first has the scalable name, and runs the migration."""
    cluster.place(TOPIC, cluster.brokers[0])
    for part, broker in zip(PARTS, cluster.brokers, strict=True):
        cluster.place(part, broker)
    await cluster.brokers[0].service.resources.partitioned.create(NAME, len(PARTS), {"team": "a"})
    for number, part in enumerate(PARTS):
        peer = cluster.owner(part).connect()
        await peer.produce(part.full)
        await peer.send(number + 1)
        await peer.subscribe(part.full, "all", CommandSubscribe.Shared, consumer_id=1, permits=0)
        peer.leave()
    return cluster.brokers[0]


async def _part(cluster: Cluster, index: int) -> PersistentTopic:
    name = PARTS[index]
    live = await cluster.owner(name).service.catalog.load_topic(name)
    assert isinstance(live, PersistentTopic)
    return live


def test_partitions_at_several_brokers_become_the_parents_of_segments() -> None:
    async def body(cluster: Cluster) -> None:
        home = await _make(cluster)
        await home.service.scalable.migrations.run(NAME)
        layout = await cluster.layout(TOPIC)
        assert [each.legacy_topic for each in layout.sealed] == [each.full for each in PARTS]
        assert len(layout.active) == 3
        for child in layout.active:
            assert set((await cluster.live(TOPIC, child)).subscriptions) == {"all"}
        controller = await home.service.scalable.controller(TOPIC)
        assert controller.state.record.properties == {"team": "a"}
        for index in range(3):
            live = await _part(cluster, index)
            assert live.successor == TOPIC
            assert live.log.record.terminated is not None
            refused = await cluster.owner(PARTS[index]).connect().produce(PARTS[index].full)
            assert refused.type == BaseCommand.ERROR
        backlog = await controller.subscriptions.registry.backlog("all")
        assert backlog == {0: 1, 1: 2, 2: 3, 3: 0, 4: 0, 5: 0}

    run_cluster(body)


def test_the_hash_of_keys_is_found_where_the_partitions_are() -> None:
    async def body(cluster: Cluster) -> None:
        home = await _make(cluster)
        keys = [f"customer-{number}" for number in range(24)]
        for index, part in enumerate(PARTS):
            own = [k for k in keys if route_partition(k, 3, hashing=KeyHash.MURMUR3) == index]
            peer = cluster.owner(part).connect()
            await peer.produce(part.full, producer_name="p")
            await peer.send(len(own), keys=own.__getitem__)
        assert await home.service.scalable._keys.find(NAME) is KeyHash.MURMUR3

    run_cluster(body)


def test_a_client_of_a_partition_at_another_broker_is_in_the_way() -> None:
    async def body(cluster: Cluster) -> None:
        home = await _make(cluster)
        far = cluster.brokers[2].connect()
        await far.produce(PARTS[2].full)
        migrations = home.service.scalable.migrations
        with pytest.raises(Conflict, match="1 "):
            await migrations.run(NAME)
        rehearsal = await migrations.rehearse(NAME)
        assert [each.topic for each in rehearsal.clients] == [PARTS[2].full]
        assert rehearsal.backlogs["all"].entries == 6
        assert await home.service.scalable.records.get(TOPIC) is None
        await far.send(1)
        await migrations.run(NAME, force=True)
        await eventually(lambda: _is_closed(cluster))

    async def _is_closed(cluster: Cluster) -> bool:
        return not (await _part(cluster, 2)).producers

    run_cluster(body)


@pytest.mark.parametrize("writes", range(1, 12, 2))
def test_a_migration_whose_broker_is_killed_is_taken_back_or_completed(writes: int) -> None:
    async def body(cluster: Cluster) -> None:
        home = await _make(cluster)
        seen = asyncio.create_task((await cluster.write_count(writes)).wait())
        running = asyncio.create_task(home.service.scalable.migrations.run(NAME))
        await asyncio.wait({seen, running}, return_when=asyncio.FIRST_COMPLETED)
        await cluster.kill(home)
        seen.cancel()
        await asyncio.gather(seen, running, return_exceptions=True)
        second = cluster.brokers[1]
        store = second.service.store

        async def is_settled() -> bool:
            left = await store.children(f"{PREPARATIONS}/shop/eu")
            locks = await store.children(f"{LOCKS}/shop/eu")
            record = await second.service.scalable.records.get(TOPIC)
            return not left and not locks and (record is None or record.intent is None)

        await eventually(is_settled)
        record = await second.service.scalable.records.get(TOPIC)
        if record is None:  # as if nothing had been: it takes messages, and can be migrated
            for broker, part in zip(cluster.brokers[1:], PARTS[1:], strict=True):
                peer = broker.connect()
                await peer.produce(part.full)
                await peer.send(1)
                peer.leave()
            await cluster.owner(TOPIC).service.scalable.migrations.run(NAME)
        assert not await store.exists(lock_path(TOPIC))
        layout = await cluster.layout(TOPIC)
        assert len(layout.active) == 3
        for child in layout.active:
            assert "all" in (await cluster.live(TOPIC, child)).subscriptions

        async def is_sealed() -> bool:
            try:
                parts = [await _part(cluster, index) for index in range(3)]
            except BrokerError:
                return False
            return all(each.log.record.terminated is not None for each in parts)

        await eventually(is_sealed)

    run_cluster(body)


@pytest.mark.parametrize("moves", [False, True])
def test_what_a_killed_broker_had_prepared_is_taken_back_though_its_heir_was_disconnected(
    moves: bool,
) -> None:
    """The heir was not notified of the end of the lock: it looks when it is connected again. Or
    another becomes the heir, who was notified before.
    """

    async def body(cluster: Cluster) -> None:
        home = await _make(cluster)
        second, third = cluster.brokers[1:]
        prepared = asyncio.Event()

        def on_preparation(change: Change) -> None:
            second.store.disconnect()
            prepared.set()

        third.store.watch(PREPARATIONS, on_preparation)
        cluster.place(TOPIC, second)
        running = asyncio.create_task(home.service.scalable.migrations.run(NAME))
        await prepared.wait()
        await cluster.kill(home)
        await asyncio.gather(running, return_exceptions=True)
        assert await third.store.children(f"{PREPARATIONS}/shop/eu")
        if moves:
            await asyncio.sleep(0.2)  # so that it has looked, and is not the owner
            cluster.place(TOPIC, third)
        second.store.reconnect()

        async def is_settled() -> bool:
            return not await third.store.children(f"{PREPARATIONS}/shop/eu")

        await eventually(is_settled)

    run_cluster(body)
