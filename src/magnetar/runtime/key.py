"""The keys of a broker's configuration, and how a value is read and written as text.

A key is a row of `acting_key.tsv`, `inert_key.tsv` or `refused_key.tsv`, by what it does here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from magnetar.errors import InvalidConfiguration, nearest

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None

_OPEN: Final = {
    "bookkeeper_": "bookkeeperClientThrottleValue",
    "brokerClient_": "brokerClientTlsEnabled",
    "dbStorage_": "dbStorage_rocksDB_blockSize",
}
"""With these prefixes any key is accepted, for Pulsar passes them on; it has no effect for the same
reason as the key named here.
"""
_SECRET: Final = re.compile(
    r"(?i)password(?!path)|secretkey|basicauthconf|authenticationparameters"
)
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_BITS: Final[Mapping[str, int]] = {"int": 31, "long": 63}


class Use(StrEnum):
    """What a key does here."""

    ACTING = "acting"
    INERT = "inert"
    """Accepted, because Pulsar's files have it, and without effect."""
    REFUSED = "refused"
    """Only its default is accepted: to ignore another value would be unsafe."""


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: str
    """int, long, float, bool, text, list, set, or choices `a|b|c`; with `?`: may be empty."""
    default: Value
    standalone_default: Value
    dynamic: bool
    least: int | None
    use: Use
    meaning: str
    """What it does, why it has no effect, or why it is refused."""

    @property
    def secret(self) -> bool:
        return _SECRET.search(self.name) is not None

    @property
    def expected(self) -> str:
        """The type, in words."""
        match self.kind.removesuffix("?"):
            case "int" | "long":
                words = "a whole number"
            case "float":
                words = "a number"
            case "bool":
                words = "true or false"
            case "text":
                words = "text"
            case "list" | "set":
                words = "names separated by commas"
            case choices:
                words = "one of " + ", ".join(choices.split("|"))
        if self.least is not None:
            words += f", {self.least} or more"
        return words + (", or nothing" if self.kind.endswith("?") else "")

    def parse(self, text: str) -> Value:
        """Read a value; InvalidConfiguration names the key, the value and what was expected."""
        value = _parse_kind(self.kind, text.strip(), self.default)
        if isinstance(value, _Unreadable) or (
            self.least is not None and isinstance(value, int | float) and value < self.least
        ):
            shown = "its value" if self.secret else repr(text)
            raise InvalidConfiguration(f"{self.name}: {shown} is not {self.expected}")
        return value


class _Unreadable:
    """The mark of text that is not of its kind; None is a value."""


def _parse_kind(kind: str, text: str, default: Value) -> Value | _Unreadable:
    if not text:
        return _parse_blank(kind, default)
    match kind.removesuffix("?"):
        case "int" | "long" as whole:
            limit = 1 << _BITS[whole]
            readable = _WHOLE_NUMBER.fullmatch(text) is not None and len(text) <= 20
            return int(text) if readable and -limit <= int(text) < limit else _Unreadable()
        case "float":
            try:
                return float(text)
            except ValueError:
                return _Unreadable()
        case "bool":
            return {"true": True, "false": False}.get(text.lower(), _Unreadable())
        case "text":
            return text
        case "list" | "set":
            parts = (part.strip() for part in text.split(","))
            return tuple(dict.fromkeys(part for part in parts if part))
        case choices:
            return text if text in choices.split("|") else _Unreadable()


def _parse_blank(kind: str, default: Value) -> Value:
    """`key=` empties what can be empty and leaves the rest at its default, as Pulsar reads it."""
    if kind.endswith("?"):
        return None
    if kind == "text":
        return ""
    if kind in ("list", "set"):
        return ()
    return default


def format_value(value: Value) -> str:
    """The text that `Key.parse` reads back."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


@cache
def load_keys() -> Mapping[str, Key]:
    """All keys by name, in the order of their names."""
    keys = {key.name: key for use in Use for key in _load_rows(use)}
    return MappingProxyType({name: keys[name] for name in sorted(keys, key=str.lower)})


def _load_rows(use: Use) -> Iterator[Key]:
    for line in Path(__file__).with_name(f"{use}_key.tsv").read_text("utf-8").splitlines()[1:]:
        cells = ("" if cell == "-" else cell for cell in line.split("\t"))
        name, kind, default_text, standalone_text, dynamic, least, meaning = cells
        default = _parse_default(name, kind, default_text)
        yield Key(
            name=name,
            kind=kind,
            default=default,
            standalone_default=_parse_default(name, kind, standalone_text)
            if standalone_text
            else default,
            dynamic=dynamic == "dynamic",
            least=int(least) if least else None,
            use=use,
            meaning=meaning,
        )


def _parse_default(name: str, kind: str, text: str) -> Value:
    if text.startswith("cpus"):  # sizes of thread pools follow the machine: cpus or cpus*2
        return (os.cpu_count() or 1) * int(text.partition("*")[2] or 1)
    value = _parse_kind(kind, text, None)
    assert not isinstance(value, _Unreadable), name
    return value


def find_key(name: str) -> Key:
    """The key of that name; InvalidConfiguration names the nearest one when there is none."""
    keys = load_keys()
    key = keys.get(name)
    if key is not None:
        return key
    for prefix, like in _OPEN.items():
        if name.startswith(prefix):
            return Key(name, "text", "", "", False, None, Use.INERT, keys[like].meaning)
    meant = nearest(name, keys)
    hint = f"; did you mean {meant}?" if meant else ""
    raise InvalidConfiguration(f"{name} is not a configuration key{hint}")
