"""Typed values: types from schemas, changes of a schema in mid-stream, unreadable values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from magnetar.client.admin import AdminClient
from magnetar.client.schema.schema import Schema
from magnetar.model.schema import SchemaType
from magnetar.spark.avro_type import make_type
from magnetar.spark.option import InvalidOption
from magnetar.spark.value import RegisteredSchema, choose_schema, column_type
from tests.spark.engine import Engine, read_batch
from tests.spark.feed import fresh, publish_values


@dataclass
class First:
    name: str


NAME = {"name": "name", "type": "string"}
COUNT = {"name": "count", "type": "long", "default": 7}
OLD = json.dumps({"type": "record", "name": "R", "fields": [NAME]})
NEW = json.dumps({"type": "record", "name": "R", "fields": [NAME, COUNT]})


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("long", "bigint"),
        (["null", "string"], "string"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "decimal(9,2)",
        ),
        ({"type": "array", "items": "double"}, "array<double>"),
        ({"type": "map", "values": "int"}, "map<string,int>"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, "string"),
        (
            {
                "type": "record",
                "name": "r",
                "fields": [{"name": "a", "type": {"type": "fixed", "name": "f", "size": 2}}],
            },
            "struct<a:binary>",
        ),
    ],
)
def test_avro_types_become_columns(definition: Any, expected: str) -> None:
    assert make_type(definition).simpleString() == expected


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        (["int", "string"], "union of several types"),
        (
            {"type": "record", "name": "n", "fields": [{"name": "next", "type": ["null", "n"]}]},
            "contains itself",
        ),
    ],
)
def test_what_no_column_can_hold_is_refused(definition: Any, told: str) -> None:
    with pytest.raises(InvalidOption, match=told):
        make_type(definition)


def test_topics_without_one_schema_are_refused_by_name() -> None:
    text = RegisteredSchema(SchemaType.STRING)
    with pytest.raises(InvalidOption, match="no schema is registered for b"):
        choose_schema({"a": text, "b": None})
    with pytest.raises(InvalidOption, match="a and b have different schemas"):
        choose_schema({"a": text, "b": RegisteredSchema(SchemaType.INT64)})
    assert column_type(choose_schema({"a": text, "b": text})).simpleString() == "string"


def test_topics_of_different_schemas_are_read_together_as_bytes_with_their_versions(
    connection: dict[str, str],
) -> None:
    names, counts = fresh("names"), fresh("counts")
    publish_values(connection["serviceUrl"], names, Schema.avro(json.loads(OLD)), [{"name": "a"}])
    publish_values(connection["serviceUrl"], names, Schema.avro(json.loads(NEW)), [{"name": "b"}])
    publish_values(connection["serviceUrl"], counts, Schema.INT64, [5])
    rows = read_batch(connection, topics=f"{names},{counts}", valueFormat="raw")
    found = {
        (row["topic"].rpartition("/")[2], row["schema_version"]): bytes(row["value"])
        for row in rows
    }
    local, other = (each.rpartition("/")[2] for each in (names, counts))
    assert found == {
        (local, 0): b"\x02a",
        (local, 1): b"\x02b\x0e",
        (other, 0): (5).to_bytes(8, "big"),
    }


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (Schema.STRING, ["a", "ü"]),
        (Schema.INT8, [1, -1]),
        (Schema.INT64, [1, -(2**60)]),
        (Schema.FLOAT64, [0.5, -1.25]),
        (Schema.BOOL, [True, False]),
    ],
)
def test_primitives_come_back_as_they_were_sent(
    connection: dict[str, str], schema: Any, values: list[Any]
) -> None:
    topic = fresh()
    publish_values(connection["serviceUrl"], topic, schema, values)
    rows = read_batch(connection, topic=topic, valueFormat="schema")
    assert [row["value"] for row in rows] == values


@pytest.mark.parametrize("make", [Schema.avro, Schema.json])
def test_a_schema_that_changes_in_mid_stream_is_resolved_to_the_query_s(
    connection: dict[str, str], make: Any
) -> None:
    topic = fresh()
    url = connection["serviceUrl"]
    publish_values(url, topic, make(OLD), [{"name": "a"}])
    engine = Engine(connection, topic=topic, startingOffsets="earliest", valueFormat="schema")
    reader = engine.make_reader()
    try:
        start = reader.initialOffset()
        publish_values(url, topic, make(NEW), [{"name": "b", "count": 1}])
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        rows = [
            row
            for task in reader.partitions(start, end)
            for batch in reader.read(task)
            for row in batch.to_pylist()
        ]
    finally:
        reader.stop()
    assert [row["value"] for row in rows] == [{"name": "a"}, {"name": "b"}]
    # A query that is defined now knows the new field, and what older messages have in its place.
    older = 7 if make is Schema.avro else None
    newer = read_batch(connection, topic=topic, valueFormat="schema")
    assert [row["value"] for row in newer] == [
        {"name": "a", "count": older},
        {"name": "b", "count": 1},
    ]
    assert {row["schema_version"] for row in newer} == {0, 1}


def test_topics_that_number_their_schemas_alike_are_each_read_by_their_own(
    connection: dict[str, str],
) -> None:
    """One task reads both, and version 0 of one is not version 0 of the other."""
    one, other = fresh("one"), fresh("other")
    url = connection["serviceUrl"]
    turned = json.dumps({"type": "record", "name": "R", "fields": [COUNT, NAME]})
    publish_values(url, one, Schema.avro(OLD), [{"name": "a"}])
    publish_values(url, other, Schema.avro(turned), [{"name": "b", "count": 1}])
    for topic in (one, other):
        publish_values(url, topic, Schema.avro(NEW), [{"name": "c", "count": 2}])
    rows = read_batch(connection, topics=f"{one},{other}", maxTasks="1", valueFormat="schema")
    found = {
        name: [row["value"] for row in rows if row["topic"] == f"topic://{name}"]
        for name in (one, other)
    }
    last = {"name": "c", "count": 2}
    assert found[one] == [{"name": "a", "count": 7}, last]
    assert found[other] == [{"name": "b", "count": 1}, last]


def test_a_poison_message_fails_with_its_place_or_becomes_null(
    connection: dict[str, str], admin: AdminClient
) -> None:
    topic = fresh()
    publish_values(connection["serviceUrl"], topic, Schema.json(First), [First("a")])
    publish_values(connection["serviceUrl"], topic, Schema.BYTES, [b"{not json", b'{"name":"b"}'])
    options = {"topic": topic, "valueFormat": "schema"}
    with pytest.raises(Exception, match=r"message \d+:\d+:-?\d+ is no JSON of the registered"):
        read_batch(connection, **options)
    rows = read_batch(connection, badValue="null", **options)
    assert [row["value"] for row in rows] == [{"name": "a"}, None, {"name": "b"}]


def test_a_value_of_two_documents_is_not_taken_for_two_rows(connection: dict[str, str]) -> None:
    topic = fresh()
    publish_values(connection["serviceUrl"], topic, Schema.json(First), [First("a")])
    publish_values(connection["serviceUrl"], topic, Schema.BYTES, [b'{"name":"x"},{"name":"y"}'])
    rows = read_batch(connection, topic=topic, valueFormat="schema", badValue="null")
    assert [row["value"] for row in rows] == [{"name": "a"}, None]
