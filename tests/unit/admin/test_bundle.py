"""Bundles over REST, where each has an owner of its own: redirects, unload, split, lists."""

from __future__ import annotations

from magnetar.admin.table import make_application
from magnetar.broker.administration.web import Administration
from magnetar.broker.persistent import PersistentTopic
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.position import EARLIEST
from magnetar.rules.bundle import Bundle
from tests.unit.admin.assembly import V2, Admin, Reply
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


def test_a_bundle_is_cut_at_the_hashes_that_an_operator_names() -> None:
    async def body(cluster: Cluster) -> None:
        (a,) = await cluster.start("a")
        bundle = await own(cluster, a)
        low, high = (int(each, 16) for each in bundle.range.split("_"))
        path = f"{SPACE}/{bundle.range}/split?splitAlgorithmName=specified_positions_divide"
        for positions, status in ((None, 412), ([low], 412), (["x"], 400)):
            assert (await admin_of(a).put(path, positions)).status == status
        assert (await admin_of(a).put(path, [low + 16, hex(high - 16)])).status == 204
        found = (await admin_of(a).get(f"{SPACE}/bundles")).json["boundaries"]
        assert {f"0x{low + 16:08x}", f"0x{high - 16:08x}"} < set(found)
        assert len(found) == 7
        assert await cluster.bundle_of(TOPIC) in a.ownership.bundles

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


def test_a_partitioned_topic_is_administered_at_any_broker() -> None:
    async def body(cluster: Cluster) -> None:
        admins = [admin_of(node) for node in await cluster.start("a", "b")]
        topic = f"{V2}/persistent/public/default/parts"

        async def call(method: str, path: str, body: object = ...) -> Reply:
            """At the broker that redirects lead to."""
            reply = await admins[0].call(method, f"{topic}{path}", body)
            if reply.status == 307:
                reply = await admins[1].call(method, f"{topic}{path}", body)
            return reply

        assert (await call("PUT", "/partitions", 8)).status == 204
        held = [len(each.service.catalog.topics) for each in admins]
        assert min(held) > 0
        assert (await call("PUT", "/subscription/sub")).status == 204
        assert (await call("PUT", "/subscription/sub")).status == 409
        assert (await call("GET", "/subscriptions")).json == ["sub"]
        stats = (await call("GET", "/partitioned-stats?perPartition=true")).json
        assert len(stats["partitions"]) == 8
        assert "sub" in stats["subscriptions"]
        assert (await call("POST", "/partitions", 12)).status == 204
        assert len((await call("GET", "/partitioned-internalStats")).json["partitions"]) == 12
        assert (await call("POST", "/subscription/sub/skip_all")).status == 204
        reset = await call("POST", "/subscription/sub/resetcursor/1700000000000")
        assert reset.status == 204, reset.body
        assert (await call("DELETE", "/subscription/sub")).status == 204
        assert (await call("DELETE", "/subscription/sub")).status == 404
        assert (await call("GET", "/subscriptions")).json == []
        gone = await call("DELETE", "/partitions")
        assert gone.status == 204, gone.body
        assert not any(each.service.catalog.topics for each in admins)

    run_cluster(body)


def test_the_backlog_and_a_subscription_of_a_namespace_go_wherever_its_topics_are() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        admin, _ = admin_of(a), admin_of(b)
        loaded = []
        for number in range(8):
            topic = parse_topic(f"persistent://public/default/t{number}")
            owner = await cluster.owner_of(topic, asked=a)
            live = await owner.service.catalog.load_topic(topic, create=True)
            assert isinstance(live, PersistentTopic)
            await live.subscriptions.create("sub", position=EARLIEST)
            await live.log.append_entry(b"x")
            loaded.append(live)
        assert {topic.subscriptions["sub"].cursor.backlog for topic in loaded} == {1}
        assert (await admin.post(f"{SPACE}/clearBacklog")).status == 204
        assert {topic.subscriptions["sub"].cursor.backlog for topic in loaded} == {0}
        assert (await admin.post(f"{SPACE}/unsubscribe/sub")).status == 204
        assert not any("sub" in topic.subscriptions for topic in loaded)

    run_cluster(body)
