"""A query with nothing to read asks nobody, and hears of everything that comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader

from magnetar.client.admin import AdminClient
from magnetar.spark.bell import Bell
from magnetar.spark.option import parse_source
from magnetar.spark.plan import TopicView
from magnetar.spark.survey import Survey
from magnetar.testing import MagnetarBroker
from tests.spark.engine import Engine
from tests.spark.feed import fresh, publish, publish_regular

WAIT_S = 20.0


def await_true(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = fresh()
    admin.scalable_topics.create(name, segments=2)
    return name


@pytest.fixture
def look(connection: dict[str, str]) -> Iterator[Callable[[str], dict[str, TopicView]]]:
    options = parse_source(connection | {"topic": "any"}, is_stream=True)
    with Survey(options.broker) as survey:
        yield lambda name: {name: survey.view(name)}


@pytest.fixture
def bell(connection: dict[str, str]) -> Iterator[Bell]:
    made = Bell(parse_source(connection | {"topic": "any"}, is_stream=True).broker, trust_s=WAIT_S)
    yield made
    made.close()


def test_it_is_silent_until_a_message_comes(
    magnetar_broker: MagnetarBroker, topic: str, look: Any, bell: Bell
) -> None:
    publish(magnetar_broker.service_url, topic, range(3))
    assert not bell.is_silent
    bell.hang(look(topic))
    await_true(lambda: bell.is_silent)
    publish(magnetar_broker.service_url, topic, range(3, 4))
    await_true(lambda: not bell.is_silent)


def test_what_came_after_the_look_and_before_it_was_hung_rings(
    magnetar_broker: MagnetarBroker, topic: str, look: Any, bell: Bell, admin: AdminClient
) -> None:
    seen = look(topic)
    publish(magnetar_broker.service_url, topic, range(1))
    bell.hang(seen)
    time.sleep(0.3)
    assert not bell.is_silent
    seen = look(topic)
    admin.scalable_topics.split(topic, 0)
    bell.hang(seen)
    time.sleep(0.3)
    assert not bell.is_silent


def test_a_change_of_the_layout_rings(
    topic: str, look: Any, bell: Bell, admin: AdminClient
) -> None:
    bell.hang(look(topic))
    await_true(lambda: bell.is_silent)
    admin.scalable_topics.split(topic, 0)
    await_true(lambda: not bell.is_silent)
    bell.hang(look(topic))
    await_true(lambda: bell.is_silent)


def test_where_it_cannot_listen_it_does_not_try_at_every_trigger(
    connection: dict[str, str], topic: str, look: Any
) -> None:
    broker = parse_source(connection | {"topic": "any"}, is_stream=True).broker
    bell = Bell(broker, trust_s=WAIT_S)
    (name, view), *_ = look(topic).items()
    stranger = replace(view, label="topic://public/default/nobody-made-it")
    bell.hang({name: stranger})
    await_true(lambda: bell.is_resting)
    bell.hang({name: view})
    time.sleep(0.3)
    assert not bell.is_silent
    bell.close()


def test_a_topic_that_is_deleted_rings(
    topic: str, look: Any, bell: Bell, admin: AdminClient
) -> None:
    bell.hang(look(topic))
    await_true(lambda: bell.is_silent)
    admin.scalable_topics.delete(topic, force=True)
    await_true(lambda: not bell.is_silent)


def test_silence_is_trusted_for_a_while_only(
    connection: dict[str, str], topic: str, look: Any
) -> None:
    broker = parse_source(connection | {"topic": "any"}, is_stream=True).broker
    bell = Bell(broker, trust_s=1.0)
    bell.hang(look(topic))
    await_true(lambda: bell.is_silent)
    await_true(lambda: not bell.is_silent)
    bell.hang(look(topic))
    assert bell.is_silent  # it has listened all the while
    bell.close()


def latest(reader: DataSourceStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


@pytest.mark.parametrize("kind", ["scalable", "partitioned"])
def test_a_query_that_was_idle_reads_what_comes(
    magnetar_broker: MagnetarBroker, connection: dict[str, str], admin: AdminClient, kind: str
) -> None:
    topic = fresh()
    if kind == "scalable":
        admin.scalable_topics.create(topic)
    else:
        admin.topics.create_partitioned(f"persistent://{topic}", 2)
    feed = publish if kind == "scalable" else publish_regular
    reader = Engine(connection, topic=topic).make_reader()
    offset = reader.initialOffset()
    try:
        for step in range(3):
            began = time.monotonic()
            while time.monotonic() < began + 0.3:
                assert latest(reader, offset) == offset
            feed(magnetar_broker.service_url, topic, [step])
            offset = await_news(reader, offset)
    finally:
        reader.stop()


def await_news(reader: DataSourceStreamReader, offset: dict[str, Any]) -> dict[str, Any]:
    await_true(lambda: latest(reader, offset) != offset)
    return latest(reader, offset)
