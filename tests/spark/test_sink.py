"""The sink on a live broker: attempts that fail, twins and restarts store each row once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from magnetar.client.admin import AdminClient
from magnetar.client.error import AdminPreconditionFailed
from magnetar.spark.avro_type import make_definition
from magnetar.spark.option import InvalidOption
from magnetar.spark.record import check_columns, value_type
from magnetar.spark.sink_option import SinkOptions, parse_sink
from magnetar.spark.sink_task import name_task, write_task
from magnetar.spark.sink_topic import DeduplicationOff, prepare_topics
from magnetar.spark.window import WindowSize
from tests.spark.engine import read_batch
from tests.spark.feed import by_key, fresh, numbers


class TaskKilled(Exception):
    """The task died here."""


def rows(values: range, *, keyed: bool = True, size: int = 10) -> Iterator[pa.RecordBatch]:
    """Batches of a few rows each."""
    for start in range(values.start, values.stop, size):
        part = range(start, min(start + size, values.stop))
        columns: dict[str, Any] = {"value": [str(each).encode() for each in part]}
        if keyed:
            columns["key"] = [f"k{each % 7}" for each in part]
        yield pa.RecordBatch.from_pydict(columns)


def dying(batches: Iterator[pa.RecordBatch], after: int) -> Iterator[pa.RecordBatch]:
    for number, each in enumerate(batches):
        if number == after:
            raise TaskKilled
        yield each


def sink(connection: dict[str, str], topic: str, **more: str) -> SinkOptions:
    return parse_sink(connection | {"topic": topic} | more, is_stream=False)


def attempt(options: SinkOptions, batches: Iterator[pa.RecordBatch], batch: int = 0) -> Any:
    return write_task(options, None, batches, name_task("q", 0, batch), WindowSize(rows=7))


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = fresh()
    admin.scalable_topics.create(name, segments=2)
    return f"topic://{name}"


@pytest.mark.parametrize("keyed", [True, False])
def test_a_retried_task_completes_what_the_first_attempt_began(
    connection: dict[str, str], topic: str, keyed: bool
) -> None:
    options = sink(connection, topic)
    with pytest.raises(TaskKilled):
        attempt(options, dying(rows(range(100), keyed=keyed), 6))
    done = attempt(options, rows(range(100), keyed=keyed))
    assert done.written + done.known == 100 and done.known >= 50
    again = attempt(options, rows(range(100), keyed=keyed))
    assert (again.written, again.known) == (0, 100)
    found = read_batch(connection, topic=topic)
    assert numbers(found) == list(range(100))
    if keyed:
        assert all(values == sorted(values) for values in by_key(found).values())


@pytest.mark.parametrize("keyed", [True, False])
def test_splits_and_merges_between_attempts_store_nothing_twice(
    connection: dict[str, str], topic: str, admin: AdminClient, keyed: bool
) -> None:
    options = sink(connection, topic)
    with pytest.raises(TaskKilled):
        attempt(options, dying(rows(range(200), keyed=keyed), 5))
    admin.scalable_topics.split(topic, 0)
    with pytest.raises(TaskKilled):
        attempt(options, dying(rows(range(200), keyed=keyed), 10))
    admin.scalable_topics.merge(topic, 1, 3)
    with pytest.raises(TaskKilled):
        attempt(options, dying(rows(range(200), keyed=keyed), 15))
    done = attempt(options, rows(range(200), keyed=keyed))
    assert done.known >= 140
    assert numbers(read_batch(connection, topic=topic)) == list(range(200))


@pytest.mark.parametrize("keyed", [True, False])
def test_a_migration_between_attempts_stores_nothing_twice(
    connection: dict[str, str], admin: AdminClient, keyed: bool
) -> None:
    name = fresh()
    admin.topics.create_partitioned(f"persistent://{name}", 3)
    options = sink(connection, f"persistent://{name}")
    with pytest.raises(TaskKilled):
        attempt(options, dying(rows(range(100), keyed=keyed), 5))
    admin.scalable_topics.migrate_to_scalable(name)
    assert attempt(options, rows(range(100), keyed=keyed)).known >= 49
    assert numbers(read_batch(connection, topic=name)) == list(range(100))


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("change", ["split", "merge", "migrate"])
def test_a_change_of_the_layout_in_the_middle_of_a_task_stores_nothing_twice(
    connection: dict[str, str], admin: AdminClient, change: str, keyed: bool
) -> None:
    name = fresh()
    if change == "migrate":
        admin.topics.create_partitioned(f"persistent://{name}", 3)
    else:
        admin.scalable_topics.create(name, segments=2)
        # A sealed segment without subscriptions goes with the broker's next round.
        admin.scalable_topics.create_subscription(name, "keeps-what-is-sealed")
    topic = f"{'persistent' if change == 'migrate' else 'topic'}://{name}"

    def changing() -> Iterator[pa.RecordBatch]:
        for number, each in enumerate(rows(range(600), keyed=keyed, size=5)):
            if number == 40:
                match change:
                    case "split":
                        admin.scalable_topics.split(topic, 0)
                    case "merge":
                        admin.scalable_topics.merge(topic, 0, 1)
                    case "migrate":
                        admin.scalable_topics.migrate_to_scalable(name)
            yield each

    options = sink(connection, topic)
    attempt(options, changing())
    again = attempt(options, rows(range(600), keyed=keyed, size=5))
    assert (again.written, again.known) == (0, 600)
    found = read_batch(connection, topic=topic)
    assert numbers(found) == list(range(600))
    if keyed:
        assert all(values == sorted(values) for values in by_key(found).values())


@pytest.mark.parametrize("kind", ["regular", "scalable"])
def test_a_speculative_twin_waits_and_finds_everything_written(
    connection: dict[str, str], admin: AdminClient, kind: str
) -> None:
    topic = fresh()
    if kind == "regular":
        admin.topics.create_partitioned(f"persistent://{topic}", 3)
    else:
        admin.scalable_topics.create(topic, segments=2)
    options = sink(connection, f"{'persistent' if kind == 'regular' else 'topic'}://{topic}")
    results: list[Any] = []
    gate = threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        for number, each in enumerate(rows(range(100))):
            if number == 3:
                gate.set()
            yield each

    first = threading.Thread(target=lambda: results.append(attempt(options, slow())))
    first.start()
    assert gate.wait(30)
    results.append(attempt(options, rows(range(100))))
    first.join(60)
    assert numbers(read_batch(connection, topic=topic)) == list(range(100))
    assert sum(each.written for each in results) == 100


def test_batches_follow_each_other_under_one_name(connection: dict[str, str], topic: str) -> None:
    options = sink(connection, topic)
    attempt(options, rows(range(50)), batch=0)
    attempt(options, rows(range(50, 100)), batch=1)
    repeated = attempt(options, rows(range(50, 100)), batch=1)
    assert (repeated.written, repeated.known) == (0, 50)
    assert numbers(read_batch(connection, topic=topic)) == list(range(100))


def test_sorted_rows_are_stored_once_in_whatever_order_they_come(
    connection: dict[str, str], topic: str
) -> None:
    options = sink(connection, topic, rowOrder="sorted")
    forth = list(rows(range(100), size=1))
    attempt(options, iter(forth))
    again = attempt(options, iter(forth[::-1]))
    assert (again.written, again.known) == (0, 100)
    assert numbers(read_batch(connection, topic=topic)) == list(range(100))


def test_a_row_larger_than_a_batch_keeps_its_place(connection: dict[str, str], topic: str) -> None:
    values = [b"%d" % n if n % 4 else b"%150000d" % n for n in range(12)]
    batch = pa.RecordBatch.from_pydict({"key": ["k"] * 12, "value": values})
    options = sink(connection, topic)
    assert attempt(options, iter([batch])).written == 12
    assert attempt(options, iter([batch])).known == 12
    assert by_key(read_batch(connection, topic=topic)) == {"k": list(range(12))}


def test_columns_become_what_they_are_called(
    connection: dict[str, str], admin: AdminClient
) -> None:
    one, other = f"topic://{fresh()}", f"topic://{fresh()}"
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": [one, other],
            "key": [b"\xff\x00", None],
            "value": ["text", None],
            "properties": pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string())),
            "event_time": pa.array([1_000_000, None], pa.timestamp("us", tz="UTC")),
        }
    )
    options = parse_sink(connection, is_stream=False)
    attempt(options, iter([batch]))
    (first,) = read_batch(connection, topic=one)
    (second,) = read_batch(connection, topic=other)
    assert (first["key"], first["value"], first["properties"]) == (
        b"\xff\x00",
        b"text",
        [("a", "b")],
    )
    assert first["event_time"].timestamp() == 1.0 and second["event_time"] is None
    assert second["key"] is None and second["value"] is None


@pytest.mark.parametrize("form", ["json", "avro"])
def test_a_schema_is_registered_and_values_come_back_typed(
    connection: dict[str, str], admin: AdminClient, form: str
) -> None:
    topic = fresh()
    schema = StructType([StructField("name", StringType()), StructField("count", IntegerType())])
    options = sink(connection, f"topic://{topic}", valueFormat=form, compression="zstd")
    batch = pa.RecordBatch.from_pydict({"name": ["a", "b"], "count": [1, None]})
    write_task(options, make_definition(value_type(schema)), iter([batch]), name_task("s", 0, 0))
    found = read_batch(connection, topic=topic, valueFormat="schema")
    assert [row["value"] for row in found] == [
        {"name": "a", "count": 1},
        {"name": "b", "count": None},
    ]
    assert admin.schemas.get(f"persistent://{topic}")["type"] == form.upper()


def test_without_deduplication_exactly_once_is_refused_with_what_to_do(
    connection: dict[str, str], topic: str, admin: AdminClient
) -> None:
    with pytest.raises(DeduplicationOff, match="set exactlyOnce to false"):
        prepare_topics(sink(connection, topic, enableDeduplication="false"), [topic])
    attempt(sink(connection, topic, exactlyOnce="false"), rows(range(5)))
    assert numbers(read_batch(connection, topic=topic)) == list(range(5))


@pytest.mark.parametrize("kind", ["topic", "persistent", "partitioned"])
def test_deduplication_that_is_switched_off_under_a_task_fails_it(
    connection: dict[str, str], admin: AdminClient, kind: str
) -> None:
    key = fresh()
    name = f"{'topic' if kind == 'topic' else 'persistent'}://{key}"
    if kind == "topic":
        admin.scalable_topics.create(key, segments=2)
    elif kind == "partitioned":
        admin.topics.create_partitioned(name, 2)

    def switching() -> Iterator[pa.RecordBatch]:
        yield from rows(range(20))
        admin.topic_policies.set(name, "deduplication", False)
        while kind == "topic":  # until the segments have heard of it
            try:
                admin.scalable_topics.last_sequence_ids(key, producer="p")
            except AdminPreconditionFailed:
                return

    with pytest.raises(DeduplicationOff, match="was switched off"):
        attempt(sink(connection, name), switching())
    attempt(sink(connection, name), rows(range(20)))
    assert numbers(read_batch(connection, topic=name)) == list(range(20))


@pytest.mark.parametrize(
    ("fields", "more", "told"),
    [
        ({"x": StringType()}, {}, "no column value"),
        ({"value": StringType(), "x": StringType()}, {}, "The column x is none of"),
        ({"value": IntegerType()}, {}, "json or avro take the rest"),
        ({"value": StringType(), "event_time": StringType()}, {}, "event_time is timestamp"),
        ({"value": StringType(), "key": IntegerType()}, {}, "key is string or binary"),
    ],
)
def test_a_dataframe_that_cannot_be_written_is_refused_before_anything_is(
    connection: dict[str, str], fields: dict[str, Any], more: dict[str, str], told: str
) -> None:
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    with pytest.raises(InvalidOption, match=told):
        check_columns(schema, sink(connection, "topic://a/b/c", **more))


def test_options_of_the_sink_that_contradict_each_other_are_named(
    connection: dict[str, str],
) -> None:
    with pytest.raises(InvalidOption, match="writeId names a batch write"):
        parse_sink(connection | {"topic": "t", "writeId": "x"}, is_stream=True)
    with pytest.raises(InvalidOption, match="writeId has no meaning with exactlyOnce=false"):
        parse_sink(
            connection | {"topic": "t", "writeId": "x", "exactlyOnce": "false"}, is_stream=False
        )
    schema = StructType(
        [
            StructField("value", StringType()),
            StructField("m", MapType(StringType(), TimestampType())),
        ]
    )
    with pytest.raises(InvalidOption, match="option topic or a column topic"):
        check_columns(schema, parse_sink(connection, is_stream=False))
