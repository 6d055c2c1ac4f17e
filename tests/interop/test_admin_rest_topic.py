"""The REST interface while official clients produce and consume."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

import pulsar
import pytest

from magnetar.testing.broker import MagnetarBroker
from tests.interop.official import Admin, path_of

DEADLINE_S = 20.0


def await_true(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def refusal(admin: Admin, method: str, path: str, body: object = None) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        admin(method, path, body)
    with caught.value as error:
        return error.code, json.loads(error.read())["reason"]


def fetch(broker: MagnetarBroker, path: str) -> tuple[dict[str, str], bytes]:
    url = f"{broker.admin_url}/admin/v2/{path}"
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as response:
        return dict(response.headers.items()), response.read()


def test_stats_name_the_clients_that_are_attached(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", consumer_name="c")
    producer = client.create_producer(topic, producer_name="p")
    producer.send(b"x")
    consumer.acknowledge(consumer.receive(10_000))
    stats = admin("GET", f"{path_of(topic)}/stats")
    assert [each["producerName"] for each in stats["publishers"]] == ["p"]
    assert stats["publishers"][0]["clientVersion"]
    attached = stats["subscriptions"]["s"]["consumers"]
    assert [each["consumerName"] for each in attached] == ["c"]
    assert attached[0]["clientVersion"]
    assert stats["msgInCounter"] == 1
    bare = admin("GET", f"{path_of(topic)}/stats?excludePublishers=true&excludeConsumers=true")
    assert bare["publishers"] == []
    assert bare["subscriptions"]["s"]["consumers"] == []


def test_partitioned_stats_show_one_client_for_all_partitions(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    admin("PUT", f"{path_of(topic)}/partitions", 3)
    client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared, consumer_name="c")
    producer = client.create_producer(topic, producer_name="p")
    for number in range(6):
        producer.send(b"%d" % number)
    stats = admin("GET", f"{path_of(topic)}/partitioned-stats")
    assert stats["msgInCounter"] == 6
    assert [each["producerName"] for each in stats["publishers"]] == ["p"]
    assert len(stats["subscriptions"]["s"]["consumers"]) == 1
    assert len(stats["partitions"]) == 3


def test_a_busy_topic_is_deleted_by_force_only(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    client.subscribe(topic, "s")
    client.create_producer(topic)
    assert refusal(admin, "DELETE", path_of(topic))[0] == 412
    busy = refusal(admin, "DELETE", f"{path_of(topic)}/subscription/s")
    assert busy == (412, "Subscription has active connected consumers")


def test_peeked_messages_are_those_that_were_sent(
    client: pulsar.Client, admin: Admin, topic: str, magnetar_broker: MagnetarBroker
) -> None:
    admin("PUT", f"{path_of(topic)}/subscription/s", {"ledgerId": -1, "entryId": -1})
    producer = client.create_producer(topic, compression_type=pulsar.CompressionType.LZ4)
    producer.send(b"hello" * 100, properties={"a b": "c=d"}, partition_key="k")
    headers, body = fetch(magnetar_broker, f"{path_of(topic)}/subscription/s/position/1")
    assert body == b"hello" * 100
    lowered = {name.lower(): value for name, value in headers.items()}
    assert json.loads(lowered["x-pulsar-property"]) == {"a b": "c=d"}
    assert lowered["x-pulsar-partition-key"] == "k"
    assert lowered["x-pulsar-compression"] == "LZ4"
    ledger, entry = lowered["x-pulsar-message-id"].split(":")
    _, again = fetch(magnetar_broker, f"{path_of(topic)}/ledger/{ledger}/entry/{entry}")
    assert again == body


def test_a_batch_is_peeked_as_one_entry(
    client: pulsar.Client, admin: Admin, topic: str, magnetar_broker: MagnetarBroker
) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_messages=5, batching_max_publish_delay_ms=10_000
    )
    for number in range(5):
        producer.send_async(b"%d" % number, lambda result, message_id: None)
    producer.flush()
    headers, _ = fetch(magnetar_broker, f"{path_of(topic)}/examinemessage")
    lowered = {name.lower(): value for name, value in headers.items()}
    assert lowered["x-pulsar-num-batch-message"] == "5"
    last = admin("GET", f"{path_of(topic)}/lastMessageId")
    assert last["batchIndex"] == 4


def test_a_cursor_moved_over_rest_delivers_again(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for number in range(3):
        producer.send(b"%d" % number)
    for _ in range(3):
        consumer.acknowledge(consumer.receive(10_000))
    admin("POST", f"{path_of(topic)}/subscription/s/resetcursor/0")
    assert [consumer.receive(10_000).data() for _ in range(3)] == [b"0", b"1", b"2"]
    admin("POST", f"{path_of(topic)}/subscription/s/skip_all")

    def is_drained() -> bool:
        stats = admin("GET", f"{path_of(topic)}/stats")
        return bool(stats["subscriptions"]["s"]["msgBacklog"] == 0)

    await_true(is_drained)


def test_new_partitions_lose_nothing_for_old_subscriptions(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    admin("PUT", f"{path_of(topic)}/partitions", 1)
    admin("PUT", f"{path_of(topic)}/subscription/s")
    admin("POST", f"{path_of(topic)}/partitions", 4)
    producer = client.create_producer(
        topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution
    )
    for number in range(8):
        producer.send(b"%d" % number)
    consumer = client.subscribe(topic, "s")
    found = {consumer.receive(10_000).data() for _ in range(8)}
    assert found == {b"%d" % number for number in range(8)}


def test_limits_of_a_topic_act_at_once(client: pulsar.Client, admin: Admin, topic: str) -> None:
    client.create_producer(topic)
    admin("POST", f"{path_of(topic)}/maxProducers", 1)
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(topic)
    admin("DELETE", f"{path_of(topic)}/maxProducers")
    client.create_producer(topic)


def test_settings_over_rest_survive_a_restart(
    magnetar_broker_factory: Callable[..., MagnetarBroker],
) -> None:
    broker = magnetar_broker_factory()

    def call(method: str, path: str, body: object = None) -> object:
        request = urllib.request.Request(
            f"{broker.admin_url}/admin/v2/{path}", data=json.dumps(body).encode(), method=method
        )
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as response:
            content = response.read()
            return json.loads(content) if content else None

    call("PUT", "namespaces/public/kept", {"max_producers_per_topic": 3})
    call("PUT", "persistent/public/kept/t/partitions", 2)
    call("POST", "persistent/public/kept/t/messageTTL?messageTTL=600")
    call("POST", "brokers/configuration/maxConcurrentLookupRequest/7")
    call("POST", "schemas/public/kept/t/schema", {"type": "STRING", "schema": ""})
    broker.restart()
    assert call("GET", "namespaces/public/kept/maxProducersPerTopic") == 3
    assert call("GET", "persistent/public/kept/t/messageTTL") == 600
    runtime = call("GET", "brokers/configuration/runtime")
    assert isinstance(runtime, dict) and runtime["maxConcurrentLookupRequest"] == "7"
    schema = call("GET", "schemas/public/kept/t/schema")
    assert isinstance(schema, dict) and schema["type"] == "STRING"
    assert call("GET", "persistent/public/kept/t/partitions") == {"partitions": 2, "deleted": False}


def test_metrics_tell_how_busy_the_journal_is(magnetar_broker: MagnetarBroker) -> None:
    url = f"{magnetar_broker.admin_url}/metrics"
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as response:
        names = {line.split(b"{")[0] for line in response.read().splitlines()}
    journal = (b"magnetar_journal_groups_total", b"magnetar_journal_syncs_total")
    assert names.issuperset((*journal, b"magnetar_journal_bytes_total", b"pulsar_version_info"))


def test_a_wish_for_http_2_loses_no_body(magnetar_broker: MagnetarBroker, admin: Admin) -> None:
    """Java's HttpClient asks for it with every first request."""
    path = "persistent/public/default/wished/partitions"
    wish = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    about = "Content-Type: application/json\r\nContent-Length: 1\r\n"
    host, port = "127.0.0.1", urllib.parse.urlsplit(magnetar_broker.admin_url).port
    with socket.create_connection((host, port), timeout=20) as line:
        line.sendall(
            f"PUT /admin/v2/{path} HTTP/1.1\r\nHost: {host}\r\n{wish}{about}\r\n3".encode()
        )
        answer = line.recv(4096)
        assert answer.startswith(b"HTTP/1.1 204"), answer
    assert admin("GET", path)["partitions"] == 3
