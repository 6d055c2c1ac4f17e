"""The schemas an application names: `Schema.STRING`, `Schema.json(Order)`, …"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, overload

from magnetar.client.error import ConfigurationError, SchemaError
from magnetar.client.schema import codec
from magnetar.client.schema.codec import (
    Codec,
    EncodedCodec,
    JsonCodec,
    ProtobufCodec,
    ProtobufMessage,
    refuse_value,
)
from magnetar.client.schema.generic import AutoCodec
from magnetar.client.schema.key_value import KeyValue, KeyValueCodec, KeyValueEncoding
from magnetar.client.schema.shape import Form, build_shape
from magnetar.model.schema import SchemaData, SchemaType
from magnetar.wire import schema as wire
from magnetar.wire.command import Schema as WireSchema

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
M = TypeVar("M", bound=ProtobufMessage)
if TYPE_CHECKING:  # a default of a type variable is for type checkers, until Python 3.13
    from typing_extensions import TypeVar as DefaultedTypeVar

    D = DefaultedTypeVar("D", default=bytes)
else:
    D = TypeVar("D")

Definition = str | Mapping[str, Any]
"""An Avro definition, as its JSON text or that text parsed."""


class Schema(Generic[T]):
    """How values of one type travel. Immutable; one may serve any number of producers."""

    BYTES: ClassVar[Schema[bytes]]
    STRING: ClassVar[Schema[str]]
    BOOL: ClassVar[Schema[bool]]
    INT8: ClassVar[Schema[int]]
    INT16: ClassVar[Schema[int]]
    INT32: ClassVar[Schema[int]]
    INT64: ClassVar[Schema[int]]
    FLOAT32: ClassVar[Schema[float]]
    FLOAT64: ClassVar[Schema[float]]
    TIMESTAMP: ClassVar[Schema[datetime]]
    INSTANT: ClassVar[Schema[datetime]]
    LOCAL_DATE: ClassVar[Schema[date]]
    LOCAL_TIME: ClassVar[Schema[time]]
    LOCAL_DATE_TIME: ClassVar[Schema[datetime]]

    def __init__(self, codec: Codec[T]) -> None:
        self._codec = codec

    @property
    def schema_type(self) -> SchemaType:
        return self._codec.data.type

    @property
    def data(self) -> SchemaData:
        """What is registered for the topic."""
        return self._codec.data

    @property
    def needs_writer(self) -> bool:
        """Whether a value can be read only with the schema it was written with."""
        return self._codec.needs_writer

    def encode(self, value: T) -> bytes:
        return self._codec.encode(value)

    def encode_key(self, value: T) -> bytes | None:
        """The message key, where the schema keeps a part of the value there."""
        return self._codec.encode_key(value)

    def decode(
        self, data: bytes, *, key: bytes | None = None, writer: SchemaData | None = None
    ) -> T:
        return self._codec.decode(data, key=key, writer=writer)

    def to_wire(self) -> WireSchema | None:
        """What a producer or consumer says about it; None for bytes, which are no schema."""
        if self.schema_type in (SchemaType.BYTES, SchemaType.AUTO_PUBLISH):
            return None
        return wire.encode_schema(self.data, "")

    def __repr__(self) -> str:
        return f"Schema({self.schema_type.name})"

    @staticmethod
    def of(kind: SchemaType) -> Schema[Any]:
        """That of single values of a type, as brokers and their schemas name it."""
        known = codec.BY_TYPE.get(kind)
        if known is None:
            raise SchemaError(f"Values of type {kind.name} need more than their type to be read")
        return Schema(known)

    @overload
    @staticmethod
    def json(kind: type[T]) -> Schema[T]: ...

    @overload
    @staticmethod
    def json(kind: Definition) -> Schema[Mapping[str, Any]]: ...

    @staticmethod
    def json(kind: Any) -> Schema[Any]:
        """JSON of a dataclass or pydantic model, or of mappings that an Avro text describes."""
        if not isinstance(kind, type):
            return Schema(JsonCodec(_format_definition(kind), _check_mapping, _same))
        shape = build_shape(_check_record(kind), Form.JSON)
        return Schema(JsonCodec(_dump(shape.definition), shape.pack, shape.unpack))

    @overload
    @staticmethod
    def avro(kind: type[T]) -> Schema[T]: ...

    @overload
    @staticmethod
    def avro(kind: Definition) -> Schema[Any]: ...

    @staticmethod
    def avro(kind: Any) -> Schema[Any]:
        """Avro of a dataclass or pydantic model, or of what an Avro text describes."""
        from magnetar.client.schema.avro import AvroCodec

        if not isinstance(kind, type):
            return Schema(AvroCodec(_format_definition(kind), _same, _same))
        shape = build_shape(_check_record(kind), Form.AVRO)
        return Schema(AvroCodec(_dump(shape.definition), shape.pack, shape.unpack))

    @staticmethod
    def protobuf(kind: type[M]) -> Schema[M]:
        """Messages of a generated class; registered by their fields, as PROTOBUF."""
        return Schema(ProtobufCodec(kind, SchemaType.PROTOBUF))

    @staticmethod
    def protobuf_native(kind: type[M]) -> Schema[M]:
        """The same with the message's own files registered, so that others can read it."""
        return Schema(ProtobufCodec(kind, SchemaType.PROTOBUF_NATIVE))

    @staticmethod
    def key_value(
        key: Schema[K], value: Schema[V], encoding: KeyValueEncoding | str = "inline"
    ) -> Schema[KeyValue[K, V]]:
        """Pairs; `encoding="separated"` makes the pair's key the key of the message."""
        try:
            chosen = KeyValueEncoding(encoding)
        except ValueError:
            raise SchemaError(
                f"No encoding of pairs is called {encoding!r}; there are inline and separated"
            ) from None
        return Schema(KeyValueCodec(key._codec, value._codec, chosen))

    @staticmethod
    def auto() -> Schema[Any]:
        """For consumers: each message is read with the schema it was written with."""
        return Schema(AutoCodec(_read_avro))

    @staticmethod
    def auto_produce(base: Schema[Any] | None = None) -> Schema[bytes]:
        """For producers of encoded bytes: they go out under the topic's newest schema.

        With `base` they go out under that one, and bytes that it cannot read are refused.
        """
        if base is None:
            return Schema(codec.BytesCodec(SchemaData(SchemaType.AUTO_PUBLISH)))
        return Schema(EncodedCodec(base._codec))


Schema.BYTES = Schema(codec.BYTES)
Schema.STRING = Schema(codec.STRING)
Schema.BOOL = Schema(codec.BOOLEAN)
Schema.INT8 = Schema(codec.INT8)
Schema.INT16 = Schema(codec.INT16)
Schema.INT32 = Schema(codec.INT32)
Schema.INT64 = Schema(codec.INT64)
Schema.FLOAT32 = Schema(codec.FLOAT)
Schema.FLOAT64 = Schema(codec.DOUBLE)
Schema.TIMESTAMP = Schema(codec.TIMESTAMP)
Schema.INSTANT = Schema(codec.INSTANT)
Schema.LOCAL_DATE = Schema(codec.LOCAL_DATE)
Schema.LOCAL_TIME = Schema(codec.LOCAL_TIME)
Schema.LOCAL_DATE_TIME = Schema(codec.LOCAL_DATE_TIME)
BYTES: Final[Any] = Schema.BYTES
"""What a keyword `schema: Schema[D]` is unless it is given."""


def check_schema(schema: object) -> None:
    """Raise for what is given where a schema belongs, most often the type of the values."""
    if not isinstance(schema, Schema):
        hint = "such as Schema.STRING"
        if isinstance(schema, type):
            hint = f"such as Schema.json({schema.__name__}) or Schema.avro({schema.__name__})"
        raise ConfigurationError(f"schema is a Schema, {hint}, not {schema!r}")


def _read_avro(definition: bytes, data: bytes) -> Any:
    from magnetar.client.schema.avro import read_generic

    return read_generic(definition, data)


def _check_record(kind: type[Any]) -> type[Any]:
    if not hasattr(kind, "__dataclass_fields__") and not hasattr(kind, "model_fields"):
        raise SchemaError(
            f"{kind.__name__} is neither a dataclass nor a pydantic model;"
            " decorate it with @dataclass, or give the Avro definition as text"
        )
    return kind


def _format_definition(definition: Any) -> bytes:
    if isinstance(definition, str):
        try:
            json.loads(definition)
        except ValueError as error:
            raise SchemaError(f"The Avro definition is not JSON: {error}") from None
        return definition.encode()
    if isinstance(definition, Mapping):
        return _dump(definition)
    raise SchemaError(
        f"Not a record: {definition!r}; give a dataclass, a pydantic model or an Avro definition"
    )


def _dump(definition: Any) -> bytes:
    return json.dumps(definition, separators=(",", ":")).encode()


def _check_mapping(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise refuse_value("a mapping", value)
    return dict(value)


def _same(value: Any) -> Any:
    return value
