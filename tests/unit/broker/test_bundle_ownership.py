"""Bundles of brokers that share their ledgers: who owns them, and how they change hands."""

from __future__ import annotations

import asyncio
import json

import pytest

from magnetar.broker.bundle_record import owner_path, request_path
from magnetar.errors import LedgerFenced, NoOwner, ServiceNotReady, TopicFenced
from magnetar.metadata.store import ANY_VERSION
from magnetar.model.name import TopicDomain, TopicName, parse_topic
from magnetar.rules.bundle import Bundle
from magnetar.wire.command import BaseCommand, CommandLookupTopic, CommandLookupTopicResponse
from tests.unit.broker.broker_place import Peer, until
from tests.unit.broker.cluster_place import Cluster, Node, run_cluster

TOPIC = parse_topic("persistent://public/default/orders")
TOPICS = tuple(parse_topic(f"persistent://public/default/t{number}") for number in range(40))


async def bundle_of(node: Node, topic: TopicName = TOPIC) -> Bundle:
    bundle = await node.ownership.bundle_of(topic)
    assert bundle is not None
    return bundle


async def lookup(node: Node, *, authoritative: bool = False) -> CommandLookupTopicResponse:
    request = CommandLookupTopic(topic=TOPIC.full, authoritative=authoritative)
    answer = await node.connect().ask(request, BaseCommand.LOOKUP_RESPONSE)
    return answer.lookupTopicResponse


def test_the_owner_record_has_the_shape_of_pulsars() -> None:
    async def body(cluster: Cluster) -> None:
        (a,) = await cluster.start("a")
        assert (await a.ownership.owner_of(TOPIC)).is_self
        record = await a.store.get(owner_path(await bundle_of(a)))
        assert record is not None and record.stat.ephemeral
        found = json.loads(record.value)
        assert found.pop("term") == a.service.owner.term
        assert found == {
            "brokerId": "a:8080",
            "nativeUrl": "pulsar://a:6650",
            "httpUrl": "http://a:8080",
            "disabled": False,
            "advertisedListeners": {
                "internal": {
                    "brokerServiceUrl": "pulsar://a:6650",
                    "brokerHttpUrl": "http://a:8080",
                }
            },
        }

    run_cluster(body)


def test_every_broker_names_the_same_owner_and_the_load_is_shared() -> None:
    async def body(cluster: Cluster) -> None:
        nodes = await cluster.start("a", "b", "c")
        owners = {}
        for node in nodes:
            for topic in TOPICS:
                owner = await node.ownership.owner_of(topic)
                assert owners.setdefault(topic, owner.broker_id) == owner.broker_id
                assert owner.is_self == (owner.broker_id == node.service.broker_id)
        assert set(owners.values()) == {"a:8080", "b:8080", "c:8080"}
        held = [bundle for node in nodes for bundle in node.ownership.bundles]
        assert len(held) == len(set(held)) == 4

    run_cluster(body)


def test_a_lookup_goes_to_the_leader_and_from_there_to_the_broker_it_chose() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        answer = await lookup(b)
        assert answer.response == CommandLookupTopicResponse.Redirect
        assert (answer.brokerServiceUrl, answer.authoritative) == ("pulsar://a:6650", False)
        answer = await lookup(a)
        if answer.response == CommandLookupTopicResponse.Redirect:
            assert (answer.brokerServiceUrl, answer.authoritative) == ("pulsar://b:6650", True)
            answer = await lookup(b, authoritative=True)
        assert answer.response == CommandLookupTopicResponse.Connect
        for node in (a, b):  # from now on every broker knows
            again = await lookup(node)
            assert again.response == CommandLookupTopicResponse.Connect
            assert again.brokerServiceUrl == answer.brokerServiceUrl

    run_cluster(body)


def test_an_authoritative_lookup_makes_the_broker_the_owner() -> None:
    async def body(cluster: Cluster) -> None:
        _, b = await cluster.start("a", "b")
        answer = await lookup(b, authoritative=True)
        assert answer.response == CommandLookupTopicResponse.Connect
        assert (await bundle_of(b)) in b.ownership.bundles

    run_cluster(body)


def test_a_client_at_the_wrong_broker_must_look_up_again() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        await lookup(b, authoritative=True)
        answer = await a.connect().produce(TOPIC.full)
        assert answer.type == BaseCommand.ERROR
        bundle = await bundle_of(a)
        assert answer.error.message == (
            f"Namespace bundle ({bundle}) for topic ({TOPIC}) not served by this"
            " instance:a:8080. Please redo the lookup."
        )

    run_cluster(body)


async def publish(node: Node, count: int) -> Peer:
    peer = node.connect()
    answer = await peer.produce(TOPIC.full)
    assert answer.type == BaseCommand.PRODUCER_SUCCESS
    await peer.send(count)
    return peer


async def count_entries(node: Node) -> int:
    topic = await node.service.catalog.load_topic(TOPIC)
    assert topic.log is not None
    return sum(part.entries for part in topic.log.sequence.parts)


def test_a_bundle_moves_to_a_named_broker_with_its_topics_and_clients() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        await lookup(a, authoritative=True)
        peer = await publish(a, 5)
        bundle = await bundle_of(a)
        await b.bundles.unload(bundle, "b:8080")  # asked for at a broker that does not own it
        assert bundle in b.ownership.bundles
        assert bundle not in a.ownership.bundles
        assert a.service.catalog.find(TOPIC) is None
        closed = [
            each.close_producer
            for each in peer._wire.received
            if each.type == BaseCommand.CLOSE_PRODUCER
        ]
        assert [each.assignedBrokerServiceUrl for each in closed] == ["pulsar://b:6650"]
        await publish(b, 3)
        assert await count_entries(b) == 8

    run_cluster(body)


def test_a_topic_that_is_loaded_while_its_bundle_moves_stays_with_no_former_owner() -> None:
    """However far the load has come when the move begins."""

    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        bundle = await bundle_of(a)
        await a.ownership.locks.acquire(bundle)
        for steps in range(0, 60, 2):
            source, target = (a, b) if bundle in a.ownership.bundles else (b, a)
            loading = asyncio.create_task(source.service.catalog.load_topic(TOPIC, create=True))
            for _ in range(steps):
                await asyncio.sleep(0)
            await source.bundles.unload(bundle, target.service.broker_id)
            await asyncio.wait([loading])
            await until(lambda node=source: node.service.catalog.find(TOPIC) is None)  # type: ignore[misc]
            assert bundle in target.ownership.bundles
            assert isinstance(loading.exception(), NoOwner | ServiceNotReady | None)

    run_cluster(body)


def test_an_unloaded_bundle_that_stays_calls_its_clients_back_at_once() -> None:
    async def body(cluster: Cluster) -> None:
        (a,) = await cluster.start("a")
        await lookup(a, authoritative=True)
        peer = await publish(a, 5)
        bundle = await bundle_of(a)
        loaded = a.service.catalog.find(TOPIC)
        await a.bundles.unload(bundle)
        assert bundle in a.ownership.bundles
        assert loaded is not None and loaded.closed and a.service.catalog.find(TOPIC) is None
        [closed] = [
            each.close_producer
            for each in peer._wire.received
            if each.type == BaseCommand.CLOSE_PRODUCER
        ]
        assert closed.assignedBrokerServiceUrl == "pulsar://a:6650"
        await publish(a, 3)
        assert await count_entries(a) == 8

    run_cluster(body)


def test_a_client_that_comes_before_the_bundle_waits_for_it() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        await lookup(a, authoritative=True)
        bundle = await bundle_of(a)
        closing, may_close = asyncio.Event(), asyncio.Event()

        async def close() -> None:
            closing.set()
            await may_close.wait()

        target = await a.ownership.directory.find("b:8080")
        moving = asyncio.create_task(a.ownership.hand_over(bundle, target, close))
        await closing.wait()
        with pytest.raises(NoOwner, match="is being unloaded"):
            await a.ownership.owner_of(TOPIC)
        coming = asyncio.create_task(b.connect().produce(TOPIC.full))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not coming.done()
        may_close.set()
        assert (await coming).type == BaseCommand.PRODUCER_SUCCESS
        await moving

    run_cluster(body)


def test_a_broker_that_stops_hands_everything_over_first() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        await lookup(b, authoritative=True)
        await publish(b, 4)
        bundle = await bundle_of(b)
        await b.stop()
        assert bundle in a.ownership.bundles
        assert await count_entries(a) == 4
        assert set(await a.ownership.directory.reports()) == {"a:8080"}

    run_cluster(body)


def test_another_broker_takes_over_when_a_session_ends_and_the_old_owner_closes_its_topics() -> (
    None
):
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        await lookup(b, authoritative=True)
        await publish(b, 4)
        b.store.disconnect()
        b.store.expire()  # and it cannot hear of it yet
        await lookup(a, authoritative=True)
        assert await count_entries(a) == 4
        await publish(a, 2)
        assert await bundle_of(a) not in b.ownership.bundles
        await until(lambda: b.service.catalog.find(TOPIC) is None)
        b.store.reconnect()
        owner = await b.ownership.owner_of(TOPIC)
        assert owner.broker_id == "a:8080"
        with pytest.raises(ServiceNotReady, match="Please redo the lookup"):
            await b.ownership.require(TOPIC)
        assert await count_entries(a) == 6

    run_cluster(body)


def test_an_owner_that_gave_up_a_session_which_the_store_kept_serves_again() -> None:
    """Its record stands: everybody sends clients to it, and none is asked to look for another."""

    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        await lookup(b, authoritative=True)
        await publish(b, 4)
        b.store.disconnect()
        b.store.give_up()
        await until(lambda: b.service.catalog.find(TOPIC) is None)
        b.store.reconnect()
        assert await bundle_of(b) not in b.ownership.bundles
        assert (await a.ownership.owner_of(TOPIC)).broker_id == "b:8080"
        assert (await b.ownership.require(TOPIC)).is_self
        assert await count_entries(b) == 4
        await publish(b, 2)

    run_cluster(body)


def test_a_bundle_is_given_up_by_an_owner_that_was_asked_while_it_could_not_hear() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        await lookup(b, authoritative=True)
        bundle = await bundle_of(a)
        b.store.disconnect()
        moving = asyncio.create_task(a.bundles.unload(bundle, "a:8080"))
        await until(lambda: cluster.tree.exists(request_path(bundle)))
        b.store.reconnect()
        await moving
        assert (await b.ownership.owner_of(TOPIC)).broker_id == "a:8080"

    run_cluster(body)


def test_an_owner_that_slept_through_the_end_of_its_session_cannot_write() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        await lookup(b, authoritative=True)
        peer = await publish(b, 4)
        stale = await b.service.catalog.load_topic(TOPIC)
        assert stale.log is not None
        cluster.tree.detach(b.store)  # it sleeps, and is not told
        cluster.tree.drop_session(b.store._session)
        await lookup(a, authoritative=True)
        assert await count_entries(a) == 4
        cluster.tree.attach(b.store)  # it wakes
        with pytest.raises((LedgerFenced, TopicFenced)):
            await stale.log.append_entry(b"too late")
        await until(lambda: b.service.catalog.find(TOPIC) is None)
        await until(lambda: peer.count(BaseCommand.CLOSE_PRODUCER) == 1)
        await publish(a, 1)
        assert await count_entries(a) == 5

    run_cluster(body)


def test_a_record_that_somebody_deletes_is_written_again_and_topics_stay() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        await lookup(a, authoritative=True)
        await publish(a, 1)
        bundle = await bundle_of(a)
        await b.store.delete(owner_path(bundle), expect=ANY_VERSION)
        await asyncio.sleep(0.05)
        assert (await b.ownership.owner_of(TOPIC)).broker_id == "a:8080"
        assert a.service.catalog.find(TOPIC) is not None

    run_cluster(body)


def test_a_broker_at_the_same_address_takes_its_bundles_again_at_once() -> None:
    async def body(cluster: Cluster) -> None:
        _, b = await cluster.start("a", "b")
        await lookup(b, authoritative=True)
        bundle = await bundle_of(b)
        again = Node(cluster, "b")
        await again.start()
        cluster.nodes["again"] = again
        assert (await again.ownership.owner_of(TOPIC)).is_self
        assert bundle in again.ownership.bundles

    run_cluster(body)


def test_the_namespace_of_a_broker_is_served_by_that_broker() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        topic = parse_topic("persistent://pulsar/b:8080/healthcheck")
        assert (await a.ownership.owner_of(topic)).broker_id == "b:8080"
        assert (await b.ownership.owner_of(topic)).is_self

    run_cluster(body)


def test_a_split_bundle_keeps_its_owner_and_its_topics() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        await lookup(a, authoritative=True)
        peer = await publish(a, 2)
        bundle = await bundle_of(a)
        parts = await a.bundles.splitter.split(bundle, (int(bundle.range[:10], 16) + 5,))
        assert len(parts) == 2
        assert await bundle_of(b) in parts
        assert (await b.ownership.owner_of(TOPIC)).broker_id == "a:8080"
        assert not await b.store.exists(owner_path(bundle))
        await peer.send(1)
        assert peer.count(BaseCommand.CLOSE_PRODUCER) == 0
        policies = await b.service.resources.namespaces.require(TOPIC.namespace)
        local = await b.service.resources.namespaces.get_local(TOPIC.namespace)
        assert local is not None and policies.bundles == local.bundles

    run_cluster(body)


def test_generated_producer_names_of_two_brokers_differ() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        assert a.service.next_producer_name() != b.service.next_producer_name()
        assert a.service.next_producer_name().startswith("c1-1000")

    run_cluster(body)


def test_non_persistent_topics_of_all_brokers_are_listed() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        names = [TopicName(TopicDomain.NON_PERSISTENT, t.namespace, t.local) for t in TOPICS[:12]]
        for name in names:
            owner = await cluster.owner_of(name, asked=a)
            answer = await owner.connect().produce(name.full)
            assert answer.type == BaseCommand.PRODUCER_SUCCESS
        assert {len(each.service.catalog.topics) for each in (a, b)} != {0, 12}
        expected = sorted(name.full for name in names)
        for node in (a, b):
            found = await node.service.catalog.list_topics(
                TOPIC.namespace, TopicDomain.NON_PERSISTENT
            )
            assert found == expected

    run_cluster(body)
