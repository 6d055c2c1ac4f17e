"""`magnetar produce` and `magnetar consume` as processes, in pipes, against a live broker."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from json import dumps
from pathlib import Path

import pulsar
import pytest

from magnetar import BatchingPolicy, PulsarClient
from magnetar.cli.main import main
from magnetar.testing.broker import MagnetarBroker

WAIT_S = 60


def command(broker: MagnetarBroker, *words: str) -> list[str]:
    return [sys.executable, "-m", "magnetar", words[0], "--url", broker.service_url, *words[1:]]


def run(broker: MagnetarBroker, *words: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(command(broker, *words), input=stdin, capture_output=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("compression", ["none", "lz4", "zlib", "zstd", "snappy"])
@pytest.mark.parametrize("batching", ["on", "off"])
def test_lines_go_through_a_topic_unchanged(
    compression: str, batching: str, magnetar_broker: MagnetarBroker, topic: str
) -> None:
    lines = b"".join(b"%d\n" % number for number in range(500)) + b"\xff\x00 not text\n"
    words = ("produce", topic, "--compression", compression, "--batching", batching)
    run(magnetar_broker, *words, stdin=lines)
    words = ("consume", topic, "-s", "s", "-p", "earliest", "-n", "501")
    assert run(magnetar_broker, *words) == lines


def test_the_official_client_reads_what_was_produced(
    magnetar_broker: MagnetarBroker, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    run(
        magnetar_broker,
        *("produce", topic, "--key-separator", ":", "-p", "a=b", "--event-time", "77"),
        *("--compression", "zstd"),
        stdin=b"k1:v1\nk2:v2:w\n",
    )
    got = [consumer.receive(timeout_millis=20_000) for _ in range(2)]
    assert [(message.partition_key(), message.data()) for message in got] == [
        ("k1", b"v1"),
        ("k2", b"v2:w"),
    ]
    assert got[0].properties() == {"a": "b"}
    assert got[0].event_timestamp() == 77


def test_what_the_official_client_sent_is_shown(
    magnetar_broker: MagnetarBroker, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        compression_type=pulsar.CompressionType.LZ4,
        producer_name="official",
    )
    for number in range(3):
        producer.send_async(
            f"v{number}".encode(), None, partition_key="k", properties={"n": str(number)}
        )
    producer.flush()
    producer.close()
    words = ("consume", topic, "--reader", "-p", "earliest", "-n", "3", "-o", "json")
    shown = [json.loads(line) for line in run(magnetar_broker, *words).splitlines()]
    assert [message["value"] for message in shown] == ["v0", "v1", "v2"]
    assert shown[2]["properties"] == {"n": "2"}
    assert (shown[0]["key"], shown[0]["producer"]) == ("k", "official")
    words = ("consume", topic, "--reader", "-p", "earliest", "-n", "1")
    assert run(magnetar_broker, *words, "--format", "{key}\\t{value} {topic}") == (
        f"k\tv0 {topic}\n".encode()
    )


def test_a_message_is_given_again_unless_it_was_acknowledged(
    magnetar_broker: MagnetarBroker, topic: str
) -> None:
    run(magnetar_broker, "produce", topic, "-m", "a,b,c", "-s", ",")
    words = ("consume", topic, "-s", "s", "-p", "earliest")
    assert run(magnetar_broker, *words, "-n", "2", "--no-ack") == b"a\nb\n"
    assert run(magnetar_broker, *words, "-n", "2") == b"a\nb\n"
    assert run(magnetar_broker, *words, "--timeout", "1") == b"c\n"


def test_a_reader_starts_at_a_message(magnetar_broker: MagnetarBroker, topic: str) -> None:
    run(magnetar_broker, "produce", topic, "-m", "a", "-m", "b", "-m", "c")
    words = ("consume", topic, "--reader")
    shown = run(magnetar_broker, *words, "-p", "earliest", "-n", "3", "--format", "{id}")
    second = shown.splitlines()[1].decode()
    assert run(magnetar_broker, *words, "-p", second, "--timeout", "1") == b"b\nc\n"


def test_messages_are_repeated_and_paced(magnetar_broker: MagnetarBroker, topic: str) -> None:
    run(magnetar_broker, "produce", topic, "-m", "a", "-m", "b", "-n", "3", "-r", "1000")
    words = ("consume", topic, "--reader", "-p", "earliest", "-n", "6")
    assert run(magnetar_broker, *words) == b"a\nb\n" * 3


def test_ctrl_c_ends_a_consumer_cleanly_and_keeps_what_it_acknowledged(
    magnetar_broker: MagnetarBroker, topic: str
) -> None:
    run(magnetar_broker, "produce", topic, "-m", "a", "-m", "b")
    process = subprocess.Popen(
        command(magnetar_broker, "consume", topic, "-s", "s", "-p", "earliest"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == [b"a\n", b"b\n"]
    process.send_signal(signal.SIGINT)
    rest, complaints = process.communicate(timeout=WAIT_S)
    assert (process.returncode, rest, complaints) == (130, b"", b"")
    assert run(magnetar_broker, "consume", topic, "-s", "s", "--timeout", "1") == b""


def test_a_closed_pipe_loses_no_message(magnetar_broker: MagnetarBroker, topic: str) -> None:
    run(magnetar_broker, "produce", topic, "-m", "a")
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            command(magnetar_broker, "consume", topic, "-s", "s", "-p", "earliest", "-n", "1"),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=WAIT_S,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
    assert run(magnetar_broker, "consume", topic, "-s", "s", "-n", "1") == b"a\n"


def test_an_unknown_namespace_is_one_sentence(magnetar_broker: MagnetarBroker) -> None:
    done = subprocess.run(
        command(magnetar_broker, "produce", "public/no-such-namespace/t", "-m", "a"),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "no-such-namespace" in done.stderr


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": ["null", "string"]}],
}


@pytest.mark.parametrize("kind", ["avro", "json"])
@pytest.mark.parametrize("domain", ["persistent", "topic"])
def test_values_are_typed_and_shown_as_json_by_the_schema_of_the_topic(
    kind: str, domain: str, magnetar_broker: MagnetarBroker, topic: str, tmp_path: Path
) -> None:
    name = f"{domain}://{topic.partition('://')[2]}-{kind}"
    definition = tmp_path / "order.avsc"
    definition.write_text(json.dumps(ORDER))
    first, second = {"id": 1, "item": None}, {"id": 2, "item": "tea"}
    run(magnetar_broker, "produce", name, "--schema", f"{kind}:{definition}", "-m", dumps(first))
    run(magnetar_broker, "produce", name, "--schema", "topic", "-m", dumps(second))
    words = ("consume", name, "--reader", "-p", "earliest", "-n", "2")
    lines = run(magnetar_broker, *words).splitlines()
    assert [json.loads(line) for line in lines] == [first, second]
    documents = run(magnetar_broker, *words, "-o", "json").splitlines()
    assert [json.loads(line)["value"] for line in documents] == [first, second]
    stored = run(magnetar_broker, *words, "--raw").splitlines()
    assert stored[1] == (b"\x04\x02\x06tea" if kind == "avro" else b'{"id":2,"item":"tea"}')


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("produce", "-m", "no json", "--schema", "avro:{file}"), "'no json' is not JSON"),
        (("produce", "-m", '{"id": "x"}', "--schema", "avro:{file}"), "does not fit the schema"),
        (("produce", "-m", "x", "--schema", "topic"), "has no schema; give one as json:FILE"),
        (("produce", "-m", "x", "--schema", "thrift"), "--schema is topic, string, json:FILE"),
        (("produce", "-m", "x", "--schema", "avro:nowhere"), "cannot read nowhere: No such file"),
        (("consume", "-s", "s", "-p", "yesterday"), "--position is earliest, latest or a message"),
        (("consume", "--reader", "-p", "yesterday"), "--position is earliest, latest or a message"),
        (("consume", "-s", "s", "-p", "1:2"), "only a reader starts at a message id"),
    ],
)
def test_a_value_or_a_position_that_does_not_fit_is_a_sentence(
    words: tuple[str, ...],
    said: str,
    magnetar_broker: MagnetarBroker,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    definition = tmp_path / "order.avsc"
    definition.write_text(json.dumps(ORDER))
    given = [each.replace("{file}", str(definition)) for each in words[1:]]
    assert main([words[0], topic, "--url", magnetar_broker.service_url, *given]) in (1, 2)
    assert said in capsys.readouterr().err


def test_a_backlog_is_told_in_messages_with_entries_beside_them(
    magnetar_broker: MagnetarBroker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"topic://{topic.partition('://')[2]}-backlog"
    admin = ["admin", "--admin-url", magnetar_broker.admin_url, "scalable-topics"]
    assert main([*admin, "create", name]) == 0
    assert main([*admin, "create-subscription", name, "-s", "slow"]) == 0
    with PulsarClient(magnetar_broker.service_url) as client:
        producer = client.producer(name, batching=BatchingPolicy(max_delay=10, max_messages=20))
        for number in range(60):
            producer.submit(b"%d" % number)
        producer.flush()
    capsys.readouterr()
    assert main([*admin, "subscriptions", name]) == 0
    heading, row = capsys.readouterr().out.splitlines()
    columns = (re.split(" {2,}", line.strip()) for line in (heading, row))
    shown = dict(zip(*columns, strict=True))
    assert shown["LAG IN MESSAGES"] == "60"
    assert 0 < int(shown["ENTRIES"]) < 60
