"""Rows to messages: what becomes of the columns of a DataFrame that is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from magnetar import Schema
from magnetar.columns import INSTANT, make_numbers, make_texts
from magnetar.spark.option import InvalidOption
from magnetar.spark.plain_value import list_values
from magnetar.spark.sink_option import SinkFormat, SinkOptions

_TOPIC: Final = pa.dictionary(pa.int32(), pa.string())
_PROPERTIES: Final = pa.map_(pa.string(), pa.string())
ROWS: Final = pa.schema(
    [
        ("topic", _TOPIC),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("properties", _PROPERTIES),
        ("event_ms", pa.int64()),
    ]
)
"""Messages to write; the value is encoded."""
_OWN: Final = ("key", "value", "properties", "event_time", "topic")


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Refuse an unwritable DataFrame, before anything is written."""
    names = schema.fieldNames()
    types = {each.name: each.dataType for each in schema.fields}
    if options.topic is None and "topic" not in names:
        raise InvalidOption("Name the topic to write to: by the option topic or a column topic")
    if options.format is SinkFormat.BYTES:
        if "value" not in names:
            raise InvalidOption(
                "The DataFrame has no column value; choose valueFormat json or avro"
            )
        extra = [name for name in names if name not in _OWN]
        if extra:
            raise InvalidOption(
                f"The column {extra[0]} is none of {', '.join(_OWN)}; drop it, or choose"
                " valueFormat json or avro to write it as part of the value"
            )
        if not isinstance(types["value"], StringType | BinaryType):
            raise InvalidOption(
                f"The column value is {types['value'].simpleString()}; valueFormat bytes takes"
                " binary or string, and json or avro take the rest"
            )
    _check_type(types, "key", StringType | BinaryType, "string or binary")
    _check_type(types, "topic", StringType, "string")
    _check_type(types, "event_time", TimestampType, "timestamp")
    _check_type(types, "properties", MapType, "map<string,string>")


def _check_type(types: Mapping[str, DataType], name: str, kind: Any, told: str) -> None:
    if name in types and not isinstance(types[name], kind):
        raise InvalidOption(f"The column {name} is {told}, not {types[name].simpleString()}")


def value_type(schema: StructType) -> StructType:
    """What is written as the value: the column of this name, or all that have no other meaning."""
    for each in schema.fields:
        if each.name == "value":
            if isinstance(each.dataType, StructType):
                return each.dataType
            return StructType([each])
    return StructType([each for each in schema.fields if each.name not in _OWN])


def read_rows(batch: pa.RecordBatch, options: SinkOptions, schema: Schema[Any]) -> pa.RecordBatch:
    """The messages of a batch, in the order of its rows, as `ROWS` has them."""
    names = batch.schema.names

    def column(name: str, kind: pa.DataType) -> pa.Array:
        if name not in names:
            return pa.nulls(batch.num_rows, kind)
        return batch.column(name)

    moments = column("event_time", INSTANT).cast(INSTANT).cast(pa.int64())
    events = pc.divide(moments, 1000).fill_null(0)
    keys = column("key", pa.binary()).cast(pa.binary())
    properties = column("properties", _PROPERTIES).cast(_PROPERTIES)
    values = _values(batch, options, schema)
    topics = _topics(batch, options)
    return pa.RecordBatch.from_arrays([topics, keys, values, properties, events], schema=ROWS)


def _topics(batch: pa.RecordBatch, options: SinkOptions) -> pa.Array:
    if "topic" not in batch.schema.names and options.topic is not None:
        same = make_numbers(np.zeros(batch.num_rows, np.int32))
        return pa.DictionaryArray.from_arrays(same, make_texts([options.topic]))
    topics = batch.column("topic").cast(pa.string())
    if options.topic is not None:
        topics = pc.if_else(pc.equal(topics, "").fill_null(True), options.topic, topics)
    if topics.null_count:
        raise InvalidOption("A row has no topic, and the option topic names none for it")
    return topics.dictionary_encode()


def _values(batch: pa.RecordBatch, options: SinkOptions, schema: Schema[Any]) -> pa.Array:
    if options.format is SinkFormat.BYTES:
        return batch.column("value").cast(pa.binary())
    rows = _records(batch, is_json=options.format is SinkFormat.JSON)
    encoded = [None if row is None else schema.encode(row) for row in rows]
    return pa.array(encoded, pa.binary())


def _records(batch: pa.RecordBatch, *, is_json: bool) -> list[Any]:
    names = batch.schema.names
    if "value" in names and pa.types.is_struct(batch.column("value").type):
        return list_values(batch.column("value"), is_json=is_json)
    chosen = ["value"] if "value" in names else [name for name in names if name not in _OWN]
    together = pa.StructArray.from_arrays([batch.column(name) for name in chosen], names=chosen)
    return list_values(together, is_json=is_json)
