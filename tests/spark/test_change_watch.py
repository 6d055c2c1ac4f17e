"""A query with nothing to read asks nobody, and hears of everything that comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader

from magnetar import PulsarClient
from magnetar.client.admin import AdminClient
from magnetar.spark.change_watch import ChangeWatch
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
def watch(connection: dict[str, str]) -> Iterator[ChangeWatch]:
    made = ChangeWatch(
        parse_source(connection | {"topic": "any"}, is_stream=True).broker, trust_s=WAIT_S
    )
    yield made
    made.close()


def test_it_is_unchanged_until_a_message_comes(
    magnetar_broker: MagnetarBroker, topic: str, look: Any, watch: ChangeWatch
) -> None:
    publish(magnetar_broker.service_url, topic, range(3))
    assert not watch.is_unchanged
    watch.start(look(topic))
    await_true(lambda: watch.is_unchanged)
    publish(magnetar_broker.service_url, topic, range(3, 4))
    await_true(lambda: not watch.is_unchanged)


def test_what_came_after_the_look_and_before_the_start_is_a_change(
    magnetar_broker: MagnetarBroker, topic: str, look: Any, watch: ChangeWatch, admin: AdminClient
) -> None:
    seen = look(topic)
    publish(magnetar_broker.service_url, topic, range(1))
    watch.start(seen)
    time.sleep(0.3)
    assert not watch.is_unchanged
    seen = look(topic)
    admin.scalable_topics.split(topic, 0)
    watch.start(seen)
    time.sleep(0.3)
    assert not watch.is_unchanged


def test_a_change_of_the_layout_is_a_change(
    topic: str, look: Any, watch: ChangeWatch, admin: AdminClient
) -> None:
    watch.start(look(topic))
    await_true(lambda: watch.is_unchanged)
    admin.scalable_topics.split(topic, 0)
    await_true(lambda: not watch.is_unchanged)
    watch.start(look(topic))
    await_true(lambda: watch.is_unchanged)


def test_a_transaction_that_ends_is_a_change_also_in_a_sealed_segment(
    connection: dict[str, str], topic: str, watch: ChangeWatch, admin: AdminClient
) -> None:
    options = parse_source(connection | {"topic": topic}, is_stream=True)
    with (
        Survey(options.broker) as survey,
        PulsarClient(connection["serviceUrl"]) as client,
        client.producer(f"topic://{topic}") as producer,
    ):
        transaction = client.transaction()
        producer.send(b"x", key="k", transaction=transaction)
        for segment in (0, 1):
            admin.scalable_topics.split(topic, segment)
        watch.start(survey.look(options.selection).views)
        await_true(lambda: watch.is_unchanged)
        transaction.commit()
        await_true(lambda: not watch.is_unchanged)


def test_where_it_cannot_listen_it_does_not_try_at_every_trigger(
    connection: dict[str, str], topic: str, look: Any
) -> None:
    broker = parse_source(connection | {"topic": "any"}, is_stream=True).broker
    watch = ChangeWatch(broker, trust_s=WAIT_S)
    (name, view), *_ = look(topic).items()
    stranger = replace(view, label="topic://public/default/nobody-made-it")
    watch.start({name: stranger})
    await_true(lambda: watch.is_suspended)
    watch.start({name: view})
    time.sleep(0.3)
    assert not watch.is_unchanged
    watch.close()


def test_a_topic_that_is_deleted_is_a_change(
    topic: str, look: Any, watch: ChangeWatch, admin: AdminClient
) -> None:
    watch.start(look(topic))
    await_true(lambda: watch.is_unchanged)
    admin.scalable_topics.delete(topic, force=True)
    await_true(lambda: not watch.is_unchanged)


def test_silence_is_trusted_for_a_while_only(
    connection: dict[str, str], topic: str, look: Any
) -> None:
    broker = parse_source(connection | {"topic": "any"}, is_stream=True).broker
    watch = ChangeWatch(broker, trust_s=1.0)
    watch.start(look(topic))
    await_true(lambda: watch.is_unchanged)
    await_true(lambda: not watch.is_unchanged)
    watch.start(look(topic))
    assert watch.is_unchanged  # it has listened all the while
    watch.close()


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
