"""JSON documents of typed values, as Pulsar writes them: nulls are left out, unknown fields
ignored.

Reading is as lenient as Pulsar's: a null is as good as a missing field, and a number may come as
text.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

import msgspec

from magnetar.errors import BadRequest, RecordUnreadable

T = TypeVar("T")


@overload
def decode_json(data: bytes | str) -> Any: ...
@overload
def decode_json(data: bytes | str, kind: type[T]) -> T: ...
def decode_json(data: bytes | str, kind: Any = Any) -> Any:
    """Raise msgspec.DecodeError for all that is not JSON, also for text that is not UTF-8."""
    try:
        return msgspec.json.decode(data, type=kind)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"text is not UTF-8: {error.reason}") from None


def parse_document(value: Any, kind: type[T]) -> T:
    """Make a typed value of decoded JSON; raise BadRequest with a sentence that names the place."""
    try:
        return msgspec.convert(_without_nulls(value), kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"Invalid {kind.__name__}: {error}") from None


def format_document(value: Any) -> Any:
    """The plain dicts, lists and scalars that JSON is made of."""
    return _without_nulls(msgspec.to_builtins(value))


def decode_document(data: bytes, kind: type[T]) -> T:
    """Read what was stored; raise RecordUnreadable."""
    try:
        return parse_document(decode_json(data), kind)
    except msgspec.DecodeError as error:
        raise RecordUnreadable(f"A stored {kind.__name__} is not JSON: {error}") from None
    except BadRequest as error:
        raise RecordUnreadable(error.sentence) from None


def encode_document(value: Any) -> bytes:
    return msgspec.json.encode(format_document(value))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(each) for each in value]
    return value
