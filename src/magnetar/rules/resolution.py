"""Whether one Avro schema can read what another one wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from magnetar.rules.avro import (
    Array,
    AvroSchema,
    Enumeration,
    Fixed,
    Map,
    Named,
    Node,
    Primitive,
    RecordType,
    Reference,
    Union,
)

_PROMOTIONS: Final[Mapping[str, frozenset[str]]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}


def find_mismatch(reader: AvroSchema, writer: AvroSchema) -> str | None:
    """Why `reader` cannot read what `writer` wrote, or None when it can."""
    if reader == writer:  # its own aliases are for readers of something older
        return None
    return _Resolution(reader, writer).find(reader.root, writer.root, "")


class _Resolution:
    """One reader against one writer.

    Types may be recursive, so a pair of records under way counts as readable. What was found
    readable while a pair was under way that then failed is forgotten: it may have leant on it.
    """

    def __init__(self, reader: AvroSchema, writer: AvroSchema) -> None:
        self._reader = reader
        self._writer = writer
        self._readable: dict[tuple[str, str], None] = {}
        self._renamed = {
            alias: kind.name for kind in reader.named.values() for alias in kind.aliases
        }

    def find(self, reader: Node, writer: Node, at: str) -> str | None:
        if isinstance(writer, Union):
            return next(
                (
                    found
                    for branch in writer.branches
                    if (found := self.find(reader, branch, at)) is not None
                ),
                None,
            )
        if isinstance(reader, Union):
            return self._find_in_union(reader, writer, at)
        match reader, writer:
            case Primitive(wanted), Primitive(written):
                if written == wanted or wanted in _PROMOTIONS.get(written, ()):
                    return None
            case Array(wanted_items), Array(written_items):
                return self.find(wanted_items, written_items, at + "[]")
            case Map(wanted_values), Map(written_values):
                return self.find(wanted_values, written_values, at + "{}")
            case Reference(wanted), Reference(written):
                return self._find_named(self._reader.named[wanted], self._writer.named[written], at)
            case _:
                pass
        return _sentence(at, f"{self._show(writer)} cannot be read as {self._show(reader)}")

    def _find_in_union(self, reader: Union, writer: Node, at: str) -> str | None:
        """Follow the branch Avro would take: the same type first, then a wider one."""
        same = [branch for branch in reader.branches if self._is_branch_of(branch, writer)]
        if same:
            return self.find(same[0], writer, at)
        for branch in reader.branches:
            fits = isinstance(writer, Primitive) or self._is_record(branch, writer)
            if fits and self.find(branch, writer, at) is None:
                return None
        return _sentence(at, f"{self._show(writer)} is none of the union's types")

    def _is_branch_of(self, branch: Node, writer: Node) -> bool:
        match branch, writer:
            case Primitive(wanted), Primitive(written):
                return wanted == written
            case Reference(wanted), Reference(written):
                same_kind = type(self._reader.named[wanted]) is type(self._writer.named[written])
                return same_kind and self._is_same_name(wanted, written)
            case (Array(), Array()) | (Map(), Map()):
                return True
            case _:
                return False

    def _is_record(self, branch: Node, writer: Node) -> bool:
        """A record under another name is taken when its fields fit."""
        return (
            isinstance(branch, Reference)
            and isinstance(writer, Reference)
            and isinstance(self._reader.named[branch.name], RecordType)
        )

    def _find_named(self, reader: Named, writer: Named, at: str) -> str | None:
        match reader, writer:
            case RecordType(), RecordType():
                return self._find_in_record(reader, writer, at)
            case Fixed(), Fixed() if self._is_same_name(reader.name, writer.name):
                same = reader.size == writer.size
                return None if same else _sentence(at, f"fixed {reader.name} changed its size")
            case Enumeration(), Enumeration() if self._is_same_name(reader.name, writer.name):
                # A symbol the reader lacks fails when it is met, not here: brokers of Pulsar let
                # producers add symbols under every strategy, and so must this one.
                return None
            case _:
                return _sentence(at, f"{writer.name} cannot be read as {reader.name}")

    def _find_in_record(self, reader: RecordType, writer: RecordType, at: str) -> str | None:
        pair = (reader.name, writer.name)
        if pair in self._readable:
            return None
        known = len(self._readable)
        self._readable[pair] = None
        mismatch = self._find_in_fields(reader, writer, at)
        if mismatch is not None:
            for leaning in tuple(self._readable)[known:]:
                del self._readable[leaning]
        return mismatch

    def _find_in_fields(self, reader: RecordType, writer: RecordType, at: str) -> str | None:
        written = {self._field_name(reader, writer, entry.name): entry for entry in writer.fields}
        for wanted in reader.fields:
            inside = f"{at}.{wanted.name}" if at else wanted.name
            found = written.get(wanted.name)
            if found is not None:
                mismatch = self.find(wanted.type, found.type, inside)
                if mismatch is not None:
                    return mismatch
            elif wanted.default is None:
                return _sentence(inside, "the field has no default and was not written")
            elif not _is_value(self._reader, wanted.type, json.loads(wanted.default)):
                return _sentence(inside, "the field's default is not of its type")
        return None

    def _field_name(self, reader: RecordType, writer: RecordType, name: str) -> str:
        """The writer's field as the reader calls it; aliases count between records of one name."""
        if reader.name != self._name(writer.name) or reader.find(name) is not None:
            return name
        return next((entry.name for entry in reader.fields if name in entry.aliases), name)

    def _name(self, written: str) -> str:
        return self._renamed.get(written, written)

    def _is_same_name(self, wanted: str, written: str) -> bool:
        """Namespaces do not count: packages move."""
        return _short(wanted) == _short(self._name(written))

    def _show(self, node: Node) -> str:
        match node:
            case Primitive(name) | Reference(name):
                return name
            case Union(branches):
                return "[" + ", ".join(self._show(branch) for branch in branches) + "]"
            case Array():
                return "an array"
            case Map():
                return "a map"


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _is_value(schema: AvroSchema, node: Node, value: object) -> bool:
    """Whether a default, as JSON, is a value of the type."""
    match node:
        case Primitive("null"):
            return value is None
        case Primitive("boolean"):
            return isinstance(value, bool)
        case Primitive("bytes" | "string"):
            return isinstance(value, str)
        case Primitive("float" | "double") if value in ("NaN", "Infinity", "-Infinity"):
            return True
        case Primitive():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Array(items):
            return all(_is_value(schema, items, part) for part in _parts(value))
        case Map(values):
            return all(_is_value(schema, values, part) for part in _parts(value))
        case Union(branches):
            return any(_is_value(schema, branch, value) for branch in branches)
        case Reference(name):
            return _is_named_value(schema, schema.named[name], value)


def _is_named_value(schema: AvroSchema, kind: Named, value: object) -> bool:
    match kind:
        case Fixed():
            return isinstance(value, str)
        case Enumeration():
            return value in kind.symbols
        case RecordType():
            given = value if isinstance(value, dict) else {}
            return all(
                _is_value(schema, entry.type, given[entry.name])
                if entry.name in given
                else entry.default is not None
                for entry in kind.fields
            )


def _parts(value: object) -> Iterable[object]:
    """What is inside; a default such as null stands for an empty container."""
    match value:
        case list():
            return value
        case dict():
            return value.values()
        case _:
            return ()


def _sentence(at: str, reason: str) -> str:
    return f"{at}: {reason}" if at else reason
