"""What a record class looks like inside: a dataclass or a pydantic model, field by field.

pydantic is never imported: whoever has a model has imported it already.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from magnetar.client.error import SchemaError


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
