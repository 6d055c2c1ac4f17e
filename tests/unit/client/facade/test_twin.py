"""Everything the asyncio client offers, the blocking one offers under the same name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from magnetar.client.checkpoint_consumer import AsyncCheckpointConsumer
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.consumer import AsyncConsumer, AsyncQueueConsumer
from magnetar.client.facade import consumer
from magnetar.client.facade.client import LayoutChanges, PulsarClient, TableView
from magnetar.client.facade.producer import Producer
from magnetar.client.layout import AsyncLayoutChanges
from magnetar.client.producer import AsyncProducer
from magnetar.client.reader import AsyncReader, AsyncTableView
from magnetar.client.stream import AsyncStreamConsumer

TWINS = [
    (AsyncPulsarClient, PulsarClient),
    (AsyncStreamConsumer, consumer.StreamConsumer),
    (AsyncQueueConsumer, consumer.QueueConsumer),
    (AsyncCheckpointConsumer, consumer.CheckpointConsumer),
    (AsyncLayoutChanges, LayoutChanges),
    (AsyncProducer, Producer),
    (AsyncConsumer, consumer.Consumer),
    (AsyncReader, consumer.Reader),
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
