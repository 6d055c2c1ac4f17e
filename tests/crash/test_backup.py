"""A backup of a directory that a broker writes to holds all that was acknowledged before."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest

from magnetar import Admin, PulsarClient
from magnetar.app.backup import back_up, restore
from magnetar.app.doctor import examine_directory, measure
from magnetar.errors import DataDirectoryRefused
from magnetar.testing import MagnetarBroker

TOPIC = "topic://public/default/kept"


class Load:
    """Sends numbers one after the other, and changes metadata beside that, until it is stopped."""

    def __init__(self, broker: MagnetarBroker) -> None:
        self._broker = broker
        self._stop = threading.Event()
        self.acknowledged = 0
        self.made = 0
        self._threads = [threading.Thread(target=each) for each in (self._send, self._make)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        with PulsarClient(self._broker.service_url) as client, client.producer(TOPIC) as producer:
            while not self._stop.is_set():
                producer.send(str(self.acknowledged).encode())
                self.acknowledged += 1

    def _make(self) -> None:
        with Admin(self._broker.admin_url) as admin:
            while not self._stop.is_set():
                admin.topics.create(f"persistent://public/default/made-{self.made}")
                self.made += 1


def read(data: Path) -> tuple[list[int], int]:
    """What a broker that starts on the directory has: the numbers, and how many topics."""
    with MagnetarBroker(data=data) as broker, Admin(broker.admin_url) as admin:
        made = sum("/made-" in name for name in admin.topics.list("public/default"))
        with PulsarClient(broker.service_url) as client:
            consumer = client.queue_consumer(TOPIC, subscription="s")
            found = []
            while (message := consumer.receive(timeout=2)) is not None:
                found.append(int(message.data))
                consumer.acknowledge(message)
            return found, made


def test_a_backup_under_load_has_all_that_was_acknowledged_before(tmp_path: Path) -> None:
    data, begun = tmp_path / "data", []
    with MagnetarBroker(data=data) as broker:
        with PulsarClient(broker.service_url) as client:
            client.queue_consumer(TOPIC, subscription="s", initial_position="earliest").close()
        with Load(broker) as load:
            for number in range(4):
                while load.acknowledged < 40 * (number + 1):
                    threading.Event().wait(0.01)
                begun.append((load.acknowledged, load.made))
                back_up(data, tmp_path / f"backup-{number}")
    for number, (acknowledged, made) in enumerate(begun):
        backup = tmp_path / f"backup-{number}"
        assert not examine_directory(backup).faults
        if number in (0, 3):
            restored = tmp_path / f"restored-{number}"
            steps: list[int] = []
            restore(backup, restored, steps.append)
            assert sum(steps) > measure(backup)
            found, topics = read(restored)
            assert found == list(range(len(found))) and len(found) >= acknowledged
            assert topics >= made


def test_what_cannot_be_copied_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    data, taken = tmp_path / "data", tmp_path / "taken"
    taken.mkdir()
    (taken / "file").touch()
    with pytest.raises(DataDirectoryRefused, match="no data directory"):
        back_up(taken, tmp_path / "none")
    with MagnetarBroker(data=data):
        with pytest.raises(DataDirectoryRefused, match="not an empty directory"):
            back_up(data, taken)
        back_up(data, tmp_path / "backup")
        with pytest.raises(DataDirectoryRefused, match="is in use"):
            restore(data, tmp_path / "none")
    damaged = tmp_path / "backup" / "metadata.db"
    damaged.write_bytes(damaged.read_bytes()[:4096])
    for path in (tmp_path / "backup").glob("metadata.db-*"):
        path.unlink()
    with pytest.raises(DataDirectoryRefused, match="cannot be used"):
        restore(tmp_path / "backup", tmp_path / "none")
    with suppress(FileNotFoundError):
        assert not list(tmp_path.glob("none*"))
