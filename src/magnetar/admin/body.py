"""The body of a request: read leniently, with limits for its texts and a word about its fields.

Pulsar ignores every unknown field, and clients of other releases count on that: what they send
besides is of no concern here. A misspelled field is the same to a parser, but what it was meant to
set then falls back to its default, and a policy is gone. So an unknown field is refused where it
stands in for one that is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache, partial
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from magnetar.errors import BadRequest, BrokerError, PreconditionFailed, nearest
from magnetar.model.document import decode_json
from magnetar.model.limit import Limits, check_properties, check_text, check_topic

_UNKNOWN_MAX: Final = 32
"""Comparing names takes time; no client sends so many fields of another release."""
_NEAR: Final = 0.9
_SHOWN_MAX: Final = 64
_LISTED_MAX: Final = 8
_SENT_BY_CLIENTS: Final = frozenset({"maxDelayInMillis"})
"""What a published client calls a field, and Pulsar ignores: the Go client's delayed delivery."""
_SCALARS: Final = (bool, int, float, str)


def decode_body(body: bytes, schema: Any, *, policy: str = "", strict: bool = False) -> Any:
    """Read JSON as `schema`; nothing, blanks and `null` are all None.

    Tools are not strict and neither is this: a null field is a missing one, an empty text is no
    choice among several, and numbers and booleans may come inside quotes. Fields that the schema
    does not have are ignored where they are not a misspelling, and refused all when `strict`.
    """
    if not body.strip():
        return None
    try:
        written = decode_json(body)
        reason = find_unknown(written, schema, strict=strict)
        if reason is not None:
            raise unfit(policy, reason)
        value = _without_nulls(written)
        if value is None:
            return None
        read = msgspec.convert(_without_blank_choices(value, schema), schema, strict=False)
        msgspec.json.encode(read)
    except msgspec.ValidationError as error:
        raise unfit(policy, str(error)) from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"The body is not JSON: {error}") from None
    except (OverflowError, RecursionError):
        raise unfit(policy, "a number or its depth is beyond all limits") from None
    return read


def unfit(policy: str, reason: str) -> BrokerError:
    if policy:
        return PreconditionFailed(f"Invalid value for {policy}: {reason}")
    return BadRequest(f"The body does not fit: {reason}")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return value


def _without_blank_choices(value: Any, schema: Any) -> Any:
    if not (isinstance(value, dict) and _is_struct(schema)):
        return value
    choices = {name for name, field in _fields_of(schema).items() if _is_choice(field.type)}
    return {key: each for key, each in value.items() if each != "" or key not in choices}


def _is_choice(kind: Any) -> bool:
    kinds = get_args(kind) or (kind,)
    return any(isinstance(each, type) and issubclass(each, Enum) for each in kinds)


# Limits
def check_payload(limits: Limits, payload: object, text_limit: str) -> None:
    """Every text of a decoded body keeps to the row `text_limit`, unless its key says more."""
    if payload is not None:
        is_properties = isinstance(payload, dict)
        _check_value(limits, msgspec.to_builtins(payload), text_limit, is_properties=is_properties)


def _check_value(limits: Limits, value: Any, text_limit: str, *, is_properties: bool) -> None:
    again = partial(_check_value, limits, text_limit=text_limit)
    match value:
        case str():
            check_text(limits, text_limit, value)
        case list():
            for each in value:
                again(each, is_properties=False)
        case dict():
            if is_properties and all(isinstance(each, str) for each in value.values()):
                check_properties(limits, value.items())
            for key, each in value.items():
                check_text(limits, "property_value_bytes", key)
                if key == "topic" and isinstance(each, str):
                    check_topic(limits, each)
                again(each, is_properties=key == "properties" and text_limit != "schema_bytes")


# Unknown fields
def find_unknown(value: Any, schema: Any, *, strict: bool = False) -> str | None:
    """Why a decoded body is refused for its unknown fields, as a sentence; None when it is not.

    With `strict`, any unknown field is a reason.
    """
    return next(_find(value, schema, strict), None)


def _find(value: Any, schema: Any, strict: bool) -> Iterator[str]:
    origin, parts = get_origin(schema), get_args(schema)
    if _is_struct(schema):
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
    fields = _fields_of(struct)
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


@cache
def _fields_of(struct: Any) -> Mapping[str, msgspec.structs.FieldInfo]:
    """By the names that clients use; msgspec resolves every annotation whenever it is asked."""
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


def _hint(name: str, missing: list[str], fields: Mapping[str, Any]) -> str:
    meant = nearest(name, missing)
    if meant:
        return f"; did you mean {meant}?"
    return f"; there are {', '.join(fields)}" if len(fields) <= _LISTED_MAX else ""


def _show(name: str) -> str:
    return repr(name if len(name) <= _SHOWN_MAX else name[:_SHOWN_MAX] + "…")


def _is_struct(schema: Any) -> bool:
    return isinstance(schema, type) and issubclass(schema, msgspec.Struct)


def _has_struct(schema: Any) -> bool:
    return _is_struct(schema) or any(_has_struct(each) for each in get_args(schema))


def _is_optional(kind: Any) -> bool:
    return type(None) in get_args(kind)


def _is_scalar(kind: Any) -> bool:
    """A number, a word or a choice; clients send those of a policy all at once."""
    if isinstance(kind, type):
        return issubclass(kind, (*_SCALARS, Enum, type(None)))
    parts = [each for each in get_args(kind) if not isinstance(each, msgspec.Meta)]
    return get_origin(kind) is not tuple and bool(parts) and all(map(_is_scalar, parts))
