"""Public classes are called what applications write."""

from __future__ import annotations

import inspect
import pickle
from typing import get_type_hints

import pytest

import magnetar
from magnetar import (
    AsyncProducer,
    ConnectError,
    ConsumerStats,
    MessageId,
    Producer,
    ProducerBusyError,
    SendOptions,
    SubscriptionType,
)


def test_a_class_is_printed_as_it_is_imported() -> None:
    assert repr(Producer) == "<class 'magnetar.Producer'>"
    assert repr(AsyncProducer) == "<class 'magnetar.AsyncProducer'>"
    assert (
        ProducerBusyError.__module__
        == ConnectError.__module__
        == SubscriptionType.__module__
        == "magnetar"
    )


@pytest.mark.parametrize(
    "value",
    [
        MessageId(1, 2, batch_index=3, batch_size=4),
        SubscriptionType.SHARED,
        Producer,
        ConsumerStats(1, 2, 3, 4, {}),
    ],
    ids=repr,
)
def test_what_is_pickled_comes_back(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value


def test_an_error_comes_back_with_its_sentence() -> None:
    again = pickle.loads(pickle.dumps(ConnectError("nobody listens")))
    assert type(again) is ConnectError and again.sentence == "nobody listens"


def test_annotations_of_every_class_are_read_where_it_was_written() -> None:
    for name in magnetar.__all__:
        found = getattr(magnetar, name)
        if inspect.isclass(found) and not issubclass(found, Exception):
            get_type_hints(found)
    assert "key" in get_type_hints(SendOptions)
