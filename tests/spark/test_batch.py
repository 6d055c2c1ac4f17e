"""Batch queries on a live broker: planned and read as Spark does it, task by task."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from magnetar import BatchingPolicy, PulsarClient
from magnetar.client.admin import AdminClient
from magnetar.spark.file import open_span, parse_files
from magnetar.spark.source import MagnetarSource
from magnetar.spark.stretch import Span
from tests.spark.engine import plan_batch, read_batch
from tests.spark.feed import fresh, numbers, publish, publish_regular


def place_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["topic"], row["segment"], *row["message_id"].values())


def key_of(value: int) -> str:
    return f"k{value % 17}"


def split_topic(url: str, admin: AdminClient, count: int = 600) -> str:
    """A topic with a split and a merge behind it: a third of its messages in each layout."""
    topic = fresh()
    admin.scalable_topics.create(topic, segments=1)
    third = count // 3
    publish(url, topic, range(third), key_of)
    admin.scalable_topics.split(topic, 0)
    publish(url, topic, range(third, 2 * third), key_of)
    admin.scalable_topics.merge(topic, 1, 2)
    publish(url, topic, range(2 * third, count), key_of)
    return topic


def test_a_topic_is_read_whole_from_files_and_over_the_wire_alike(
    connection: dict[str, str], admin: AdminClient
) -> None:
    topic = split_topic(connection["serviceUrl"], admin)
    wire = read_batch(connection, topic=topic, directRead="never")
    assert numbers(wire) == list(range(600))
    assert {row["topic"] for row in wire} == {f"topic://{topic}"}
    assert {row["segment"] for row in wire} == {0, 1, 2, 3}
    files = parse_files(admin.brokers.ledger_files())
    sealed = {row["message_id"]["ledger"] for row in wire if row["segment"] < 3}
    deadline = time.monotonic() + 60  # sealed ledgers are settled after a moment
    while any(open_span(files, Span(ledger, 0, 0)) is None for ledger in sealed):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    direct = read_batch(connection, topic=topic, directRead="auto")
    assert sorted(direct, key=place_of) == sorted(wire, key=place_of)


def test_columns_say_what_the_producer_said(connection: dict[str, str], admin: AdminClient) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic)
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    publish(
        connection["serviceUrl"],
        topic,
        [b"one"],
        lambda _: "k",
        name="maker",
        message={"properties": {"a": "b"}, "event_time": moment},
    )
    (row,) = read_batch(connection, topic=f"topic://{topic}")
    assert (bytes(row["key"]), bytes(row["value"])) == (b"k", b"one")
    assert row["properties"] == [("a", "b")] and row["producer"].startswith("maker")
    assert row["event_time"].astimezone(UTC) == moment
    assert row["sequence_id"] == 0 and row["schema_version"] is None


def test_only_asked_columns_are_made(connection: dict[str, str], admin: AdminClient) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic)
    publish(connection["serviceUrl"], topic, range(10))
    rows = read_batch(connection, topic=topic, columns="value,segment")
    assert list(rows[0]) == ["value", "segment"] and numbers(rows) == list(range(10))


def test_regular_partitioned_and_migrated_topics_are_read(
    connection: dict[str, str], admin: AdminClient
) -> None:
    plain, parted = fresh("plain"), fresh("parted")
    admin.topics.create_partitioned(f"persistent://{parted}", 3)
    publish_regular(connection["serviceUrl"], plain, range(50))
    publish_regular(connection["serviceUrl"], parted, range(50, 150))
    rows = read_batch(connection, topics=f"persistent://{plain},{parted}")
    assert numbers(rows) == list(range(150))
    admin.scalable_topics.migrate_to_scalable(parted)
    publish(connection["serviceUrl"], parted, range(150, 200))
    after = read_batch(connection, topic=f"persistent://{parted}")
    assert numbers(after) == list(range(50, 200))
    before = {place_of(row)[1:] for row in rows if parted in row["topic"]}
    assert before <= {place_of(row)[1:] for row in after}


def test_start_and_end_by_place_and_time(connection: dict[str, str], admin: AdminClient) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic, segments=2)
    publish(connection["serviceUrl"], topic, range(100), key_of)
    first = read_batch(connection, topic=topic)
    moment = datetime.now(UTC)
    time.sleep(0.02)
    publish(connection["serviceUrl"], topic, range(100, 200), key_of)
    assert numbers(read_batch(connection, topic=topic, startingTime=moment.isoformat())) == list(
        range(100, 200)
    )
    assert numbers(read_batch(connection, topic=topic, endingTime=moment.isoformat())) == list(
        range(100)
    )
    ends = {}
    for row in first:
        place = row["message_id"]
        ends[str(row["segment"])] = max(
            ends.get(str(row["segment"]), (-1, -1)), (place["ledger"], place["entry"])
        )
    positions = {number: f"{ledger}:{entry}" for number, (ledger, entry) in ends.items()}
    stated = json.dumps({"positions": positions})
    assert numbers(read_batch(connection, topic=topic, startingOffsets=stated)) == list(
        range(100, 200)
    )
    assert numbers(read_batch(connection, topic=topic, endingOffsets=stated)) == list(range(100))
    assert read_batch(connection, topic=topic, startingOffsets="latest") == []


def test_each_topic_may_begin_and_end_at_a_place_of_its_own(
    connection: dict[str, str], admin: AdminClient
) -> None:
    """By a message's id, by time, at the earliest, at the latest; and the others of a pattern."""
    prefix = fresh("bounds")
    names = [f"{prefix}-{kind}" for kind in ("place", "time", "earliest", "latest", "other")]
    for name in names:
        admin.scalable_topics.create(name)
        publish(connection["serviceUrl"], name, range(10), batching=False)
    rows = read_batch(connection, topic=names[0])
    (id,) = (row["message_id"] for row in rows if row["value"] == b"3")
    time.sleep(0.02)
    moment = datetime.now(UTC)
    time.sleep(0.02)
    for name in names:
        publish(connection["serviceUrl"], name, range(10, 20), batching=False)
    stated = json.dumps(
        {
            names[0]: {"positions": {"0": f"{id['ledger']}:{id['entry']}"}},
            names[1]: {"at": moment.isoformat()},
            names[2]: "earliest",
            names[3]: "latest",
            "*": {"at": moment.isoformat()},
        }
    )
    expected = [range(4), range(10), range(0), range(20), range(10)]
    for option, before in (("startingOffsets", False), ("endingOffsets", True)):
        found = read_batch(connection, topicPattern=f"{prefix}-.*", **{option: stated})
        for name, left in zip(names, expected, strict=True):
            values = numbers([row for row in found if row["topic"] == f"topic://{name}"])
            assert values == [each for each in range(20) if (each in left) is before], name


def test_a_checkpoint_in_the_middle_of_a_batch_is_exact(
    connection: dict[str, str], admin: AdminClient
) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic)
    publish(connection["serviceUrl"], topic, range(200))
    rows = read_batch(connection, topic=topic)
    middle = next(row for row in rows if row["message_id"]["batch"] == 3)
    place = middle["message_id"]
    stated = json.dumps({"positions": {"0": f"{place['ledger']}:{place['entry']}:-1:3/50"}})
    value = int(middle["value"])
    after = read_batch(connection, topic=topic, startingOffsets=stated)
    assert numbers(after) == list(range(value + 1, 200))
    before = read_batch(connection, topic=topic, endingOffsets=stated)
    assert numbers(before) == list(range(value + 1))


def test_topics_are_found_by_pattern_and_by_properties(
    connection: dict[str, str], admin: AdminClient
) -> None:
    namespace = fresh("ns").rsplit("/", 1)[1]
    admin.namespaces.create(f"public/{namespace}")
    for index, color in enumerate(("red", "blue")):
        topic = f"public/{namespace}/order-{index}"
        admin.scalable_topics.create(topic, properties={"color": color})
        publish(connection["serviceUrl"], topic, [index])
    publish_regular(connection["serviceUrl"], f"public/{namespace}/other", [7])
    assert numbers(read_batch(connection, topicPattern=f"public/{namespace}/order-.*")) == [0, 1]
    assert numbers(read_batch(connection, namespace=f"public/{namespace}")) == [0, 1, 7]
    chosen = read_batch(connection, namespace=f"public/{namespace}", propertyFilters="color=blue")
    assert numbers(chosen) == [1]


def test_a_message_in_chunks_is_found_by_whoever_has_its_end(
    connection: dict[str, str], admin: AdminClient
) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic)
    big = b"x" * 5000
    publish(
        connection["serviceUrl"],
        topic,
        [b"1", big, b"2"],
        batching=False,
        chunking=1000,
    )
    rows = read_batch(connection, topic=topic)
    assert sorted(len(row["value"]) for row in rows) == [1, 1, 5000]
    whole = next(row for row in rows if len(row["value"]) == 5000)["message_id"]
    stated = json.dumps({"positions": {"0": f"{whole['ledger']}:{whole['entry'] - 1}"}})
    after = read_batch(connection, topic=topic, startingOffsets=stated)
    assert [len(row["value"]) for row in after] == [5000, 1]


def test_one_huge_segment_is_read_by_several_tasks(
    connection: dict[str, str], admin: AdminClient
) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic)
    publish(connection["serviceUrl"], topic, range(2000), batching=False)
    options = {"topic": topic, "keyOrder": "none", "taskBytes": "16KB"}
    assert len(plan_batch(connection, **options)) > 3
    assert numbers(read_batch(connection, **options)) == list(range(2000))


def test_a_missing_topic_is_named(connection: dict[str, str]) -> None:
    with pytest.raises(Exception, match="There is no topic public/default/nowhere"):
        read_batch(connection, topic="nowhere")


def test_a_wrong_option_reaches_the_person_as_its_sentence(connection: dict[str, str]) -> None:
    with pytest.raises(Exception, match="topic and topics contradict each other"):
        read_batch(connection, topic="a", topics="b")


def test_filters_that_are_handed_down_drop_rows_and_slices(
    connection: dict[str, str], admin: AdminClient
) -> None:
    name = fresh("pushed")
    admin.scalable_topics.create(name, segments=2)
    publish(connection["serviceUrl"], name, range(100), lambda value: f"k{value % 5}")
    whole = read_batch(connection, topic=name)
    middle = sorted(row["publish_time"] for row in whole)[50]
    first = min(row["message_id"]["ledger"] for row in whole)
    asked: list[tuple[Filter, Callable[[Any], bool]]] = [
        (EqualTo(("key",), b"k3"), lambda row: row["key"] == b"k3"),
        (In(("key",), (b"k1", bytearray(b"k2"))), lambda row: row["key"] in (b"k1", b"k2")),
        (GreaterThan(("publish_time",), middle), lambda row: row["publish_time"] > middle),
        (EqualTo(("segment",), 1), lambda row: row["segment"] == 1),
        (EqualTo(("topic",), "topic://other"), lambda row: False),
        (LessThanOrEqual(("message_id", "entry"), 0), lambda row: row["message_id"]["entry"] <= 0),
        (GreaterThan(("message_id", "entry"), 0), lambda row: row["message_id"]["entry"] > 0),
        (EqualTo(("message_id", "ledger"), first), lambda r: r["message_id"]["ledger"] == first),
        (In(("message_id", "ledger"), (first, None)), lambda r: r["message_id"]["ledger"] == first),
        (LessThan(("message_id", "ledger"), None), lambda row: False),
        (IsNull(("key",)), lambda row: True),
    ]
    source = MagnetarSource(connection | {"topic": name, "pushDown": "true"})
    for each, passes in asked:
        reader = source.reader(source.schema())
        assert list(reader.pushFilters([each])) == [each]  # Spark looks once more
        rows = [
            row
            for task in reader.partitions()
            for batch in pickle.loads(pickle.dumps(reader)).read(task)
            for row in batch.to_pylist()
        ]
        assert numbers(rows) == numbers([row for row in whole if passes(row)]), each


def test_entries_outside_of_bounds_of_message_ids_are_not_read(
    connection: dict[str, str], admin: AdminClient
) -> None:
    name = fresh("pushed")
    admin.scalable_topics.create(name, segments=2)
    single = BatchingPolicy(max_messages=1)
    publish(connection["serviceUrl"], name, range(60), lambda value: f"k{value}", batching=single)
    source = MagnetarSource(connection | {"topic": name, "pushDown": "true"})

    def spans(*filters: Filter) -> list[tuple[int, int, int]]:
        reader = source.reader(source.schema())
        assert len(list(reader.pushFilters(list(filters)))) == len(filters)
        pieces = [piece for task in reader.partitions() for piece in task.slices]
        assert all(piece.size > 0 for piece in pieces)
        return sorted((s.ledger, s.first, s.last) for piece in pieces for s in piece.spans)

    (one, _, last), (other, _, _) = spans()
    ledger, entry = ("message_id", "ledger"), ("message_id", "entry")
    assert spans(EqualTo(ledger, one)) == [(one, 0, last)]
    bounds = GreaterThanOrEqual(entry, 3), LessThan(entry, 7)
    assert spans(*bounds) == [(one, 3, 6), (other, 3, 6)]
    assert spans(In(ledger, (other,)), *bounds) == [(other, 3, 6)]
    assert spans(In(entry, (2, 5))) == [(one, 2, 5), (other, 2, 5)]
    assert spans(EqualTo(entry, 4), GreaterThan(entry, 4)) == []
    assert spans(EqualTo(ledger, None)) == []


def test_only_what_is_committed_is_read(connection: dict[str, str], admin: AdminClient) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic, segments=1)
    with (
        PulsarClient(connection["serviceUrl"]) as client,
        client.producer(f"topic://{topic}", batching=False) as producer,
    ):
        for first, ends in ((0, "commit"), (10, "abort"), (20, "commit")):
            transaction = client.transaction()
            for number in range(first, first + 5):
                producer.send(b"%d" % number, transaction=transaction)
            getattr(transaction, ends)()
        open_ = client.transaction()
        producer.send(b"30", transaction=open_)
        producer.send(b"40")  # behind an open transaction, so that order is kept
        visible = [*range(5), *range(20, 25)]
        for direct in ("never", "auto"):
            assert numbers(read_batch(connection, topic=topic, directRead=direct)) == visible
        open_.commit()
        for direct in ("never", "auto"):
            found = read_batch(connection, topic=topic, directRead=direct)
            assert numbers(found) == [*visible, 30, 40]


def test_many_small_segments_are_read_together(
    connection: dict[str, str], admin: AdminClient
) -> None:
    """More of them than readers are open at once."""
    topic = fresh()
    admin.scalable_topics.create(topic, segments=70)
    publish(connection["serviceUrl"], topic, range(400), lambda value: f"k{value}")
    [(reader, task)] = plan_batch(connection, topic=topic, directRead="never")
    [batch] = pickle.loads(reader).read(pickle.loads(task))
    assert numbers(batch.to_pylist()) == list(range(400))
    assert len(set(batch.column("segment").to_pylist())) > 64


def test_options_of_the_client_reach_the_broker(
    connection: dict[str, str], admin: AdminClient
) -> None:
    topic = fresh()
    admin.topics.create(f"persistent://{topic}")
    publish_regular(connection["serviceUrl"], topic, range(10), batching=False)
    more = {"client.description": "nightly", "batchRows": "1", "directRead": "never"}
    [(reader, task)] = plan_batch(connection | more, topic=topic)
    batches = pickle.loads(reader).read(pickle.loads(task))
    next(batches)  # its reader is open meanwhile
    [found] = admin.topics.stats(f"persistent://{topic}")["subscriptions"].values()
    assert "nightly" in found["consumers"][0]["clientVersion"]
    assert len(list(batches)) == 9
