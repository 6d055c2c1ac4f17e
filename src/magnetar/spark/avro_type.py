"""The types of columns and of schemas: a struct as an Avro record, and back.

The definitions of JSON schemas are Avro too. A type that only one side has is refused with the path
of the column, when the query is planned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
)

from magnetar.spark.option import InvalidOption

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WIDTH: Final = "connect.type"
"""The property under which Kafka Connect keeps integers that are narrower than Avro's."""
_TO_AVRO: Final[Mapping[type[DataType], Any]] = {
    BooleanType: "boolean",
    ByteType: {"type": "int", _WIDTH: "int8"},
    ShortType: {"type": "int", _WIDTH: "int16"},
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    CharType: "string",
    VarcharType: "string",
    BinaryType: "bytes",
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
    DateType: {"type": "int", "logicalType": "date"},
    TimeType: {"type": "long", "logicalType": "time-micros"},
}
_FROM_AVRO: Final[Mapping[str, DataType]] = {
    "null": StringType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
}
_LOGICAL: Final[Mapping[tuple[str, str], DataType]] = {
    ("int", "date"): DateType(),
    ("int", "time-millis"): TimeType(3),
    ("long", "time-micros"): TimeType(6),
    ("long", "timestamp-millis"): TimestampType(),
    ("long", "timestamp-micros"): TimestampType(),
    ("long", "local-timestamp-millis"): TimestampNTZType(),
    ("long", "local-timestamp-micros"): TimestampNTZType(),
}
_DECIMAL_DIGITS: Final = 38
"""The most that a column can have."""


def make_definition(record: StructType, name: str = "Row") -> str:
    """The Avro record of a struct; every field may be null."""
    return json.dumps(_Writer().record(record, name, ""))


class _Writer:
    """Gives each record of a definition a name of its own."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def record(self, record: StructType, name: str, path: str) -> dict[str, Any]:
        if not record.fields:
            place = f"The struct {path} has no fields" if path else "There is no column"
            raise InvalidOption(f"{place} to write as the value")
        fields = []
        for each in record.fields:
            inner = f"{path}.{each.name}" if path else each.name
            if not _NAME.fullmatch(each.name):
                raise InvalidOption(
                    f"The column {inner} has a name that no schema can have;"
                    " letters, digits and _ are allowed, rename it first"
                )
            kind = self.convert(each.dataType, f"{name}_{each.name}", inner)
            fields.append({"name": each.name, "type": ["null", kind], "default": None})
        return {"type": "record", "name": self._unique(name), "fields": fields}

    def convert(self, kind: DataType, name: str, path: str) -> Any:
        match kind:
            case StructType():
                return self.record(kind, name, path)
            case ArrayType():
                items = self.convert(kind.elementType, name, f"{path}[]")
                return {"type": "array", "items": ["null", items]}
            case MapType() if isinstance(kind.keyType, StringType):
                values = self.convert(kind.valueType, name, f"{path}{{}}")
                return {"type": "map", "values": ["null", values]}
            case MapType():
                raise InvalidOption(
                    f"The keys of the map {path} are {kind.keyType.simpleString()}; a schema has"
                    " maps with keys of type string only, cast them first"
                )
            case DecimalType():
                return {
                    "type": "bytes",
                    "logicalType": "decimal",
                    "precision": kind.precision,
                    "scale": kind.scale,
                }
            case _ if type(kind) in _TO_AVRO:
                return _TO_AVRO[type(kind)]
            case _:
                raise InvalidOption(
                    f"The column {path} is {kind.simpleString()}, which no schema can carry;"
                    " cast it first"
                )

    def _unique(self, name: str) -> str:
        found, number = name, 2
        while found in self._names:
            found, number = f"{name}_{number}", number + 1
        self._names.add(found)
        return found


def make_type(definition: Any) -> DataType:
    """The Spark type of an Avro type."""
    return _read(definition, {}, "value")


def _read(definition: Any, known: dict[str, Any], path: str) -> DataType:
    """`known` are the named types above; None stands for one that is being read."""

    def convert(each: Any, inner: str = path) -> DataType:
        return _read(each, known, inner)

    match definition:
        case str() if definition in _FROM_AVRO:
            return _FROM_AVRO[definition]
        case str():
            if known.get(definition) is None:
                raise InvalidOption(
                    f"The schema's type {definition} at {path} contains itself, which no column"
                    " can; read it with valueFormat bytes"
                )
            return convert(known[definition])
        case list():
            kinds = [each for each in definition if each != "null"]
            if len(kinds) != 1:
                raise InvalidOption(
                    f"The schema has a union of several types at {path}, which no column can hold;"
                    " read it with valueFormat bytes"
                )
            return convert(kinds[0])
        case {"logicalType": "decimal", "precision": int() as precision}:
            if precision > _DECIMAL_DIGITS:
                raise InvalidOption(
                    f"The schema has a decimal of {precision} digits at {path}, and a column has"
                    f" {_DECIMAL_DIGITS} at most; read it with valueFormat bytes"
                )
            return DecimalType(precision, int(definition.get("scale", 0)))
        case {"type": str() as kind, "logicalType": str() as logical} if (
            kind,
            logical,
        ) in _LOGICAL:
            return _LOGICAL[kind, logical]
        case {"type": "int", "connect.type": "int8"}:
            return ByteType()
        case {"type": "int", "connect.type": "int16"}:
            return ShortType()
        case {"type": "record", "fields": list() as fields}:
            name = definition.get("name", "")
            known[name] = None
            made = [
                StructField(each["name"], convert(each["type"], f"{path}.{each['name']}"))
                for each in fields
            ]
            known[name] = definition
            return StructType(made)
        case {"type": "enum"}:
            known[definition.get("name", "")] = definition
            return StringType()
        case {"type": "fixed"}:
            known[definition.get("name", "")] = definition
            return BinaryType()
        case {"type": "array", "items": items}:
            return ArrayType(convert(items, f"{path}[]"))
        case {"type": "map", "values": values}:
            return MapType(StringType(), convert(values, f"{path}{{}}"))
        case {"type": inner}:
            return convert(inner)
        case _:
            raise InvalidOption(f"The schema has a part at {path} that is not Avro: {definition!r}")
