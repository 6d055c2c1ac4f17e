"""Avro schemas as values, read from their text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

_PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
_ORDERS: Final = frozenset({"ascending", "descending", "ignore"})
_DEPTH_MAX: Final = 100
_NAME_LETTERS_MAX: Final = 1024
"""Of a full name: every reference carries one, so a long namespace would cost as often."""
_SHOWN_LETTERS_MAX: Final = 300
_CACHED_BYTES_MAX: Final = 16 << 10
_CACHED_MAX: Final = 128


class AvroUnreadable(ValueError):
    """The text is not an Avro schema; the message says why."""


@dataclass(frozen=True, slots=True)
class Primitive:
    name: str
    extra: str = ""


@dataclass(frozen=True, slots=True)
class Array:
    items: Node
    extra: str = ""


@dataclass(frozen=True, slots=True)
class Map:
    values: Node
    extra: str = ""


@dataclass(frozen=True, slots=True)
class Union:
    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """A named type, where it is used; what it is stands in the schema's table."""

    name: str


Node: TypeAlias = Primitive | Array | Map | Union | Reference


@dataclass(frozen=True, slots=True)
class Fixed:
    name: str
    size: int
    aliases: tuple[str, ...] = field(compare=False, default=())
    extra: str = ""


@dataclass(frozen=True, slots=True)
class Enumeration:
    name: str
    symbols: tuple[str, ...]
    default: str | None = field(compare=False, default=None)
    aliases: tuple[str, ...] = field(compare=False, default=())
    extra: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """`default` is JSON text, None when there is none: a default of null is the text `null`."""

    name: str
    type: Node
    default: str | None
    order: str = "ascending"
    aliases: tuple[str, ...] = field(compare=False, default=())
    extra: str = ""


@dataclass(frozen=True, slots=True)
class RecordType:
    name: str
    fields: tuple[Field, ...]
    aliases: tuple[str, ...] = field(compare=False, default=())
    extra: str = ""


Named: TypeAlias = Fixed | Enumeration | RecordType


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """Two schemas are equal when they mean the same: documentation and aliases do not count."""

    root: Node
    named: Mapping[str, Named]


def parse_avro(definition: bytes) -> AvroSchema:
    """Raise AvroUnreadable for what is no Avro schema. Defaults may be of another type."""
    if len(definition) > _CACHED_BYTES_MAX:
        return _parse(definition)
    return _parse_cached(definition)


def _parse(definition: bytes) -> AvroSchema:
    try:
        return _Parser().parse_root(json.loads(definition))
    except RecursionError:
        raise AvroUnreadable("it is nested too deeply") from None
    except AvroUnreadable as error:
        raise AvroUnreadable(shorten_sentence(str(error))) from None
    except ValueError as error:
        raise AvroUnreadable(f"not JSON: {error}") from None


_parse_cached = lru_cache(maxsize=_CACHED_MAX)(_parse)


class _Parser:
    def __init__(self) -> None:
        self.named: dict[str, Named] = {}
        self.awaited: set[str] = set()
        """Names used before their definition was met."""
        self._records_begun: set[str] = set()
        self._joined: dict[tuple[str, str], str] = {}

    def parse_root(self, document: Any) -> AvroSchema:
        root = self.parse(document, "", 0)
        missing = self.awaited - self.named.keys()
        if missing:
            raise AvroUnreadable(f"{min(missing)} is not defined")
        return AvroSchema(root, self.named)

    def parse(self, part: Any, namespace: str, depth: int) -> Node:
        if depth > _DEPTH_MAX:
            raise AvroUnreadable(f"more than {_DEPTH_MAX} types inside each other")
        match part:
            case str():
                return self._parse_name(part, namespace)
            case list():
                return self._parse_union(part, namespace, depth)
            case dict():
                return self._parse_object(part, namespace, depth)
            case _:
                raise AvroUnreadable(f"{json.dumps(part)} is no type")

    def _parse_name(self, text: str, namespace: str) -> Node:
        if text in _PRIMITIVES:
            return Primitive(text)
        joined = self._joined.get((text, namespace))
        if joined is None:
            joined = self._joined[text, namespace] = _join(text, namespace)
        if joined not in self.named and text in self.named:
            return Reference(text)
        self.awaited.add(joined)
        return Reference(joined)

    def _parse_union(self, parts: list[Any], namespace: str, depth: int) -> Node:
        branches = tuple(self.parse(part, namespace, depth + 1) for part in parts)
        keys: set[str] = set()
        for key in map(_branch_key, branches):
            if key == "union":
                raise AvroUnreadable("a union stands directly inside a union")
            if key in keys:
                raise AvroUnreadable(f"{key} is twice in a union")
            keys.add(key)
        return Union(branches)

    def _parse_object(self, part: dict[str, Any], namespace: str, depth: int) -> Node:
        kind = part.get("type")
        match kind:
            case "record" | "error":
                return self._parse_record(part, namespace, depth)
            case "enum":
                return self._parse_enumeration(part, namespace)
            case "fixed":
                return self._parse_fixed(part, namespace)
            case "array":
                items = self.parse(_required(part, "items", "an array"), namespace, depth + 1)
                return Array(items, _extra(part, "type", "items"))
            case "map":
                values = self.parse(_required(part, "values", "a map"), namespace, depth + 1)
                return Map(values, _extra(part, "type", "values"))
            case str() if kind in _PRIMITIVES:
                return Primitive(kind, _extra(part, "type"))
            case str():
                return self._parse_name(kind, namespace)
            case _:
                raise AvroUnreadable("a type has no name of a type")

    def _parse_record(self, part: dict[str, Any], namespace: str, depth: int) -> Node:
        name = _parse_own_name(part, namespace)
        if name in self._records_begun:
            raise AvroUnreadable(f"{name} is defined twice")
        self._records_begun.add(name)
        inner = name.rpartition(".")[0]
        found = part.get("fields")
        if not isinstance(found, list):
            raise AvroUnreadable(f"record {name} has no list of fields")
        fields: dict[str, Field] = {}
        for parsed in (self._parse_field(entry, name, inner, depth) for entry in found):
            if parsed.name in fields:
                raise AvroUnreadable(f"record {name} has two fields {parsed.name}")
            fields[parsed.name] = parsed
        extra = _extra(part, "type", "name", "namespace", "fields", "aliases")
        aliases = _parse_aliases(part, inner)
        return self._define(RecordType(name, tuple(fields.values()), aliases, extra))

    def _parse_field(self, part: Any, record: str, namespace: str, depth: int) -> Field:
        if not isinstance(part, dict):
            raise AvroUnreadable(f"a field of {record} is not an object")
        name = _check_name(_required(part, "name", f"a field of {record}"))
        kind = self.parse(_required(part, "type", f"{record}.{name}"), namespace, depth + 1)
        order = str(part.get("order", "ascending")).lower()
        if order not in _ORDERS:
            raise AvroUnreadable(f"{record}.{name} has an unknown order")
        return Field(
            name,
            kind,
            json.dumps(part["default"], sort_keys=True) if "default" in part else None,
            order,
            _list_aliases(part),
            _extra(part, "name", "type", "default", "order", "aliases"),
        )

    def _parse_enumeration(self, part: dict[str, Any], namespace: str) -> Node:
        name = _parse_own_name(part, namespace)
        symbols = part.get("symbols")
        if not isinstance(symbols, list):
            raise AvroUnreadable(f"enum {name} has no list of symbols")
        checked = tuple(_check_name(symbol) for symbol in symbols)
        if len(set(checked)) < len(checked):
            raise AvroUnreadable(f"enum {name} has a symbol twice")
        default = part.get("default")
        if default is not None and default not in checked:
            raise AvroUnreadable(f"the default of enum {name} is none of its symbols")
        extra = _extra(part, "type", "name", "namespace", "symbols", "default", "aliases")
        aliases = _parse_aliases(part, name.rpartition(".")[0])
        return self._define(Enumeration(name, checked, default, aliases, extra))

    def _parse_fixed(self, part: dict[str, Any], namespace: str) -> Node:
        name = _parse_own_name(part, namespace)
        size = part.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise AvroUnreadable(f"fixed {name} has no size")
        extra = _extra(part, "type", "name", "namespace", "size", "aliases")
        aliases = _parse_aliases(part, name.rpartition(".")[0])
        return self._define(Fixed(name, size, aliases, extra))

    def _define(self, kind: Named) -> Node:
        """Generators repeat an enum or a fixed at every use; the same said twice is no harm."""
        if self.named.setdefault(kind.name, kind) != kind:
            raise AvroUnreadable(f"{kind.name} is defined twice")
        return Reference(kind.name)


def _parse_own_name(part: dict[str, Any], namespace: str) -> str:
    text = _required(part, "name", f"a {part['type']}")
    if not isinstance(text, str):
        raise AvroUnreadable(f"{json.dumps(text)} is no name")
    own = part.get("namespace")
    name = _join(text, own if isinstance(own, str) else namespace)
    _check_name(name.rpartition(".")[2])
    if name in _PRIMITIVES:
        raise AvroUnreadable(f"{name} is the name of a primitive type")
    return name


def _join(name: str, namespace: str) -> str:
    if "." in name:
        joined = name.removeprefix(".")
    else:
        joined = f"{namespace}.{name}" if namespace else name
    if len(joined) > _NAME_LETTERS_MAX:
        raise AvroUnreadable(f"a name is longer than {_NAME_LETTERS_MAX} characters")
    return joined


def _required(part: dict[str, Any], key: str, owner: str) -> Any:
    if key not in part:
        raise AvroUnreadable(f"{owner} has no {key}")
    return part[key]


def _check_name(name: Any) -> str:
    """Letters of any script, digits, `_` and, because Java's inner classes carry it, `$`."""
    if not isinstance(name, str) or not name:
        raise AvroUnreadable(f"{json.dumps(name)} is no name")
    if len(name) > _NAME_LETTERS_MAX:
        raise AvroUnreadable(f"a name is longer than {_NAME_LETTERS_MAX} characters")
    plain = name.replace("_", "a").replace("$", "a")
    if not plain[0].isalpha() or not all(letter.isalnum() for letter in plain):
        raise AvroUnreadable(f"{name!r} is no name")
    return name


def _parse_aliases(part: dict[str, Any], namespace: str) -> tuple[str, ...]:
    return tuple(_join(text, namespace) for text in _list_aliases(part))


def _list_aliases(part: dict[str, Any]) -> tuple[str, ...]:
    found = part.get("aliases")
    if found is None:
        return ()
    if not isinstance(found, list):
        raise AvroUnreadable(f"the aliases of {part['name']} are not a list")
    return tuple(text for text in found if isinstance(text, str))


def _extra(part: dict[str, Any], *known: str) -> str:
    """What else is said about a type, as canonical text; it counts in a comparison."""
    rest = {key: value for key, value in part.items() if key not in known and key != "doc"}
    return json.dumps(rest, sort_keys=True) if rest else ""


def shorten_sentence(text: str) -> str:
    """A sentence with names of the definition in it: cut, and of characters that can be sent."""
    cut = text if len(text) <= _SHOWN_LETTERS_MAX else text[:_SHOWN_LETTERS_MAX] + "…"
    return cut.encode(errors="backslashreplace").decode()


def _branch_key(branch: Node) -> str:
    match branch:
        case Primitive(name) | Reference(name):
            return name
        case _:
            return type(branch).__name__.lower()
