"""The admin verbs against a live broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest

from magnetar.cli.main import main
from magnetar.testing.broker import MagnetarBroker
from magnetar.testing.plugin import StartBroker

Run = Callable[..., Any]


@pytest.fixture
def run(magnetar_broker: MagnetarBroker, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run an admin verb that must succeed; returns what it printed as JSON."""

    def call(*words: str) -> Any:
        code = main(["admin", "--admin-url", magnetar_broker.admin_url, "-o", "json", *words])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        return json.loads(shown.out) if shown.out else None

    return call


@pytest.fixture
def refused(magnetar_broker: MagnetarBroker, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run an admin verb that must be refused; returns the sentence."""

    def call(*words: str) -> str:
        assert main(["admin", "--admin-url", magnetar_broker.admin_url, *words]) == 1
        shown = capsys.readouterr()
        assert not shown.out and len(shown.err.splitlines()) == 1
        return shown.err.removeprefix("magnetar: ").strip()

    return call


@pytest.fixture
def namespace(run: Run) -> str:
    name = f"public/n-{uuid.uuid4().hex[:8]}"
    run("namespaces", "create", name)
    return name


def test_tenants_and_namespaces_come_and_go(run: Run, refused: Run) -> None:
    tenant = f"t-{uuid.uuid4().hex[:8]}"
    run("tenants", "create", tenant, "-r", "admin1,admin2")
    assert run("tenants", "get", tenant)["adminRoles"] == ["admin1", "admin2"]
    assert tenant in run("tenants", "list")
    run("tenants", "update", tenant, "-r", "other")
    assert run("tenants", "get", tenant)["adminRoles"] == ["other"]
    run("namespaces", "create", f"{tenant}/n", "-b", "3")
    assert run("namespaces", "bundles", f"{tenant}/n")["numBundles"] == 3
    assert run("namespaces", "list", tenant) == [f"{tenant}/n"]
    assert "already exists" in refused("namespaces", "create", f"{tenant}/n")
    assert refused("tenants", "delete", tenant)
    run("namespaces", "delete", f"{tenant}/n")
    run("tenants", "delete", tenant)
    assert tenant not in run("tenants", "list")


def test_topics_come_and_go(run: Run, refused: Run, namespace: str) -> None:
    topic = f"persistent://{namespace}/one two"
    run("topics", "create", topic, "-m", "a=b")
    assert run("topics", "list", namespace) == [topic]
    assert run("topics", "get-properties", topic) == {"a": "b"}
    assert run("topics", "stats", topic)["publishers"] == []
    assert "exist" in refused("topics", "create", topic)
    run("topics", "delete", topic)
    assert run("topics", "list", namespace) == []
    assert refused("topics", "stats", topic) == f"Topic {topic} not found"


def test_partitions_are_made_counted_and_added(run: Run, refused: Run, namespace: str) -> None:
    topic = f"persistent://{namespace}/parts"
    run("topics", "create-partitioned-topic", topic, "-p", "2")
    assert run("topics", "get-partitioned-topic-metadata", topic)["partitions"] == 2
    run("topics", "update-partitioned-topic", topic, "-p", "3")
    assert run("topics", "list-partitioned-topics", namespace) == [topic]
    assert len(run("topics", "list", namespace)) == 3
    assert len(run("topics", "partitioned-lookup", topic)) == 3
    assert (
        run("topics", "partitioned-stats", topic, "--per-partition")["metadata"]["partitions"] == 3
    )
    assert refused("topics", "update-partitioned-topic", topic, "-p", "1")
    run("topics", "delete-partitioned-topic", topic)
    assert run("topics", "list-partitioned-topics", namespace) == []


def test_subscriptions_are_moved_and_drained(
    run: Run, refused: Run, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    for number in range(5):
        producer.send(f"m{number}".encode())
    producer.close()

    def backlog(name: str) -> int:
        count: int = run("topics", "stats", topic)["subscriptions"][name]["msgBacklog"]
        return count

    run("subscriptions", "create", topic, "-s", "a/b c", "-m", "earliest")
    run("topics", "create-subscription", topic, "-s", "late")
    assert sorted(run("topics", "subscriptions", topic)) == ["a/b c", "late"]
    assert (backlog("a/b c"), backlog("late")) == (5, 0)
    run("topics", "skip", topic, "-s", "a/b c", "-n", "2")
    assert backlog("a/b c") == 3
    peeked = run("topics", "peek-messages", topic, "-s", "a/b c", "-n", "9")
    assert [entry["data"] for entry in peeked] == ["m2", "m3", "m4"]
    run("subscriptions", "reset", topic, "-s", "a/b c", "-m", "earliest")
    assert backlog("a/b c") == 5
    run("topics", "clear-backlog", topic, "-s", "a/b c")
    assert backlog("a/b c") == 0
    run("topics", "unsubscribe", topic, "-s", "a/b c")
    assert run("subscriptions", "list", topic) == ["late"]
    assert "not found" in refused("topics", "skip", topic, "-s", "gone", "-n", "1")


@pytest.mark.parametrize(
    ("policy", "flags", "expected"),
    [
        (
            "retention",
            ("-t", "2h", "-s", "20G"),  # more than the backlog may take by default
            {"retentionTimeInMinutes": 120, "retentionSizeInMB": 20_480},
        ),
        ("message-ttl", ("--ttl", "5m"), 300),
        ("deduplication", ("-e",), True),
        ("max-consumers-per-subscription", ("-c", "4"), 4),
        ("compaction-threshold", ("-t", "1M"), 2**20),
        (
            "publish-rate",
            ("-m", "10"),
            {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": -1},
        ),
    ],
)
@pytest.mark.parametrize("group", ["namespaces", "topicPolicies"])
def test_a_policy_is_set_shown_and_removed(
    group: str, policy: str, flags: tuple[str, ...], expected: object, run: Run, namespace: str
) -> None:
    target = namespace
    if group == "topicPolicies":
        target = f"persistent://{namespace}/x"
        run("topics", "create", target)
    before = run(group, f"get-{policy}", target)
    run(group, f"set-{policy}", target, *flags)
    assert run(group, f"get-{policy}", target) == expected
    run(group, f"remove-{policy}", target)
    assert run(group, f"get-{policy}", target) == before


def test_a_backlog_quota_is_kept_by_its_type(run: Run, namespace: str) -> None:
    words = ("-l", "1G", "-p", "producer_exception")
    run("namespaces", "set-backlog-quota", namespace, *words)
    [quota] = run("namespaces", "get-backlog-quotas", namespace).values()
    assert (quota["limitSize"], quota["policy"]) == (2**30, "producer_exception")
    run("namespaces", "remove-backlog-quota", namespace)
    assert not run("namespaces", "get-backlog-quotas", namespace)


def test_a_schema_is_uploaded_checked_and_deleted(
    run: Run, refused: Run, topic: str, tmp_path: Path
) -> None:
    definition = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"type": "AVRO", "schema": json.dumps(definition)}))
    assert run("schemas", "upload", topic, "-f", str(file)) == {"version": 0}
    assert run("schemas", "get", topic)["type"] == "AVRO"
    assert run("schemas", "compatibility", topic, "-f", str(file))["compatibility"] is True
    run("schemas", "delete", topic)
    assert "not found" in refused("schemas", "get", topic).lower()


def test_the_broker_says_how_it_is(run: Run, magnetar_broker: MagnetarBroker) -> None:
    assert run("brokers", "healthcheck") == "ok"
    [broker] = run("brokers", "list")
    assert broker.endswith(f":{magnetar_broker.web_port}")
    assert run("clusters", "list") == ["standalone"]
    assert "maxMessageSize" in run("brokers", "get-runtime-config")


def test_a_terminated_topic_shows_its_last_message(
    run: Run, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    sent = producer.send(b"last")
    producer.close()
    ended = run("topics", "terminate", topic)
    assert ended.startswith(f"{sent.ledger_id()}:{sent.entry_id()}:")
    assert run("topics", "last-message-id", topic).startswith(f"{sent.ledger_id()}:")


def test_topics_of_a_bucketed_namespace_are_counted_paged_and_streamed(
    run: Run, refused: Run
) -> None:
    name = f"public/n-{uuid.uuid4().hex[:8]}"
    run("namespaces", "create", name, "--topic-buckets", "7")
    assert run("namespaces", "topic-buckets", name) == 7
    topics = [f"persistent://{name}/orders-{index}" for index in range(5)]
    for topic in topics:
        run("topics", "create", topic)
    run("topics", "create", f"non-persistent://{name}/passing")
    everything = run("topics", "list", name)
    assert sorted(everything) == sorted([*topics, f"non-persistent://{name}/passing"])
    first = run("topics", "list", name, "--limit", "4")
    assert first == everything[:4]
    assert run("topics", "list", name, "--limit", "4", "--after", first[-1]) == everything[4:]
    assert run("topics", "count", name) == {"persistent": 5, "non-persistent": 1, "topic": 0}
    sentence = refused("namespaces", "rebucket", name, "--topic-buckets", "64")
    assert "was created with 7, and its topics are found by that number" in sentence
    assert "magnetar admin namespaces create TENANT/NAMESPACE --topic-buckets 64" in sentence
    assert run("namespaces", "topic-buckets", name) == 7


@pytest.mark.parametrize("count", ["0", "-1", "1000000000"])
def test_a_bad_number_of_buckets_is_refused_in_a_sentence(refused: Run, count: str) -> None:
    name = f"public/n-{uuid.uuid4().hex[:8]}"
    sentence = refused("namespaces", "create", name, f"--topic-buckets={count}")
    assert sentence.startswith(f"Invalid value for numberOfTopicBuckets: {count}; a namespace has")
    assert "Namespace does not exist" in refused("namespaces", "policies", name)


def test_a_cluster_is_deleted_with_topics_of_every_kind(
    magnetar_broker_factory: StartBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = magnetar_broker_factory()

    def call(*words: str) -> None:
        assert main(["admin", "--admin-url", broker.admin_url, *words]) == 0, capsys.readouterr()

    call("topics", "create", "persistent://public/default/regular")
    call("topics", "create", "non-persistent://public/default/passing")
    call("topics", "create-partitioned-topic", "persistent://public/default/wide", "-p", "3")
    call("topics", "create", "persistent://public/default/migrated")
    call("scalable-topics", "migrate-to-scalable", "public/default/migrated")
    call("scalable-topics", "create", "public/default/growing", "-s", "2")
    call("scalable-topics", "create-subscription", "public/default/growing", "-s", "s")
    call("clusters", "delete", "standalone", "--all")
    capsys.readouterr()
    for noun in ("tenants", "clusters"):
        call("-o", "json", noun, "list")
        assert json.loads(capsys.readouterr().out) == []
