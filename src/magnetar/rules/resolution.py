"""Whether one Avro schema can read what another one wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from magnetar.rules.avro import (
    Array,
    AvroSchema,
    Enumeration,
    Field,
    Fixed,
    Map,
    Named,
    Node,
    Primitive,
    RecordType,
    Reference,
    Union,
    shorten_sentence,
)
from magnetar.rules.budget import StepBudget

_PROMOTIONS: Final[Mapping[str, frozenset[str]]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
_DEPTH_MAX: Final = 100
"""As deep as a definition may be; types that refer to each other could lead further."""
_BYTES_PER_STEP: Final = 100
_SYMBOLS_PER_STEP: Final = 20
_SHOWN_MAX: Final = 10
_NOTHING: Final = sys.maxsize
_CONTAINERS: Final = frozenset({"[]", "{}"})

_Pair: TypeAlias = tuple[str, str]
_FieldNames: TypeAlias = dict[str, str]
_AS_WRITTEN: Final[_FieldNames] = {}


class TypesTooDeep(Exception):
    """Types refer to each other through more levels than a check follows."""


@dataclass(frozen=True, slots=True)
class _Mismatch:
    """Where, from the place that asked inwards, and why; put into words once, at the very end."""

    reason: Callable[[], str]
    field: str = ""
    inner: _Mismatch | None = None

    def format(self) -> str:
        path, last = "", self
        while last.inner is not None:
            path += f".{last.field}" if path and last.field not in _CONTAINERS else last.field
            last = last.inner
        return f"{path}: {last.reason()}" if path else last.reason()

    def inside(self, field: str) -> _Mismatch:
        return _Mismatch(self.reason, field, self)


def find_mismatch(reader: AvroSchema, writer: AvroSchema, budget: StepBudget) -> str | None:
    """Why `reader` cannot read what `writer` wrote, or None when it can.

    Raise StepsExhausted when the budget does not suffice, TypesTooDeep for too many levels.
    """
    if reader == writer:  # its own aliases are for readers of something older
        return None
    found = _Resolution(reader, writer, budget).find(reader.root, writer.root, 0)
    return None if found is None else shorten_sentence(found.format())


class _Resolution:
    """One reader against one writer; every pair of records is compared once, or nearly so.

    Types may be recursive, so a pair under way counts as readable. A pair that fails in spite of
    that favour fails for good. One that is readable, but leant on pairs still under way, is
    provisional until the outermost of those is decided: it shares the fate of that one.
    """

    def __init__(self, reader: AvroSchema, writer: AvroSchema, budget: StepBudget) -> None:
        self._reader = reader
        self._writer = writer
        self._budget = budget
        self._under_way: dict[_Pair, int] = {}
        """Each pair with its place in the chain of those that wait for it."""
        self._readable: set[_Pair] = set()
        self._failed: dict[_Pair, _Mismatch] = {}
        self._provisional: dict[_Pair, int] = {}
        """Each pair with the outermost place that it leant on."""
        self._leant_on = _NOTHING
        self._defaults: dict[tuple[str, str], bool] = {}
        self._names: dict[str, _FieldNames] = {}
        self._branches: dict[int, dict[object, Node]] = {}
        self._renamed = {
            alias: kind.name for kind in reader.named.values() for alias in kind.aliases
        }

    def find(self, reader: Node, writer: Node, depth: int) -> _Mismatch | None:
        self._budget.spend()
        if isinstance(writer, Union):
            for branch in writer.branches:
                found = self.find(reader, branch, depth)
                if found is not None:
                    return found
            return None
        if isinstance(reader, Union):
            return self._find_in_union(reader, writer, depth)
        if depth > _DEPTH_MAX:
            raise TypesTooDeep
        match reader, writer:
            case Primitive(wanted), Primitive(written):
                if written == wanted or wanted in _PROMOTIONS.get(written, ()):
                    return None
            case Array(wanted_items), Array(written_items):
                found = self.find(wanted_items, written_items, depth + 1)
                return None if found is None else found.inside("[]")
            case Map(wanted_values), Map(written_values):
                found = self.find(wanted_values, written_values, depth + 1)
                return None if found is None else found.inside("{}")
            case Reference(wanted), Reference(written):
                return self._find_named(
                    self._reader.named[wanted], self._writer.named[written], depth
                )
            case _:
                pass
        return _Mismatch(lambda: f"{_show(writer)} cannot be read as {_show(reader)}")

    def _find_in_union(self, reader: Union, writer: Node, depth: int) -> _Mismatch | None:
        """Follow the branch Avro would take: the same type first, then a wider one."""
        same = self._branches_of(reader).get(self._branch_key(writer))
        if same is not None:
            return self.find(same, writer, depth)
        for branch in reader.branches:
            self._budget.spend()
            fits = isinstance(writer, Primitive) or self._is_record(branch, writer)
            if fits and self.find(branch, writer, depth) is None:
                return None
        return _Mismatch(lambda: f"{_show(writer)} is none of the union's types")

    def _branches_of(self, union: Union) -> dict[object, Node]:
        """The branches by what they are the same type as; of several, the first."""
        found = self._branches.get(id(union))
        if found is None:
            found = self._branches[id(union)] = {}
            for branch in union.branches:
                self._budget.spend()
                match branch:
                    case Primitive(name):
                        found.setdefault(name, branch)
                    case Reference(name):
                        kind = self._reader.named[name]
                        found.setdefault((type(kind), _short(name)), branch)
                    case _:
                        found.setdefault(type(branch), branch)
        return found

    def _branch_key(self, writer: Node) -> object:
        """Namespaces do not count in names: packages move."""
        match writer:
            case Primitive(name):
                return name
            case Reference(name):
                return type(self._writer.named[name]), _short(self._name(name))
            case _:
                return type(writer)

    def _is_record(self, branch: Node, writer: Node) -> bool:
        """A record under another name is taken when its fields fit."""
        return (
            isinstance(branch, Reference)
            and isinstance(writer, Reference)
            and isinstance(self._reader.named[branch.name], RecordType)
        )

    def _find_named(self, reader: Named, writer: Named, depth: int) -> _Mismatch | None:
        match reader, writer:
            case RecordType(), RecordType():
                return self._find_in_record(reader, writer, depth)
            case Fixed(), Fixed() if self._is_same_name(reader.name, writer.name):
                if reader.size == writer.size:
                    return None
                return _Mismatch(lambda: f"fixed {reader.name} changed its size")
            case Enumeration(), Enumeration() if self._is_same_name(reader.name, writer.name):
                # A symbol the reader lacks fails when it is met, not here: brokers of Pulsar let
                # producers add symbols under every strategy, and so must this one.
                return None
            case _:
                return _Mismatch(lambda: f"{writer.name} cannot be read as {reader.name}")

    def _find_in_record(
        self, reader: RecordType, writer: RecordType, depth: int
    ) -> _Mismatch | None:
        pair = (reader.name, writer.name)
        if pair in self._readable:
            return None
        if pair in self._failed:
            return self._failed[pair]
        leant_on = self._under_way.get(pair, self._provisional.get(pair))
        if leant_on is not None:
            self._leant_on = min(self._leant_on, leant_on)
            return None
        place, known = len(self._under_way), len(self._provisional)
        outside, self._leant_on = self._leant_on, _NOTHING
        self._under_way[pair] = place
        mismatch = self._find_in_fields(reader, writer, depth)
        del self._under_way[pair]
        leaning = tuple(self._provisional)[known:]
        leant_on, self._leant_on = self._leant_on, outside
        if mismatch is None and leant_on < place:
            self._provisional.update(dict.fromkeys((*leaning, pair), leant_on))
            self._leant_on = min(outside, leant_on)
            return None
        for each in leaning:
            del self._provisional[each]
        if mismatch is None:
            self._readable.update((*leaning, pair))
        else:
            self._failed[pair] = mismatch
        return mismatch

    def _find_in_fields(
        self, reader: RecordType, writer: RecordType, depth: int
    ) -> _Mismatch | None:
        self._budget.spend(len(writer.fields) + len(reader.fields))
        names = self._names_of(reader) if reader.name == self._name(writer.name) else _AS_WRITTEN
        written = {names.get(entry.name, entry.name): entry for entry in writer.fields}
        for wanted in reader.fields:
            found = written.get(wanted.name)
            if found is not None:
                mismatch = self.find(wanted.type, found.type, depth + 1)
                if mismatch is not None:
                    return mismatch.inside(wanted.name)
            elif wanted.default is None:
                return _Mismatch(lambda: "the field has no default and was not written").inside(
                    wanted.name
                )
            elif not self._is_default(reader, wanted):
                return _Mismatch(lambda: "the field's default is not of its type").inside(
                    wanted.name
                )
        return None

    def _names_of(self, reader: RecordType) -> _FieldNames:
        """The names that writers may have used, with the reader's own; of several, the first."""
        names = self._names.get(reader.name)
        if names is None:
            names = self._names[reader.name] = {}
            for entry in reader.fields:
                for alias in entry.aliases:
                    names.setdefault(alias, entry.name)
            names.update((entry.name, entry.name) for entry in reader.fields)
            self._budget.spend(len(names))
        return names

    def _is_default(self, record: RecordType, entry: Field) -> bool:
        assert entry.default is not None
        key = (record.name, entry.name)
        if key not in self._defaults:
            self._budget.spend(len(entry.default) // _BYTES_PER_STEP)
            value = json.loads(entry.default)
            self._defaults[key] = _DefaultCheck(self._reader, self._budget).fits(
                entry.type, value, 0
            )
        return self._defaults[key]

    def _name(self, written: str) -> str:
        return self._renamed.get(written, written)

    def _is_same_name(self, wanted: str, written: str) -> bool:
        return _short(wanted) == _short(self._name(written))


def _show(node: Node) -> str:
    match node:
        case Primitive(name) | Reference(name):
            return name
        case Union(branches):
            shown = ", ".join(_show(branch) for branch in branches[:_SHOWN_MAX])
            return f"[{shown}, …]" if len(branches) > _SHOWN_MAX else f"[{shown}]"
        case Array():
            return "an array"
        case Map():
            return "a map"


def _short(name: str) -> str:
    return name.rpartition(".")[2]


class _DefaultCheck:
    """Whether a default, as JSON, is a value of its type."""

    def __init__(self, schema: AvroSchema, budget: StepBudget) -> None:
        self._schema = schema
        self._budget = budget

    def fits(self, node: Node, value: object, depth: int) -> bool:
        self._budget.spend()
        if depth > _DEPTH_MAX:
            raise TypesTooDeep
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
                return all(self.fits(items, part, depth + 1) for part in _parts(value))
            case Map(values):
                return all(self.fits(values, part, depth + 1) for part in _parts(value))
            case Union(branches):
                return any(self.fits(branch, value, depth) for branch in branches)
            case Reference(name):
                return self._fits_named(self._schema.named[name], value, depth)

    def _fits_named(self, kind: Named, value: object, depth: int) -> bool:
        match kind:
            case Fixed():
                return isinstance(value, str)
            case Enumeration():
                self._budget.spend(len(kind.symbols) // _SYMBOLS_PER_STEP)
                return value in kind.symbols
            case RecordType():
                self._budget.spend(len(kind.fields))
                given = value if isinstance(value, dict) else {}
                return all(
                    self.fits(entry.type, given[entry.name], depth + 1)
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
