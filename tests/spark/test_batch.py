"""Batch queries on a local Spark and a live broker."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from magnetar.client.admin import AdminClient
from magnetar.spark.file import open_span, parse_files
from magnetar.spark.stretch import Span
from magnetar.testing import MagnetarBroker
from tests.spark.conftest import Read
from tests.spark.feed import fresh, numbers, publish, publish_regular

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(180)]


def key_of(value: int) -> str:
    return f"k{value % 17}"


def split_topic(broker: MagnetarBroker, admin: AdminClient, count: int = 600) -> str:
    """A topic with a split and a merge behind it: a third of its messages in each layout."""
    topic = fresh()
    admin.scalable_topics.create(topic, segments=1)
    third = count // 3
    publish(broker.service_url, topic, range(third), key_of)
    admin.scalable_topics.split(topic, 0)
    publish(broker.service_url, topic, range(third, 2 * third), key_of)
    admin.scalable_topics.merge(topic, 1, 2)
    publish(broker.service_url, topic, range(2 * third, count), key_of)
    return topic


def test_a_topic_is_read_whole_from_files_and_over_the_wire_alike(
    read: Read, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    topic = split_topic(magnetar_broker, admin)
    wire = read(topic=topic, directRead="never").collect()
    assert numbers(wire) == list(range(600))
    assert {row["topic"] for row in wire} == {f"topic://{topic}"}
    assert {row["segment"] for row in wire} == {0, 1, 2, 3}
    files = parse_files(admin.brokers.ledger_files())
    sealed = {row["message_id"]["ledger"] for row in wire if row["segment"] < 3}
    deadline = time.monotonic() + 60  # sealed ledgers are settled after a moment
    while any(open_span(files, Span(ledger, 0, 0)) is None for ledger in sealed):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    direct = read(topic=topic, directRead="auto").collect()
    assert sorted(direct, key=lambda row: (row["segment"], row["message_id"])) == sorted(
        wire, key=lambda row: (row["segment"], row["message_id"])
    )


def test_columns_say_what_the_producer_said(
    read: Read, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic)
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    publish(
        magnetar_broker.service_url,
        topic,
        [b"one"],
        lambda _: "k",
        name="maker",
        message={"properties": {"a": "b"}, "event_time": moment},
    )
    (row,) = read(topic=f"topic://{topic}").collect()
    assert (bytes(row["key"]), bytes(row["value"])) == (b"k", b"one")
    assert row["properties"] == {"a": "b"} and row["producer"].startswith("maker")
    assert row["event_time"].astimezone(UTC) == moment
    assert row["sequence_id"] == 0 and row["schema_version"] is None


def test_only_asked_columns_are_made(
    read: Read, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic)
    publish(magnetar_broker.service_url, topic, range(10))
    rows = read(topic=topic, columns="value,segment")
    assert rows.columns == ["value", "segment"] and numbers(rows.collect()) == list(range(10))


def test_regular_partitioned_and_migrated_topics_are_read(
    read: Read, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    plain, parted = fresh("plain"), fresh("parted")
    admin.topics.create_partitioned(f"persistent://{parted}", 3)
    publish_regular(magnetar_broker.service_url, plain, range(50))
    publish_regular(magnetar_broker.service_url, parted, range(50, 150))
    rows = read(topics=f"persistent://{plain},{parted}").collect()
    assert numbers(rows) == list(range(150))
    admin.scalable_topics.migrate_to_scalable(parted)
    publish(magnetar_broker.service_url, parted, range(150, 200))
    after = read(topic=f"persistent://{parted}").collect()
    assert numbers(after) == list(range(50, 200))
    assert {(r["segment"], r["message_id"]) for r in rows if parted in r["topic"]} <= {
        (r["segment"], r["message_id"]) for r in after
    }


def test_start_and_end_by_place_and_time(
    read: Read, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic, segments=2)
    publish(magnetar_broker.service_url, topic, range(100), key_of)
    first = read(topic=topic).collect()
    moment = datetime.now(UTC)
    time.sleep(0.02)
    publish(magnetar_broker.service_url, topic, range(100, 200), key_of)
    assert numbers(read(topic=topic, startingTime=moment.isoformat()).collect()) == list(
        range(100, 200)
    )
    assert numbers(read(topic=topic, endingTime=moment.isoformat()).collect()) == list(range(100))
    ends = {}
    for row in first:
        place = row["message_id"]
        ends[str(row["segment"])] = max(
            ends.get(str(row["segment"]), (-1, -1)), (place["ledger"], place["entry"])
        )
    positions = {number: f"{ledger}:{entry}" for number, (ledger, entry) in ends.items()}
    stated = json.dumps({"positions": positions})
    assert numbers(read(topic=topic, startingOffsets=stated).collect()) == list(range(100, 200))
    assert numbers(read(topic=topic, endingOffsets=stated).collect()) == list(range(100))
    assert read(topic=topic, startingOffsets="latest").count() == 0


def test_a_checkpoint_in_the_middle_of_a_batch_is_exact(
    read: Read, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic)
    publish(magnetar_broker.service_url, topic, range(200))
    rows = read(topic=topic).collect()
    middle = next(row for row in rows if row["message_id"]["batch"] == 3)
    place = middle["message_id"]
    stated = json.dumps({"positions": {"0": f"{place['ledger']}:{place['entry']}:-1:3/50"}})
    value = int(middle["value"])
    after = read(topic=topic, startingOffsets=stated).collect()
    assert numbers(after) == list(range(value + 1, 200))
    before = read(topic=topic, endingOffsets=stated).collect()
    assert numbers(before) == list(range(value + 1))


def test_topics_are_found_by_pattern_and_by_properties(
    read: Read, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    namespace = fresh("ns").rsplit("/", 1)[1]
    admin.namespaces.create(f"public/{namespace}")
    for index, color in enumerate(("red", "blue")):
        topic = f"public/{namespace}/order-{index}"
        admin.scalable_topics.create(topic, properties={"color": color})
        publish(magnetar_broker.service_url, topic, [index])
    publish_regular(magnetar_broker.service_url, f"public/{namespace}/other", [7])
    assert numbers(read(topicPattern=f"public/{namespace}/order-.*").collect()) == [0, 1]
    assert numbers(read(namespace=f"public/{namespace}").collect()) == [0, 1, 7]
    chosen = read(namespace=f"public/{namespace}", propertyFilters="color=blue")
    assert numbers(chosen.collect()) == [1]


def test_a_message_in_chunks_is_found_by_whoever_has_its_end(
    read: Read, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic)
    big = b"x" * 5000
    publish(
        magnetar_broker.service_url,
        topic,
        [b"1", big, b"2"],
        batching=False,
        chunking=1000,
    )
    rows = read(topic=topic).collect()
    assert sorted(len(row["value"]) for row in rows) == [1, 1, 5000]
    whole = next(row for row in rows if len(row["value"]) == 5000)["message_id"]
    stated = json.dumps({"positions": {"0": f"{whole['ledger']}:{whole['entry'] - 1}"}})
    after = read(topic=topic, startingOffsets=stated).collect()
    assert [len(row["value"]) for row in after] == [5000, 1]


def test_one_huge_segment_is_read_by_several_tasks(
    read: Read, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic)
    publish(magnetar_broker.service_url, topic, range(2000), batching=False)
    frame = read(topic=topic, keyOrder="none", taskBytes="16KB")
    assert frame.rdd.getNumPartitions() > 3
    assert numbers(frame.collect()) == list(range(2000))


def test_a_missing_topic_is_named(read: Read) -> None:
    with pytest.raises(Exception, match="There is no topic public/default/nowhere"):
        read(topic="nowhere").collect()


def test_a_wrong_option_reaches_the_person_as_its_sentence(read: Read) -> None:
    with pytest.raises(Exception, match="topic and topics contradict each other"):
        read(topic="a", topics="b").collect()
