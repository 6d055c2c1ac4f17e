"""Fields of a stored JSON object, read leniently and checked: a null is as good as a missing field,
and what is of the wrong kind makes the record unreadable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

import msgspec

from magnetar.errors import RecordUnreadable
from magnetar.model.document import decode_json

Json: TypeAlias = Mapping[str, Any]
E = TypeVar("E", bound=StrEnum)


def decode_object(data: bytes, what: str) -> Json:
    try:
        value = decode_json(data)
    except msgspec.DecodeError as error:
        raise RecordUnreadable(f"The record of {what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise RecordUnreadable(f"The record of {what} is not an object")
    return value


def unknown_fields(value: Json, known: Iterable[str]) -> dict[str, Any]:
    expected = frozenset(known)
    return {key: each for key, each in value.items() if key not in expected}


def object_in(value: Json, key: str) -> Json:
    found: Json = _typed(value, key, dict, {})
    return found


def objects_in(value: Json, key: str) -> Sequence[Json]:
    found: list[Any] = _typed(value, key, list, [])
    if not all(isinstance(each, dict) for each in found):
        raise RecordUnreadable(f"A stored {key} holds {found!r}")
    return found


def numbers_in(value: Json, key: str) -> Sequence[int]:
    found: list[Any] = _typed(value, key, list, [])
    if not set(map(type, found)) <= {int}:
        raise RecordUnreadable(f"A stored {key} is not a list of numbers: {found!r}")
    return found


def texts_in(value: Json, key: str) -> Mapping[str, str]:
    found = object_in(value, key)
    if not all(isinstance(each, str) for each in found.values()):
        raise RecordUnreadable(f"A stored {key} holds more than text: {found!r}")
    return found


def number_in(value: Json, key: str) -> int:
    found: int = _typed(value, key, int, 0)
    return found


def rate_in(value: Json, key: str) -> float:
    found = value.get(key)
    if found is None:
        return 0.0
    if type(found) not in (int, float):
        raise RecordUnreadable(f"A stored {key} is {found!r}")
    return float(found)


def text_in(value: Json, key: str) -> str:
    found: str = _typed(value, key, str, "")
    return found


def _typed(value: Json, key: str, kind: type, default: Any) -> Any:
    found = value.get(key)
    if found is None:
        return default
    if type(found) is not kind:
        raise RecordUnreadable(f"A stored {key} is {found!r}")
    return found


def member_in(value: Json, key: str, kind: type[E], default: E | None) -> E:
    """One of a closed set of words; without a default the word must be there."""
    found = value.get(key)
    if found is None and default is not None:
        return default
    try:
        return kind(str(found))
    except ValueError:
        raise RecordUnreadable(f"A stored {key} is {found!r}") from None
