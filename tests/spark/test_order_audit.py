"""The audit finds nothing in a true history, and exactly what was planted in a spoiled one."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from magnetar import PulsarClient
from magnetar.client.admin import AdminClient
from magnetar.client.error import ConfigurationError
from magnetar.spark.job import order_audit_command
from magnetar.spark.job.order_audit import (
    Counter,
    arrange,
    check,
    find_generations,
    order_audit,
    parse_counter,
)
from magnetar.testing import MagnetarBroker

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]

SCHEMA = (
    "key binary, segment long, message_id struct<ledger long, entry long, batch int>,"
    " sequence_id long, producer string, publish_time timestamp, properties map<string,string>"
)
PARENTS = {"0": [], "1": [0], "2": [0], "3": [1, 2]}
GENERATIONS = find_generations({each: {"parentIds": above} for each, above in PARENTS.items()})
KEYS, PER_SEGMENT = 6, 5
BY_KEY = Counter("property", "n")


def make_history() -> list[dict[str, Any]]:
    """Every key goes through three generations of segments, five messages in each."""
    rows = []
    for generation, line in enumerate((lambda k: 0, lambda k: 1 + k % 2, lambda k: 3)):
        for step in range(PER_SEGMENT):
            for key in range(KEYS):
                segment = line(key)
                mates = KEYS if generation != 1 else KEYS // 2
                place = step * mates + (key if generation != 1 else key // 2)
                rows.append(
                    {
                        "key": f"k{key}".encode(),
                        "segment": segment,
                        "message_id": (10 + segment, place // 2, place % 2),
                        "sequence_id": place,
                        "producer": f"p-seg-{segment}",
                        "publish_time": None,
                        "properties": {"n": str(generation * PER_SEGMENT + step)},
                    }
                )
    return rows


def audit(spark: SparkSession, rows: list[dict[str, Any]], counter: Counter, **more: Any) -> Any:
    shuffled = random.Random(1).sample(rows, len(rows))
    values = [[row[name.split()[0]] for name in FIELDS] for row in shuffled]
    return order_audit(spark.createDataFrame(values, SCHEMA), counter, GENERATIONS, **more)


FIELDS = ("key", "segment", "message_id", "sequence_id", "producer", "publish_time", "properties")


def faults_of(examples: list[Any]) -> list[tuple[str, str, int, int, tuple[Any, ...]]]:
    return sorted(
        (
            row["kind"],
            bytes(row["line"]).decode(),
            row["first"],
            row["last"],
            (row["segment"], row["ledger"], row["entry"], row["batch"]),
        )
        for row in examples
    )


def test_a_spoiled_history_shows_exactly_what_was_planted(spark: SparkSession) -> None:
    rows = make_history()
    found, examples = audit(spark, rows, BY_KEY, first=0)
    assert found.is_clean and not examples
    assert (found.messages, found.lines, found.unnumbered) == (len(rows), KEYS, 0)
    at = {(row["key"], int(row["properties"]["n"])): row for row in rows}
    spoiled = [row for row in rows if row is not at[b"k1", 6] and row is not at[b"k2", 0]]
    twice = {**at[b"k3", 4], "segment": 3, "message_id": (13, 99, 0)}
    spoiled.append(twice)
    early, late = at[b"k4", 9], at[b"k4", 10]
    swapped = [
        {**early, "segment": 3, "message_id": late["message_id"]},
        {**late, "segment": early["segment"], "message_id": early["message_id"]},
    ]
    spoiled = [row for row in spoiled if row is not early and row is not late] + swapped
    spoiled.append({**at[b"k5", 0], "properties": {}, "message_id": (10, 99, 0)})
    found, examples = audit(spark, spoiled, BY_KEY, first=0)
    none = (None,) * 4
    assert faults_of(examples) == [
        ("duplicated", "k3", 4, 4, (3, 13, 99, 0)),
        ("lost", "k1", 6, 6, none),
        ("lost", "k2", 0, 0, none),
        ("out-of-order", "k4", 9, 9, (3, *late["message_id"])),
    ]
    assert (found.lost, found.duplicated, found.out_of_order, found.unnumbered) == (2, 1, 1, 1)
    (text,) = [
        order_audit_command.format_fault(row) for row in examples if row["kind"] == "duplicated"
    ]
    assert text == "duplicated: 4 of k3 at segment 3 position 13:99:0, after segment 3 position" + (
        " 13:13:1"
    )


def test_what_is_missing_at_the_end_shows_when_the_end_is_known(spark: SparkSession) -> None:
    rows = [row for row in make_history() if row["key"] != b"k5"]
    last = {row["key"]: row for row in rows}
    rows = [row for row in rows if row is not last[b"k0"]]
    found, _ = audit(spark, rows, BY_KEY, first=0)
    assert found.is_clean, "nobody can know what stood at the end"
    counts = [(f"k{key}", 3 * PER_SEGMENT) for key in range(KEYS)]
    expected = spark.createDataFrame(counts, "key string, count long")
    found, examples = audit(spark, rows, BY_KEY, first=0, expected=expected)
    assert found.lost == 1 + 3 * PER_SEGMENT
    assert [each[:4] for each in faults_of(examples)] == [
        ("lost", "k0", 14, 14),
        ("lost", "k5", 0, 14),
    ]
    with pytest.raises(ConfigurationError, match="give a counter of keys"):
        audit(spark, rows, BY_KEY, expected=expected)


def test_sequence_ids_tell_of_faults_without_a_counter(spark: SparkSession) -> None:
    rows = make_history()
    found, examples = audit(spark, rows, Counter())
    assert found.is_clean and not examples
    assert found.lines == len(PARENTS)
    gone = rows[12]
    rows.remove(gone)
    rows.append({**rows[3], "message_id": (10, 99, 0)})
    found, examples = audit(spark, rows, Counter())
    assert [each[:4] for each in faults_of(examples)] == [
        ("duplicated", "p-seg-0@0", 3, 3),
        ("lost", "p-seg-0@0", 12, 12),
        ("out-of-order", "k3 p", 3, 3),
    ], "the copy stands behind later messages of its key"


def test_without_a_counter_order_is_looked_at_key_by_key(spark: SparkSession) -> None:
    """Other keys may overtake; the same key may not, on a segment nor from one to the next."""
    rows = [
        row | {"publish_time": datetime.fromtimestamp(100 + n)}
        for n, row in enumerate(make_history())
    ]
    at = {(row["key"], int(row["properties"]["n"])): row for row in rows}
    one, other = at[b"k0", 0], at[b"k1", 0]
    one["message_id"], other["message_id"] = other["message_id"], one["message_id"]
    found, examples = audit(spark, rows, Counter())
    assert found.is_clean, examples
    one, other = at[b"k2", 6], at[b"k2", 7]
    one["message_id"], other["message_id"] = other["message_id"], one["message_id"]
    first = at[b"k4", 10]
    first["publish_time"] = at[b"k4", 8]["publish_time"]
    found, examples = audit(spark, rows, Counter())
    assert [each[:3] for each in faults_of(examples)] == [
        ("out-of-order", "k2 p", one["sequence_id"]),
        ("out-of-order", "k4 p", first["sequence_id"]),
    ]


def test_a_topic_that_was_split_and_merged_is_in_order(
    spark: SparkSession, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    topic = "topic://public/audited/orders"
    admin.namespaces.create("public/audited")
    forever = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    admin.namespaces.set_policy("public/audited", "retention", forever)
    admin.scalable_topics.create(topic)
    told: list[str] = []
    options = {
        "topic": topic,
        "url": magnetar_broker.service_url,
        "admin_url": magnetar_broker.admin_url,
        "counter": "property:n",
        "first": 0,
        "show": 20,
    }
    with PulsarClient(magnetar_broker.service_url) as client, client.producer(topic) as producer:

        def send(first: int, last: int) -> None:
            for number in range(first, last):
                for key in range(8):
                    producer.submit(b"x", key=f"k{key}", properties={"n": str(number)})
            producer.flush()

        send(0, 10)
        admin.scalable_topics.split(topic, 0)
        send(10, 20)
        admin.scalable_topics.merge(topic, 1, 2)
        send(20, 30)
        assert order_audit_command.run(spark, options, told.append, told.append) == 0
        assert told == [f"{topic}: 240 messages, 8 keys: 0 lost, 0 duplicated, 0 out of order"]
        assert (
            order_audit_command.run(
                spark, options | {"counter": "sequence", "first": None}, told.append, told.append
            )
            == 0
        )
        producer.send(b"x", key="k3", properties={"n": "28"})
        producer.send(b"x", key="k4", properties={"n": "32"})
    told.clear()
    assert order_audit_command.run(spark, options, told.append, told.append) == 1
    assert told[0].endswith("242 messages, 8 keys: 2 lost, 1 duplicated, 0 out of order")
    assert told[1].startswith("  duplicated: 28 of k3 at segment 3 position ")
    assert told[2] == "  lost: 30 to 31 of k4"


@pytest.mark.parametrize("text", ["sequence:x", "property", "values", ""])
def test_a_counter_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no counter"):
        parse_counter(text)


def test_a_small_history_is_sorted_by_as_many_tasks_as_read_it(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    try:
        values = [[row[name] for name in FIELDS] for row in make_history()]
        messages = spark.createDataFrame(values, SCHEMA).repartition(3)
        checked = check(arrange(messages, BY_KEY, GENERATIONS))
        assert checked.rdd.getNumPartitions() == 3
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))
