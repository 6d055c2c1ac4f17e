"""Fields of a body that its schema does not have: misspelled, or of another release.

Pulsar ignores every unknown field, and clients of other releases count on that: what they send
besides is of no concern here. A misspelled field is the same to a parser, but what it was meant to
set then falls back to its default, and a policy is gone. So an unknown field is refused where it
stands in for one that is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from magnetar.errors import nearest

_UNKNOWN_MAX: Final = 32
"""Comparing names takes time; no client sends so many fields of another release."""
_NEAR: Final = 0.9
_SHOWN_MAX: Final = 64
_LISTED_MAX: Final = 8
_SENT_BY_CLIENTS: Final = frozenset({"maxDelayInMillis"})
"""What a published client calls a field, and Pulsar ignores: the Go client's delayed delivery."""
_SCALARS: Final = (bool, int, float, str)


def find_unknown(value: Any, schema: Any, *, strict: bool = False) -> str | None:
    """Why a decoded body is refused for its unknown fields, as a sentence; None when it is not.

    With `strict`, any unknown field is a reason.
    """
    return next(_find(value, schema, strict), None)


def _find(value: Any, schema: Any, strict: bool) -> Iterator[str]:
    origin, parts = get_origin(schema), get_args(schema)
    if is_struct(schema):
        if isinstance(value, dict):
            yield from _find_in_object(value, schema, strict)
    elif not _has_struct(schema):
        return
    elif origin in (Union, UnionType):
        for part in parts:
            yield from _find(value, part, strict)
    elif origin is dict:
        for each in value.values() if isinstance(value, dict) else ():
            yield from _find(each, parts[1], strict)
    else:
        for each in value if isinstance(value, list) else ():
            yield from _find(each, parts[0], strict)


def _find_in_object(value: dict[str, Any], struct: Any, strict: bool) -> Iterator[str]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    unknown = [name for name in value if name not in fields]
    if not strict:
        unknown = [name for name in unknown if name not in _SENT_BY_CLIENTS]
    missing = [name for name in fields if name not in value]
    if len(unknown) > _UNKNOWN_MAX:
        yield f"{len(unknown)} unknown fields, among them {_show(unknown[0])}"
        return
    forbids = strict or struct.__struct_config__.forbid_unknown_fields
    resets = len(missing) == len(fields) or (
        all(_is_scalar(field.type) for field in fields.values())
        and any(not _is_optional(fields[name].type) for name in missing)
    )
    for name in unknown:
        if forbids or resets or (missing and nearest(name, missing, cutoff=_NEAR)):
            yield f"unknown field {_show(name)}{_hint(name, missing or list(fields), fields)}"
    for name, field in fields.items():
        if name in value:
            yield from _find(value[name], field.type, strict)


def _hint(name: str, missing: list[str], fields: dict[str, Any]) -> str:
    meant = nearest(name, missing)
    if meant:
        return f"; did you mean {meant}?"
    return f"; there are {', '.join(fields)}" if len(fields) <= _LISTED_MAX else ""


def _show(name: str) -> str:
    return repr(name if len(name) <= _SHOWN_MAX else name[:_SHOWN_MAX] + "…")


def is_struct(schema: Any) -> bool:
    return isinstance(schema, type) and issubclass(schema, msgspec.Struct)


def _has_struct(schema: Any) -> bool:
    return is_struct(schema) or any(_has_struct(each) for each in get_args(schema))


def _is_optional(kind: Any) -> bool:
    return type(None) in get_args(kind)


def _is_scalar(kind: Any) -> bool:
    """A number, a word or a choice; clients send those of a policy all at once."""
    if isinstance(kind, type):
        return issubclass(kind, (*_SCALARS, Enum, type(None)))
    parts = [each for each in get_args(kind) if not isinstance(each, msgspec.Meta)]
    return get_origin(kind) is not tuple and bool(parts) and all(map(_is_scalar, parts))
