"""What brokers report of their load, and what the leader makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

from magnetar.broker.balancer import Balancer
from magnetar.broker.broker_directory import BROKERS
from magnetar.broker.bundle_boundary import Boundaries
from magnetar.broker.load_report import BrokerLoadReporter
from magnetar.broker.placement import Placement
from magnetar.metadata.lock import Locks
from magnetar.metadata.store import ABSENT, ANY_VERSION
from magnetar.model.load import BrokerReport, BundleStats, ResourceUsage
from magnetar.model.name import parse_topic
from magnetar.rules.bundle import Bundle
from magnetar.runtime.clock import SYSTEM
from magnetar.runtime.usage import ProcessUsage, read_usage
from tests.unit.broker.broker_place import until
from tests.unit.broker.cluster_place import Cluster, Node, run_cluster

TOPICS = tuple(parse_topic(f"persistent://public/default/t{number}") for number in range(20))
SCALABLE = parse_topic("topic://public/default/orders")
ISOLATION = "/admin/clusters/c1/namespaceIsolationPolicies"


def balancer_of(node: Node) -> Balancer:
    namespaces = node.service.resources.namespaces
    return Balancer(
        node.store,
        node.ownership,
        Placement(node.ownership.directory, node.service.resources.isolation, "c1", clock=SYSTEM),
        Boundaries(namespaces, lambda: 4),
        config=node.service.config,
        clock=SYSTEM,
    )


async def report(node: Node, usage: float, stats: Mapping[str, BundleStats]) -> None:
    """As if the broker had measured this."""
    path = f"{BROKERS}/{node.service.broker_id}"
    stored = await node.store.get(path)
    assert stored is not None
    told = msgspec.structs.replace(
        msgspec.json.decode(stored.value, type=BrokerReport),
        cpu=ResourceUsage(usage=usage, limit=100.0),
        lastStats=dict(stats),
        bundles=tuple(stats),
        numBundles=len(stats),
    )
    await node.store.put(path, msgspec.json.encode(told), expect=ANY_VERSION)


async def own_all(node: Node) -> list[Bundle]:
    for topic in TOPICS:
        bundle = await node.ownership.bundle_of(topic)
        assert bundle is not None
        await node.ownership.locks.acquire(bundle)
    return sorted(node.ownership.bundles, key=str)


def busy(bundles: list[Bundle], **more: float) -> dict[str, BundleStats]:
    return {
        str(bundle): BundleStats(msgThroughputIn=1e6, topics=5, **more)  # type: ignore[arg-type]
        for bundle in bundles
    }


def test_a_busy_broker_hands_bundles_to_an_idle_one_after_some_rounds() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        balancer = balancer_of(a)
        await balancer.run()  # it leads before anything is owned
        bundles = await own_all(a)
        for _ in range(2):
            await report(a, 80.0, busy(bundles))
            await balancer.run()
        assert not b.ownership.bundles
        await balancer.run()
        await until(lambda: len(b.ownership.bundles) > 0)
        moved = set(b.ownership.bundles)
        assert moved < set(bundles)
        # They stay where they are, whatever is reported next.
        await report(b, 80.0, busy(sorted(moved, key=str)))
        await report(a, 0.0, {})
        for _ in range(5):
            await balancer.run()
        assert set(b.ownership.bundles) == moved

    run_cluster(body)


def test_new_segments_go_to_the_broker_that_carries_least() -> None:
    """But for those in the bundle of the topic's name: the controller that makes them is there."""

    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        bundles = await own_all(a)
        home = await cluster.bundle_of(SCALABLE)
        await report(a, 40.0, dict.fromkeys(map(str, bundles), BundleStats()))
        await a.service.scalable.create_topic(SCALABLE, segments=8)
        record = await a.service.scalable.records.get(SCALABLE)
        assert record is not None
        for segment in record.layout.active:
            name = segment.name_in(SCALABLE)
            expected = a if home.holds(name) else b
            assert await cluster.owner_of(name, asked=a) is expected
            assert expected.service.catalog.find(name) is not None
        assert home in a.ownership.bundles

    run_cluster(body)


def test_a_new_leader_does_not_move_what_got_its_owner_a_moment_ago() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        bundles = await own_all(a)
        await report(a, 80.0, busy(bundles))
        balancer = balancer_of(a)
        for _ in range(6):
            await balancer.run()
        assert not b.ownership.bundles

    run_cluster(body)


def test_only_the_leader_balances() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        bundles = await own_all(b)
        balancer = balancer_of(b)
        for _ in range(3):
            await report(b, 90.0, busy(bundles))
            await balancer.run()
        assert set(b.ownership.bundles) == set(bundles)
        assert not a.ownership.bundles

    run_cluster(body)


def test_a_bundle_with_too_many_messages_is_split_by_its_owner() -> None:
    async def body(cluster: Cluster) -> None:
        a, b = await cluster.start("a", "b")
        bundles = await own_all(b)
        balancer = balancer_of(a)
        await report(b, 1.0, busy(bundles[:1], msgRateIn=40_000.0))
        for _ in range(3):
            await balancer.run()
        await until(lambda: len(b.ownership.bundles) == len(bundles) + 1)
        assert bundles[0] not in b.ownership.bundles

    run_cluster(body)


def test_a_namespace_stays_with_the_brokers_of_its_isolation_policy() -> None:
    async def body(cluster: Cluster) -> None:
        a, _ = await cluster.start("a", "b")
        policy = {"p": {"namespaces": ["public/default"], "primary": ["b"], "secondary": []}}
        await a.store.put(ISOLATION, json.dumps(policy).encode(), expect=ABSENT)
        for topic in TOPICS:
            assert (await a.ownership.owner_of(topic)).broker_id == "b:8080"
        assert not a.ownership.bundles

    run_cluster(body)


def test_a_broker_reports_its_rates_processor_and_memory() -> None:
    async def body(cluster: Cluster) -> None:
        (a,) = await cluster.start("a")
        await a.ownership.owner_of(TOPICS[0])
        peer = a.connect()
        await peer.produce(TOPICS[0].full)
        await peer.send(10)
        topic = a.service.catalog.topics[TOPICS[0].full]
        topic.tick(SYSTEM.monotonic())
        lock = await Locks(a.store, clock=SYSTEM).acquire(
            f"{BROKERS}/test", msgspec.json.encode(BrokerReport(brokerId="a:8080"))
        )
        spent = iter((1.0, 3.0, 5.0))
        reporter = BrokerLoadReporter(
            lock,
            a.ownership,
            a.service.catalog.topics,
            lambda: ProcessUsage(next(spent), 512.0, 1024.0),
            config=a.service.config,
            clock=SYSTEM,
        )
        await reporter.report()
        stored = (await a.ownership.directory.reports())["test"]
        bundle = str(await a.ownership.bundle_of(TOPICS[0]))
        assert stored.bundles == stored.lastBundleGains == (bundle,)
        assert stored.memory.share == 0.5
        assert stored.cpu.usage > 0
        assert stored.msgRateIn == stored.lastStats[bundle].msgRateIn > 0
        assert stored.lastStats[bundle].producerCount == stored.numProducers == 1
        assert stored.lastStats[bundle].topics == 1

    run_cluster(body)


def test_the_usage_of_this_process_is_plausible() -> None:
    usage = read_usage()
    assert usage.processor_s > 0
    assert 1 < usage.memory_mib < usage.memory_limit_mib


def test_a_choice_that_a_policy_forbids_by_now_is_made_anew() -> None:
    async def body(cluster: Cluster) -> None:
        a, _ = await cluster.start("a", "b")
        placement = Placement(
            a.ownership.directory, a.service.resources.isolation, "c1", clock=SYSTEM
        )
        bundle = await a.ownership.bundle_of(TOPICS[0])
        assert bundle is not None
        chosen = await placement.choose(bundle)
        other = "b" if chosen == "a:8080" else "a"
        policy = {"p": {"namespaces": ["public/default"], "primary": [other], "secondary": []}}
        await a.store.put(ISOLATION, json.dumps(policy).encode(), expect=ABSENT)
        assert await placement.choose(bundle) == f"{other}:8080"

    run_cluster(body)
