"""Values of schemas as Arrow takes them, and columns as the codecs of schemas take them.

Moments are numbers on both sides: Python's own types reach neither as far as Spark's nor as fine.
In JSON, where a schema does not say how a value is spelled, what Jackson writes by default and what
it can be set to write are both read.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

import pyarrow as pa

from magnetar import SchemaError

Convert: TypeAlias = Callable[[Any], Any]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)
MOMENT_SCALE: Final = {
    "timestamp-millis": 1000,
    "timestamp-micros": 1,
    "local-timestamp-millis": 1000,
    "local-timestamp-micros": 1,
    "time-millis": 1_000_000,
    "time-micros": 1000,
}
"""What one unit of the schema is in Arrow's: microseconds for moments, nanoseconds for times."""
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def has_decimal(definition: Any) -> bool:
    match definition:
        case {"logicalType": "decimal"}:
            return True
        case dict():
            return any(has_decimal(each) for each in definition.values())
        case list():
            return any(has_decimal(each) for each in definition)
        case _:
            return False


def without_moments(definition: Any) -> Any:
    """The definition with moments and identifiers as plain numbers and text."""
    match definition:
        case {"logicalType": str() as logical} if logical != "decimal":
            return {
                name: without_moments(each)
                for name, each in definition.items()
                if name != "logicalType"
            }
        case dict():
            return {
                # Defaults and symbols are data, not types.
                name: each if name in ("default", "symbols") else without_moments(each)
                for name, each in definition.items()
            }
        case list():
            return [without_moments(each) for each in definition]
        case _:
            return definition


def make_avro_reader(definition: Any) -> Convert | None:
    """What turns values that were read by `without_moments` of a definition into Arrow's; None when
    they are so already.
    """
    return _reader(definition, {}, is_json=False)


def make_json_reader(definition: Any) -> Convert | None:
    """The same for values that were parsed from JSON."""
    return _reader(definition, {}, is_json=True)


def _reader(definition: Any, known: dict[str, Any], *, is_json: bool) -> Convert | None:
    def inner(each: Any) -> Convert | None:
        return _reader(each, known, is_json=is_json)

    match definition:
        case str() if definition in known:
            return inner(known[definition])
        case "float" | "double":
            return _parse_float if is_json else None
        case "bytes":
            return _parse_bytes if is_json else None
        case str():
            return None
        case list():
            found = next((inner(each) for each in definition if each != "null"), None)
            return None if found is None else _optional(found)
        case {"logicalType": "decimal"}:
            return _parse_decimal if is_json else None
        case {"logicalType": "date"}:
            return _parse_date if is_json else None
        case {"logicalType": str() as logical} if logical in MOMENT_SCALE:
            return _moment_reader(logical, is_json=is_json)
        case {"type": "record", "fields": list() as fields}:
            known[definition.get("name", "")] = definition
            made = {each["name"]: convert for each in fields if (convert := inner(each["type"]))}
            return _record_reader({name: _optional(each) for name, each in made.items()})
        case {"type": "enum" | "fixed" as kind}:
            known[definition.get("name", "")] = definition
            return _parse_bytes if is_json and kind == "fixed" else None
        case {"type": "array", "items": items}:
            return _array_reader(inner(items))
        case {"type": "map", "values": values}:
            return _map_reader(inner(values))
        case {"type": each}:
            return inner(each)
        case _:
            return None


def _optional(convert: Convert) -> Convert:
    """A null stays one; a field that JSON leaves out is one."""
    return lambda value: None if value is None else convert(value)


def _record_reader(converts: dict[str, Convert]) -> Convert | None:
    if not converts:
        return None

    def read(record: Any) -> Any:
        if not isinstance(record, dict):
            raise SchemaError("a record is not a JSON object")
        return record | {
            name: convert(record[name]) for name, convert in converts.items() if name in record
        }

    return read


def _array_reader(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [convert(value) for value in values]


def _map_reader(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: {name: convert(value) for name, value in values.items()}


def _moment_reader(logical: str, *, is_json: bool) -> Convert | None:
    scale = MOMENT_SCALE[logical]
    parse = _parse_time if logical.startswith("time-") else _parse_moment

    def read(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value * scale
        return parse(value)

    if not is_json:
        return None if scale == 1 else (lambda value: value * scale)
    return read


def _parse_moment(value: Any) -> int:
    """Microseconds since 1970 of seconds with a fraction, of ISO 8601, or of Jackson's list."""
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) // _MICRO
    if isinstance(value, float | Decimal):
        return round(Decimal(str(value)) * 1_000_000)
    if isinstance(value, list) and 5 <= len(value) <= 7:
        year, month, day, hour, minute, second, nanos = [*value, 0, 0][:7]
        moment = datetime(year, month, day, hour, minute, second, nanos // 1000, tzinfo=UTC)
        return (moment - _EPOCH) // _MICRO
    raise SchemaError(f"{value!r} is no moment")


def _parse_time(value: Any) -> int:
    """Nanoseconds since midnight of ISO 8601, or of Jackson's list of hour to nanosecond."""
    if isinstance(value, str):
        found = time.fromisoformat(value)
        seconds = (found.hour * 60 + found.minute) * 60 + found.second
        return seconds * 1_000_000_000 + found.microsecond * 1000
    if isinstance(value, list) and 2 <= len(value) <= 4:
        hour, minute, second, nanos = [*value, 0, 0][:4]
        return int(((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos)
    raise SchemaError(f"{value!r} is no time of day")


def _parse_date(value: Any) -> Any:
    if isinstance(value, str):
        return date.fromisoformat(value)
    if isinstance(value, list) and len(value) == 3:
        return date(*value)
    return value


def _parse_decimal(value: Any) -> Any:
    if isinstance(value, str | int):
        try:
            return Decimal(value)
        except InvalidOperation:
            raise SchemaError(f"{value!r} is no decimal number") from None
    return value


def _parse_float(value: Any) -> Any:
    if isinstance(value, str):
        if value not in _NOT_FINITE:
            raise SchemaError(f"{value!r} is no number")
        return _NOT_FINITE[value]
    return float(value) if isinstance(value, Decimal) else value


def _parse_bytes(value: Any) -> Any:
    if not isinstance(value, str):
        raise SchemaError("bytes are not text in base64")
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except binascii.Error as error:
        raise SchemaError(f"bytes are not in base64: {error}") from None


def list_values(column: pa.Array, *, is_json: bool) -> list[Any]:
    """The rows of a column as the codec of a schema takes them."""
    counted = column.cast(_map_type(column.type, _unit)).cast(_map_type(column.type, _number))
    rows: list[Any] = counted.to_pylist(maps_as_pydicts="strict")
    return [_spell(row) for row in rows] if is_json and _has_float(column.type) else rows


def _spell(value: Any) -> Any:
    """JSON has no numbers that are not finite; Jackson writes and reads their names."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {name: _spell(each) for name, each in value.items()}
        case list():
            return [_spell(each) for each in value]
        case _:
            return value


def _unit(kind: pa.DataType) -> pa.DataType:
    return pa.time64("us") if pa.types.is_time(kind) else kind


def _number(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date(kind) else kind


def _map_type(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The same nesting with other types inside."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_map_type(each.type, change)) for each in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_map_type(kind.item_type, change)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_map_type(kind.value_type, change)))
    return change(kind)


def _has_float(kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return True
    return any(_has_float(kind.field(index).type) for index in range(kind.num_fields))
