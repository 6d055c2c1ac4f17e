"""Typed values: what the schema registered for a topic says about its bytes.

The schema that is registered when the query is defined decides the type of the column. A message
that was written with another version is resolved to it: Avro by its rules, JSON by field names;
what cannot be resolved is a bad value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from magnetar import Admin, AdminError, Schema, SchemaError
from magnetar.columns import parse_definition, read_resolved
from magnetar.errors import MagnetarError
from magnetar.model.document import decode_json
from magnetar.model.schema import SchemaType, parse_schema_type
from magnetar.spark.access import open_admin
from magnetar.spark.arrow_type import make_arrow_type
from magnetar.spark.avro_column import make_record_reader
from magnetar.spark.avro_type import make_type
from magnetar.spark.json_column import make_document_reader
from magnetar.spark.option import BadValue, Broker, InvalidOption
from magnetar.spark.plain_value import (
    Convert,
    has_decimal,
    make_avro_reader,
    make_json_reader,
    without_moments,
)
from magnetar.spark.slice import Slice

_PRIMITIVES: Final[Mapping[SchemaType, DataType]] = {
    SchemaType.STRING: StringType(),
    SchemaType.BOOLEAN: BooleanType(),
    SchemaType.INT8: ByteType(),
    SchemaType.INT16: ShortType(),
    SchemaType.INT32: IntegerType(),
    SchemaType.INT64: LongType(),
    SchemaType.FLOAT: FloatType(),
    SchemaType.DOUBLE: DoubleType(),
    SchemaType.DATE: TimestampType(),
    SchemaType.TIME: TimestampType(),
    SchemaType.TIMESTAMP: TimestampType(),
    SchemaType.INSTANT: TimestampType(),
    SchemaType.LOCAL_DATE: DateType(),
    SchemaType.LOCAL_DATE_TIME: TimestampNTZType(),
    SchemaType.BYTES: BinaryType(),
    SchemaType.NONE: BinaryType(),
}
_WIDE: Final = {
    SchemaType.INT8: ">i1",
    SchemaType.INT16: ">i2",
    SchemaType.INT32: ">i4",
    SchemaType.INT64: ">i8",
    SchemaType.FLOAT: ">f4",
    SchemaType.DOUBLE: ">f8",
}


_UNFIT: Final = (SchemaError, pa.ArrowException, TypeError, ValueError, OverflowError)
"""What is raised for data that does not fit; msgspec's refusals are ValueErrors."""


class ValueUnreadable(MagnetarError):
    """An undecodable message, with where it stands."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    kind: SchemaType
    definition: str = ""

    @property
    def is_struct(self) -> bool:
        return self.kind in (SchemaType.JSON, SchemaType.AVRO)


def load_schema(admin: Admin, topic: str, version: int | None = None) -> RegisteredSchema | None:
    """The newest schema of a topic, or one version; None when it has none."""
    try:
        document = admin.schemas.get(f"persistent://{topic}", version=version)
    except AdminError as error:
        if error.status == 404:
            return None
        raise
    return RegisteredSchema(parse_schema_type(document["type"]), document.get("data") or "")


def choose_schema(schemas: Mapping[str, RegisteredSchema | None]) -> RegisteredSchema:
    """The one schema of all topics; raise when they have none, or not the same."""
    missing = [name for name, schema in schemas.items() if schema is None]
    if missing:
        raise InvalidOption(
            f"valueFormat is schema, and no schema is registered for {missing[0]};"
            " read it with valueFormat bytes"
        )
    known = {name: schema for name, schema in schemas.items() if schema is not None}
    if len(set(known.values())) > 1:
        one, other = list(known)[:2]
        raise InvalidOption(
            f"valueFormat is schema, and {one} and {other} have different schemas;"
            " read them in two queries, or with valueFormat bytes"
        )
    schema = next(iter(known.values()))
    if not schema.is_struct and schema.kind not in _PRIMITIVES:
        raise InvalidOption(
            f"A schema of type {schema.kind.name} has no column type;"
            " read it with valueFormat bytes"
        )
    return schema


def column_type(schema: RegisteredSchema) -> DataType:
    if not schema.is_struct:
        return _PRIMITIVES[schema.kind]
    return make_type(json.loads(schema.definition))


@dataclass
class ValueReader:
    """Decodes columns of bytes; holds values only until a task asks for another version."""

    broker: Broker
    schema: RegisteredSchema
    wanted: DataType
    bad_value: BadValue
    _writers: dict[tuple[str, int], RegisteredSchema | None] = field(default_factory=dict)
    """By topic and version: every topic numbers its own."""

    def __post_init__(self) -> None:
        self._arrow = make_arrow_type(self.wanted)

    @cached_property
    def _definition(self) -> Any:
        return json.loads(self.schema.definition)

    @cached_property
    def _convert_json(self) -> Convert | None:
        return make_json_reader(self._definition)

    @cached_property
    def _read_records(self) -> Callable[[pa.Array], pa.Array] | None:
        return make_record_reader(self._definition, self._arrow)

    @cached_property
    def _read_documents(self) -> Callable[[pa.Array], pa.Array] | None:
        return make_document_reader(self._definition, self._arrow)

    @cached_property
    def _parse(self) -> Callable[[bytes], Any]:
        """Digits of decimals are kept; that costs time, so only where there are some."""
        if not has_decimal(self._definition):
            return decode_json
        return msgspec.json.Decoder(float_hook=Decimal).decode

    def decode(self, batch: pa.RecordBatch, piece: Slice) -> pa.Array:
        values = batch.column("value")
        try:
            return self._decode_all(values, batch, piece)
        except _UNFIT:
            return self._decode_singly(values, batch, piece)

    def _decode_all(self, values: pa.Array, batch: pa.RecordBatch, piece: Slice) -> pa.Array:
        kind = self.schema.kind
        if kind is SchemaType.JSON:
            return self._decode_json(values)
        if kind is SchemaType.STRING:
            return values.cast(pa.string()).cast(self._arrow)
        if kind in _WIDE and not values.null_count:
            return _parse_numbers(values, _WIDE[kind]).cast(self._arrow)
        if kind is SchemaType.AVRO and self._is_plain(batch, piece):
            assert self._read_records is not None
            return self._read_records(values)
        return pa.array([*self._read_rows(values, batch, piece)], self._arrow)

    def _is_plain(self, batch: pa.RecordBatch, piece: Slice) -> bool:
        """Whether all rows were written with the schema that they are read with, and it is one that
        is read by columns.
        """
        if self._read_records is None:
            return False
        reader = _parse_plainly(self.schema.definition)
        versions = batch.column("schema_version").unique().to_pylist()
        return all(self._writer(piece, each) is reader for each in versions)

    def _decode_json(self, values: pa.Array) -> pa.Array:
        if self._read_documents is not None:
            with suppress(*_UNFIT):  # other spellings are read too, one by one
                return self._read_documents(values)
        return pa.array(self._parse_json(values), self._arrow)

    def _parse_json(self, values: pa.Array) -> Sequence[Any]:
        """All at once: the values side by side are one list."""
        listed = values.to_pylist()
        joined = b",".join(b"null" if each is None else each for each in listed)
        rows = self._parse(b"[" + joined + b"]")
        if len(rows) != len(listed):
            raise SchemaError("a value is not one JSON document")
        return [None if each is None else self._finish_json(each) for each in rows]

    def _finish_json(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise SchemaError("a value is not a JSON object")
        return value if self._convert_json is None else self._convert_json(value)

    def _read_rows(self, values: pa.Array, batch: pa.RecordBatch, piece: Slice) -> Any:
        read = self._reader(piece)
        versions = batch.column("schema_version").to_pylist()
        for data, version in zip(values.to_pylist(), versions, strict=True):
            yield None if data is None else read(data, version)

    def _decode_singly(self, values: pa.Array, batch: pa.RecordBatch, piece: Slice) -> pa.Array:
        """One after the other, to find the unreadable ones."""
        read = self._reader(piece)
        versions = batch.column("schema_version").to_pylist()
        found: list[Any] = []
        for row, data in enumerate(values.to_pylist()):
            try:
                value = None if data is None else read(data, versions[row])
                pa.array([value], self._arrow)
            except _UNFIT as error:
                if self.bad_value is BadValue.FAIL:
                    raise self._unreadable(batch, piece, row, error) from None
                value = None
            found.append(value)
        return pa.array(found, self._arrow)

    def _unreadable(
        self, batch: pa.RecordBatch, piece: Slice, row: int, error: Exception
    ) -> ValueUnreadable:
        ledger, entry = batch.column("ledger")[row], batch.column("entry")[row]
        index = batch.column("batch_index")[row]
        return ValueUnreadable(
            f"{piece.label}, segment {piece.segment}, message {ledger}:{entry}:{index} is no"
            f" {self.schema.kind.name} of the registered schema: {error}. Set badValue to null to"
            " get a row without a value instead"
        )

    def _reader(self, piece: Slice) -> Callable[[bytes, int | None], Any]:
        match self.schema.kind:
            case SchemaType.JSON:
                return lambda data, _: self._finish_json(self._parse(data))
            case SchemaType.AVRO:
                reader = _parse_plainly(self.schema.definition)
                convert = make_avro_reader(self._definition)

                def read(data: bytes, version: int | None) -> Any:
                    found = read_resolved(data, self._writer(piece, version), reader)
                    return found if convert is None else convert(found)

                return read
            case kind:
                schema = Schema.of(kind)
                return lambda data, _: schema.decode(data)

    def _writer(self, piece: Slice, version: int | None) -> Any:
        """The schema a message was written with, asked for once."""
        if version is None:
            return _parse_plainly(self.schema.definition)
        topic = piece.label.partition("://")[2]
        if (topic, version) not in self._writers:
            with open_admin(self.broker.admin_url, self.broker.access) as admin:
                self._writers[topic, version] = load_schema(admin, topic, version)
        found = self._writers[topic, version]
        if found is None or found.kind is not SchemaType.AVRO:
            raise SchemaError(f"version {version} of the schema is not there, or is not Avro")
        return _parse_plainly(found.definition)


@lru_cache(maxsize=256)
def _parse_plainly(definition: str) -> Any:
    return parse_definition(json.dumps(without_moments(json.loads(definition))).encode())


def _parse_numbers(values: pa.Array, form: str) -> pa.Array:
    width = np.dtype(form).itemsize
    _, offsets, data = values.buffers()
    edges = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    if len(edges) and (np.diff(edges) != width).any():
        raise SchemaError("a value has another size")
    start = int(edges[0]) if len(edges) else 0
    found = np.frombuffer(data, form, len(values), start)
    return pa.array(found.astype(found.dtype.newbyteorder("=")))
