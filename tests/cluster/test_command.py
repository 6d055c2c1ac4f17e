"""`magnetar cluster`, as a user runs it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from magnetar import PulsarClient

LIMIT_S = 90.0
TOPIC = "persistent://public/default/orders"
SESSION = ["--set", "metadataStoreSessionTimeoutMillis=4000"]
COMMAND = [sys.executable, "-m", "magnetar", "cluster"]


class Up:
    """`magnetar cluster up --json` in a process of its own."""

    def __init__(self, data: Path, *words: str) -> None:
        self.data = data
        self.errors = data.parent / "errors.txt"
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [*COMMAND, "up", "--data", str(data), "--bookies", "1", "--json", *SESSION, *words],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def document(self) -> dict[str, Any]:
        """What it prints once everything serves; it prints nothing else."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors.read_text()
        document: dict[str, Any] = json.loads(line)
        return document

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        assert self.process.stdout is not None
        assert self.process.stdout.read() == ""
        return self.process.wait(LIMIT_S)

    def ask(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, verb, *words, "--data", str(self.data)],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def start(*words: str) -> Up:
        started.append(Up(tmp_path / "cluster", *words))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.end()
        assert each.process.stdout is not None
        each.process.stdout.close()


def is_alive(pid: int) -> bool:
    """Whether it runs; a child of a killed process may stay behind as a mere entry."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def await_true(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_one_that_dies_is_reported_and_can_be_started_again(up: Callable[..., Up]) -> None:
    cluster = up("--brokers", "0")
    document = cluster.document()
    [bookie] = document["bookies"]
    assert cluster.ask("kill", "bookie-1").returncode == 0
    await_true(lambda: "dead" in cluster.ask("status").stdout)
    told = cluster.errors.read_text()
    assert "bookie-1 was ended by SIGKILL" in told
    assert f"magnetar cluster start bookie-1 --data {cluster.data}" in told
    refused = cluster.ask("pause", "bookie-1")
    assert refused.returncode == 1 and "does not run" in refused.stderr
    refused = cluster.ask("kill", "bookie-9")
    assert refused.returncode == 1 and "zookeeper, bookie-1" in refused.stderr
    second = up("--brokers", "0")
    assert second.process.wait(LIMIT_S) == 1
    assert "runs on" in second.errors.read_text()

    assert cluster.ask("start", "bookie-1").returncode == 0
    [again] = json.loads(cluster.ask("status", "--json").stdout)["bookies"]
    assert again["address"] == bookie["address"] and again["pid"] != bookie["pid"]
    assert cluster.ask("stop").returncode == 0
    assert cluster.process.wait(LIMIT_S) == 0
    assert not any(is_alive(pid) for pid in document["processes"].values())


def test_what_is_left_of_a_killed_run_is_ended_by_the_next_and_messages_are_there(
    up: Callable[..., Up],
) -> None:
    first = up("--brokers", "2")
    left = first.document()
    sent = [b"%d" % number for number in range(20)]
    with PulsarClient(left["brokers"][0]["service"]) as client:
        producer = client.producer(TOPIC)
        for value in sent:
            producer.send(value)
    first.process.kill()
    first.process.wait()
    assert all(is_alive(pid) for pid in left["processes"].values())
    assert "no cluster runs" in first.ask("status").stderr

    second = up("--brokers", "2")
    document = second.document()
    assert not any(is_alive(pid) for pid in left["processes"].values())
    for kind, address in (("bookies", "address"), ("brokers", "service")):
        assert [each[address] for each in document[kind]] == [each[address] for each in left[kind]]
    with PulsarClient(document["brokers"][1]["service"]) as client:
        consumer = client.consumer(TOPIC, "all", initial_position="earliest")
        received = [consumer.receive(timeout=LIMIT_S) for _ in sent]
    assert [each.data for each in received if each is not None] == sent
    assert second.end(signal.SIGTERM) == 0
    assert not any(is_alive(pid) for pid in document["processes"].values())


def test_a_port_that_is_taken_is_named(up: Callable[..., Up]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        cluster = up("--brokers", "0", "--zookeeper-port", str(port))
        assert cluster.process.wait(LIMIT_S) == 1
    assert f"port {port} cannot be used" in cluster.errors.read_text()
