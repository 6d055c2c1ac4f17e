"""What operators say about bookies and brokers acts in a cluster."""

from __future__ import annotations

import json
from urllib.request import urlopen

from magnetar import PulsarClient
from tests.cluster.brokers import NAMESPACE, BrokerCluster


def test_the_persistence_of_a_namespace_and_of_a_topic_says_how_many_bookies_keep_an_entry(
    brokers: BrokerCluster,
) -> None:
    namespace = "public/copies"

    def persistence(ensemble: int, write: int, ack: int) -> dict[str, float]:
        return {
            "bookkeeperEnsemble": ensemble,
            "bookkeeperWriteQuorum": write,
            "bookkeeperAckQuorum": ack,
            "managedLedgerMaxMarkDeleteRate": 0.0,
        }

    found = {}
    with brokers.admin() as admin, PulsarClient(brokers.service_url) as client:
        admin.namespaces.create(namespace)
        admin.namespaces.set_policy(namespace, "persistence", persistence(3, 3, 2))
        for name in ("many", "one"):
            topic = f"persistent://{namespace}/{name}"
            if name == "one":
                admin.topics.create(topic)
                admin.topic_policies.set(topic, "persistence", persistence(1, 1, 1))
            with client.producer(topic) as producer:
                found[name] = brokers.read_ledger(producer.send(b"kept").ledger_id)
    assert [each.ack_quorum for each in found.values()] == [2, 1]
    assert [each.write_quorum for each in found.values()] == [3, 1]
    assert [len(each.segments[0].bookies) for each in found.values()] == [3, 1]


def test_racks_are_kept_as_pulsar_keeps_them_and_isolation_policies_move_topics(
    brokers: BrokerCluster,
) -> None:
    topic = brokers.new_topic("isolated")
    bookies = [bookie.address for bookie in brokers.bookies.bookies]
    owner = brokers.owner(topic)
    other = brokers.keep(owner).admin_url.removeprefix("http://")
    with brokers.admin() as admin:
        listed = [each["bookieId"] for each in admin.bookies.list()["bookies"]]
        assert set(bookies) <= set(listed)
        for number, bookie in enumerate(bookies):
            admin.bookies.set_rack(bookie, {"rack": f"/rack-{number}"}, "default")
        racks = {bookie: {"rack": f"/rack-{number}"} for number, bookie in enumerate(bookies)}
        assert json.loads(brokers.read("/bookies") or b"") == {"default": racks}

        [cluster] = admin.clusters.list()
        policy = {
            "namespaces": ["public/default"],
            "primary": [other],
            "secondary": [],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "100"},
            },
        }
        admin.clusters.set_isolation_policy(cluster, "one", policy)
        try:
            assert brokers.owner(topic).admin_url.endswith(other)
            found = {each["brokerName"]: each for each in admin.clusters.isolated_brokers(cluster)}
            assert found[other]["primary"] and found[other]["policyName"] == "one"
            stored = brokers.read(f"/admin/clusters/{cluster}/namespaceIsolationPolicies")
            assert json.loads(stored or b"") == {"one": policy}
        finally:
            admin.clusters.delete_isolation_policy(cluster, "one")
            for bookie in bookies:
                admin.bookies.delete_rack(bookie)


def test_a_bundle_is_cut_where_a_topic_of_it_lies(brokers: BrokerCluster) -> None:
    topic, other = brokers.new_topic("cut-off"), brokers.new_topic("cut-off")
    with brokers.admin() as admin:
        for each in (topic, other):
            admin.topics.create(each)
        bundle = admin.topics.bundle_range(topic)
        found = admin.namespaces.topic_hash_positions(NAMESPACE, bundle, topics=[topic])
        position = found["topicHashPositions"].pop(topic)
        assert found == {"namespace": NAMESPACE, "bundle": bundle, "topicHashPositions": {}}
        everything = admin.namespaces.topic_hash_positions(NAMESPACE, bundle)
        assert everything["topicHashPositions"][topic] == position
        admin.namespaces.split_bundle(
            NAMESPACE, bundle, algorithm="specified_positions_divide", positions=[f"{position}"]
        )
        assert admin.topics.bundle_range(topic) == f"{position:#010x}_{bundle[11:]}"


def test_metrics_tell_what_each_bookie_was_sent(brokers: BrokerCluster) -> None:
    topic = brokers.new_topic("metered")
    with PulsarClient(brokers.service_url) as client, client.producer(topic) as producer:
        kept = brokers.read_ledger(producer.send(b"counted").ledger_id)
    with urlopen(f"{brokers.owner(topic).admin_url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    for bookie in kept.segments[0].bookies:
        [added] = [
            each
            for each in lines
            if each.startswith("magnetar_bookie_adds_total{") and f'bookie="{bookie}"' in each
        ]
        assert float(added.rpartition(" ")[2]) >= 1
