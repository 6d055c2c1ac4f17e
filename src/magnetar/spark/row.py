"""The columns that Spark sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from magnetar.columns import make_numbers, make_texts
from magnetar.spark.arrow_type import make_arrow_schema
from magnetar.spark.option import InvalidOption
from magnetar.spark.slice import Slice

MESSAGE_ID: Final = StructType(
    [
        StructField("ledger", LongType()),
        StructField("entry", LongType()),
        StructField("batch", IntegerType()),
    ]
)
ENCRYPTION: Final = StructType(
    [StructField("keys", ArrayType(StringType())), StructField("decrypted", BooleanType())]
)
"""Null for a message that was not encrypted."""
COLUMN_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "properties": MapType(StringType(), StringType()),
    "topic": StringType(),
    "segment": LongType(),
    "message_id": MESSAGE_ID,
    "publish_time": TimestampType(),
    "event_time": TimestampType(),
    "sequence_id": LongType(),
    "producer": StringType(),
    "schema_version": LongType(),
    "ordering_key": BinaryType(),
    "encryption": ENCRYPTION,
}

Decode = Callable[[pa.RecordBatch, Slice], pa.Array]
"""The typed values of a batch."""
Finish = Callable[[pa.RecordBatch, Slice], pa.RecordBatch]


def make_schema(columns: Sequence[str], value: DataType) -> StructType:
    """All columns, or those named."""
    unknown = [each for each in columns if each not in COLUMN_TYPES]
    if unknown:
        raise InvalidOption(f"There is no column {unknown[0]}; there are {', '.join(COLUMN_TYPES)}")
    types = COLUMN_TYPES | {"value": value}
    chosen = columns or tuple(types)
    return StructType([StructField(name, types[name]) for name in chosen])


def check_schema(schema: StructType) -> None:
    """A schema that was given by hand has our columns and, but for the value, their types."""
    for each in schema.fields:
        if each.name not in COLUMN_TYPES:
            raise InvalidOption(
                f"The source has no column {each.name}; it has {', '.join(COLUMN_TYPES)}"
            )
        if each.name != "value" and each.dataType != COLUMN_TYPES[each.name]:
            expected = COLUMN_TYPES[each.name].simpleString()
            raise InvalidOption(f"The column {each.name} is {expected} and cannot be changed")


def make_finish(schema: StructType, decode: Decode | None) -> Finish:
    """What turns decoded columns into the batches that Spark expects, exactly."""
    arrow = make_arrow_schema(schema)

    def finish(batch: pa.RecordBatch, piece: Slice) -> pa.RecordBatch:
        arrays = []
        zeros = make_numbers(np.zeros(batch.num_rows, np.int64))
        for field in arrow:
            match field.name:
                case "topic":
                    column = make_texts([piece.label]).take(zeros)
                case "segment":
                    column = make_numbers(np.full(batch.num_rows, piece.segment))
                case "message_id":
                    parts = [batch.column(name) for name in ("ledger", "entry", "batch_index")]
                    column = pa.StructArray.from_arrays(parts, fields=list(field.type))
                case "value" if decode is not None:
                    column = decode(batch, piece)
                case name:
                    column = batch.column(name)
            arrays.append(column if column.type == field.type else column.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=arrow)

    return finish
