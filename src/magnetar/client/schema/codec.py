"""What every kind of schema does: values to bytes and back, and what is sent to the broker.

With the codecs of JSON, of protobuf, and of single values: bytes, text, dates and big-endian
numbers.
"""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from magnetar.client.error import SchemaError
from magnetar.model.document import decode_json
from magnetar.model.schema import SchemaData, SchemaType
from magnetar.rules.descriptor import (
    format_avro_definition,
    format_native_definition,
    parse_message,
)
from magnetar.rules.protobuf import ProtobufUnreadable

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MICROSECOND: Final = timedelta(microseconds=1)
_LONG: Final = struct.Struct(">q")
_INSTANT: Final = struct.Struct(">qi")
_LOCAL_DATE_TIME: Final = struct.Struct(">qq")


class Codec(ABC, Generic[T]):
    """`data` is what the broker registers. Everything that does not fit is a SchemaError."""

    def __init__(self, data: SchemaData, *, needs_writer: bool = False) -> None:
        self.data = data
        self.needs_writer = needs_writer
        """Whether bytes can be read only with the schema they were written with."""

    @abstractmethod
    def encode(self, value: T) -> bytes: ...

    @abstractmethod
    def decode(self, data: bytes, *, key: bytes | None, writer: SchemaData | None) -> T:
        """Read what was written with `writer`, or with this schema when that is not known."""

    def encode_key(self, value: T) -> bytes | None:
        """The message key, for a schema that keeps part of the value there."""
        return None


def refuse_value(expected: str, value: object) -> SchemaError:
    kind = type(value).__name__
    return SchemaError(f"The schema takes {expected}, not {kind}: {_shorten(value)}")


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class JsonCodec(Codec[T]):
    """Reads by field names, so that no writer's schema is needed."""

    def __init__(
        self, definition: bytes, pack: Callable[[T], Any], unpack: Callable[[Any], T]
    ) -> None:
        super().__init__(SchemaData(SchemaType.JSON, definition))
        self._pack = pack
        self._unpack = unpack

    def encode(self, value: T) -> bytes:
        packed = self._pack(value)
        try:
            return msgspec.json.encode(packed)
        except (TypeError, ValueError, OverflowError) as error:
            raise SchemaError(f"JSON cannot hold the value: {error}") from None

    def decode(self, data: bytes, *, key: bytes | None, writer: SchemaData | None) -> T:
        return self._unpack(parse_json(data))


def parse_json(data: bytes) -> Any:
    try:
        return decode_json(data)
    except msgspec.DecodeError as error:
        raise SchemaError(f"The data is not JSON: {error}") from None


class BytesCodec(Codec[bytes]):
    """Any bytes-like value, as it is; the topic's schema stays whatever it is."""

    def encode(self, value: bytes) -> bytes:
        if isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        if isinstance(value, str):
            raise SchemaError("The schema takes bytes, not str; encode it, or use Schema.STRING")
        raise refuse_value("bytes", value)

    def decode(self, data: bytes, *, key: bytes | None, writer: SchemaData | None) -> bytes:
        return data


class PrimitiveCodec(Codec[T]):
    """One of Pulsar's fixed forms of a Python value."""

    def __init__(
        self,
        kind: SchemaType,
        accepts: type[Any] | tuple[type[Any], ...],
        pack: Callable[[Any], bytes],
        unpack: Callable[[bytes], T],
    ) -> None:
        super().__init__(SchemaData(kind))
        self._kinds = accepts if isinstance(accepts, tuple) else (accepts,)
        self._pack = pack
        self._unpack = unpack

    def encode(self, value: T) -> bytes:
        # bool is an int and datetime is a date, but nobody who writes one means the other.
        if not isinstance(value, self._kinds) or _is_disguised(type(value), self._kinds):
            raise refuse_value(" or ".join(kind.__name__ for kind in self._kinds), value)
        try:
            return self._pack(value)
        except (struct.error, OverflowError, UnicodeEncodeError) as error:
            raise SchemaError(f"{value!r} does not fit {self.data.type.name}: {error}") from None

    def decode(self, data: bytes, *, key: bytes | None, writer: SchemaData | None) -> T:
        try:
            return self._unpack(data)
        except (struct.error, OverflowError, ValueError) as error:
            raise SchemaError(f"{len(data)} bytes are no {self.data.type.name}: {error}") from None


def _is_disguised(kind: type[Any], accepted: tuple[type[Any], ...]) -> bool:
    return any(issubclass(kind, known) and known not in accepted for known in (bool, datetime))


def _numeric(kind: SchemaType, accepts: type[Any] | tuple[type[Any], ...], form: str) -> Any:
    packed = struct.Struct(form)
    return PrimitiveCodec(kind, accepts, packed.pack, lambda data: packed.unpack(data)[0])


def _micros_of(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise SchemaError(f"{moment!r} has no time zone; write datetime(..., tzinfo=UTC)")
    return (moment - _EPOCH) // _MICROSECOND


def _pack_millis(moment: datetime) -> bytes:
    return _LONG.pack(_micros_of(moment) // 1000)


def _unpack_millis(data: bytes) -> datetime:
    return _EPOCH + timedelta(milliseconds=_LONG.unpack(data)[0])


def _pack_instant(moment: datetime) -> bytes:
    seconds, micros = divmod(_micros_of(moment), 1_000_000)
    return _INSTANT.pack(seconds, micros * 1000)


def _unpack_instant(data: bytes) -> datetime:
    seconds, nanos = _INSTANT.unpack(data)
    return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)


def _pack_day(day: date) -> bytes:
    return _LONG.pack(day.toordinal() - _EPOCH_DAY)


def _unpack_day(data: bytes) -> date:
    return date.fromordinal(_LONG.unpack(data)[0] + _EPOCH_DAY)


def _nanos_of(moment: time) -> int:
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return seconds * 1_000_000_000 + moment.microsecond * 1000


def _time_of(nanos: int) -> time:
    return (datetime.min + timedelta(microseconds=nanos // 1000)).time()


def _pack_local(moment: datetime) -> bytes:
    if moment.tzinfo is not None:
        raise SchemaError(f"{moment!r} has a time zone; use Schema.INSTANT or TIMESTAMP")
    return _LOCAL_DATE_TIME.pack(moment.toordinal() - _EPOCH_DAY, _nanos_of(moment.time()))


def _unpack_local(data: bytes) -> datetime:
    day, nanos = _LOCAL_DATE_TIME.unpack(data)
    return datetime.combine(date.fromordinal(day + _EPOCH_DAY), _time_of(nanos))


BYTES: Final = BytesCodec(SchemaData(SchemaType.BYTES))
STRING: Final = PrimitiveCodec(SchemaType.STRING, str, str.encode, bytes.decode)
BOOLEAN: Final[PrimitiveCodec[bool]] = _numeric(SchemaType.BOOLEAN, bool, ">?")
INT8: Final[PrimitiveCodec[int]] = _numeric(SchemaType.INT8, int, ">b")
INT16: Final[PrimitiveCodec[int]] = _numeric(SchemaType.INT16, int, ">h")
INT32: Final[PrimitiveCodec[int]] = _numeric(SchemaType.INT32, int, ">i")
INT64: Final[PrimitiveCodec[int]] = _numeric(SchemaType.INT64, int, ">q")
FLOAT: Final[PrimitiveCodec[float]] = _numeric(SchemaType.FLOAT, (float, int), ">f")
DOUBLE: Final[PrimitiveCodec[float]] = _numeric(SchemaType.DOUBLE, (float, int), ">d")
DATE: Final = PrimitiveCodec(SchemaType.DATE, datetime, _pack_millis, _unpack_millis)
TIMESTAMP: Final = PrimitiveCodec(SchemaType.TIMESTAMP, datetime, _pack_millis, _unpack_millis)
TIME: Final = PrimitiveCodec(SchemaType.TIME, datetime, _pack_millis, _unpack_millis)
INSTANT: Final = PrimitiveCodec(SchemaType.INSTANT, datetime, _pack_instant, _unpack_instant)
LOCAL_DATE: Final = PrimitiveCodec(SchemaType.LOCAL_DATE, date, _pack_day, _unpack_day)
LOCAL_TIME: Final = PrimitiveCodec(
    SchemaType.LOCAL_TIME,
    time,
    lambda moment: _LONG.pack(_nanos_of(moment)),
    lambda data: _time_of(_LONG.unpack(data)[0]),
)
LOCAL_DATE_TIME: Final = PrimitiveCodec(
    SchemaType.LOCAL_DATE_TIME, datetime, _pack_local, _unpack_local
)

BY_TYPE: Final[Mapping[SchemaType, Codec[Any]]] = {
    codec.data.type: codec
    for codec in (
        BYTES,
        STRING,
        BOOLEAN,
        INT8,
        INT16,
        INT32,
        INT64,
        FLOAT,
        DOUBLE,
        DATE,
        TIME,
        TIMESTAMP,
        INSTANT,
        LOCAL_DATE,
        LOCAL_TIME,
        LOCAL_DATE_TIME,
    )
} | {SchemaType.NONE: BYTES}


class EncodedCodec(BytesCodec):
    """Registers another codec's schema, and lets pass what that codec can read."""

    def __init__(self, reader: Codec[Any]) -> None:
        super().__init__(reader.data)
        self._reader = reader

    def encode(self, value: bytes) -> bytes:
        data = super().encode(value)
        self._reader.decode(data, key=None, writer=None)
        return data


class ProtobufMessage(Protocol):
    """A class that the protobuf compiler made."""

    DESCRIPTOR: Any

    def SerializeToString(self) -> bytes: ...


M = TypeVar("M", bound=ProtobufMessage)


class ProtobufCodec(Codec[M]):
    """Protobuf itself skips fields it does not know, so no writer's schema is needed."""

    def __init__(self, kind: type[M], schema_type: SchemaType) -> None:
        descriptor = getattr(kind, "DESCRIPTOR", None)
        if descriptor is None or not hasattr(kind, "FromString"):
            raise SchemaError(f"{kind!r} is no class that the protobuf compiler made")
        if schema_type is SchemaType.PROTOBUF_NATIVE:
            data = SchemaData(schema_type, format_native_definition(descriptor))
        else:
            fields = [
                {"number": field.number, "name": field.name, "definition": None}
                for field in descriptor.fields
            ]
            properties = {"__PARSING_INFO__": json.dumps(fields)}
            data = SchemaData(schema_type, format_avro_definition(descriptor), properties)
        super().__init__(data)
        self._kind: Any = kind

    def encode(self, value: M) -> bytes:
        if not isinstance(value, self._kind):
            raise refuse_value(self._kind.__name__, value)
        data: bytes = value.SerializeToString()
        return data

    def decode(self, data: bytes, *, key: bytes | None, writer: SchemaData | None) -> M:
        try:
            message: Any = parse_message(self._kind, data)
        except ProtobufUnreadable as error:
            raise SchemaError(f"The data is {error}") from None
        found: M = message
        return found
