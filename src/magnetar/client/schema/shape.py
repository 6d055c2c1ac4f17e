"""From Python types to Avro definitions, and values between objects and plain data.

A shape is what one type becomes: its definition, and two functions. `pack` turns an object into
what fastavro or the JSON encoder takes, `unpack` turns what they return into an object.
"""

from __future__ import annotations

import binascii
import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from magnetar.client.error import SchemaError
from magnetar.client.schema.codec import refuse_value


class Field(NamedTuple):
    name: str
    wire_name: str
    """As it stands in the definition and in the data."""
    kind: Any
    has_default: bool
    default: Any = None


class Record(NamedTuple):
    fields: tuple[Field, ...]
    make: Callable[[Mapping[str, Any]], Any]
    """Builds an object from values by wire name; those with defaults may be left out."""


def is_record(kind: type[Any]) -> bool:
    return dataclasses.is_dataclass(kind) or _is_model(kind)


def describe_record(kind: type[Any]) -> Record:
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise SchemaError(
            f"{kind.__name__}: {error}; define the type it names at the top of its module"
        ) from None
    return _describe_model(kind, hints) if _is_model(kind) else _describe_dataclass(kind, hints)


def _is_model(kind: type[Any]) -> bool:
    return hasattr(kind, "model_fields") and hasattr(kind, "model_validate")


def _describe_dataclass(kind: type[Any], hints: Mapping[str, Any]) -> Record:
    fields = []
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        default: Any = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        has_default = default is not dataclasses.MISSING
        kept = default if has_default else None
        fields.append(Field(field.name, field.name, hints[field.name], has_default, kept))

    def make(values: Mapping[str, Any]) -> Any:
        try:
            return kind(**values)
        except (TypeError, ValueError) as error:
            raise SchemaError(f"{kind.__name__} refuses what was received: {error}") from None

    return Record(tuple(fields), make)


def _describe_model(kind: Any, hints: Mapping[str, Any]) -> Record:
    fields = []
    for name, info in kind.model_fields.items():
        has_default = not info.is_required()
        default = info.get_default(call_default_factory=True) if has_default else None
        fields.append(Field(name, info.alias or name, hints[name], has_default, default))

    def make(values: Mapping[str, Any]) -> Any:
        try:
            return kind.model_validate(values)
        except ValueError as error:
            raise SchemaError(f"{kind.__name__} refuses what was received: {error}") from None

    return Record(tuple(fields), make)


class Form(StrEnum):
    """Dates and the like are logical types in Avro and ISO text in JSON."""

    AVRO = "avro"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class AvroType:
    """Chooses a narrower number: `Annotated[int, AvroType("int")]` instead of Avro's long."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in ("int", "long", "float", "double"):
            raise SchemaError(
                f"No AvroType is called {self.name!r}; there are int, long, float, double"
            )


class Shape(NamedTuple):
    definition: Any
    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]
    is_optional: bool = False


_INTEGER_LIMITS: Final = {"int": 2**31, "long": 2**63}


def build_shape(kind: Any, form: Form) -> Shape:
    """The shape of a dataclass, a pydantic model, or anything that may be inside one."""
    return _Builder(form).build(kind)


class _Builder:
    """Remembers named types: the second time one is met, its name stands for it."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._named: dict[str, tuple[Any, Shape]] = {}

    def build(self, kind: Any) -> Shape:
        origin = typing.get_origin(kind)
        if origin is typing.Annotated:
            return self._build_annotated(kind)
        if origin in (typing.Union, types.UnionType):
            return self._build_union(kind)
        if origin in (list, tuple, Sequence):
            return self._build_array(kind, origin)
        if origin in (dict, Mapping):
            return self._build_map(kind)
        if isinstance(kind, typing.NewType):
            return self.build(kind.__supertype__)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self._build_enum(kind)
        if isinstance(kind, type) and is_record(kind):
            return self._build_record(kind)
        return self._build_leaf(kind)

    def _build_leaf(self, kind: Any) -> Shape:
        if kind is int:
            return _integer("long")
        if kind is float:
            return _real("double", self._form)
        if kind is None or kind is type(None):
            return Shape("null", *_checked(type(None)))
        if kind is bytes:
            return _bytes_shape(self._form)
        if kind in (str, bool):
            return Shape("string" if kind is str else "boolean", *_checked(kind))
        if isinstance(kind, type) and kind in _TEXT_FORMS:
            logical = _LOGICAL.get(kind) if self._form is Form.AVRO else None
            if logical is not None:
                return Shape(logical, *_checked(kind))
            return Shape("string", _as_text(kind), _from_text(kind))
        raise SchemaError(
            f"{_spell(kind)} has no Avro type; use str, int, float, bool, bytes, datetime, date,"
            " time, Decimal, UUID, Enum, list[X], dict[str, X], X | None, a dataclass or a pydantic"
            " model"
        )

    def _build_annotated(self, kind: Any) -> Shape:
        inner, *notes = typing.get_args(kind)
        for note in notes:
            if isinstance(note, AvroType):
                if inner is int and note.name in _INTEGER_LIMITS:
                    return _integer(note.name)
                if inner is float and note.name in ("float", "double"):
                    return _real(note.name, self._form)
                raise SchemaError(f"AvroType({note.name!r}) does not fit {_spell(inner)}")
        return self.build(inner)

    def _build_union(self, kind: Any) -> Shape:
        branches = typing.get_args(kind)
        present = [branch for branch in branches if branch is not type(None)]
        if len(present) != 1 or len(branches) != 2:
            raise SchemaError(f"{_spell(kind)}: of unions only X | None has a schema")
        inner = self.build(present[0])
        pack, unpack = inner.pack, inner.unpack
        return Shape(
            ["null", inner.definition],
            lambda value: None if value is None else pack(value),
            lambda data: None if data is None else unpack(data),
            is_optional=True,
        )

    def _build_array(self, kind: Any, origin: Any) -> Shape:
        arguments = typing.get_args(kind)
        if origin is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
            raise SchemaError(f"{_spell(kind)}: a tuple has a schema as tuple[X, ...] only")
        item = self.build(arguments[0])
        pack, unpack = item.pack, item.unpack
        collect = tuple if origin is tuple else list

        def pack_items(value: Any) -> Any:
            if not isinstance(value, list | tuple):
                raise refuse_value("a list", value)
            return [pack(each) for each in value]

        return Shape(
            {"type": "array", "items": item.definition},
            pack_items,
            lambda data: collect(unpack(each) for each in data),
        )

    def _build_map(self, kind: Any) -> Shape:
        key, value = typing.get_args(kind)
        if key is not str:
            raise SchemaError(f"{_spell(kind)}: the keys of a map are str")
        inner = self.build(value)
        pack, unpack = inner.pack, inner.unpack

        def pack_map(value: Any) -> Any:
            if not isinstance(value, Mapping):
                raise refuse_value("a mapping", value)
            return {key: pack(each) for key, each in value.items()}

        return Shape(
            {"type": "map", "values": inner.definition},
            pack_map,
            lambda data: {key: unpack(each) for key, each in data.items()},
        )

    def _build_enum(self, kind: type[Enum]) -> Shape:
        def unpack(data: Any) -> Enum:
            try:
                return kind[data]
            except KeyError:
                raise SchemaError(f"{kind.__name__} has no {data!r}") from None

        def pack(value: Any) -> str:
            if not isinstance(value, kind):
                raise refuse_value(kind.__name__, value)
            return value.name

        definition = {"type": "enum", "name": kind.__name__, "symbols": list(kind.__members__)}
        return self._name(kind, Shape(definition, pack, unpack))

    def _build_record(self, kind: type[Any]) -> Shape:
        known = self._named.get(kind.__name__)
        if known is not None:
            return self._name(kind, known[1])
        record = describe_record(kind)
        shapes: list[Shape] = []
        fields: list[Any] = []
        definition = {"type": "record", "name": kind.__name__, "fields": fields}

        def pack(value: Any) -> Any:
            if not isinstance(value, kind):
                raise refuse_value(kind.__name__, value)
            packed = {}
            for field, shape in zip(record.fields, shapes, strict=True):
                try:
                    packed[field.wire_name] = shape.pack(getattr(value, field.name))
                except SchemaError as error:
                    raise SchemaError(f"{kind.__name__}.{field.name}: {error.sentence}") from None
            return packed

        def unpack(data: Any) -> Any:
            if not isinstance(data, Mapping):
                raise refuse_value(f"the fields of {kind.__name__}", data)
            known: dict[str, Any] = {}
            for field, shape in zip(record.fields, shapes, strict=True):
                if field.wire_name in data:
                    known[field.wire_name] = shape.unpack(data[field.wire_name])
                elif not field.has_default:
                    if not shape.is_optional:
                        raise SchemaError(f"{kind.__name__}.{field.name} is missing")
                    known[field.wire_name] = None
            return record.make(known)

        whole = self._name(kind, Shape(definition, pack, unpack))
        for field in record.fields:
            try:
                shape = self.build(field.kind)
            except SchemaError as error:
                raise SchemaError(f"{kind.__name__}.{field.name}: {error.sentence}") from None
            shapes.append(shape)
            fields.append(_define_field(field, shape))
        return whole

    def _name(self, kind: type[Any], shape: Shape) -> Shape:
        known = self._named.get(kind.__name__)
        if known is None:
            self._named[kind.__name__] = (kind, shape)
            return shape
        if known[0] is not kind:
            raise SchemaError(f"Two types are called {kind.__name__}; Avro needs different names")
        return known[1]._replace(definition=kind.__name__)


def _define_field(field: Field, shape: Shape) -> dict[str, Any]:
    defined: dict[str, Any] = {"name": field.wire_name, "type": shape.definition}
    if not field.has_default:
        if shape.is_optional:
            defined["default"] = None
        return defined
    default = field.default
    if isinstance(default, Enum):
        default = default.name
    if default is None or isinstance(default, bool | int | float | str) or default in ([], {}, ()):
        # Avro's default is of the first branch of a union.
        if shape.is_optional and default is not None:
            defined["type"] = [shape.definition[1], "null"]
        defined["default"] = list(default) if isinstance(default, tuple) else default
    return defined


def _checked(kind: type[Any]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    def pack(value: Any) -> Any:
        if not isinstance(value, kind) or (kind is date and isinstance(value, datetime)):
            raise refuse_value(kind.__name__, value)
        if isinstance(value, datetime) and value.tzinfo is None:
            raise SchemaError(f"{value!r} has no time zone; write datetime(..., tzinfo=UTC)")
        return value

    return pack, lambda data: data


def _integer(name: str) -> Shape:
    limit = _INTEGER_LIMITS[name]

    def pack(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise refuse_value("int", value)
        if not -limit <= value < limit:
            raise SchemaError(f"{value} does not fit Avro's {name}")
        return int(value)

    return Shape(name, pack, lambda data: data)


def _real(name: str, form: Form) -> Shape:
    def pack(value: Any) -> float:
        if not isinstance(value, float | int) or isinstance(value, bool):
            raise refuse_value("float", value)
        if form is Form.JSON and not math.isfinite(value):
            raise SchemaError(f"JSON cannot write {value}")
        return float(value)

    return Shape(name, pack, float)


def _bytes_shape(form: Form) -> Shape:
    # The JSON encoder writes bytes in base64, as other clients do; reading gives that text back.
    pack, same = _checked(bytes)
    return Shape("bytes", pack, same if form is Form.AVRO else _from_base64)


def _from_base64(data: Any) -> bytes:
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except (ValueError, TypeError):
        raise SchemaError(f"Not base64: {data!r}") from None


_LOGICAL: Final[Mapping[type[Any], Any]] = {
    datetime: {"type": "long", "logicalType": "timestamp-micros"},
    date: {"type": "int", "logicalType": "date"},
    time: {"type": "long", "logicalType": "time-micros"},
    UUID: {"type": "string", "logicalType": "uuid"},
}
_TEXT_FORMS: Final[Mapping[type[Any], tuple[Callable[[Any], str], Callable[[str], Any]]]] = {
    datetime: (datetime.isoformat, datetime.fromisoformat),
    date: (date.isoformat, date.fromisoformat),
    time: (time.isoformat, time.fromisoformat),
    UUID: (str, UUID),
    Decimal: (str, Decimal),
}


def _as_text(kind: type[Any]) -> Callable[[Any], str]:
    check, _ = _checked(kind)
    write = _TEXT_FORMS[kind][0]
    return lambda value: write(check(value))


def _from_text(kind: type[Any]) -> Callable[[Any], Any]:
    read = _TEXT_FORMS[kind][1]

    def unpack(data: Any) -> Any:
        try:
            return read(data)
        except (ValueError, TypeError, ArithmeticError):
            raise SchemaError(f"Not a {kind.__name__}: {data!r}") from None

    return unpack


def _spell(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")
