"""Brokers that share a ZooKeeper, their clients, and what to ask them."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar

from magnetar.app.standalone import serving
from magnetar.testing import MagnetarBroker

LONG_S = 60.0
TOPIC = "persistent://public/default/orders"


class Member(MagnetarBroker):
    """Started by `magnetar broker`, not `magnetar standalone`."""

    def command(self) -> list[str]:
        command = [word if word != "standalone" else "broker" for word in super().command()]
        return [*command, "--ledgers", "files"]


def broker_on(url: str, **settings: str | int) -> MagnetarBroker:
    return MagnetarBroker(set=settings, arguments=["--metadata", url])


def ask(broker: MagnetarBroker, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """One request, no redirect followed; a redirect answers with where it leads."""
    connection = http.client.HTTPConnection("127.0.0.1", broker.web_port, timeout=LONG_S)
    try:
        headers = {"content-type": "application/json"}
        text = None if body is None else json.dumps(body)
        connection.request(method, f"/admin/v2/{path}", text, headers)
        response = connection.getresponse()
        content = response.read()
        if response.status == 307:
            return 307, response.headers["location"]
        return response.status, json.loads(content) if content[:1] in (b"{", b"[") else content
    finally:
        connection.close()


def find_owner(broker: MagnetarBroker, topic: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", broker.web_port, timeout=LONG_S)
    try:
        connection.request("GET", "/lookup/v2/topic/" + topic.replace("://", "/"))
        return str(json.loads(connection.getresponse().read())["brokerId"])
    finally:
        connection.close()


def id_of(broker: MagnetarBroker) -> str:
    return f"127.0.0.1:{broker.web_port}"


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


class Publisher:
    """Sends numbers one after the other and keeps those that were acknowledged."""

    def __init__(self, url: str, topic: str = TOPIC) -> None:
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self._client = pulsar.Client(url, logger=logger, operation_timeout_seconds=60)
        self._producer = self._client.create_producer(topic, send_timeout_millis=60_000)
        self._stop = threading.Event()
        self.acknowledged: list[int] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._producer.send(str(number).encode())
            self.acknowledged.append(number)
            number += 1

    def more(self, count: int = 20) -> None:
        """Wait for that many further acknowledgements."""
        goal = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= goal)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(LONG_S)

    def close(self) -> None:
        self.stop()
        self._client.close()


def read_all(url: str, topic: str = TOPIC) -> list[int]:
    """Every number once; what was sent again after a broken connection may be there twice."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(url, logger=logger, operation_timeout_seconds=60)
    try:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        numbers = set()
        while reader.has_message_available():
            numbers.add(int(reader.read_next(30_000).data()))
        return sorted(numbers)
    finally:
        client.close()


def running(data: Path, url: str, *overrides: str) -> Any:
    chosen = [f"metadataStoreUrl={url}", *overrides]
    return serving(data=data, port=0, web_port=0, bind="127.0.0.1", overrides=chosen)
