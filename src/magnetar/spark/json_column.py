"""Records in JSON as columns, all rows of a batch at once, by Arrow's own parser.

It takes what the schema says and nothing else: where values are spelled another way that is read
too, such as moments in ISO 8601, it fails, and the rows are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from magnetar import SchemaError
from magnetar.spark.plain_value import MOMENT_SCALE

_PLAIN: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
}
_OPEN, _CLOSE = b"{}"


def make_document_reader(
    definition: Any, kind: pa.DataType
) -> Callable[[pa.Array], pa.Array] | None:
    """What reads a column of JSON objects in a definition as an Arrow type; None when a field needs
    more than this module has.
    """
    parsed = _parsed_type(definition, kind)
    if parsed is None or not pa.types.is_struct(parsed):
        return None
    form = pj.ParseOptions(
        explicit_schema=pa.schema(parsed.fields), unexpected_field_behavior="ignore"
    )

    def read(values: pa.Array) -> pa.Array:
        present = values.drop_null()
        if not len(present):
            return pa.nulls(len(values), kind)
        _check_objects(present)
        text = b"\n".join(present.to_pylist())
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=form,
        )
        if table.num_rows != len(present):
            raise SchemaError("a value is not one JSON document")
        found = _finish(table.to_struct_array().combine_chunks(), definition, kind)
        found.validate(full=True)  # the parser lets text through that is not UTF-8
        if not values.null_count:
            return found
        is_valid = values.is_valid().to_numpy(zero_copy_only=False)
        return found.take(pa.array(np.cumsum(is_valid) - 1, mask=~is_valid))

    return read


def _check_objects(values: pa.Array) -> None:
    """Raise unless each begins and ends like an object: then each has one document at least, and as
    many documents as values are one in each.
    """
    _, offsets, data = values.buffers()
    edges = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    if (np.diff(edges) < 2).any():
        raise SchemaError("a value is not a JSON object")
    text = np.frombuffer(data, np.uint8)
    if (text[edges[:-1]] != _OPEN).any() or (text[edges[1:] - 1] != _CLOSE).any():
        raise SchemaError("a value is not a JSON object")


def _parsed_type(definition: Any, kind: pa.DataType) -> pa.DataType | None:
    """What the parser is asked for: numbers for moments."""
    match definition:
        case [one, other] if "null" in (one, other):
            return _parsed_type(other if one == "null" else one, kind)
        case {"logicalType": str() as logical, "type": "int" | "long"}:
            if logical == "date" and pa.types.is_date32(kind):
                return pa.int32()
            is_moment = pa.types.is_timestamp(kind) or pa.types.is_time64(kind)
            return pa.int64() if logical in MOMENT_SCALE and is_moment else None
        case {"logicalType": "decimal"}:
            return None
        case {"type": "record", "fields": list() as fields} if pa.types.is_struct(kind):
            types = {each["name"]: each["type"] for each in fields}
            found = [(each.name, _parsed_type(types.get(each.name), each.type)) for each in kind]
            if not found or any(parsed is None for _, parsed in found):
                return None
            return pa.struct(found)
        case {"type": "enum"}:
            return kind if kind == pa.string() else None
        case str() if definition in _PLAIN:
            return kind if kind == _PLAIN[definition] else None
        case {"type": dict() | list() | str() as inner} if inner not in ("record", "array", "map"):
            return _parsed_type(inner, kind)
        case _:
            return None


def _finish(values: pa.Array, definition: Any, kind: pa.DataType) -> pa.Array:
    """Numbers as the moments that they are."""
    match definition:
        case [one, other] if "null" in (one, other):
            return _finish(values, other if one == "null" else one, kind)
        case {"type": "record", "fields": list() as fields}:
            types = {each["name"]: each["type"] for each in fields}
            inner = [
                _finish(values.field(place), types[each.name], each.type)
                for place, each in enumerate(kind)
            ]
            return pa.StructArray.from_arrays(inner, fields=kind.fields, mask=values.is_null())
        case {"logicalType": str() as logical} if values.type != kind:
            scaled = pc.multiply_checked(values, MOMENT_SCALE.get(logical, 1))
            return scaled.cast(values.type).view(kind)
        case {"type": dict() | list() as inner}:
            return _finish(values, inner, kind)
        case _:
            return values
