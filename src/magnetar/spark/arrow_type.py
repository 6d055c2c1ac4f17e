"""The Arrow type in which Spark takes a column, exactly: it reads the buffers of a batch by it.

PySpark has this conversion in a module that is not part of its public interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)

from magnetar.columns import INSTANT
from magnetar.spark.option import InvalidOption

_PLAIN: Final[Mapping[type[DataType], pa.DataType]] = {
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: INSTANT,
    TimestampNTZType: pa.timestamp("us"),
    TimeType: pa.time64("ns"),
}


def make_arrow_type(kind: DataType) -> pa.DataType:
    match kind:
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case ArrayType():
            inner = make_arrow_type(kind.elementType)
            return pa.list_(pa.field("element", inner, nullable=kind.containsNull))
        case MapType():
            key, value = make_arrow_type(kind.keyType), make_arrow_type(kind.valueType)
            return pa.map_(
                pa.field("key", key, nullable=False),
                pa.field("value", value, nullable=kind.valueContainsNull),
            )
        case StructType():
            return pa.struct(_fields(kind))
        case _ if type(kind) in _PLAIN:
            return _PLAIN[type(kind)]
        case _:
            raise InvalidOption(f"No column of the source can be {kind.simpleString()}")


def make_arrow_schema(schema: StructType) -> pa.Schema:
    return pa.schema(_fields(schema))


def _fields(schema: StructType) -> list[pa.Field]:
    return [
        pa.field(each.name, make_arrow_type(each.dataType), nullable=each.nullable)
        for each in schema.fields
    ]
