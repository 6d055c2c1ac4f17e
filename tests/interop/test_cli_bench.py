"""`magnetar bench`, and the data tools on scalable topics, against a live broker."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from magnetar.client.admin import AdminClient
from magnetar.testing.broker import MagnetarBroker


def run(broker: MagnetarBroker, *words: str, stdin: bytes = b"") -> bytes:
    command = [sys.executable, "-m", "magnetar", words[0], "--url", broker.service_url, *words[1:]]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture
def scalable(magnetar_broker: MagnetarBroker, topic: str) -> str:
    name = topic.replace("persistent://", "topic://") + "-scalable"
    with AdminClient(magnetar_broker.admin_url) as admin:
        admin.scalable_topics.create(name, segments=2)
    return name


@pytest.mark.parametrize("kind", ["regular", "scalable"])
def test_bench_counts_what_it_sent_and_received(
    kind: str, magnetar_broker: MagnetarBroker, topic: str, scalable: str
) -> None:
    output = run(
        magnetar_broker,
        *("bench", topic if kind == "regular" else scalable, "-n", "2001", "-s", "100"),
        *("--producers", "2", "--consumers", "2", "--keys", "7", "-o", "json"),
    )
    sent, received = json.loads(output)
    assert (sent["what"], sent["messages"]) == ("sent", 2001)
    assert (received["what"], received["messages"]) == ("received", 2001)
    for row in (sent, received):
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]
        assert row["messages_per_s"] > 0


def test_bench_keeps_the_rate_it_was_given(magnetar_broker: MagnetarBroker, topic: str) -> None:
    output = run(magnetar_broker, "bench", topic, "-n", "50", "-r", "100", "-o", "json")
    [sent] = json.loads(output)
    assert sent["messages_per_s"] <= 110


@pytest.mark.parametrize(
    "words", [("-s", "7"), ("-n", "0"), ("--producers", "0"), ("--consumers", "-1")]
)
def test_bench_refuses_what_cannot_be(
    words: tuple[str, str], magnetar_broker: MagnetarBroker
) -> None:
    command = [sys.executable, "-m", "magnetar", "bench", "t", *words]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith(b"magnetar bench: ")


@pytest.mark.parametrize("type", ["exclusive", "shared"])
def test_lines_go_through_a_scalable_topic(
    type: str, magnetar_broker: MagnetarBroker, scalable: str
) -> None:
    lines = [b"k%d:%d" % (number % 5, number) for number in range(100)]
    run(magnetar_broker, "produce", scalable, "--key-separator", ":", stdin=b"\n".join(lines))
    words = ("consume", scalable, "-s", "s", "-t", type, "-p", "earliest", "-n", "100")
    output = run(magnetar_broker, *words, "--format", "{key}:{value}")
    assert sorted(output.splitlines()) == sorted(lines)


def test_a_scalable_topic_is_read_without_a_subscription(
    magnetar_broker: MagnetarBroker, scalable: str
) -> None:
    run(magnetar_broker, "produce", scalable, stdin=b"a\nb\nc\n")
    words = ("consume", scalable, "--reader", "-p", "earliest", "-n", "3")
    assert sorted(run(magnetar_broker, *words, "-o", "json").splitlines()) != []
    assert sorted(run(magnetar_broker, *words).splitlines()) == [b"a", b"b", b"c"]
