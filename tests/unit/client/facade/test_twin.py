"""Everything the asyncio client offers, the blocking one offers under the same name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from magnetar.client.classic import AsyncClassic
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.consumer import AsyncConsumer
from magnetar.client.facade import classic, scalable
from magnetar.client.facade.client import PulsarClient
from magnetar.client.producer import AsyncProducer
from magnetar.client.reader import AsyncReader
from magnetar.client.scalable.checkpoint_consumer import AsyncCheckpointConsumer
from magnetar.client.scalable.layout import AsyncLayoutChanges
from magnetar.client.scalable.producer import AsyncScalableProducer
from magnetar.client.scalable.queue import AsyncQueueConsumer
from magnetar.client.scalable.stream import AsyncStreamConsumer
from magnetar.client.table_view import AsyncTableView

TWINS = [
    (AsyncPulsarClient, PulsarClient),
    (AsyncScalableProducer, scalable.ScalableProducer),
    (AsyncStreamConsumer, scalable.StreamConsumer),
    (AsyncQueueConsumer, scalable.QueueConsumer),
    (AsyncCheckpointConsumer, scalable.CheckpointConsumer),
    (AsyncLayoutChanges, scalable.LayoutChanges),
    (AsyncClassic, classic.Classic),
    (AsyncProducer, classic.Producer),
    (AsyncConsumer, classic.Consumer),
    (AsyncReader, classic.Reader),
    (AsyncTableView, classic.TableView),
]
# What the client calls itself; `bulk` is for jobs, which run on asyncio.
INTERNAL = {
    "open",
    "take",
    "begin_send",
    "on_lane_ended",
    "on_lane_sealed",
    "on_lane_failed",
    "bulk",
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
        signature = inspect.signature(other) if callable(other) else None
        # A factory passes its keywords on: the async one knows them.
        passes_on = signature is not None and any(
            each.kind is inspect.Parameter.VAR_KEYWORD for each in signature.parameters.values()
        )
        if callable(value) and not passes_on:
            assert names(value) == names(other), name
