"""How long the parts of a path and the texts of a body may be."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from magnetar.model.limit import Limits, check_local, check_properties, check_text, check_topic

_PARTS: Final[Mapping[str, str]] = {
    "tenant": "tenant_name_bytes",
    "cluster": "tenant_name_bytes",
    "namespace": "namespace_name_bytes",
    "subscription": "subscription_name_bytes",
    "key": "property_key_bytes",
}
"""The row of the table of limits that each keeps to, if not `text_bytes`."""


def check_parts(limits: Limits, parts: Mapping[str, str]) -> None:
    """The components of a path, still percent-encoded, by the names that the route gives them."""
    for name, part in parts.items():
        text = unquote(part, errors="replace")
        if name == "topic":
            check_local(limits, text)
        else:
            check_text(limits, _PARTS.get(name, "text_bytes"), text)


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
