"""Bundles over REST, where each has an owner of its own: redirects, unload, split, lists."""

from __future__ import annotations

from magnetar.admin.table import make_application
from magnetar.broker.administration.web import Administration
from magnetar.model.name import TopicName, parse_topic
from magnetar.rules.bundle import Bundle
from tests.unit.admin.assembly import V2, Admin
from tests.unit.broker.cluster_place import Cluster, Node, run_cluster

TOPIC = parse_topic("persistent://public/default/orders")
SPACE = f"{V2}/namespaces/public/default"
STATS = f"{V2}/persistent/public/default/orders/stats"


def admin_of(node: Node) -> Admin:
    api = Administration(node.service)
    return Admin(make_application(api), node.service, api)


async def own(cluster: Cluster, node: Node, topic: TopicName = TOPIC) -> Bundle:
    bundle = await cluster.bundle_of(topic)
    await node.ownership.locks.acquire(bundle)
    return bundle


def test_a_call_about_a_topic_is_sent_to_the_owner_of_its_bundle() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        await own(cluster, b)
        await b.service.catalog.load_topic(TOPIC, create=True)
        reply = await admin_of(a).get(f"{STATS}?x=1")
        assert (reply.status, reply.headers["location"]) == (307, f"http://b:8080{STATS}?x=1")
        assert (await admin_of(b).get(STATS)).status == 200

    run_cluster(body)


def test_a_lookup_over_http_names_the_owner_at_every_broker() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        await own(cluster, b)
        for node in (a, b):
            path = "/lookup/v2/topic/persistent/public/default/orders"
            reply = await admin_of(node).get(path)
            assert (reply.status, reply.json["brokerUrl"]) == (200, "pulsar://b:6650")

    run_cluster(body)


def test_a_bundle_is_unloaded_and_split_by_its_owner() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        bundle = await own(cluster, b)
        for verb in ("unload", "split"):
            path = f"{SPACE}/{bundle.range}/{verb}"
            reply = await admin_of(a).put(path)
            assert (reply.status, reply.headers["location"]) == (307, f"http://b:8080{path}")
        before = (await admin_of(a).get(f"{SPACE}/bundles")).json["numBundles"]
        assert (await admin_of(b).put(f"{SPACE}/{bundle.range}/split")).status == 204
        assert (await admin_of(a).get(f"{SPACE}/bundles")).json["numBundles"] == before + 1
        part = await cluster.bundle_of(TOPIC)
        assert part != bundle
        moved = await admin_of(b).put(f"{SPACE}/{part.range}/unload?destinationBroker=a:8080")
        assert moved.status == 204
        assert part in a.ownership.bundles

    run_cluster(body)


def test_an_unowned_bundle_is_unloaded_already() -> None:
    async def body(cluster: Cluster) -> None:
        (a,) = await cluster.start("a")
        bundle = await cluster.bundle_of(TOPIC)
        assert (await admin_of(a).put(f"{SPACE}/{bundle.range}/unload")).status == 204
        assert not a.ownership.bundles

    run_cluster(body)


def test_an_unknown_destination_is_refused() -> None:
    async def body(cluster: Cluster) -> None:
        (a,) = await cluster.start("a")
        bundle = await own(cluster, a)
        reply = await admin_of(a).put(f"{SPACE}/{bundle.range}/unload?destinationBroker=z:1")
        assert reply.status == 412
        assert bundle in a.ownership.bundles

    run_cluster(body)


def test_a_namespace_is_unloaded_by_all_brokers_that_own_a_part_of_it() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        topics = [parse_topic(f"persistent://public/default/t{number}") for number in range(12)]
        loaded = []
        for topic in topics:
            owner = await cluster.owner_of(topic, asked=a)
            loaded.append(await owner.service.catalog.load_topic(topic, create=True))
        assert {len(node.service.catalog.topics) > 0 for node in (a, b)} == {True}
        assert (await admin_of(a).put(f"{SPACE}/unload")).status == 204
        assert all(topic.closed for topic in loaded)

    run_cluster(body)


def test_a_bundle_is_cut_between_its_topics() -> None:
    async def body(cluster: Cluster) -> None:
        (a,) = await cluster.start("a")
        topics = [parse_topic(f"persistent://public/default/t{number}") for number in range(40)]
        for topic in topics:
            await a.service.catalog.load_topic(topic, create=True)
        bundle = await cluster.bundle_of(topics[0])
        inside = [topic for topic in topics if bundle.holds(topic)]
        algorithm = "splitAlgorithmName=topic_count_equally_divide"
        reply = await admin_of(a).put(f"{SPACE}/{bundle.range}/split?{algorithm}")
        assert reply.status == 204
        halves: dict[Bundle, int] = {}
        for topic in inside:
            half = await cluster.bundle_of(topic)
            halves[half] = halves.get(half, 0) + 1
        assert sorted(halves.values()) == [len(inside) // 2, len(inside) - len(inside) // 2]

    run_cluster(body)


def test_a_namespace_is_deleted_with_topics_that_other_brokers_serve() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        space = f"{V2}/namespaces/public/gone"
        assert (await admin_of(a).put(space)).status == 204
        for number in range(12):
            topic = parse_topic(f"persistent://public/gone/t{number}")
            owner = await cluster.owner_of(topic, asked=b)
            await owner.service.catalog.load_topic(topic, create=True)
        reply = await admin_of(a).delete(f"{space}?force=true")
        assert reply.status == 204, reply.body
        assert not await a.store.exists("/managed-ledgers/public/gone")
        assert not await a.store.exists("/namespace/public/gone")
        assert not [each for each in b.ownership.bundles if each.namespace.local == "gone"]

    run_cluster(body, forceDeleteNamespaceAllowed=True)


def test_the_bundles_of_a_broker_are_listed() -> None:
    async def body(cluster: Cluster) -> None:
        (a,) = await cluster.start("a")
        bundle = await own(cluster, a)
        reply = await admin_of(a).get(f"{V2}/brokers/c1/a:8080/ownedNamespaces")
        assert str(bundle) in reply.json
        assert (await admin_of(a).get(f"{V2}/brokers/c1/z:1/ownedNamespaces")).status == 404
        assert (await admin_of(a).get(f"{V2}/brokers/c1")).json == ["a:8080"]

    run_cluster(body)
