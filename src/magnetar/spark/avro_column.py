"""Records in Avro as columns, all rows of a batch at once.

Every row has a cursor into the bytes. A field is read for all rows before the next one, so that the
work of a field is a few operations on whole arrays. What has no fixed order of fields, such as
arrays, maps and unions of several types, is left to the codec that reads row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from magnetar import SchemaError
from magnetar.spark.plain_value import MOMENT_SCALE

Numbers: TypeAlias = npt.NDArray[np.int64]
_VARINT_MAX: Final = 10
"""Bytes of the longest number."""


class _Cursor:
    """Where each row stands; fields are read one after the other."""

    def __init__(self, data: pa.Buffer, at: Numbers, end: Numbers) -> None:
        self.buffer = data
        self.data = np.frombuffer(data, np.uint8)
        self.at = at
        self.end = end

    def choose(self, rows: npt.NDArray[np.bool_]) -> _Cursor:
        return _Cursor(self.buffer, self.at[rows], self.end[rows])

    def advance(self, sizes: Numbers | int) -> Numbers:
        """Step over so many bytes of each row; returns where they begin."""
        start = self.at
        self.at = start + sizes
        if (self.at > self.end).any() or (self.at < start).any():
            raise SchemaError("the data ends within a value")
        return start

    def read_numbers(self) -> Numbers:
        """Variable-length zigzag numbers."""
        byte = self.data[self.advance(1)]
        found = (byte & 0x7F).astype(np.uint64)
        rows = np.flatnonzero(byte & 0x80)
        for place in range(1, _VARINT_MAX):
            if not len(rows):
                break
            at = self.at[rows]
            if (at >= self.end[rows]).any():
                raise SchemaError("the data ends within a number")
            byte = self.data[at]
            self.at[rows] = at + 1
            found[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
            rows = rows[(byte & 0x80) != 0]
        if len(rows):
            raise SchemaError("a number is too long")
        return (found >> np.uint64(1)).view(np.int64) ^ -(found & np.uint64(1)).view(np.int64)

    def read_fixed(self, width: int) -> npt.NDArray[np.uint8]:
        """So many bytes of each row, side by side."""
        found: npt.NDArray[np.uint8] = self.data[
            self.advance(width)[:, np.newaxis] + np.arange(width)
        ]
        return found

    def read_slices(self, sizes: Numbers | int) -> pa.Array:
        """So many bytes of each row, of another number in each. Rows stand one behind the other:
        every second slice of the data is a value, those between belong to other fields.
        """
        start = self.advance(sizes)
        edges = np.empty(2 * len(start) + 1, np.int32)
        edges[0:-1:2], edges[1::2] = start, self.at
        edges[-1] = edges[-2] if len(start) else 0
        slices = pa.Array.from_buffers(
            pa.binary(), 2 * len(start), [None, pa.py_buffer(edges), self.buffer]
        )
        return slices.take(pa.array(np.arange(0, 2 * len(start), 2)))


Field: TypeAlias = Callable[[_Cursor], pa.Array]
"""Reads one field of all rows."""


def make_record_reader(definition: Any, kind: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
    """What reads a column of records in a definition as an Arrow type; None when a field needs more
    than this module has.
    """
    field = _make_field(definition, kind)
    if field is None:
        return None

    def read(values: pa.Array) -> pa.Array:
        _, offsets, data = values.buffers()
        edges = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
        at, end = edges[:-1].astype(np.int64), edges[1:].astype(np.int64)
        cursor = _Cursor(pa.py_buffer(b"") if data is None else data, at, end)
        found = _read_present(field, cursor, values.is_valid().to_numpy(zero_copy_only=False))
        if (cursor.at != cursor.end).any():
            raise SchemaError("there is more data than the schema says")
        return found

    return read


def _read_present(field: Field, cursor: _Cursor, present: npt.NDArray[np.bool_]) -> pa.Array:
    """Null for the other rows."""
    if present.all():
        return field(cursor)
    inner = cursor.choose(present)
    found = field(inner)
    cursor.at[present] = inner.at
    places = np.cumsum(present) - 1
    return found.take(pa.array(places, mask=~present))


def _make_field(definition: Any, kind: pa.DataType | None) -> Field | None:
    """`kind` is None for a field that no column asks for."""
    match definition:
        case {"logicalType": "decimal"}:
            return None
        case {"logicalType": str() as logical, "type": "int" | "long"}:
            scale = 1 if logical == "date" else MOMENT_SCALE.get(logical)
            return None if scale is None else _moments(scale, kind)
        case {"type": "record", "fields": list() as fields}:
            return _records({each["name"]: each["type"] for each in fields}, kind)
        case {"type": "enum", "symbols": list() as symbols}:
            return _symbols(symbols, kind)
        case {"type": "fixed", "size": int() as size}:
            return _checked(kind, pa.binary(), lambda cursor: cursor.read_slices(size))
        case {"type": str() as plain}:
            return _make_plain(plain, kind)
        case {"type": inner}:
            return _make_field(inner, kind)
        case str():
            return _make_plain(definition, kind)
        case [one, other] if "null" in (one, other):
            field = _make_field(other if one == "null" else one, kind)
            return None if field is None else _optional(field, present=int(one == "null"))
        case _:
            return None


def _make_plain(name: str, kind: pa.DataType | None) -> Field | None:
    match name:
        case "int":
            return _checked(kind, pa.int32(), _read_ints)
        case "long":
            return _checked(kind, pa.int64(), lambda cursor: pa.array(cursor.read_numbers()))
        case "float" | "double":
            form = np.dtype("<f4" if name == "float" else "<f8")
            return _checked(
                kind,
                pa.from_numpy_dtype(form),
                lambda cursor: pa.array(cursor.read_fixed(form.itemsize).view(form)[:, 0]),
            )
        case "boolean":
            return _checked(
                kind, pa.bool_(), lambda cursor: pa.array(cursor.read_fixed(1)[:, 0] != 0)
            )
        case "bytes" | "string":
            wanted = pa.binary() if name == "bytes" else pa.string()
            return _checked(
                kind, wanted, lambda cursor: cursor.read_slices(cursor.read_numbers()).cast(wanted)
            )
        case _:
            return None


def _checked(kind: pa.DataType | None, own: pa.DataType, field: Field) -> Field | None:
    """A column of another type is left to the codec, which knows what fits."""
    return field if kind is None or kind == own else None


def _read_ints(cursor: _Cursor) -> pa.Array:
    return pa.array(cursor.read_numbers()).cast(pa.int32())


def _moments(scale: int, kind: pa.DataType | None) -> Field | None:
    if kind is not None and not (
        pa.types.is_timestamp(kind) or pa.types.is_date32(kind) or pa.types.is_time64(kind)
    ):
        return None
    stored = pa.int32() if kind is not None and pa.types.is_date32(kind) else pa.int64()

    def read(cursor: _Cursor) -> pa.Array:
        numbers = cursor.read_numbers()
        limit = np.iinfo(np.int64).max // scale
        if ((numbers > limit) | (numbers < -limit)).any():
            raise SchemaError("a moment is too far away")
        found = pa.array(numbers * scale)
        return found if kind is None else found.cast(stored).view(kind)

    return read


def _symbols(symbols: list[str], kind: pa.DataType | None) -> Field | None:
    names = pa.array(symbols, pa.string())

    def read(cursor: _Cursor) -> pa.Array:
        numbers = cursor.read_numbers()
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(symbols):
            raise SchemaError("a symbol is not one of the schema")
        return names.take(pa.array(numbers))

    return _checked(kind, pa.string(), read)


def _optional(field: Field, *, present: int) -> Field:
    def read(cursor: _Cursor) -> pa.Array:
        branches = cursor.read_numbers()
        if ((branches != 0) & (branches != 1)).any():
            raise SchemaError("a branch is not one of the union")
        return _read_present(field, cursor, branches == present)

    return read


def _records(types: Mapping[str, Any], kind: pa.DataType | None) -> Field | None:
    wanted: dict[str, pa.DataType] = {}
    if kind is not None:
        if not pa.types.is_struct(kind) or not kind.num_fields:
            return None
        wanted = {each.name: each.type for each in kind.fields}
        if not wanted.keys() <= types.keys():
            return None
    fields: dict[str, Field] = {}
    for name, each in types.items():
        field = _make_field(each, wanted.get(name))
        if field is None:
            return None
        fields[name] = field

    def read(cursor: _Cursor) -> pa.Array:
        found = {name: field(cursor) for name, field in fields.items()}
        if kind is None:
            return pa.nulls(len(cursor.at))
        return pa.StructArray.from_arrays([found[name] for name in wanted], fields=kind.fields)

    return read
