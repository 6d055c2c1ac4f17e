"""A policy that was set is there after kill -9; one under way is there in full or not at all."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

import pytest

from magnetar.cli.main import main
from magnetar.testing.broker import MagnetarBroker

METADATA = "org.apache.pulsar.broker.service.MetadataStoreTopicPoliciesService"
SYSTEM = "org.apache.pulsar.broker.service.SystemTopicBasedTopicPoliciesService"
TOPIC = "persistent/public/default/t"
EVENTS = "persistent/public/default/__change_events"


def call(broker: MagnetarBroker, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        f"{broker.admin_url}/admin/v2/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as reply:
        content = reply.read()
    return json.loads(content) if content else None


@pytest.mark.parametrize("backend", [SYSTEM, METADATA])
def test_no_policy_that_was_set_is_lost_by_a_kill(backend: str) -> None:
    with MagnetarBroker(set={"topicPoliciesServiceClassName": backend}) as broker:
        call(broker, "PUT", TOPIC)
        number = 1
        for path in (f"{TOPIC}/maxProducers", f"{TOPIC}/maxConsumers?isGlobal=true"):
            call(broker, "POST", path, number)
        for round_s in (0.1, 0.3):
            killer = threading.Timer(round_s, broker.crash)
            killer.start()
            try:
                while True:
                    call(broker, "POST", f"{TOPIC}/maxProducers", number + 1)
                    call(broker, "POST", f"{TOPIC}/maxConsumers?isGlobal=true", number + 1)
                    number += 1
            except (urllib.error.URLError, OSError, HTTPException):
                pass  # killed
            killer.join()
            broker.start()
            found = [
                call(broker, "GET", f"{TOPIC}/maxProducers"),
                call(broker, "GET", f"{TOPIC}/maxConsumers?isGlobal=true"),
            ]
            assert all(each in (number, number + 1) for each in found)
            applied = call(broker, "GET", f"{TOPIC}/maxProducers?applied=true")
            assert applied == found[0]
            number = max(found)


def test_an_upgrade_moves_no_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    def backend_of(namespace: str) -> str:
        words = ["--admin-url", broker.admin_url, "-o", "json"]
        assert main(["admin", *words, "topic-policies", "backend", namespace]) == 0
        told: dict[str, str] = json.loads(capsys.readouterr().out)
        assert namespace in told["reason"] or told["backend"] in told["reason"]
        return told["backend"]

    new = "persistent/public/new/t"
    with MagnetarBroker() as broker:
        call(broker, "PUT", TOPIC)
        call(broker, "POST", f"{TOPIC}/maxProducers", 1)
        assert backend_of("public/default") == "system-topic"
        broker.restart(set={"topicPoliciesServiceClassName": METADATA})
        call(broker, "PUT", "namespaces/public/new", {})
        call(broker, "PUT", new)
        call(broker, "POST", f"{new}/maxProducers", 2)
        call(broker, "POST", f"{TOPIC}/maxConsumers?isGlobal=true", 3)
        for _ in range(2):
            assert backend_of("public/default") == "system-topic"
            assert backend_of("public/new") == "metadata-store"
            assert call(broker, "GET", f"{TOPIC}/maxProducers") == 1
            assert call(broker, "GET", f"{TOPIC}/maxConsumers?isGlobal=true") == 3
            assert call(broker, "GET", f"{new}/maxProducers") == 2
            broker.restart()
        call(broker, "DELETE", f"{EVENTS}?force=true")
        assert backend_of("public/default") == "metadata-store"
        assert call(broker, "GET", f"{TOPIC}/maxProducers") is None
        call(broker, "POST", f"{TOPIC}/maxProducers", 4)
        broker.crash()
        broker.start()
        assert call(broker, "GET", f"{TOPIC}/maxProducers") == 4
        assert backend_of("public/default") == "metadata-store"


def test_a_backend_that_is_not_there_keeps_the_broker_from_starting() -> None:
    broker = MagnetarBroker(set={"topicPoliciesServiceClassName": "com.example.Mine"})
    try:
        with pytest.raises(AssertionError, match=r"no backend is called 'com\.example\.Mine'"):
            broker.start()
    finally:
        broker.close()
