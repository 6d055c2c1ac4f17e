"""The blocking client, without a broker: it offers what the asyncio one does, by the same names."""

from __future__ import annotations

import inspect
import sys
import threading
from typing import Any

import pytest

from magnetar.client import blocking_consumer
from magnetar.client.blocking_client import LayoutChanges, PulsarClient, TableView
from magnetar.client.blocking_producer import Producer
from magnetar.client.checkpoint_consumer import AsyncCheckpointConsumer
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.consumer import AsyncConsumer, AsyncQueueConsumer
from magnetar.client.layout import AsyncLayoutChanges
from magnetar.client.producer import AsyncProducer
from magnetar.client.reader import AsyncReader, AsyncTableView
from magnetar.client.stream import AsyncStreamConsumer


def test_threads_that_ask_at_once_share_one_admin_client() -> None:
    meeting = threading.Barrier(8)
    found: set[int] = set()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads overtake each other
    try:
        for _ in range(20):
            with PulsarClient("pulsar://localhost:1", admin_url="http://localhost:1") as client:

                def ask(client: PulsarClient = client) -> None:
                    meeting.wait(30)
                    found.add(id(client.admin))

                threads = [threading.Thread(target=ask) for _ in range(8)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert found == {id(client.admin)}
                found.clear()
    finally:
        sys.setswitchinterval(interval)


TWINS = [
    (AsyncPulsarClient, PulsarClient),
    (AsyncStreamConsumer, blocking_consumer.StreamConsumer),
    (AsyncQueueConsumer, blocking_consumer.QueueConsumer),
    (AsyncCheckpointConsumer, blocking_consumer.CheckpointConsumer),
    (AsyncLayoutChanges, LayoutChanges),
    (AsyncProducer, Producer),
    (AsyncConsumer, blocking_consumer.Consumer),
    (AsyncReader, blocking_consumer.Reader),
    (AsyncTableView, TableView),
]
# What the client calls itself; the last three are for `magnetar.columns`.
INTERNAL = {
    "open",
    "is_current",
    "on_claimed",
    "on_received",
    "begin_send",
    "check_open",
    "coordinators",
    "session",
}
BOTH = pytest.mark.parametrize(("ours", "twin"), TWINS, ids=lambda kind: kind.__name__)


def public(kind: type[Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in inspect.getmembers(kind)
        if not name.startswith("_") and name not in INTERNAL
    }


@BOTH
def test_a_twin_has_every_public_name(ours: type[Any], twin: type[Any]) -> None:
    assert public(ours).keys() == public(twin).keys()


@BOTH
def test_a_twin_takes_the_same_arguments(ours: type[Any], twin: type[Any]) -> None:
    def names(function: Any) -> list[str]:
        return [
            each.name
            for each in inspect.signature(function).parameters.values()
            if each.kind is not inspect.Parameter.VAR_KEYWORD
        ]

    for name, value in public(ours).items():
        other = public(twin)[name]
        assert isinstance(value, property) == isinstance(other, property), name
        if callable(value):
            assert names(value) == names(other), name
